"""A folder of checkpoints: the last few and the best few are kept, and a run resumes from the newest readable one."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course.training.checkpoint.atomic import one_at_a_time, remove_orphans
from course.training.checkpoint.files import CheckpointError, load, read_header, save_atomically, warn
from course.training.checkpoint.run_state import RunState

NAME = re.compile(r"step=(\d+)(?:,score=([^,]+))?\.pt")


class CheckpointManager:
    """Checkpoints of one run in one folder, which the first save makes.

    Files are called ``step=00000120,score=0.8125.pt`` (or ``step=00000120.pt``). Kept are the keep_last (at least 1)
    files of the highest steps and the keep_best (at least 0) files of the best scores; a score that is NaN or infinite
    is never best. Files with other names are left alone, and so are checkpoints that were found unreadable.
    """

    def __init__(
        self, folder: str | Path, *, keep_last: int = 2, keep_best: int = 1, higher_is_better: bool = True
    ) -> None:
        if keep_last < 1 or keep_best < 0:
            raise ValueError(f"keep_last should be at least 1 and keep_best 0; they are {keep_last} and {keep_best}")
        self.folder = Path(folder)
        self.keep_last, self.keep_best = keep_last, keep_best
        self._sign = 1 if higher_is_better else -1
        self._unreadable: set[Path] = set()

    def save(self, state: RunState | Mapping[str, Any], *, step: int, score: float | None = None) -> Path:
        """Write a checkpoint atomically, then delete what need not be kept; never the one just written.

        Managers that save into one folder at once prune each other's files, one after the other; a file always stays.

        step: 0 or more. A step that is saved again replaces its file. Raises CheckpointError when the folder holds a
        later step, which belongs to another run or was not resumed from, and OSError as save_atomically does.
        The file holds the keys of the state, "step" and "score": ``load(path)["model"]`` are the weights.
        """
        step = operator.index(step)
        if step < 0:
            raise ValueError(f"step should be 0 or more, not {step}")
        score = None if score is None else float(score)
        content = dict(state if isinstance(state, Mapping) else state.state_dict())
        if taken := sorted({"step", "score"} & content.keys()):
            raise ValueError(f"the state has a key {taken[0]!r} of its own; the manager needs this name")
        known = [path for path in self.files() if path not in self._unreadable]
        later = [path for path in known if step_and_score(path)[0] > step and self._readable(path)]
        if later:
            raise CheckpointError(
                f"step {step} is to be saved, and {self.folder} holds {later[-1].name} already. Resume from it first, "
                "or use a folder of its own for each run"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_orphans(self.folder, "step=*")
        path = self.folder / (f"step={step:08d}.pt" if score is None else f"step={step:08d},score={score!r}.pt")
        save_atomically({**content, "step": step, "score": score}, path)
        self._unreadable.discard(path)
        with one_at_a_time(self.folder):
            if path.exists():  # else another manager of this folder saved the same step or later ones, and pruned first
                self._prune(path)
        return path

    def resume(self, run_state: RunState) -> int | None:
        """Restore the newest readable checkpoint and return its step, or None when there is none.

        Each file that cannot be read is passed over with one CheckpointWarning that names file and reason, and stays.
        Raises CheckpointError when the file is readable and belongs to another model or run.
        """
        for path in reversed(self.files()):
            try:
                state = load(path)
            except (CheckpointError, OSError) as error:
                self._pass_over(path, error)
                continue
            run_state.load_state_dict(state)
            return step_and_score(path)[0]
        return None

    def files(self) -> list[Path]:
        """All checkpoints by step, oldest first, readable or not."""
        if not self.folder.is_dir():
            return []
        found = [path for path in self.folder.iterdir() if NAME.fullmatch(path.name) and path.is_file()]
        return sorted(found, key=lambda path: (step_and_score(path)[0], path.name))

    def latest(self) -> Path | None:
        """The newest readable checkpoint."""
        return next((path for path in reversed(self.files()) if self._readable(path)), None)

    def best(self) -> Path | None:
        """The readable checkpoint with the best score (the latest of equal ones), or None."""
        return next((path for path in self._best_first(self.files()) if self._readable(path)), None)

    def _best_first(self, paths: list[Path]) -> list[Path]:
        scored = [
            (score, step, path) for path in paths for step, score in [step_and_score(path)] if math.isfinite(score)
        ]
        return [path for _, _, path in sorted(scored, key=lambda item: (-self._sign * item[0], -item[1]))]

    def _prune(self, written: Path) -> None:
        step = step_and_score(written)[0]
        known = [path for path in self.files() if path not in self._unreadable]
        one_a_step = [path for path in known if step_and_score(path)[0] != step or path == written]
        keep = {written, *one_a_step[-self.keep_last :], *self._best_first(one_a_step)[: self.keep_best]}
        for path in known:
            if path not in keep:
                path.unlink(missing_ok=True)

    def _readable(self, path: Path) -> bool:
        try:
            read_header(path)
        except (CheckpointError, OSError) as error:
            self._pass_over(path, error)
            return False
        return True

    def _pass_over(self, path: Path, error: Exception) -> None:
        if isinstance(error, FileNotFoundError):  # another process pruned it since it was listed
            return
        self._unreadable.add(path)
        reason = " ".join(str(error).replace(str(path), path.name).split()).removeprefix(f"{path.name} ")
        warn(f"passed over {path.name}: {reason}")


def step_and_score(path: Path) -> tuple[int, float]:
    """The step and the score in the name of a checkpoint; NaN where there is none or it is no number."""
    match = NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path.name} is not the name of a checkpoint, such as step=00000120,score=0.8125.pt")
    try:
        return int(match[1]), float(match[2] or "nan")
    except ValueError:
        return int(match[1]), math.nan

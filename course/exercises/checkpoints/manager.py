"""Lesson 07: build a checkpoint manager."""

from __future__ import annotations

import io
import os
import pickle
import re
import shutil
import tempfile
from collections import OrderedDict
from pathlib import Path

import torch

from course.checking import Exercise
from course.exercises.checkpoints._files import Breaks, cut_short, folder

exercise = Exercise(
    "checkpoints.manager",
    title="Build it: a checkpoint manager",
    task="""
        `CheckpointFolder(folder, keep)` keeps the checkpoints of one run in a folder, which it makes if it is missing.

        - `save(state, step, score)` writes `{"state": state, "step": step, "score": score}` to the file
          `step-{step}.pt` (`step-9.pt`, `step-10.pt`), first under another name that does not end in `.pt`, then
          renamed. If writing fails, the error goes on and all files are as before.
        - After a save the folder holds the `keep` newest checkpoints (those of the largest steps) and the one with the
          highest score; the older of equal scores. Older ones are deleted. Files of other names are not touched.
        - `newest()` returns the dict of the newest checkpoint that can be read, `None` if there is none. A damaged file
          (cut short, empty) is passed over; whether it takes one of the `keep` places is left open.
        - `best()` returns the dict of the checkpoint with the highest score, `None` if there is none.

        All of that also holds for a new object on a folder of an earlier process. Damaged files are nobody's best.
        Load with `weights_only=True`.
        """,
    hints=(
        "Nothing needs to be remembered between calls: everything can be read off the folder. Write one helper that "
        "returns the checkpoints that can be read, sorted by step. As text, step-10 comes before step-9.",
        "readable(): for each path whose name is step-, digits and .pt (re.fullmatch) try torch.load, skip it on "
        "Exception; sort by the step in the dict. newest is its last, best the first with the maximal score. After a "
        "save delete every path that is neither among the last `keep` nor the best.",
    ),
    seconds=30.0,
)


@exercise.stub
class CheckpointFolder:
    """The last few checkpoints of a run and its best one."""

    def __init__(self, folder: str | os.PathLike[str], keep: int) -> None:
        raise NotImplementedError

    def save(self, state: dict, step: int, score: float) -> None:
        """Write a checkpoint, then delete those that are neither among the newest nor the best."""
        raise NotImplementedError

    def newest(self) -> dict | None:
        """Return the newest checkpoint that can be read."""
        raise NotImplementedError

    def best(self) -> dict | None:
        """Return the checkpoint with the highest score."""
        raise NotImplementedError


@exercise.reference
class ReadOffTheFolder:
    def __init__(self, folder, keep):
        self.folder, self.keep = Path(folder), keep
        self.folder.mkdir(parents=True, exist_ok=True)

    def readable(self):
        found = {}
        for path in self.folder.iterdir():
            if re.fullmatch(r"step-\d+\.pt", path.name):
                try:
                    found[path] = torch.load(path, weights_only=True)
                except Exception:
                    continue
        return sorted(found.items(), key=lambda item: item[1]["step"])

    def write(self, content, path):
        temporary = path.with_suffix(".part")
        try:
            torch.save(content, temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink()
            raise

    def tidy(self):
        known = self.readable()
        best, _ = max(known, key=lambda item: item[1]["score"])
        for old, _ in known[: -self.keep]:
            if old != best:
                old.unlink()

    def save(self, state, step, score):
        self.write({"state": state, "step": step, "score": score}, self.folder / f"step-{step}.pt")
        self.tidy()

    def newest(self):
        known = self.readable()
        return known[-1][1] if known else None

    def best(self):
        return max([found for _, found in self.readable()], key=lambda found: found["score"], default=None)


@exercise.alternative
class OneLoopEach:
    def __init__(self, folder, keep):
        self.folder, self.keep = str(folder), keep
        os.makedirs(self.folder, exist_ok=True)

    def steps(self):
        parts = [name[:-3].split("-") for name in os.listdir(self.folder) if name.endswith(".pt")]
        return sorted((int(p[1]) for p in parts if len(p) == 2 and p[0] == "step" and p[1].isdigit()), reverse=True)

    def read(self, step):
        try:
            return torch.load(f"{self.folder}/step-{step}.pt", map_location="cpu", weights_only=True)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError):
            return None

    def save(self, state, step, score):
        torch.save({"state": state, "step": step, "score": score}, buffer := io.BytesIO())
        Path(self.folder, "writing.tmp").write_bytes(buffer.getbuffer())
        os.replace(f"{self.folder}/writing.tmp", f"{self.folder}/step-{step}.pt")
        best, kept = self.best(), 0
        for old in self.steps():
            found = self.read(old)
            kept += found is not None
            if found is not None and kept > self.keep and old != best["step"]:
                os.remove(f"{self.folder}/step-{old}.pt")

    def newest(self):
        for step in self.steps():
            if (found := self.read(step)) is not None:
                return found
        return None

    def best(self):
        best = None
        for step in self.steps():
            found = self.read(step)
            if found is not None and (best is None or found["score"] >= best["score"]):
                best = found
        return best


@exercise.wrong(
    "Only the newest checkpoints are kept. The best one is deleted as soon as it is old enough, and with it what the "
    "run was for."
)
class OnlyTheNewest(ReadOffTheFolder):
    def tidy(self):
        for old, _ in self.readable()[: -self.keep]:
            old.unlink()


@exercise.wrong(
    "The files are sorted by their names. As text, `step-10` comes before `step-9`: from step 10 on, the wrong files "
    "count as the newest, and a resumed run starts at step 9."
)
class SortedAsText(ReadOffTheFolder):
    def readable(self):
        return sorted(super().readable(), key=lambda item: item[0].name)


@exercise.wrong(
    "The newest file is loaded, whatever it holds. A run that was killed while it wrote cannot be resumed, although "
    "the checkpoint before it is whole."
)
class DamagedFilesStopIt(ReadOffTheFolder):
    def readable(self):
        paths = [path for path in self.folder.iterdir() if re.fullmatch(r"step-\d+\.pt", path.name)]
        found = {path: torch.load(path, weights_only=True) for path in paths}
        return sorted(found.items(), key=lambda item: item[1]["step"])


@exercise.wrong(
    "The checkpoint with the lowest score is kept as the best. That is right for a loss; here a higher score is better."
)
class LowestScore(ReadOffTheFolder):
    def tidy(self):
        known = self.readable()
        best, _ = min(known, key=lambda item: item[1]["score"])
        for old, _ in known[: -self.keep]:
            if old != best:
                old.unlink()

    def best(self):
        return min([found for _, found in self.readable()], key=lambda found: found["score"], default=None)


@exercise.wrong("Of equal scores the newer counts as the best. The task keeps the older one: what was reached first.")
class LaterOfEqualScores(ReadOffTheFolder):
    def tidy(self):
        known = self.readable()
        best, _ = max(known, key=lambda item: (item[1]["score"], item[1]["step"]))
        for old, _ in known[: -self.keep]:
            if old != best:
                old.unlink()

    def best(self):
        found = [each for _, each in self.readable()]
        return max(found, key=lambda each: (each["score"], each["step"]), default=None)


@exercise.wrong(
    "The file is opened under its own name. A write that fails leaves half a checkpoint there, and where the same step "
    "is saved again the old one is lost. Write beside it, then rename."
)
class WritesUnderTheName(ReadOffTheFolder):
    def write(self, content, path):
        torch.save(content, path)


@exercise.wrong(
    "The temporary file ends in `.pt` as well: while it is written, and after a kill for good, there is a checkpoint "
    "in the folder that nobody can read."
)
class TemporaryNamedLikeACheckpoint(ReadOffTheFolder):
    def write(self, content, path):
        temporary = path.with_name(path.name.replace("step", "tmp"))
        try:
            torch.save(content, temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink()
            raise


@exercise.wrong(
    "The best one takes one of the `keep` places, so that only keep - 1 of the newest stay. The task keeps `keep` "
    "newest and the best."
)
class BestWithinTheNewest(ReadOffTheFolder):
    def tidy(self):
        known = self.readable()
        best, _ = max(known, key=lambda item: item[1]["score"])
        others = [old for old, _ in known if old != best]
        for old in others[: len(others) - self.keep + 1]:
            old.unlink()


@exercise.wrong(
    "Everything in the folder that is not kept is deleted, other files too: a log, a configuration, the export of "
    "another run. Delete only what this class has written."
)
class CleansTheFolder(ReadOffTheFolder):
    def tidy(self):
        known = self.readable()
        best, _ = max(known, key=lambda item: item[1]["score"])
        keep = {best} | {path for path, _ in known[-self.keep :]}
        for path in list(self.folder.iterdir()):
            if path not in keep:
                path.unlink()


@exercise.wrong(
    "Every file that ends in `.pt` counts as a checkpoint: the export of another program becomes the best one, or is "
    "deleted. Checkpoints are the files `step-{step}.pt`."
)
class EveryPtFile(ReadOffTheFolder):
    def readable(self):
        found = {}
        for path in self.folder.glob("*.pt"):
            try:
                found[path] = torch.load(path, weights_only=True)
            except Exception:
                continue
        return sorted(found.items(), key=lambda item: item[1]["step"])


@exercise.wrong(
    "Every file `step-*.pt` counts as a checkpoint, and `step-best.pt` or `step-notes.pt` is one too, though nobody "
    "wrote it here: it is deleted or breaks the next save. Only digits stand for a step."
)
class EveryStepFile(ReadOffTheFolder):
    def readable(self):
        found = {}
        for path in self.folder.glob("step-*.pt"):
            try:
                found[path] = torch.load(path, weights_only=True)
            except Exception:
                continue
        return sorted(found.items(), key=lambda one: one[1]["step"])


@exercise.wrong(
    "The finished file is copied over the checkpoint, not renamed. Copying writes under the checkpoint's own name: a "
    "kill in the middle leaves half a file, and where the same step is saved again the old one is lost."
)
class CopiedAtTheEnd(ReadOffTheFolder):
    def write(self, content, path):
        with tempfile.TemporaryDirectory() as other:
            temporary = Path(other, "checkpoint.part")
            torch.save(content, temporary)
            shutil.copy(temporary, path)


@exercise.wrong(
    "The best score and the list of files are kept in the object. A resumed run has a new object, which knows of "
    "nothing: the best checkpoint of the first process is forgotten, or never deleted."
)
class RemembersInTheObject:
    def __init__(self, folder, keep):
        self.folder, self.keep = Path(folder), keep
        self.folder.mkdir(parents=True, exist_ok=True)
        self.known = {}

    def read(self, step):
        try:
            return torch.load(self.folder / f"step-{step}.pt", weights_only=True)
        except Exception:
            return None

    def save(self, state, step, score):
        path = self.folder / f"step-{step}.pt"
        temporary = path.with_suffix(".part")
        try:
            torch.save({"state": state, "step": step, "score": score}, temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink()
            raise
        self.known[step] = score
        best = min(self.known, key=lambda one: (-self.known[one], one))
        for old in sorted(self.known)[: -self.keep]:
            if old != best:
                del self.known[old]
                (self.folder / f"step-{old}.pt").unlink()

    def newest(self):
        found = [self.read(step) for step in sorted(self.known)]
        return next((one for one in reversed(found) if one), None)

    def best(self):
        found = [self.read(step) for step in sorted(self.known)]
        return max([one for one in found if one], key=lambda one: one["score"], default=None)


def saved(answer, place, scores, keep=2, first=1):
    manager = answer(place, keep)
    for step, score in enumerate(scores, start=first):
        manager.save({"w": torch.full((2,), float(step))}, step, score)
    return manager


def names(place):
    return sorted(path.name for path in place.iterdir())


def told(manager):
    """What the manager returns as newest and as best."""
    return manager.newest(), manager.best()


@exercise.probe
def the_best_is_old(answer):
    with folder() as place:
        return told(saved(answer, place, [0.1, 0.9, 0.3, 0.2, 0.4])), names(place)


@exercise.probe
def the_best_is_new(answer):
    with folder() as place:
        return told(saved(answer, place, [0.1, 0.2, 0.3, 0.4, 0.5])), names(place)


@exercise.probe
def negative_scores(answer):
    with folder() as place:
        return told(saved(answer, place, [-0.5, -0.1, -0.3, -0.9, -7.0], keep=1)), names(place)


@exercise.probe
def equal_scores(answer):
    with folder() as place:
        return told(saved(answer, place, [0.5, 0.7, 0.7, 0.7, 0.1, 0.7, 0.2], keep=1)), names(place)


@exercise.probe
def fewer_than_are_kept(answer):
    with folder() as place:
        return told(saved(answer, place, [0.3, 0.2], keep=3)), names(place)


@exercise.probe
def past_step_nine(answer):
    with folder() as place:
        return told(saved(answer, place, [0.1, 0.2, 0.9, 0.4, 0.5], first=8)), names(place)


@exercise.probe
def smaller_steps_come_later(answer):
    with folder() as place:
        manager, seen = answer(place, 2), []
        for step, score in ((20, 0.5), (10, 0.9), (30, 0.1), (5, 0.3)):
            manager.save({"w": torch.full((2,), float(step))}, step, score)
            seen.append((told(manager), names(place)))
        return seen


class Looks:
    """Notes the names in the folder while it is pickled, that is in the middle of a write. Loads as an empty dict."""

    def __init__(self, place):
        self.place, self.seen = place, []

    def __reduce__(self):
        self.seen.append([name for name in names(self.place) if name.endswith(".pt")])
        return OrderedDict, ()


@exercise.probe
def checkpoints_during_a_write(answer):
    with folder() as place:
        manager, looks = saved(answer, place, [0.1, 0.2]), Looks(place)
        manager.save({"w": torch.zeros(70_000), "more": looks}, 3, 0.3)
        return looks.seen, names(place)


@exercise.probe
def an_empty_folder(answer):
    with folder() as place:
        result = told(answer(place / "runs" / "first", 2))
        return result, names(place / "runs")


@exercise.probe
def the_folder_as_text(answer):
    with folder() as place:
        return told(saved(answer, str(place), [0.3, 0.2])), names(place)


@exercise.probe
def the_newest_is_cut_short(answer):
    with folder() as place:
        saved(answer, place, [0.1, 0.9, 0.3, 0.4])
        cut_short(place / "step-4.pt")
        return told(answer(place, 2))


@exercise.probe
def the_newest_is_empty(answer):
    with folder() as place:
        saved(answer, place, [0.1, 0.9, 0.3, 0.4])
        (place / "step-4.pt").write_bytes(b"")
        return told(answer(place, 2))


@exercise.probe
def the_best_is_cut_short(answer):
    with folder() as place:
        saved(answer, place, [0.1, 0.9, 0.3, 0.4])
        for path in place.glob("step-2.pt"):
            cut_short(path)
        return told(answer(place, 2))


@exercise.probe
def all_are_damaged(answer):
    with folder() as place:
        saved(answer, place, [0.1, 0.9])
        for name in names(place):
            cut_short(place / name)
        return told(answer(place, 2))


@exercise.probe
def training_goes_on_after_damage(answer):
    with folder() as place:
        saved(answer, place, [0.1, 0.9, 0.3])
        cut_short(place / "step-3.pt")
        manager = saved(answer, place, [0.2, 0.4], first=3)
        return told(manager), names(place)


@exercise.probe
def a_new_process_goes_on(answer):
    with folder() as place:
        saved(answer, place, [0.1, 0.9, 0.3, 0.4])
        manager = answer(place, 2)
        before = told(manager)
        manager.save({"w": torch.zeros(2)}, 5, 0.5)
        return before, told(manager), names(place)


@exercise.probe
def files_of_others(answer):
    with folder() as place:
        for name in ("log.txt", "step-notes.txt", "old-step-7.pt", "upload.tmp"):
            (place / name).write_text(name)
        return told(saved(answer, place, [0.3, 0.2, 0.1], keep=1)), names(place)


@exercise.probe
def readable_files_of_others(answer):
    with folder() as place:
        torch.save({"state": {}, "step": 99, "score": 9.0}, place / "model.pt")
        torch.save({"state": {}, "step": 1, "score": 0.2}, place / "old-step-7.pt")
        return told(saved(answer, place, [0.3, 0.2, 0.1], keep=1)), names(place)


@exercise.probe
def readable_files_of_almost_the_name(answer):
    with folder() as place:
        torch.save({"state": {}, "step": 1, "score": 0.1}, place / "step-best.pt")
        torch.save({"state": {}, "step": 1, "score": 0.1}, place / "step-1.pt.bak")
        torch.save({"a": 1}, place / "step-notes.pt")
        return told(saved(answer, place, [0.3, 0.2, 0.1], keep=1)), names(place)


@exercise.probe
def the_old_file_under_another_name(answer):
    """A rename leaves the old file alone, which a second name still shows; a write or a copy goes into it."""
    with folder() as place, folder() as elsewhere:
        manager = saved(answer, place, [0.1])
        try:
            os.link(place / "step-1.pt", elsewhere / "second")
        except OSError:  # a file system without links: nothing to be seen here
            return True, told(manager)
        before = (elsewhere / "second").read_bytes()
        manager.save({"w": torch.full((2,), 5.0)}, 1, 0.2)
        return (elsewhere / "second").read_bytes() == before, told(manager)


@exercise.probe
def a_write_fails(answer):
    with folder() as place:
        manager = saved(answer, place, [0.1, 0.9, 0.3])
        before = names(place)
        try:
            manager.save({"w": torch.zeros(70_000), "more": Breaks(OSError("no space left on device"))}, 4, 0.95)
        except OSError:
            return "the error goes on", names(place) == before, told(answer(place, 2))
        return "no error", names(place) == before, told(answer(place, 2))


@exercise.probe
def a_step_is_saved_again(answer):
    with folder() as place:
        manager = saved(answer, place, [0.1, 0.2, 0.9])
        try:
            manager.save({"w": torch.zeros(70_000), "more": Breaks(KeyboardInterrupt())}, 3, 0.95)
        except KeyboardInterrupt:
            pass
        after_a_failure = told(manager), names(place)
        manager.save({"w": torch.full((2,), 33.0)}, 3, 0.3)
        return after_a_failure, told(manager), names(place)


@exercise.probe
def a_file_that_would_run_code(answer):
    with folder() as place:
        saved(answer, place, [0.1, 0.2])
        torch.save({"state": {}, "step": 3, "score": 1.0, "more": folder}, place / "step-3.pt")
        return told(answer(place, 2))

"""A grader that does what the submission's text says, to try what is around it: grading processes, engines, journals.

A grading process imports this module by name, so that the folder `tests` has to be in its PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from course.grading.row import Row


@dataclass(frozen=True)
class PlayedSpec:
    """log: a file that gets the line `STEP SUBMISSION PID` when a grader starts, and begins and ends a submission."""

    log: str
    exercises: tuple[str, ...] = ("tensors.flatten", "tensors.scores")
    refuses: str = ""

    def grader(self) -> PlayedGrader:
        if self.refuses:
            raise RuntimeError(self.refuses)
        return PlayedGrader(self)


class PlayedGrader:
    protection = "played"

    def __init__(self, spec: PlayedSpec) -> None:
        self._spec = spec
        _note(spec.log, "made", "-")

    def grade(self, path: Path, submission: str) -> list[Row]:
        _note(self._spec.log, "begun", submission)
        word, _, rest = path.read_text(encoding="utf-8").partition(" ")
        if word == "die" or (word == "die-once" and steps(self._spec.log)["begun"][submission] == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "sleep":
            time.sleep(float(rest))
        if word == "raise":
            raise ValueError(rest)
        if word == "print":
            # Neither Python's standard output nor the descriptor may reach whoever started the process.
            print(rest, flush=True)
            os.write(1, rest.encode() + b"\n")
        _note(self._spec.log, "ended", submission)
        exercises = self._spec.exercises[:1] if word == "short" else self._spec.exercises
        return [Row(submission=submission, exercise=each, outcome="PASSED", note=rest.strip()) for each in exercises]

    def close(self) -> None:
        _note(self._spec.log, "closed", "-")


def _note(log: str, step: str, submission: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{step}\t{submission}\t{os.getpid()}\n".encode())
    os.close(descriptor)


def steps(log: str | Path) -> dict[str, Counter[str]]:
    """How often each step was taken, by step and submission."""
    found: dict[str, Counter[str]] = {step: Counter() for step in ("made", "begun", "ended", "closed")}
    for line in Path(log).read_text(encoding="utf-8").splitlines():
        step, submission, _ = line.split("\t")
        found[step][submission] += 1
    return found


def pids(log: str | Path) -> list[int]:
    """The process ids of the graders that were made."""
    lines = Path(log).read_text(encoding="utf-8").splitlines()
    return [int(line.split("\t")[2]) for line in lines if line.startswith("made\t")]

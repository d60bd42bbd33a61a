"""Grade submissions, one after the other, in one warm worker.

>>> spec = GraderSpec(("tensors.flatten",))          # can be pickled; made where the grading is done
>>> grader = spec.grader()                           # doctest: +SKIP
>>> rows = grader.grade(Path("alice/01.ipynb"))      # doctest: +SKIP
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course import curriculum
from course.grading.limits import Limits
from course.grading.program import NoProgram, Program, program_for
from course.grading.row import Row
from course.grading.sandbox import Protection, Refused, required
from course.grading.submission import read_answers

if TYPE_CHECKING:
    from course.checking import Exercise
    from course.grading.reading import Report, Seen
    from course.grading.warm import Ending

__all__ = ["Grader", "GraderBroken", "GraderSpec", "Limits", "Refused", "exercises_of"]

MODULES = ("torch.", "torchvision.")
TIMED_OUT = "timed out"
STOPPED = {
    "memory": "Stopped: its processes took more memory than a submission may have.",
    "processes": "Stopped: it started more processes than a submission may have.",
    "files": "Stopped: it made more files than a submission may have.",
    "report": "Stopped: it reported more than an answer can have to report.",
}


class GraderBroken(RuntimeError):
    """The worker could not be started, or was lost again and again. It is not this submission's fault alone."""


@dataclass(frozen=True)
class GraderSpec:
    """How to make a grader.

    exercises: ids, in the order of the rows. unprotected: run without protection, where there is none.
    """

    exercises: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)
    unprotected: bool = False

    def grader(self) -> Grader:
        return Grader(self.exercises, self.limits, self.unprotected)


def exercises_of(lesson: str) -> tuple[str, ...]:
    """The ids of a lesson's exercises. Raises UnknownLesson."""
    from course.exercises import exercise_ids

    room = curriculum.lesson(lesson).exercises
    return tuple(each for each in exercise_ids() if each.split(".")[0] == room)


class Grader:
    """Grades submissions in a worker of its own; it is started at once, and again when it is lost.

    Raises Refused where nothing protects and that was not agreed to, UnknownExercise, and GraderBroken.
    """

    def __init__(self, exercises: Sequence[str], limits: Limits | None = None, unprotected: bool = False) -> None:
        self.protection: Protection = required(unprotected)
        from course.exercises import load_exercise
        from course.grading.warm import Warm

        self.limits = limits or Limits()
        self.exercises: list[Exercise] = [load_exercise(each) for each in exercises]
        # A value that says nothing is `...`; a function in its place is an answer, though a strange one.
        self._stubs = {
            exercise.id: "" if exercise.kind in ("value", "choice") else exercise.stub_source()
            for exercise in self.exercises
        }
        self._fallback = {exercise.id: _fallback(exercise.id) for exercise in self.exercises}
        self._lesson_of = {lesson.exercises: lesson.number for lesson in curriculum.LESSONS}
        self._warm = Warm(self.protection, [each.id for each in self.exercises], self._observe_ours(), self.limits)
        try:
            self._start()
        except BaseException:
            self._warm.close()
            raise

    @property
    def starts(self) -> int:
        """How many workers were started so far."""
        return self._warm.starts

    def close(self) -> None:
        self._warm.close()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def grade(self, path: Path | str, submission: str | None = None) -> list[Row]:
        """A row for each exercise, whatever the submission is or does. Raises GraderBroken.

        submission: its id in the rows; the file's name where None.
        """
        from course.grading.judge import judged

        name = Path(path).name if submission is None else submission
        answers = read_answers(path)
        rows: dict[str, Row] = {}
        todo: list[tuple[Exercise, Program]] = []
        for exercise in self.exercises:
            found = self._program(answers, exercise)
            if isinstance(found, NoProgram):
                rows[exercise.id] = _without_program(name, exercise, found, answers.notes)
            else:
                todo.append((exercise, found))
        for exercise, program, seen in self._observed(todo):
            row = judged(name, exercise, program, seen)
            rows[exercise.id] = replace(row, note=_joined((row.note,) if row.note else (), answers.notes))
        return [rows[exercise.id] for exercise in self.exercises]

    def _program(self, answers: Any, exercise: Exercise) -> Program | NoProgram:
        from course.grading.judge import is_stub_text

        stub = self._stubs[exercise.id]
        return program_for(
            answers,
            exercise.id,
            exercise.name,
            lesson=self._lesson_of.get(exercise.id.split(".")[0]),
            is_stub=lambda text: bool(stub) and is_stub_text(text, stub),
        )

    def _observed(self, todo: list[tuple[Exercise, Program]]) -> Iterator[tuple[Exercise, Program, Seen]]:
        """Answers share a child as long as nothing is odd about them; each that is gets one of its own."""
        from course.grading.gate import findings

        waiting = [(exercise, program, bool(findings(program.source, exercise))) for exercise, program in todo]
        while waiting:
            alone = waiting[0][2]
            count = 1 if alone else next((i for i, each in enumerate(waiting) if each[2]), len(waiting))
            tasks = [(exercise, program) for exercise, program, _ in waiting[:count]]
            found = self._run(tasks)
            if len(tasks) > 1 and (found[-1].ended not in (None, TIMED_OUT) or found[-1].contained):
                # Was it this one, or something that an earlier one left behind?
                found[-1:] = self._run([tasks[len(found) - 1]])
            for (exercise, program), seen in zip(tasks, found, strict=False):
                yield exercise, program, seen
            del waiting[: len(found)]

    def _run(self, tasks: list[tuple[Exercise, Program]]) -> list[Seen]:
        """What was seen of the first tasks: of all, or of those up to the one at which something went wrong."""
        from course.grading.reading import Report
        from course.grading.warm import Ending, WorkerLost

        job = {"tasks": [self._task(exercise, program) for exercise, program in tasks]}
        for last_try in (False, True):
            self._start()
            report = Report([exercise for exercise, _ in tasks])
            end = time.monotonic() + self.limits.job_seconds

            def limit(report: Report = report, end: float = end) -> float:
                return min(end, report.since + self._seconds(tasks[min(report.complete, len(tasks) - 1)][0]))

            try:
                ending = self._warm.run(job, limit, report.take)
            except WorkerLost as lost:
                ending = Ending("lost", f"The worker was lost while it ran. {lost}")
                if report.current is None and report.complete == 0 and not last_try:
                    continue
                break
            if report.current is not None or report.complete or ending.why not in (None, "time"):
                break
            # Its child did not get as far as the first answer: that is the worker's fault, not the submission's.
            fault = f"The worker ran no answer ({ending.ended})."
            self._warm.replace(fault)
            if last_try:
                raise GraderBroken(fault)
        return self._seen(report, ending, tasks)

    def _seconds(self, exercise: Exercise) -> float:
        return exercise.seconds * self.limits.patience

    def _seen(self, report: Report, ending: Ending, tasks: list[tuple[Exercise, Program]]) -> list[Seen]:
        complete = report.tasks[: report.complete]
        for number, seen in enumerate(complete):
            if seen.replaced:
                complete = complete[: number + 1]
                break
        else:
            if len(complete) < len(tasks):
                seen = report.tasks[len(complete)]
                seen.limit = self._seconds(tasks[len(complete)][0])
                seen.seconds = time.monotonic() - report.since
                if ending.why == "time":
                    seen.ended = TIMED_OUT
                elif ending.why is not None:
                    seen.contained = STOPPED.get(ending.why, ending.why)
                else:
                    seen.ended = ending.ended
                complete = [*complete, seen]
        complete[-1].left = ending.left
        return complete

    def _start(self) -> None:
        from course.grading.warm import WorkerLost

        for last_try in (False, True):
            try:
                self._warm.start()
                return
            except WorkerLost as lost:
                if last_try:
                    raise GraderBroken(str(lost)) from lost

    def _task(self, exercise: Exercise, program: Program) -> dict[str, Any]:
        return {
            "exercise": exercise.id,
            "name": program.name,
            "fallback": self._fallback[exercise.id],
            "pieces": [[each.text, each.is_import] for each in program.statements],
        }

    def _observe_ours(self) -> list[str]:
        """Observe the references, and return what torch imported for them: the worker imports it beforehand, too."""
        from course.checking.diagnose import expected_observations

        for exercise in self.exercises:
            expected_observations(exercise)
        return sorted(name for name in sys.modules if name.startswith(MODULES))


def _without_program(submission: str, exercise: Exercise, found: NoProgram, notes: Sequence[str]) -> Row:
    """The row of an exercise for which there is nothing to run."""
    if found.outcome == "ERROR":
        return Row(submission, exercise.id, "ERROR", found.reason, note=_joined(found.notes, notes))
    from course.checking.judging import not_attempted

    return Row(
        submission,
        exercise.id,
        found.outcome,
        not_attempted(exercise).diagnosis,
        note=_joined((found.reason,), found.notes, notes),
    )


def _joined(*parts: Sequence[str]) -> str | None:
    """Notes in a line, each once."""
    return " ".join(dict.fromkeys(note for part in parts for note in part)) or None


def _fallback(exercise: str) -> list[str]:
    from course.exercises import exercise_path
    from course.grading.stage import fallback_names

    return fallback_names(exercise_path(exercise).read_text(encoding="utf-8"))

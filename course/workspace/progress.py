"""What a learner has passed: recorded while notebooks run, merged over all kernels on reading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby, pairwise

from course import curriculum
from course.curriculum import Lesson
from course.exercises import exercise_ids
from course.workspace import reading
from course.workspace.recorder import on_problem, record, recording
from course.workspace.records import Record

__all__ = [
    "ExerciseProgress",
    "LessonProgress",
    "Progress",
    "next_lesson",
    "on_problem",
    "read",
    "record",
    "recording",
]

# A longer time without an event was a break as likely as work.
LONGEST_GAP = 600.0


@dataclass(frozen=True)
class ExerciseProgress:
    """What happened with one exercise.

    passed: at least once; that stays. first_passed: when, as ISO 8601 in UTC.
    attempts: checks of an answer, up to and with the first that passed; a stub is no answer.
    hints: how often one was asked for. solution_shown: at least once.
    seconds: between its events and whatever event came before each in the same kernel, without gaps of over ten
    minutes. It is less than the time spent: a kernel's first event has nothing before it.
    """

    passed: bool = False
    attempts: int = 0
    hints: int = 0
    solution_shown: bool = False
    seconds: float = 0.0
    first_passed: str | None = None


@dataclass(frozen=True)
class LessonProgress:
    """The exercises of one lesson, or of all, together."""

    passed: int
    total: int
    attempts: int
    hints: int
    seconds: float

    @property
    def finished(self) -> bool:
        """Whether every exercise of the installed course is passed."""
        return self.passed == self.total


@dataclass(frozen=True)
class Progress:
    """Everything that was read.

    exercises: by id, also those that the installed course does not have; they are left out of all totals.
    problems: sentences about files that could not be read in full.
    """

    exercises: Mapping[str, ExerciseProgress] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def exercise(self, exercise_id: str) -> ExerciseProgress:
        """The progress of one exercise; nothing has happened with an unknown id."""
        return self.exercises.get(exercise_id, ExerciseProgress())

    def lesson(self, lesson: Lesson) -> LessonProgress:
        """The progress of one lesson."""
        return self._together(lesson_exercises(lesson))

    @property
    def overall(self) -> LessonProgress:
        """The progress of all lessons together."""
        return self._together(each for lesson in curriculum.LESSONS for each in lesson_exercises(lesson))

    def _together(self, ids: Iterable[str]) -> LessonProgress:
        rows = [self.exercise(each) for each in ids]
        return LessonProgress(
            passed=sum(row.passed for row in rows),
            total=len(rows),
            attempts=sum(row.attempts for row in rows),
            hints=sum(row.hints for row in rows),
            seconds=sum(row.seconds for row in rows),
        )


def lesson_exercises(lesson: Lesson) -> list[str]:
    """The ids of a lesson's exercises in the installed course."""
    return [each for each in exercise_ids() if each.split(".")[0] == lesson.exercises]


def read() -> Progress:
    """Merge what all kernels have kept. Content never makes it raise; `problems` says what could not be read."""
    records, problems = reading.read_all()
    return Progress(merged(records), tuple(problems))


def next_lesson(progress: Progress) -> Lesson | None:
    """The first lesson, in the curriculum's order, that is not finished; None when all are."""
    return next((lesson for lesson in curriculum.LESSONS if not progress.lesson(lesson).finished), None)


def merged(records: Iterable[Record]) -> dict[str, ExerciseProgress]:
    """Progress by exercise, whatever the order of the records; one that occurs twice counts once."""
    unique = {(each.kernel, each.number): each for each in records}
    found: defaultdict[str, dict] = defaultdict(lambda: asdict(ExerciseProgress()))
    for key, seconds in _seconds(unique):
        found[unique[key].exercise]["seconds"] += seconds
    for each in sorted(unique.values(), key=lambda each: (each.at, each.kernel, each.number)):
        so_far = found[each.exercise]
        if each.event == "hint":
            so_far["hints"] += 1
        elif each.event == "solution":
            so_far["solution_shown"] = True
        elif not so_far["passed"] and each.outcome != "NOT_ATTEMPTED":
            so_far["attempts"] += 1
            if each.outcome == "PASSED":
                so_far.update(passed=True, first_passed=each.at.isoformat(timespec="seconds"))
    return {exercise_id: ExerciseProgress(**values) for exercise_id, values in found.items()}


def _seconds(unique: Mapping[tuple[str, int], Record]) -> Iterator[tuple[tuple[str, int], float]]:
    """For each record, the time since the one before it in its kernel, unless that was a break."""
    for _, keys in groupby(sorted(unique), key=lambda key: key[0]):
        for before, key in pairwise(keys):
            gap = unique[key].clock - unique[before].clock
            if 0 <= gap <= LONGEST_GAP:
                yield key, gap

"""What a class's rows say together: how each exercise went, and which misunderstandings are behind it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from course.faults import FAULTS
from course.grading.row import Row

# How a diagnosis begins that agrees with a wrong answer in part only, see course.checking.diagnose.
PARTLY = "This looks partly like a known misunderstanding."
# In the order in which they are shown; others that occur follow.
OUTCOMES = ("PASSED", "WRONG", "ERROR", "TIMED_OUT", "CONTAINED", "NOT_ATTEMPTED")


@dataclass(frozen=True)
class WrongCount:
    """One catalogued wrong answer: how many submissions gave it, and how many of these agree with it only partly."""

    id: str
    exercise: str
    fault: str | None
    submissions: int
    partly: int
    message: str


@dataclass(frozen=True)
class FaultCount:
    """One fault: how many submissions show it, in whichever exercise, and by which wrong answers."""

    id: str
    title: str
    lesson: str | None
    section: str | None
    submissions: int
    wrong_answers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """Counts of submissions, the most frequent first.

    exercises: outcome -> count, by exercise. undiagnosed: exercise -> answers that were judged wrong and resemble no
    catalogued one. notes: (submission, exercise or "" for all, outcome or "", what is to be known of it).
    """

    submissions: int
    exercises: dict[str, dict[str, int]]
    faults: tuple[FaultCount, ...]
    wrong_answers: tuple[WrongCount, ...]
    undiagnosed: dict[str, int]
    notes: tuple[tuple[str, str, str, str], ...]

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The outcomes that occur, in the order in which they are shown."""
        seen = {outcome for counts in self.exercises.values() for outcome in counts}
        return (*(each for each in OUTCOMES if each in seen), *sorted(seen.difference(OUTCOMES)))

    def misunderstandings(self) -> list[tuple[str, str, int]]:
        """(id, in words, submissions): faults, and wrong answers that are no fault of the catalogue."""
        found = [(each.id, each.title, each.submissions) for each in self.faults]
        found += [(each.id, each.message, each.submissions) for each in self.wrong_answers if each.fault is None]
        return sorted(found, key=lambda each: (-each[2], each[0]))


def summarise(rows: Iterable[Row]) -> Summary:
    """Count. A submission counts once for a fault, however many of its answers show it."""
    rows = list(rows)
    exercises: dict[str, Counter[str]] = {}
    undiagnosed: Counter[str] = Counter()
    by_wrong: dict[str, list[Row]] = defaultdict(list)
    by_fault: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        exercises.setdefault(row.exercise, Counter())[str(row.outcome)] += 1
        if row.wrong:
            by_wrong[row.wrong].append(row)
        elif row.outcome == "WRONG":
            undiagnosed[row.exercise] += 1
        if row.fault:
            by_fault[row.fault].append(row)
    wrong_answers = [_wrong_count(wrong, found) for wrong, found in by_wrong.items()]
    faults = [_fault_count(fault, found) for fault, found in by_fault.items()]
    return Summary(
        submissions=len({row.submission for row in rows}),
        exercises={exercise: dict(counts) for exercise, counts in exercises.items()},
        faults=tuple(sorted(faults, key=_frequent_first)),
        wrong_answers=tuple(sorted(wrong_answers, key=_frequent_first)),
        undiagnosed=dict(undiagnosed.most_common()),
        notes=tuple(_notes(rows)),
    )


def _frequent_first(count: WrongCount | FaultCount) -> tuple[int, str]:
    return -count.submissions, count.id


def _submissions(rows: Sequence[Row]) -> int:
    return len({row.submission for row in rows})


def _wrong_count(wrong: str, rows: Sequence[Row]) -> WrongCount:
    messages = Counter((row.diagnosis or "").removeprefix(PARTLY).strip() for row in rows)
    partly = [row for row in rows if (row.diagnosis or "").startswith(PARTLY)]
    (message, _), *_ = messages.most_common(1)
    return WrongCount(wrong, rows[0].exercise, rows[0].fault, _submissions(rows), _submissions(partly), message)


def _fault_count(fault: str, rows: Sequence[Row]) -> FaultCount:
    entry = FAULTS.get(fault)
    by_answer: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_answer[row.wrong or row.exercise].append(row)
    answers = Counter({wrong: _submissions(found) for wrong, found in by_answer.items()})
    title, lesson, section = (entry.title, entry.lesson, entry.section) if entry else (fault, None, None)
    return FaultCount(fault, title, lesson, section, _submissions(rows), dict(answers.most_common()))


def _notes(rows: Sequence[Row]) -> Iterable[tuple[str, str, str, str]]:
    """One that all rows of a submission share comes once; beside other rows, one on a missing answer says nothing."""
    by_submission: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_submission[row.submission].append(row)
    for submission, mine in by_submission.items():
        if len(mine) > 1 and mine[0].note and len({(row.note, row.outcome) for row in mine}) == 1:
            yield submission, "", str(mine[0].outcome), mine[0].note
            continue
        for row in mine:
            if row.note and row.outcome != "NOT_ATTEMPTED":
                yield submission, row.exercise, str(row.outcome), row.note


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """Text of a submission, in which nothing can steer a terminal or break a file: such characters as escapes."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))

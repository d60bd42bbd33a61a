"""One line of the result: what became of one exercise of one submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

# What a check can say, and one thing more: CONTAINED is said of an answer that was stopped or not judged because of
# what it did beside answering. It is never a verdict on what was learnt; `note` says what was seen.
OUTCOMES = ("PASSED", "WRONG", "ERROR", "TIMED_OUT", "NOT_ATTEMPTED", "CONTAINED")


@dataclass(frozen=True)
class Row:
    """A verdict, or what kept the grader from one. Texts come from answers of strangers: escape them where shown.

    submission, exercise: ids. outcome: one of OUTCOMES.
    diagnosis, fault, wrong, seen, expected: as in :class:`course.checking.Verdict` (``wrong`` is its ``wrong_answer``).
    note: what the grader has to say about this answer beside the verdict: several definitions, a cell that could not be
        read, what the answer tried. seconds: wall time.
    """

    submission: str
    exercise: str
    outcome: str
    diagnosis: str | None = None
    fault: str | None = None
    wrong: str | None = None
    seen: str | None = None
    expected: str | None = None
    note: str | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"{self.outcome!r} is no outcome; they are {', '.join(OUTCOMES)}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Row:
        """Inverse of :meth:`to_dict`; further entries are ignored. Raises ValueError for missing or unknown ones."""
        missing = {"submission", "exercise", "outcome"} - values.keys()
        if missing:
            raise ValueError(f"a row without {', '.join(sorted(missing))}")
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

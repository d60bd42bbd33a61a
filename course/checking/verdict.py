"""What a check says about an answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(str, Enum):
    """The five things a check can say."""

    PASSED = "PASSED"
    WRONG = "WRONG"
    ERROR = "ERROR"
    TIMED_OUT = "TIMED_OUT"
    NOT_ATTEMPTED = "NOT_ATTEMPTED"

    def __str__(self) -> str:
        return self.value


HEADLINES = {
    Outcome.PASSED: "passed",
    Outcome.WRONG: "not right yet",
    Outcome.ERROR: "no result to judge",
    Outcome.TIMED_OUT: "stopped: it took too long",
    Outcome.NOT_ATTEMPTED: "not attempted yet",
}


@dataclass(frozen=True)
class Verdict:
    """The result of one check.

    exercise: id of the exercise, such as ``tensors.flatten``.
    outcome: one of :class:`Outcome`.
    diagnosis: what the answer shows about its author's picture of PyTorch, or what to do next.
    wrong_answer, fault: ids of the catalogued wrong answer and of its fault, where one was recognised.
    seen, expected: the smallest difference, in words.
    seconds: wall time of the check; left out of every rendered form.
    """

    exercise: str
    outcome: Outcome
    diagnosis: str | None = None
    wrong_answer: str | None = None
    fault: str | None = None
    seen: str | None = None
    expected: str | None = None
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def headline(self) -> str:
        return f"{self.exercise}: {HEADLINES[self.outcome]}"

    def lines(self) -> list[tuple[str, str]]:
        """The parts below the headline as (label, text) pairs, in reading order."""
        parts = [("", self.diagnosis), ("seen", self.seen), ("expected", self.expected)]
        return [(label, text) for label, text in parts if text]

    def to_dict(self) -> dict[str, object]:
        return {
            "exercise": self.exercise,
            "verdict": self.outcome.value,
            "fault": self.fault,
            "wrong_answer": self.wrong_answer,
            "diagnosis": self.diagnosis,
            "seen": self.seen,
            "expected": self.expected,
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        rows = [f"{self.outcome.value}  {self.headline}"]
        rows += [f"  {label}: {text}" if label else f"  {text}" for label, text in self.lines()]
        return "\n".join(rows)

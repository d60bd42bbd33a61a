"""Read what a child reports about the answers of one submission: in order and in form, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from course.checking.exercise import Exercise
from course.checking.observation import Observation
from course.checking.observe import PASSES


@dataclass
class Seen:
    """What came of one task in the worker.

    observations: by (turn, probe). problem: the definitions could not be run, as a sentence. facts: what kind of thing
    the answer is. replaced: functions that it put others in the place of. ended: how the process ended before this
    task was complete ("timed out", "killed by SIGSEGV"); None where it was. contained: why it was stopped, if it was.
    left: processes that were still running afterwards. limit: seconds that it had. seconds: those that it took.
    """

    observations: dict[tuple[int, int], Observation] = field(default_factory=dict)
    started: int | None = None
    problem: str | None = None
    facts: dict[str, Any] | None = None
    replaced: tuple[str, ...] = ()
    ended: str | None = None
    contained: str | None = None
    left: int = 0
    limit: float = 0.0
    seconds: float = 0.0


class Misreported(ValueError):
    """A report that is not what an undisturbed child would have sent."""


class Report:
    """Reads the messages of one job, each of which has to be the one whose turn it is.

    tasks: what was seen of each. current: the number of the one that is running. complete: how many are.
    since: when the last one began or ended.
    """

    def __init__(self, exercises: Sequence[Exercise]) -> None:
        self.tasks = [Seen() for _ in exercises]
        self.current: int | None = None
        self.complete = 0
        self.since = time.monotonic()
        self._exercises = exercises
        self._script = self._expected()
        self._next = next(self._script)

    def take(self, message: Any) -> None:
        """Note one message. Raises Misreported."""
        if type(message) is not tuple or message[: len(self._next)] != self._next or not _is_sound(message):
            raise Misreported("it did not report in order")
        kind = message[0]
        if kind == "task":
            self.current, self.since = message[1], time.monotonic()
        elif kind != "done":
            self._note(self.tasks[self.complete], *message)
        self._next = self._script.send(message)

    def _note(self, seen: Seen, kind: str, *rest: Any) -> None:
        if kind == "answer":
            seen.problem, seen.facts = rest
        elif kind == "start":
            seen.started = rest[1]
        elif kind == "seen":
            seen.observations[rest[0], rest[1]] = rest[2]
        elif kind == "end":
            seen.replaced = tuple(rest[1])
            seen.seconds = time.monotonic() - self.since
            self.current, self.since = None, time.monotonic()
            self.complete += 1

    def _expected(self) -> Iterator[tuple[Any, ...]]:
        for number, exercise in enumerate(self._exercises):
            yield ("task", number)
            answer = yield ("answer",)
            if answer[1] is None:
                for turn in range(PASSES):
                    for index, probe in enumerate(exercise.probes):
                        if probe.requirement is None:
                            yield ("start", turn, index)
                            yield ("seen", turn, index)
            yield ("end", number)
        yield ("done",)
        yield ("nothing more",)


FACTS = {"ellipsis": bool, "class": bool, "callable": bool, "compiled": bool}


def _is_sound(message: tuple[Any, ...]) -> bool:
    match message:
        case ("task", int()) | ("done",) | ("start", int(), int()):
            return True
        case ("answer", str(), None):
            return True
        case ("answer", None, dict() as facts):
            kinds = all(type(facts.get(name)) is kind for name, kind in FACTS.items())
            return kinds and (facts.get("what") is None or type(facts["what"]) is str)
        case ("seen", int(), int(), seen):
            return type(seen) is Observation
        case ("end", int(), list() as replaced):
            return all(type(name) is str for name in replaced) and len(replaced) < 20
    return False

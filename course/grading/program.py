"""What of a submission an exercise's answer needs: its definition, and what that uses, directly or not.

Nothing else of a submission runs: no training loop, no plot, no statement whose only use is its effect.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from course.grading.statements import Broken, Statement
from course.grading.submission import Answers

# Statements and characters of what one answer needs.
MAX_PROGRAM = 400
MAX_SOURCE = 200_000
# Of many definitions of one name only the last ones are looked at.
MAX_CANDIDATES = 100
UNTOUCHED = (
    "The definition is the stub as it was handed out.",
    "No definition of {name} was found.",
)


@dataclass(frozen=True)
class Program:
    """The answer to one exercise, ready to be run somewhere else.

    name: the variable that holds the answer. statements: in the order in which to run them.
    definition: the statement that binds the name.
    """

    exercise: str
    name: str
    statements: tuple[Statement, ...]
    definition: Statement
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return "".join(statement.text for statement in self.statements)

    def own_texts(self) -> list[str]:
        """All that runs, a statement each, the answer's definition first. Rules on the source are held against these:
        what is neither a function nor called by its name can break them, too."""
        others = (each for each in self.statements if each.place != self.definition.place)
        return [each.text for each in (self.definition, *others)]


@dataclass(frozen=True)
class NoProgram:
    """There is nothing to run. outcome: NOT_ATTEMPTED or ERROR; reason: a sentence."""

    outcome: str
    reason: str
    notes: tuple[str, ...] = ()


class _TooMuch(ValueError):
    """The sentence says of what."""


def definition_text(statement: Statement) -> str | None:
    """A function or class by itself, without decorators; None for another statement."""
    if not statement.is_definition:
        return None
    return "\n".join(statement.text.split("\n")[statement.decorators :]).rstrip() + "\n"


def program_for(
    answers: Answers, exercise: str, name: str, *, lesson: str | None, is_stub: Callable[[str], bool]
) -> Program | NoProgram:
    """Find the answer to an exercise, wherever it stands.

    name: what the answer is called. lesson: the number of the exercise's lesson; a notebook of another one answers it
    only where a cell or a check says so, for some names are used by several lessons. is_stub: whether the text of a
    function or class says no more than the stub.
    """
    if answers.problem:
        return NoProgram("NOT_ATTEMPTED", answers.problem, answers.notes)
    found = _candidates(answers, exercise, name, lesson)
    notes: list[str] = []
    if not found:
        other = next((check.name for check in reversed(answers.checks) if check.exercise == exercise), None)
        if other is not None and other != name:
            found = answers.binding.get(other, [])[-MAX_CANDIDATES:]
            if found:
                notes.append(f"The answer is called {other}, not {name}; check was given that name.")
                name = other
    broken = [each for each in answers.broken if name in each.names and each.exercise in (None, exercise)]
    attempts = [each for each in found if not _says_nothing(each, is_stub)]
    if not attempts:
        return _nothing(name, found, broken)
    definition = attempts[-1]
    if len(attempts) > 1:
        notes.append(f"There are {len(attempts)} definitions of {name}; the last one counts.")
    elif found[-1] is not definition:
        notes.append(f"The stub stands once more after the definition of {name}; it does not count.")
    if broken and broken[-1].place > definition.place:
        notes.append(f"A later definition of {name} does not count. {broken[-1].problem}")
    try:
        statements = _needed(answers, definition, name)
    except _TooMuch as error:
        return NoProgram("ERROR", f"What {name} needs {error}.", tuple(notes))
    return Program(exercise, name, statements, definition, tuple(notes))


def _nothing(name: str, found: list[Statement], broken: list[Broken]) -> NoProgram:
    if broken:
        return NoProgram("ERROR", broken[-1].problem)
    return NoProgram("NOT_ATTEMPTED", UNTOUCHED[0] if found else UNTOUCHED[1].format(name=name))


def _candidates(answers: Answers, exercise: str, name: str, lesson: str | None) -> list[Statement]:
    found = []
    room = exercise.split(".")[0]
    for statement in answers.binding.get(name, ()):
        owner = _owner(answers, statement, name)
        if owner is not None and owner.split(".")[0] != room:
            continue
        if owner is None and answers.lesson is not None and lesson is not None and answers.lesson != lesson:
            continue
        found.append(statement)
    return found[-MAX_CANDIDATES:]


def _owner(answers: Answers, statement: Statement, name: str) -> str | None:
    """The exercise that a definition belongs to: its cell says so, or the next check of that name does."""
    if statement.exercise is not None:
        return statement.exercise
    checks = answers.checked.get(name, ())
    later = bisect_right(checks, statement.place, key=_place)
    return checks[later].exercise if later < len(checks) else None


def _says_nothing(statement: Statement, is_stub: Callable[[str], bool]) -> bool:
    text = definition_text(statement)
    return statement.blank if text is None else is_stub(text)


def _place(each: Any) -> tuple[int, int]:
    return each.place


def _needed(answers: Answers, definition: Statement, name: str) -> tuple[Statement, ...]:
    """The definition and, for every global name that is read, the statements that bind or change it. Raises _TooMuch.

    Each name's lists are gone through by bisection: the work grows with the text of the program, not with its square.
    """
    chosen: dict[tuple[int, int], Statement] = {}
    todo: list[Statement] = []
    followed: set[tuple[str, tuple[int, int]]] = set()
    size = 0

    def choose(more: Iterable[Statement]) -> None:
        nonlocal size
        for statement in more:
            if statement.place in chosen:
                continue
            chosen[statement.place] = statement
            todo.append(statement)
            size += len(statement.text)
            if len(chosen) > MAX_PROGRAM:
                raise _TooMuch(f"has more than {MAX_PROGRAM} statements")
            if size > MAX_SOURCE:
                raise _TooMuch(f"has more than {MAX_SOURCE} characters")

    choose([definition, *filter(_is_for_all, answers.statements), *_changes(answers, name, after=definition)])
    while todo:
        statement = todo.pop()
        for later, names in ((False, statement.reads), (True, statement.reads_later)):
            for needed in sorted(names):
                if needed == name and statement is not definition:
                    continue
                source = _nearest(answers.binding.get(needed, ()), statement, later=later)
                if source is not None and (needed, source.place) not in followed:
                    followed.add((needed, source.place))
                    choose([source])
                    choose(_changes(answers, needed, after=source))
    return tuple(chosen[place] for place in sorted(chosen))


def _is_for_all(statement: Statement) -> bool:
    return statement.kind == "ImportFrom" and ("import *" in statement.text or "__future__" in statement.text)


def _changes(answers: Answers, name: str, after: Statement) -> Iterator[Statement]:
    """The statements that change what this one binds to a name, up to the one that binds it anew."""
    binding = answers.binding.get(name, ())
    others = (binding[i] for i in range(bisect_right(binding, after.place, key=_place), len(binding)))
    end = next((each.place for each in others if name not in each.touches), None)
    touching = answers.touching.get(name, ())
    for i in range(bisect_right(touching, after.place, key=_place), len(touching)):
        if end is not None and touching[i].place >= end:
            return
        yield touching[i]


def _nearest(candidates: Sequence[Statement], reader: Statement, *, later: bool) -> Statement | None:
    """Of the statements that bind a name, the one whose value the reader sees when cells run in their order.

    later: the name is read when a function is called, by when the rest of the cell has run.
    """
    before = bisect_left(candidates, reader.place, key=_place)
    after = bisect_right(candidates, reader.place, key=_place)
    next_cell = bisect_left(candidates, (reader.place[0] + 1, 0), key=_place)
    if later and next_cell > after:
        return candidates[next_cell - 1]
    if before:
        return candidates[before - 1]
    return candidates[after] if after < len(candidates) else None

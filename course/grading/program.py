"""What of a submission an exercise's answer needs: its definition, and what that uses, directly or not.

Nothing else of a submission runs: no training loop, no plot, no statement whose only use is its effect.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from course.grading.statements import DEFINITIONS, NOT_PYTHON, Broken, Statement
from course.grading.submission import Answers

MAX_PROGRAM = 400
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

    @property
    def text(self) -> str | None:
        """The function or class by itself, without decorators; None where the answer is made in another way."""
        return definition_text(self.definition)

    def own_texts(self) -> list[str]:
        """The answer's definition and those of the submission's functions that it uses, directly or not."""
        texts, todo, known = [], [self.definition], {self.definition.place}
        while todo:
            statement = todo.pop()
            text = definition_text(statement)
            if text is None:
                continue
            texts.append(text)
            if statement.kind == "ClassDef":
                continue
            names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            for other in self.statements:
                if other.kind == "FunctionDef" and other.binds & names and other.place not in known:
                    known.add(other.place)
                    todo.append(other)
        return texts


@dataclass(frozen=True)
class NoProgram:
    """There is nothing to run. outcome: NOT_ATTEMPTED or ERROR; reason: a sentence."""

    outcome: str
    reason: str
    notes: tuple[str, ...] = ()


def definition_text(statement: Statement) -> str | None:
    if not statement.is_definition:
        return None
    node = ast.parse(statement.text).body[0]
    lines = textwrap.dedent(statement.text).splitlines(keepends=True)
    return "".join(lines[node.lineno - 1 : node.end_lineno]).rstrip() + "\n"


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
            found = [each for each in answers.statements if other in each.binds]
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
        statements = _needed(answers.statements, definition, name)
    except NOT_PYTHON as error:
        return NoProgram("ERROR", f"What {name} needs could not be found: {type(error).__name__}.", tuple(notes))
    return Program(exercise, name, statements, definition, tuple(notes))


def _nothing(name: str, found: list[Statement], broken: list[Broken]) -> NoProgram:
    if broken:
        return NoProgram("ERROR", broken[-1].problem)
    return NoProgram("NOT_ATTEMPTED", UNTOUCHED[0] if found else UNTOUCHED[1].format(name=name))


def _candidates(answers: Answers, exercise: str, name: str, lesson: str | None) -> list[Statement]:
    found = []
    for statement in answers.statements:
        if name not in statement.binds:
            continue
        owner = _owner(answers, statement, name)
        room = exercise.split(".")[0]
        if owner is not None and owner.split(".")[0] != room:
            continue
        if owner is None and answers.lesson is not None and lesson is not None and answers.lesson != lesson:
            continue
        found.append(statement)
    return found


def _owner(answers: Answers, statement: Statement, name: str) -> str | None:
    """The exercise that a definition belongs to: its cell says so, or the next check of that name does."""
    if statement.exercise is not None:
        return statement.exercise
    later = [check for check in answers.checks if check.name == name and check.place > statement.place]
    return later[0].exercise if later else None


def _says_nothing(statement: Statement, is_stub: Callable[[str], bool]) -> bool:
    node = ast.parse(statement.text).body[0]
    if isinstance(node, DEFINITIONS):
        return is_stub(definition_text(statement) or "")
    value = getattr(node, "value", None)
    return isinstance(value, ast.Constant) and value.value is ...


def _needed(statements: Iterable[Statement], definition: Statement, name: str) -> tuple[Statement, ...]:
    """The definition and, for every global name that is read, the statements that bind or change it."""
    binding: dict[str, list[Statement]] = {}
    touching: dict[str, list[Statement]] = {}
    stars = []
    for statement in statements:
        for bound in statement.binds:
            binding.setdefault(bound, []).append(statement)
        for touched in statement.touches:
            touching.setdefault(touched, []).append(statement)
        if statement.kind == "ImportFrom" and ("import *" in statement.text or "__future__" in statement.text):
            stars.append(statement)
    chosen: dict[tuple[int, int], Statement] = {}
    todo: list[Statement] = []

    def choose(more: Iterable[Statement]) -> None:
        for statement in more:
            if statement.place not in chosen and len(chosen) < MAX_PROGRAM:
                chosen[statement.place] = statement
                todo.append(statement)

    choose([definition, *stars, *_changes(touching, name, after=definition)])
    while todo:
        statement = todo.pop()
        for later, names in ((False, statement.reads), (True, statement.reads_later)):
            for needed in sorted(names):
                if needed == name and statement is not definition:
                    continue
                source = _nearest(binding.get(needed, ()), statement, later=later)
                if source is not None:
                    choose([source, *_changes(touching, needed, after=source)])
    return tuple(chosen[place] for place in sorted(chosen))


def _changes(touching: dict[str, list[Statement]], name: str, after: Statement) -> list[Statement]:
    return [each for each in touching.get(name, ()) if each.place > after.place]


def _nearest(candidates: Iterable[Statement], reader: Statement, *, later: bool) -> Statement | None:
    """Of the statements that bind a name, the one whose value the reader sees when cells run in their order.

    later: the name is read when a function is called, by when the rest of the cell has run.
    """
    before, same_cell, after = [], [], []
    for each in candidates:
        if each.place == reader.place:
            continue
        if each.place < reader.place:
            before.append(each)
        elif each.place[0] == reader.place[0]:
            same_cell.append(each)
        else:
            after.append(each)
    if later and same_cell:
        return same_cell[-1]
    if before:
        return before[-1]
    rest = same_cell + after
    return rest[0] if rest else None

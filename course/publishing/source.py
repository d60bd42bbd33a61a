"""A lesson's text source (jupytext py:percent) turned into a notebook that nothing has executed yet."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import jupytext
import nbformat
from nbformat import NotebookNode

from course.curriculum import Lesson
from course.publishing import PublishingError
from course.publishing.checkout import Checkout

MAX_LINES = 640
MEASURED = "measured"
IGNORE_OUTPUT = "nbval-ignore-output"
FORBIDDEN_TAGS = {
    "raises-exception": "show the error with `pitfall`, which fails when the error does not come",
    "nbval-skip": "every cell is run",
    IGNORE_OUTPUT: f"tag the cell `{MEASURED}`",
    "skip-execution": "every cell is run",
}

_DIRECTIVE = re.compile(r"^#\s*exercise:\s*(\S*)\s*$", re.MULTILINE)
_BEGIN = re.compile(r"\bbegin\(\s*(['\"])(\d+)\1\s*\)")


class SourceError(PublishingError):
    """A lesson's source breaks a rule; the message names the file, the line and what to do."""


@dataclass(frozen=True)
class _Cell:
    """A cell of the source: `kind` "markdown" or "code", its text, tags and the line of its `# %%` marker."""

    kind: str
    text: str
    tags: tuple[str, ...]
    line: int

    @property
    def exercise(self) -> str | None:
        found = _DIRECTIVE.search(self.text) if self.kind == "code" else None
        return found.group(1) if found else None


class _Source:
    """The parsed source of one lesson; `fail` makes the errors."""

    def __init__(self, lesson: Lesson, checkout: Checkout) -> None:
        self.lesson = lesson
        self.checkout = checkout
        self.path = checkout.source(lesson)
        if not self.path.is_file():
            raise SourceError(f"{checkout.display(self.path)} is missing: lesson {lesson.number} is in the manifest.")
        text = self.path.read_text(encoding="utf-8")
        self.cells = self._parse(text)

    def fail(self, line: int, message: str) -> SourceError:
        return SourceError(f"{self.checkout.display(self.path)}:{line}: {message}")

    def _parse(self, text: str) -> list[_Cell]:
        lines = text.splitlines()
        if len(lines) > MAX_LINES:
            raise self.fail(MAX_LINES + 1, f"the source has {len(lines)} lines, at most {MAX_LINES} are allowed.")
        starts = [number for number, line in enumerate(lines, 1) if re.match(r"# %%($|[^%])", line)]
        cells = jupytext.reads(text, fmt="py:percent").cells
        if len(cells) != len(starts):
            raise self.fail(1, "text stands outside of the cells; begin every cell with a line `# %%`.")
        return [
            _Cell(cell.cell_type, cell.source, tuple(cell.metadata.get("tags", ())), line)
            for cell, line in zip(cells, starts, strict=True)
        ]

    def check(self) -> None:
        """Raise SourceError for the first broken rule."""
        for cell in self.cells:
            if cell.kind not in ("code", "markdown"):
                raise self.fail(cell.line, f"a cell is of type {cell.kind!r}; use code or [markdown].")
            if not cell.text.strip():
                raise self.fail(cell.line, "the cell is empty; fill it or delete it.")
            for tag in cell.tags:
                if tag in FORBIDDEN_TAGS:
                    raise self.fail(cell.line, f"the tag {tag!r} is not used here: {FORBIDDEN_TAGS[tag]}.")
        self._check_parameters()
        self._check_begin()
        self._check_exercises()

    def _check_parameters(self) -> None:
        tagged = [cell for cell in self.cells if "parameters" in cell.tags]
        if len(tagged) != 1:
            line = tagged[1].line if tagged else 1
            raise self.fail(line, f"{len(tagged)} cells are tagged `parameters`; one is needed.")
        cell = tagged[0]
        found = assigned_literals(cell.text)
        wanted = dict(self.lesson.parameters)
        if found is None:
            raise self.fail(
                cell.line, "the parameters cell may only assign literals to names, like `profile = 'quick'`."
            )
        if [(k, type(v), v) for k, v in found.items()] != [(k, type(v), v) for k, v in wanted.items()]:
            raise self.fail(
                cell.line, f"the parameters cell says {found}, the manifest (course/curriculum.py) {wanted}."
            )

    def _check_begin(self) -> None:
        calls = [(cell, *call) for cell in self.cells if cell.kind == "code" for call in _BEGIN.findall(cell.text)]
        wanted = f'begin("{self.lesson.number}")'
        if len(calls) != 1:
            line = calls[1][0].line if calls else 1
            raise self.fail(line, f"{len(calls)} calls of `begin` were found; one is needed: {wanted}.")
        cell, _, number = calls[0]
        if number != self.lesson.number:
            raise self.fail(cell.line, f'`begin("{number}")` should be `{wanted}`.')

    def _check_exercises(self) -> None:
        seen: dict[str, int] = {}
        for cell in self.cells:
            identifier = cell.exercise
            if identifier is None:
                continue
            if cell.text.strip().count("\n") or not identifier:
                raise self.fail(cell.line, "an exercise cell holds one line and no more: `# exercise: topic.name`.")
            if identifier in seen:
                raise self.fail(
                    cell.line,
                    f"the exercise {identifier!r} is used again; its first cell is at line {seen[identifier]}.",
                )
            if identifier.split(".")[0] != self.lesson.exercises:
                raise self.fail(
                    cell.line,
                    f"the exercise {identifier!r} does not belong to this lesson, whose exercises are "
                    f"`{self.lesson.exercises}.*`.",
                )
            try:
                self.checkout.load_exercise(identifier)
            except LookupError as error:
                raise self.fail(cell.line, str(error)) from None
            seen[identifier] = cell.line

    def exercise_ids(self) -> list[str]:
        return [cell.exercise for cell in self.cells if cell.exercise]


def assigned_literals(code: str) -> dict[str, object] | None:
    """Return names and values of a cell that does nothing but assign literals to names, else None."""
    values: dict[str, object] = {}
    try:
        for statement in ast.parse(code).body:
            if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
                return None
            if not isinstance(statement.targets[0], ast.Name):
                return None
            values[statement.targets[0].id] = ast.literal_eval(statement.value)
    except (SyntaxError, ValueError):
        return None
    return values


def generate(lesson: Lesson, checkout: Checkout) -> NotebookNode:
    """Return the notebook of a lesson as its source and exercises define it: no outputs, no execution counts.

    Cell ids are "01-007-stub": lesson, position from 001, role. Raises SourceError with file and line.
    """
    source = _Source(lesson, checkout)
    source.check()
    digest = checkout.digest(lesson, source.exercise_ids())
    cells: list[NotebookNode] = []

    def add(role: str, text: str, metadata: dict) -> None:
        make = nbformat.v4.new_markdown_cell if role in ("text", "task") else nbformat.v4.new_code_cell
        cells.append(make(text, id=f"{lesson.number}-{len(cells) + 1:03d}-{role}", metadata=metadata))

    for cell in source.cells:
        if cell.exercise:
            for role, text in _expand(checkout.load_exercise(cell.exercise)):
                add(role, text, {"course": {"exercise": cell.exercise, "role": role}})
            continue
        tags = [*cell.tags, IGNORE_OUTPUT] if MEASURED in cell.tags else list(cell.tags)
        text = cell.text
        if cell.kind == "code":
            text = _BEGIN.sub(f'begin("{lesson.number}", digest="{digest}")', text)
        add("text" if cell.kind == "markdown" else "code", text, {"tags": tags} if tags else {})
    add("text", "## Your progress", {})
    # What it shows differs from learner to learner.
    add("progress", "import course\n\ncourse.progress()", {"course": {"role": "progress"}, "tags": [IGNORE_OUTPUT]})
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
        "course": {"lesson": lesson.number, "digest": digest},
    }
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _expand(exercise) -> list[tuple[str, str]]:
    help_line = f'*Stuck? `hint("{exercise.id}")`. Afterwards: `solution("{exercise.id}")`.*'
    return [
        ("task", f"### Exercise: {exercise.title}\n\n{exercise.task.strip()}\n\n{help_line}"),
        ("stub", exercise.stub_source().strip()),
        ("check", f'check("{exercise.id}", {exercise.name})'),
    ]

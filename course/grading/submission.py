"""Submissions and what is in them: pure parsing, nothing of a submission is executed here.

A notebook's cells, or the parts of a Python file, become statements with the names that they bind and read.
:mod:`course.grading.program` puts together from them what an exercise's answer needs. Whatever a file holds, reading
it never raises: what cannot be used becomes a note.
"""

from __future__ import annotations

import functools
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from course.grading.statements import Broken, CheckCall, Statement, parse_cell

SUFFIXES = (".ipynb", ".py")
MAX_BYTES = 128 * 2**20
# What is left of a notebook without its outputs, a Python file with all of its prose, the code that is read of either,
# one cell: more than anyone writes by hand.
MAX_TEXT = 8 * 2**20
MAX_FILE = 2 * 2**20
MAX_CODE = 2**19
MAX_CELL = 100_000
MAX_CELLS = 2_000
MAX_STATEMENTS = 10_000

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Submission:
    """One file to be graded. id: its path relative to the folder of all submissions, with forward slashes."""

    id: str
    path: Path


@dataclass(frozen=True)
class Answers:
    """What a submission defines, in the order of its cells.

    lesson: the number of the lesson that the notebook says it is. problem: why nothing could be read, as a sentence.
    broken: parts that are not Python. notes: sentences for whoever looks at the result.
    """

    statements: tuple[Statement, ...] = ()
    checks: tuple[CheckCall, ...] = ()
    broken: tuple[Broken, ...] = ()
    lesson: str | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> frozenset[str]:
        """Ids of exercises that cells or checks name, and names that definitions and assignments bind."""
        ids = {each.exercise for each in (*self.statements, *self.checks, *self.broken) if each.exercise}
        return frozenset(ids.union(*(each.binds for each in self.statements if not each.is_import)))

    # By name, each in the order of the cells.

    @functools.cached_property
    def binding(self) -> dict[str, list[Statement]]:
        """The statements that bind a name."""
        return _by_name((name, each) for each in self.statements for name in each.binds)

    @functools.cached_property
    def touching(self) -> dict[str, list[Statement]]:
        """The statements that change what a name stands for. Of those that touch an imported module only plain
        assignments are taken: no loop whose tenth line sets an option."""
        imported = frozenset(name for each in self.statements if each.is_import for name in each.binds)
        return _by_name((name, each) for each in self.statements for name in each.touches | (each.changes - imported))

    @functools.cached_property
    def checked(self) -> dict[str, list[CheckCall]]:
        """The checks of a name."""
        return _by_name((each.name, each) for each in self.checks)


def _by_name(pairs: Iterable[tuple[str, Entry]]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for name, each in pairs:
        found.setdefault(name, []).append(each)
    return found


def find_submissions(folder: Path | str) -> list[Submission]:
    """All notebooks and Python files below a folder, such as one file or one folder a person, sorted by id.

    Hidden folders (`.ipynb_checkpoints`), `__pycache__` and links are left out. Raises OSError if there is no folder.
    """
    top = Path(folder)
    if not top.is_dir():
        raise NotADirectoryError(f"{top} is not a folder. Expected one with notebooks or Python files in it.")
    found = []
    for where, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        for name in names:
            path = Path(where, name)
            if path.suffix in SUFFIXES and not name.startswith(".") and not path.is_symlink() and path.is_file():
                found.append(Submission(path.relative_to(top).as_posix(), path))
    return sorted(found, key=lambda submission: submission.id)


def read_answers(path: Path | str, max_bytes: int = MAX_BYTES) -> Answers:
    """Parse one submission. Never raises because of what is in the file, or because it cannot be read."""
    path = Path(path)
    try:
        text, notes = _text(path, max_bytes)
        if not text.strip():
            return Answers(problem="The file is empty.", notes=notes)
        if path.suffix == ".ipynb":
            cells, lesson, more = _notebook(text)
            notes += more
        elif len(text) > MAX_FILE:
            raise _Unreadable(f"The file has more than {MAX_FILE / 2**20:g} MB of text; larger ones are not read.")
        else:
            cells, lesson = list(_parts(text)), None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return Answers(problem=_sentence(error))
    return _answers(cells, lesson, notes)


class _Unreadable(ValueError):
    """The sentence says what is the matter with the file."""


@dataclass
class _Cell:
    source: str
    exercise: str | None = None


def _sentence(error: Exception) -> str:
    if isinstance(error, _Unreadable):
        return str(error)
    if isinstance(error, OSError):
        return f"The file cannot be read: {error.strerror or type(error).__name__}."
    if isinstance(error, json.JSONDecodeError):
        return f"The notebook is not valid JSON: {error.msg} at line {error.lineno}."
    return f"The file cannot be parsed: {type(error).__name__}."


def _text(path: Path, max_bytes: int) -> tuple[str, tuple[str, ...]]:
    # Not blocking: a pipe that nobody writes to must not stop the grader.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _Unreadable("This is not an ordinary file.")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _Unreadable(f"The file has more than {max_bytes / 2**20:g} MB; larger ones are not read.")
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="replace"), ("The file is not UTF-8; what could not be read became \ufffd.",)


def _notebook(text: str) -> tuple[list[_Cell], str | None, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if len(text) > MAX_TEXT:
        notes = (f"The notebook has {len(text) / 2**20:.0f} MB; its outputs were not looked at.",)
        text = without_outputs(text)
        if len(text) > MAX_TEXT:
            raise _Unreadable(f"The notebook has more than {MAX_TEXT / 2**20:g} MB beside its outputs.")
    notebook = json.loads(text)
    if not isinstance(notebook, dict):
        raise _Unreadable("The file is JSON but no notebook: it has no cells.")
    sheets = notebook.get("worksheets")  # of the third format, before 2015
    cells = sheets[0].get("cells") if isinstance(sheets, list) and sheets and isinstance(sheets[0], dict) else None
    cells = notebook.get("cells", cells)
    if not isinstance(cells, list):
        raise _Unreadable("The file is JSON but no notebook: it has no cells.")
    found = [_Cell(_source(cell), _exercise(cell)) for cell in cells if _is_code(cell)]
    lesson = _course(notebook).get("lesson")
    return found, lesson if isinstance(lesson, str) else None, notes


def _is_code(cell: Any) -> bool:
    return isinstance(cell, dict) and cell.get("cell_type") == "code"


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _course(holder: dict[str, Any]) -> dict[str, Any]:
    metadata = holder.get("metadata")
    course = metadata.get("course") if isinstance(metadata, dict) else None
    return course if isinstance(course, dict) else {}


def _exercise(cell: dict[str, Any]) -> str | None:
    exercise = _course(cell).get("exercise")
    return exercise if isinstance(exercise, str) else None


def without_outputs(text: str) -> str:
    """A notebook's JSON with empty lists in place of all "outputs", whatever their size and depth."""
    pieces, start, place = [], 0, 0
    while (place := text.find('"outputs"', place)) >= 0:
        colon = _after_space(text, place + len('"outputs"'))
        opening = _after_space(text, colon + 1)
        if text[colon : colon + 1] != ":" or text[opening : opening + 1] != "[" or _is_inside(text, place):
            place += 1
            continue
        end = _closing(text, opening)
        pieces.append(text[start:opening] + "[]")
        start = place = end
    return "".join(pieces) + text[start:]


def _after_space(text: str, place: int) -> int:
    while text[place : place + 1] in (" ", "\n", "\r", "\t"):
        place += 1
    return place


def _is_inside(text: str, place: int) -> bool:
    """Whether this quote is an escaped one, in the middle of a string."""
    return place > 0 and text[place - 1] == "\\"


def _closing(text: str, place: int) -> int:
    """The place after the bracket that closes the one at `place`; the end of the text where none does."""
    depth = 0
    while place < len(text):
        character = text[place]
        if character == '"':
            place = _end_of_string(text, place)
            continue
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
            if depth == 0:
                return place + 1
        place += 1
    return place


def _end_of_string(text: str, place: int) -> int:
    while True:
        place = text.find('"', place + 1)
        if place < 0:
            return len(text)
        before = place
        while text[before - 1] == "\\":
            before -= 1
        if (place - before) % 2 == 0:
            return place + 1


def _parts(text: str) -> Iterator[_Cell]:
    """A Python file in its cells: `# %%` of jupytext and editors, `# In[3]:` of nbconvert; else all of it."""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith(("# %%", "# In[", "#%%")):
            yield _Cell("\n".join(lines))
            markdown = "[markdown]" in line or "[md]" in line
            lines = ["'''markdown'''"] if markdown else []
        else:
            lines.append(line)
    yield _Cell("\n".join(lines))


@dataclass
class _Collected:
    statements: list[Statement] = field(default_factory=list)
    checks: list[CheckCall] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)


def _answers(cells: list[_Cell], lesson: str | None, notes: tuple[str, ...]) -> Answers:
    all_of_it, long, size = _Collected(), 0, 0
    for number, cell in enumerate(cells, 1):
        if len(cell.source) > MAX_CELL:
            long += 1
            continue
        size += len(cell.source)
        count = len(all_of_it.statements) + len(all_of_it.broken)
        if number > MAX_CELLS or size > MAX_CODE or count > MAX_STATEMENTS:
            notes += (f"There is more code than is read of one submission; it was read up to part {number - 1}.",)
            break
        statements, checks, broken = parse_cell(cell.source, number, cell.exercise)
        all_of_it.statements += statements
        all_of_it.checks += checks
        all_of_it.broken += broken
    if long:
        notes += (f"{long} cell(s) of more than {MAX_CELL} characters were not read.",)
    if not any(cell.source.strip() for cell in cells):
        return Answers(lesson=lesson, problem="There is no code in the file.", notes=notes)
    return Answers(tuple(all_of_it.statements), tuple(all_of_it.checks), tuple(all_of_it.broken), lesson, notes=notes)

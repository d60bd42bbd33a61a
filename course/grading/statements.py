"""The statements of a cell, with the names that they bind and read; cells that are not quite Python, too."""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_STATEMENTS = 2_000
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
# Where a statement may begin in a text that does not parse as a whole.
_STARTS = re.compile(r"^(?:@|def\b|async\b|class\b|import\b|from\b|[A-Za-z_]\w*\s*(?::[^=]*)?=(?!=))")
_NAME = re.compile(r"^\s*(?:async\s+)?(?:(?:def|class)\s+([A-Za-z_]\w*)|([A-Za-z_]\w*)\s*(?::[^=]*)?=(?!=))", re.M)
_MAGIC = re.compile(r"^\s*[%!?]|^[^#'\"]*\?\s*$")


@dataclass(frozen=True)
class Statement:
    """One statement at the top of a cell.

    place: (cell, position in it). exercise: what the cell says it belongs to. binds: names at module level. touches:
    names whose attributes or items it sets. reads: global names used while it runs; reads_later: those used inside of
    the functions that it defines. kind: class of its syntax node.
    """

    place: tuple[int, int]
    text: str
    kind: str
    binds: frozenset[str]
    touches: frozenset[str]
    reads: frozenset[str]
    reads_later: frozenset[str]
    exercise: str | None = None

    @property
    def is_import(self) -> bool:
        return self.kind in ("Import", "ImportFrom")

    @property
    def is_definition(self) -> bool:
        return self.kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef")


@dataclass(frozen=True)
class CheckCall:
    """``check("tensors.flatten", flatten_elements)``: which exercise a name is an answer to."""

    place: tuple[int, int]
    exercise: str
    name: str


@dataclass(frozen=True)
class Broken:
    """A part that does not parse; names: what it seems to define."""

    place: tuple[int, int]
    names: frozenset[str]
    problem: str
    exercise: str | None = None


def parse_cell(source: str, cell: int, exercise: str | None) -> tuple[list[Statement], list[CheckCall], list[Broken]]:
    """The statements, check calls and broken parts of one cell."""
    statements: list[Statement] = []
    checks: list[CheckCall] = []
    broken: list[Broken] = []
    for text in _whole_or_parts(_without_magics(source)):
        place = (cell, len(statements) + len(broken))
        try:
            nodes = _parsed(text).body[:MAX_STATEMENTS]
            found = [_statement(text, node, (cell, place[1] + i), exercise) for i, node in enumerate(nodes)]
        except NOT_PYTHON as error:
            names = frozenset(name for pair in _NAME.findall(text) for name in pair if name)
            broken.append(Broken(place, names, _problem(error, cell), exercise))
            continue
        statements += found
        for i, node in enumerate(nodes):
            checks += _checks(node, (cell, place[1] + i))
    return statements, checks, broken


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes and the like: the submission's, not ours
        return ast.parse(text)


def _problem(error: BaseException, cell: int) -> str:
    message = error.msg if isinstance(error, SyntaxError) else type(error).__name__
    line = f" (`{error.text.strip()[:80]}`)" if isinstance(error, SyntaxError) and error.text else ""
    return f"Part {cell} of the submission is not valid Python: {message}{line}."


def _whole_or_parts(text: str) -> Iterator[str]:
    """The text, if it parses; else its parts, so that one mistake does not take the other definitions with it."""
    try:
        _parsed(text)
    except NOT_PYTHON:
        part: list[str] = []
        decorated = False
        for line in text.splitlines():
            if part and not decorated and _STARTS.match(line):
                yield from _head_and_rest(part)
                part = []
            decorated = line.startswith("@")
            part.append(line)
        yield from _head_and_rest(part)
    else:
        yield text


def _head_and_rest(lines: list[str]) -> Iterator[str]:
    """A part, divided where its first statement seems to end, unless it parses as it stands."""
    try:
        _parsed("\n".join(lines))
    except NOT_PYTHON:
        later = (i for i, line in enumerate(lines) if i and line[:1].strip() and not lines[i - 1].startswith("@"))
        end = next(later, len(lines))
        yield "\n".join(lines[:end])
        if lines[end:]:
            yield "\n".join(lines[end:])
    else:
        yield "\n".join(lines)


def _without_magics(source: str) -> str:
    """IPython's magics, shell commands and questions become comments, unless the cell is Python as it stands."""
    try:
        _parsed(source)
    except NOT_PYTHON:
        return "\n".join("pass  # magic" if _MAGIC.match(line) else line for line in source.splitlines())
    return source


def _statement(text: str, node: ast.stmt, place: tuple[int, int], exercise: str | None) -> Statement:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    lines = text.splitlines(keepends=True)[first - 1 : node.end_lineno]
    own = "".join(lines)
    if lines and (node.col_offset or _ends_early(lines[-1], node)):  # several on a line: a = 1; b = 2
        own = ast.get_source_segment(text, node) or own
    table = symtable.symtable(own, "<submission>", "exec")
    binds, reads = set(), set()
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            binds.add(symbol.get_name())
        if symbol.is_referenced():
            reads.add(symbol.get_name())
    later = set(_global_names(table.get_children()))
    return Statement(
        place=place,
        text=own if own.endswith("\n") else own + "\n",
        kind=type(node).__name__,
        binds=frozenset(binds),
        touches=frozenset(_touched(node)),
        reads=frozenset(reads),
        reads_later=frozenset(later),
        exercise=exercise,
    )


def _ends_early(last_line: str, node: ast.stmt) -> bool:
    rest = last_line.encode()[node.end_col_offset or 0 :].decode(errors="replace").strip()
    return bool(rest) and not rest.startswith("#")


def _global_names(tables: Iterable[symtable.SymbolTable]) -> Iterator[str]:
    for table in tables:
        for symbol in table.get_symbols():
            if symbol.is_global() and (symbol.is_referenced() or symbol.is_declared_global()):
                yield symbol.get_name()
        yield from _global_names(table.get_children())


def _touched(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        part = target
        while isinstance(part, (ast.Attribute, ast.Subscript)):
            part = part.value
        if part is not target and isinstance(part, ast.Name):
            yield part.id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _checks(node: ast.stmt, place: tuple[int, int]) -> Iterator[CheckCall]:
    for call in ast.walk(node):
        match call:
            case ast.Call(func=ast.Name(id="check") | ast.Attribute(attr="check"), args=[first, ast.Name(id=name), *_]):
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield CheckCall(place, first.value, name)

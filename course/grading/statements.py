"""The statements of a cell, with the names that they bind and read; cells that are not quite Python, too.

All that is done here is done about once for each character: whoever hands in long cells must not keep the grader busy.
"""

from __future__ import annotations

import ast
import functools
import re
import symtable
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

# Of one cell; what comes after them is not looked at.
MAX_STATEMENTS = 2_000
# Most cells of a class are the same. Only short ones are remembered, with their names, not their trees.
REMEMBERED, REMEMBERED_TEXT = 512, 4_000
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
# Where a statement may begin in a text that does not parse as a whole.
_STARTS = re.compile(r"^(?:@|def\b|async\b|class\b|import\b|from\b|[A-Za-z_]\w*[ \t]*(?::[^=\n]*)?=(?!=))")
_NAME = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(?:(?:def|class)[ \t]+([A-Za-z_]\w*)|([A-Za-z_]\w*)[ \t]*(?::[^=\n]*)?=(?!=))", re.M
)
_MAGIC = re.compile(r"^[ \t]*[%!?]|^[^#'\"]*\?[ \t]*$")
_NEWLINE = re.compile(r"\r\n?")
_TO_THE_END = re.compile(rb"[ \t\f]*(?:#|$)")
# Methods by which a statement of their own changes what they are called on; also those of tensors, such as fill_().
_CHANGING = {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop", "popitem"}
_CHANGING |= {"popleft", "remove", "reverse", "rotate", "setdefault", "sort", "update"}


@dataclass(frozen=True)
class Statement:
    """One statement at the top of a cell.

    place: (cell, position in it). text: its lines, which end with \\n whatever they ended with in the cell. exercise:
    what the cell says it belongs to. binds: names at module level. touches: names whose attributes or items it sets.
    changes: those that it sets in a loop or branch, and names on which it calls a method such as `append`. reads:
    global names used while it runs; reads_later: those used inside of the functions that it defines. kind: class of its
    syntax node. decorators: how many lines of them. blank: it assigns `...`.
    """

    place: tuple[int, int]
    text: str
    kind: str
    binds: frozenset[str]
    touches: frozenset[str]
    reads: frozenset[str]
    reads_later: frozenset[str]
    exercise: str | None = None
    changes: frozenset[str] = frozenset()
    decorators: int = 0
    blank: bool = False

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


Parsed = tuple[list[Statement], list[CheckCall], list[Broken]]


def parse_cell(source: str, cell: int, exercise: str | None) -> Parsed:
    """The statements, check calls and broken parts of one cell."""
    statements, checks, broken = (_remembered if len(source) <= REMEMBERED_TEXT else _read)(source)
    return (
        [replace(each, place=(cell, each.place[1]), exercise=exercise) for each in statements],
        [replace(each, place=(cell, each.place[1])) for each in checks],
        [
            replace(
                each,
                place=(cell, each.place[1]),
                problem=f"Part {cell} of the submission is not valid Python: {each.problem}",
                exercise=exercise,
            )
            for each in broken
        ],
    )


@functools.lru_cache(REMEMBERED)
def _remembered(source: str) -> Parsed:
    return _read(source)


def _read(source: str) -> Parsed:
    """A cell without its number and its exercise."""
    statements: list[Statement] = []
    checks: list[CheckCall] = []
    broken: list[Broken] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes and the like: the submission's, not ours
        for text, tree in _whole_or_parts(_NEWLINE.sub("\n", source)):
            number = len(statements) + len(broken)
            if number >= MAX_STATEMENTS:
                break
            try:
                nodes = (tree or ast.parse(text)).body[: MAX_STATEMENTS - number]
                lines = _Lines(text)
                found = [_statement(lines, node, (0, number + i)) for i, node in enumerate(nodes)]
            except NOT_PYTHON as error:
                names = frozenset(name for pair in _NAME.findall(text) for name in pair if name)
                broken.append(Broken((0, number), names, _problem(error)))
                continue
            statements += found
            for node, statement in zip(nodes, found, strict=True):
                if "check" in statement.text:
                    checks += _checks(node, statement.place)
    return statements, checks, broken


def _problem(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else type(error).__name__
    line = f" (`{error.text.strip()[:80]}`)" if isinstance(error, SyntaxError) and error.text else ""
    return f"{message}{line}."


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except NOT_PYTHON:
        return None


def _whole_or_parts(source: str) -> Iterator[tuple[str, ast.Module | None]]:
    """The text, if it parses; else its parts, so that one mistake does not take the other definitions with it.

    As IPython reads it: indentation that the whole cell has does not count, and magics, shell commands and questions
    are no Python; here they become comments.
    """
    if (tree := _tree(source)) is not None:
        yield source, tree
        return
    lines = ["pass  # magic" if _MAGIC.match(line) else line for line in _unindented(source.split("\n"))]
    text = "\n".join(lines)
    if text != source and (tree := _tree(text)) is not None:
        yield text, tree
        return
    part: list[str] = []
    decorated = False
    for line in lines:
        if part and not decorated and _STARTS.match(line):
            yield from _head_and_rest(part)
            part = []
        decorated = line.startswith("@")
        part.append(line)
    yield from _head_and_rest(part)


def _unindented(lines: list[str]) -> list[str]:
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    return [line.removeprefix(indent) for line in lines] if indent else lines


def _head_and_rest(lines: list[str]) -> Iterator[tuple[str, ast.Module | None]]:
    """A part, divided where its first statement seems to end, unless it parses as it stands."""
    text = "\n".join(lines)
    if (tree := _tree(text)) is not None:
        yield text, tree
        return
    later = (i for i, line in enumerate(lines) if i and line[:1].strip() and not lines[i - 1].startswith("@"))
    end = next(later, len(lines))
    yield "\n".join(lines[:end]), None
    if lines[end:]:
        yield "\n".join(lines[end:]), None


class _Lines:
    """The lines of a text as its syntax tree counts them, columns in bytes."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.encoded = [line.encode() for line in self.lines]

    def of(self, node: ast.stmt) -> tuple[str, int]:
        """The text of a statement, and how many lines of it are decorators."""
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        start = node.col_offset if first == node.lineno else 0
        if not start and _TO_THE_END.match(self.encoded[last - 1], end):
            return "\n".join(self.lines[first - 1 : last]) + "\n", node.lineno - first
        parts = self.encoded[first - 1 : last]  # several on a line: a = 1; b = 2
        parts[-1] = parts[-1][:end]
        parts[0] = parts[0][start:]
        return b"\n".join(parts).decode() + "\n", node.lineno - first


def _statement(lines: _Lines, node: ast.stmt, place: tuple[int, int]) -> Statement:
    text, decorators = lines.of(node)
    binds, reads, later = set(), set(), set()
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        binds = {each.asname or each.name.split(".")[0] for each in node.names} - {"*"}
    else:
        table = symtable.symtable(text, "<submission>", "exec")
        for symbol in table.get_symbols():
            if symbol.is_assigned() or symbol.is_imported():
                binds.add(symbol.get_name())
            if symbol.is_referenced():
                reads.add(symbol.get_name())
        later = set(_global_names(table.get_children()))
    value = getattr(node, "value", None)
    return Statement(
        place=place,
        text=text,
        kind=type(node).__name__,
        binds=frozenset(binds),
        touches=frozenset(_touched(node)),
        changes=frozenset(_changed(node)),
        reads=frozenset(reads),
        reads_later=frozenset(later),
        decorators=decorators,
        blank=isinstance(value, ast.Constant) and value.value is ...,
    )


def _global_names(tables: Iterable[symtable.SymbolTable]) -> Iterator[str]:
    for table in tables:
        for symbol in table.get_symbols():
            if symbol.is_global() and (symbol.is_referenced() or symbol.is_declared_global()):
                yield symbol.get_name()
        yield from _global_names(table.get_children())


def _at_module_level(statement: ast.stmt) -> Iterator[ast.AST]:
    """The statement and those inside of its loops and branches, but not inside of definitions."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, DEFINITIONS):
            continue
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            children = getattr(node, block, ())
            todo += children if isinstance(children, list) else ()


def _touched(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            yield from _roots(targets)
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            yield from _roots([target])


def _changed(statement: ast.stmt) -> Iterator[str]:
    for node in _at_module_level(statement):
        if node is not statement:
            yield from _touched(node)
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) as method)):
                if name in _CHANGING or (name.endswith("_") and not name.startswith("_")):
                    yield from _roots([method])


def _roots(targets: Iterable[ast.expr]) -> Iterator[str]:
    """The names behind a.b, a[0] and a.b[0].c."""
    for target in targets:
        part = target
        while isinstance(part, (ast.Attribute, ast.Subscript)):
            part = part.value
        if part is not target and isinstance(part, ast.Name):
            yield part.id


def _checks(node: ast.stmt, place: tuple[int, int]) -> Iterator[CheckCall]:
    for call in ast.walk(node):
        match call:
            case ast.Call(func=ast.Name(id="check") | ast.Attribute(attr="check"), args=[first, ast.Name(id=name), *_]):
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield CheckCall(place, first.value, name)

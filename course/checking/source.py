"""The source text of answers: finding it, cutting it, and telling an untouched stub from an attempt."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import linecache
import re
import textwrap
from types import FunctionType
from typing import Any


def source_of(obj: Any) -> str | None:
    """Dedented source of a function or class without its decorators; None where Python cannot find it."""
    try:
        text = _class_text(obj) if inspect.isclass(obj) else inspect.getsource(obj)
        node = definition(text := textwrap.dedent(text))
    except (OSError, TypeError, SyntaxError, IndentationError, LookupError):
        return None
    if node is None:
        return None
    return "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno]).rstrip() + "\n"


def lambda_source(obj: Any) -> str | None:
    """The lambda expressions of the statement in which this one was written, one a line; None where there is none."""
    if type(obj) is not FunctionType or obj.__name__ != "<lambda>":
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(obj)))
    except (OSError, TypeError, SyntaxError, LookupError):  # such as a line out of the middle of a statement
        return None
    return "".join(ast.unparse(node) + "\n" for node in ast.walk(tree) if isinstance(node, ast.Lambda)) or None


def _class_text(cls: type) -> str:
    """The text of a class, found from the code of its methods.

    inspect goes by the module's file instead, which a notebook does not have, and takes the first class of that name.
    """
    codes = [function.__code__ for value in vars(cls).values() if (function := plain_function(value))]
    if not codes:
        return inspect.getsource(cls)
    # Methods that a decorator generated have no text.
    filename = next((code.co_filename for code in codes if linecache.getlines(code.co_filename)), None)
    lines = linecache.getlines(filename) if filename else []
    own = [code.co_firstlineno for code in codes if code.co_filename == filename]
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            first, last = node.lineno, node.end_lineno or node.lineno
            if all(first <= line <= last for line in own):
                return "".join(lines[first - 1 : last])
    raise OSError(f"the source of {cls.__name__} was not found")


def plain_function(value: Any) -> FunctionType | None:
    """The function behind a method, a property or a wrapper; None where there is none."""
    value = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    if type(value) is not FunctionType:
        return None
    try:
        inner = inspect.unwrap(value)  # what functools.wraps hides, such as a method under torch.amp.custom_fwd
    except ValueError:  # it wraps itself
        return value
    return inner if type(inner) is FunctionType else value


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definition(text: str) -> Definition | None:
    """The first function or class definition of a source text."""
    for node in ast.parse(text).body:
        if isinstance(node, Definition):
            return node
    return None


def renamed(text: str, name: str) -> str:
    """The same definition under another name; uses of the old name inside it (recursion, ``super``) follow."""
    node = definition(text)
    if node is None:
        raise ValueError(f"expected a function or class definition, got: {text[:60]!r}")
    return re.sub(rf"\b{re.escape(node.name)}\b", name, text)


def with_body(stub: str, reference: str) -> str:
    """The stub's signature and docstring with the reference's body."""
    return "".join(_head(stub, docstring=True)) + "".join(_body(reference))


def _head(text: str, *, docstring: bool) -> list[str]:
    node = definition(text)
    lines = _lines(text)
    if docstring and ast.get_docstring(node) is not None:
        return lines[: node.body[0].end_lineno]
    end = node.lineno
    while not lines[end - 1].split("#")[0].rstrip().endswith(":"):
        end += 1
    return lines[:end]


def _body(text: str) -> list[str]:
    node = definition(text)
    lines = _lines(text)
    first = node.body[0]
    if first.lineno == node.lineno:  # everything on one line: "def f(x): return x"
        return ["    " + lines[0][first.col_offset :]]
    return lines[len(_head(text, docstring=ast.get_docstring(node) is not None)) :]


def _lines(text: str) -> list[str]:
    """With their ends, and as the numbers of a syntax tree count them: str.splitlines divides at form feeds, too."""
    return list(io.StringIO(text))


class _Plain(ast.NodeTransformer):
    """Drops what does not change what a definition does: docstrings, annotations, decorators, its own name."""

    def _definition(self, node: Any) -> Any:
        self.generic_visit(node)
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        node.decorator_list = []
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self._definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return self._definition(node)


def skeleton(text: str) -> str:
    """A text that is equal for two definitions which differ only in names of their own, docstrings and annotations."""
    node = _Plain().visit(definition(text))
    node.name = "answer"
    return ast.dump(node)


def is_empty(text: str) -> bool:
    """True when the body is nothing but a docstring, ``...``, ``pass`` or ``raise NotImplementedError``."""
    node = definition(text)
    if isinstance(node, ast.ClassDef):
        return False
    return all(_says_nothing(statement) for statement in node.body)


def _says_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
    return False


@functools.cache
def stub_skeleton(text: str) -> str:
    return skeleton(text)


def is_stub(answer: Any, stub: str) -> bool:
    """True when the answer's source says no more than the stub does."""
    text = source_of(answer)
    if text is None:
        return False
    return is_empty(text) or skeleton(text) == stub_skeleton(stub)

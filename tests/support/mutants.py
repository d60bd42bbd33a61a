"""Single-edit mutants of an answer's source.

The general operators are mutmut's; the others are edits that people make in tensor code. Docstrings, annotations,
decorators and the messages of exceptions are left alone.
"""

from __future__ import annotations

import difflib
import itertools
import linecache
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst
import libcst.matchers as m
from mutmut.mutation.mutators import mutation_operators

Operator = Callable[[Any], Iterable[cst.CSTNode]]

LOOKALIKES = [
    {"view", "reshape", "flatten"},
    {"sum", "mean", "prod"},
    {"amin", "amax"},
    {"min", "max"},
    {"argmin", "argmax"},
    {"any", "all"},
    {"zeros", "ones", "empty"},
    {"zeros_like", "ones_like"},
    {"squeeze", "unsqueeze"},
    {"std", "var"},
    {"abs", "neg"},
    {"sqrt", "square"},
    {"exp", "log"},
    {"floor", "ceil", "round"},
    {"cat", "stack"},
    {"float", "double", "int"},
    {"float32", "float64"},
    {"tensor", "as_tensor", "from_numpy"},
    {"size", "stride"},
    {"repeat", "expand"},
    {"clamp", "clamp_"},
]


@dataclass(frozen=True)
class Mutant:
    """One edit: the operator, the lines that it changed before and after, and the whole mutated definition."""

    operator: str
    before: str
    after: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.operator, self.before, self.after

    def __str__(self) -> str:
        return f"{self.operator}: {self.before!r} -> {self.after!r}"


def drop_call(node: cst.Call) -> Iterator[cst.CSTNode]:
    """``x.contiguous()`` -> ``x``"""
    if isinstance(node.func, cst.Attribute) and not m.matches(
        node.func.value, m.Name("torch") | m.Name("np") | m.Name("F")
    ):
        yield node.func.value


def swap_arguments(node: cst.Call) -> Iterator[cst.CSTNode]:
    """``f(a, b)`` -> ``f(b, a)``, each neighbouring pair"""
    for i, (left, right) in enumerate(itertools.pairwise(node.args)):
        if (
            left.keyword is right.keyword is None
            and left.star == right.star
            and not left.value.deep_equals(right.value)
        ):
            swapped = [
                left.with_changes(value=right.value, star=right.star),
                right.with_changes(value=left.value, star=left.star),
            ]
            yield node.with_changes(args=[*node.args[:i], *swapped, *node.args[i + 2 :]])


def lookalike(node: cst.Attribute) -> Iterator[cst.CSTNode]:
    """``x.view`` -> ``x.reshape`` and other names that people mix up"""
    for family in LOOKALIKES:
        for name in sorted(family - {node.attr.value}) if node.attr.value in family else ():
            yield node.with_changes(attr=cst.Name(name))


def smaller_number(node: cst.BaseNumber) -> Iterator[cst.CSTNode]:
    """``2`` -> ``1``; a negative number is written in parentheses"""
    value = node.evaluated_value - 1
    text = repr(abs(value))
    number = cst.Integer(text) if isinstance(value, int) else cst.Float(text)
    yield (
        number
        if value >= 0
        else cst.UnaryOperation(cst.Minus(), number, lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    )


def drop_sign(node: cst.UnaryOperation) -> Iterator[cst.CSTNode]:
    """``-x`` -> ``x``"""
    if isinstance(node.operator, cst.Minus):
        yield node.expression


def drop_operand(node: cst.BinaryOperation) -> Iterator[cst.CSTNode]:
    """``a + b`` -> ``a`` and ``b``"""
    yield from (node.left, node.right)


def drop_condition(node: cst.BooleanOperation) -> Iterator[cst.CSTNode]:
    """``a and b`` -> ``a`` and ``b``"""
    yield from (node.left, node.right)


def drop_subscript(node: cst.Subscript) -> Iterator[cst.CSTNode]:
    """``x[i]`` -> ``x``"""
    yield node.value


def negate_condition(node: cst.If | cst.While) -> Iterator[cst.CSTNode]:
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))


def drop_statement(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    yield node.with_changes(body=[cst.Pass()])


OPERATORS: list[tuple[type, Operator]] = [
    *mutation_operators,
    (cst.Call, drop_call),
    (cst.Call, swap_arguments),
    (cst.Attribute, lookalike),
    (cst.Integer, smaller_number),
    (cst.Float, smaller_number),
    (cst.UnaryOperation, drop_sign),
    (cst.BinaryOperation, drop_operand),
    (cst.BooleanOperation, drop_condition),
    (cst.Subscript, drop_subscript),
    (cst.If, negate_condition),
    (cst.While, negate_condition),
    (cst.SimpleStatementLine, drop_statement),
]


class _Targets(cst.CSTVisitor):
    """Collects the nodes of a definition that may be mutated."""

    def __init__(self) -> None:
        self.nodes: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Annotation, cst.Decorator, cst.Raise)):
            return False
        if m.matches(node, m.SimpleStatementLine(body=[m.Expr(m.SimpleString() | m.ConcatenatedString())])):
            return False
        self.nodes.append(node)
        return True


def mutants(source: str) -> list[Mutant]:
    """Every distinct single-edit mutant of a function, class or assignment that is still valid Python."""
    module = cst.parse_module(source)
    targets = _Targets()
    module.visit(targets)
    found: dict[str, Mutant] = {}
    for node, (kind, operator) in itertools.product(targets.nodes, OPERATORS):
        if not isinstance(node, kind):
            continue
        for changed in operator(node):
            text = _replaced(module, node, changed)
            if text is not None and text != source and text not in found:
                name = operator.__name__.removeprefix("operator_")
                found[text] = Mutant(name, *_changed_lines(source, text), text)
    return list(found.values())


def _changed_lines(old: str, new: str) -> tuple[str, str]:
    lines = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[0] in "-+"]
    return tuple("; ".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+")


def _replaced(module: cst.Module, node: cst.CSTNode, changed: cst.CSTNode) -> str | None:
    try:
        text = module.deep_replace(node, changed).code
        compile(text, "<mutant>", "exec")
    except (SyntaxError, cst.CSTValidationError, TypeError):
        return None
    return text


def build(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Execute a mutant beside the names of its exercise file and return what it defines as ``name``."""
    filename = f"<mutant {hash(source) & 0xFFFFFFFF:08x} of {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope = dict(namespace)
    exec(compile(source, filename, "exec"), scope)
    return scope[name]

"""Properties of an answer's source: each takes the syntax tree and returns where it is broken, or None.

A requirement becomes a probe of its own, so wrong answers, alternatives and mutants are held to it like to any other.
It looks at the answer's own definition and at what that uses of the same module or submission; where Python cannot
find the source it counts as kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

Requirement = Callable[[ast.AST], "ast.AST | None"]

AT_ONCE = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp)
LOOPS = (*AT_ONCE, ast.GeneratorExp)
LOOPING_CALLS = {"map", "filter", "tolist", "vectorize", "apply_along_axis"}
BY_NAME = {"getattr", "attrgetter", "methodcaller"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def no_python_loop(tree: ast.AST) -> ast.AST | None:
    """no loop in Python: torch does the whole array at once"""
    beside = set(map(id, _beside_definitions(tree)))
    for node in ast.walk(tree):
        # What runs once, before any call, is no loop over the arguments: a table that is made beside the function.
        if isinstance(node, LOOPS) and not (isinstance(node, AT_ONCE) and id(node) in beside):
            return node
        if mentions(node, LOOPING_CALLS) and not (called_name(node) == "tolist" and id(node) in beside):
            return node
    return next(_values(tree, LOOPING_CALLS), None)


def no_call(*names: str) -> Requirement:
    """A requirement that none of these functions or methods is called, under another name neither."""

    forbidden = frozenset(names)

    def requirement(tree: ast.AST) -> ast.AST | None:
        called = (node for node in ast.walk(tree) if mentions(node, forbidden))
        return next(called, None) or next(_values(tree, forbidden), None)

    requirement.__name__ = "no_" + "_or_".join(names)
    requirement.__doc__ = "no call of " + " or ".join(f"{name}()" for name in names)
    return requirement


def called_name(node: ast.AST) -> str | None:
    """The last name of what is called: "clone" for ``x.clone()`` and for ``torch.clone(x)``; None for another node."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
    return None


def mentions(node: ast.AST, names: AbstractSet[str]) -> bool:
    """Whether this node calls one of these functions or methods, or gets hold of it in another way."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in names:
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=arguments) if name in BY_NAME:
            return any(isinstance(each, ast.Constant) and each.value in names for each in arguments)
        case ast.ImportFrom(names=imported):
            return any(each.name in names for each in imported)
    return False


def _values(tree: ast.AST, names: AbstractSet[str]) -> Iterator[ast.AST]:
    """Where one of these functions is a value: `derive = torch.autograd.grad`, `partial(norm, dim=1)`.

    A variable of the answer's own may have the name: `norm = squares.sqrt()`.
    """
    own, others = set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                own.add(name)
            case ast.Attribute(value=ast.Name() as base):
                others.add(id(base))
            case ast.Call(func=function):
                others.add(id(function))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in names and id(node) not in others:
                yield node
            case ast.Name(id=name, ctx=ast.Load()) if name in names - own and id(node) not in others:
                yield node


def _beside_definitions(tree: ast.AST) -> Iterator[ast.AST]:
    todo = [tree]
    while todo:
        node = todo.pop()
        if not isinstance(node, SCOPES):
            yield node
            todo += ast.iter_child_nodes(node)

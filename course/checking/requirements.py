"""Properties of an answer's source: each takes the syntax tree and returns where it is broken, or None.

A requirement becomes a probe of its own, so wrong answers, alternatives and mutants are held to it like to any other.
It looks at the answer's own definition only; where Python cannot find the source it counts as kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

Requirement = Callable[[ast.AST], "ast.AST | None"]

LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPING_CALLS = {"map", "filter", "tolist", "vectorize", "apply_along_axis"}


def no_python_loop(tree: ast.AST) -> ast.AST | None:
    """no loop in Python: torch does the whole array at once"""
    for node in ast.walk(tree):
        if isinstance(node, LOOPS):
            return node
        if isinstance(node, ast.Call) and called_name(node) in LOOPING_CALLS:
            return node
    return None


def no_call(*names: str) -> Requirement:
    """A requirement that none of these functions or methods is called."""

    def requirement(tree: ast.AST) -> ast.AST | None:
        return next((n for n in ast.walk(tree) if isinstance(n, ast.Call) and called_name(n) in names), None)

    requirement.__name__ = "no_" + "_or_".join(names)
    requirement.__doc__ = "no call of " + " or ".join(f"{name}()" for name in names)
    return requirement


def called_name(call: ast.Call) -> str | None:
    """The last name of what is called: "clone" for ``x.clone()`` and for ``torch.clone(x)``."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return None

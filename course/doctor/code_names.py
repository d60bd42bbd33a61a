"""Which names a function's code mentions, its own helpers included."""

from __future__ import annotations

import functools
import types
from typing import Any


def names_in(function: Any, limit: int = 60) -> set[str]:
    """Names of attributes, globals and functions that a callable's code uses, and that of the Python functions which it
    reaches by closure, globals or methods of its own object. Library code is not followed. Empty where there is none.
    """
    names: set[str] = set()
    queue, seen = [function], set()
    while queue and len(seen) < limit:
        thing = queue.pop()
        if isinstance(thing, functools.partial):
            queue += [thing.func, *thing.args, *thing.keywords.values()]
            continue
        owner = getattr(thing, "__self__", None)
        code = getattr(thing, "__code__", None) or getattr(getattr(thing, "__func__", None), "__code__", None)
        if code is None and not isinstance(thing, type) and "__call__" in vars(type(thing)):
            owner, code = thing, getattr(vars(type(thing))["__call__"], "__code__", None)
        if code is None or code in seen or _library(code):
            continue
        seen.add(code)
        used = _of_code(code)
        names |= used
        plain = getattr(thing, "__func__", thing)
        space = getattr(plain, "__globals__", {})
        cells = [cell.cell_contents for cell in getattr(plain, "__closure__", None) or () if _filled(cell)]
        queue += [value for value in cells if callable(value)]
        queue += [space[name] for name in used if isinstance(space.get(name), types.FunctionType)]
        if owner is not None and not isinstance(owner, types.ModuleType):
            queue += [
                method for name in used if isinstance(method := getattr(type(owner), name, None), types.FunctionType)
            ]
    return names


def _of_code(code: types.CodeType) -> set[str]:
    names = {*code.co_names}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _of_code(constant)
    return names


def _library(code: types.CodeType) -> bool:
    return "site-packages" in code.co_filename or "/torch/" in code.co_filename


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False

"""Whether what the probes rely on is still what it was: no function of torch, Python or the course was replaced.

An answer that replaces `torch.equal` can make a probe that compares in its own process say yes. Here the replacement is
noticed, if it is still there when the probe is done. It is a tripwire and not a wall: see
:mod:`course.grading.gate` for what is looked at besides.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

WATCHED = (
    *("ast", "builtins", "collections", "contextlib", "copy", "functools", "gc", "inspect", "io", "itertools", "json"),
    *("linecache", "math", "numpy", "operator", "os", "os.path", "pickle", "random", "struct", "tempfile", "time"),
    *("unittest.mock", "warnings", "weakref"),
    *("torch", "torch.amp", "torch.autograd", "torch.autograd.functional", "torch.export", "torch.func", "torch.jit"),
    *("torch.linalg", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.optim"),
    *("torch.optim.lr_scheduler", "torch.serialization", "torch.testing", "torch.utils.checkpoint", "torch.utils.data"),
)
# Classes that these modules offer are looked into when they come from here.
OPENED = ("torch.", "course.")
# torch puts other functions here by itself, when something is traced or compiled.
LEFT_OUT = {("builtins", "_"), ("warnings", "showwarning"), ("os", "getpid")}

HOME = os.path.dirname(torch.__file__)
WRAPPERS = tuple(
    os.path.join(HOME, *name.split("/"))
    for name in ("_compile.py", "_dynamo/eval_frame.py", "_dynamo/mutation_guard.py", "optim/optimizer.py")
)

Baseline = dict[str, tuple[Any, dict[str, Any]]]


def baseline() -> Baseline:
    """The functions and classes of what is watched, as they are now."""
    found: Baseline = {}
    for label, holder in _holders():
        found[label] = holder, {name: value for name, value in _callables(holder) if (label, name) not in LEFT_OUT}
    return found


def replaced(before: Baseline) -> list[str]:
    """Dotted names of what is no longer there or no longer the same."""
    changed = []
    for label, (holder, members) in before.items():
        now = vars(holder)
        for name, value in members.items():
            if now.get(name) is not value and not _wrapped_by_torch(now.get(name), value):
                changed.append(f"{label}.{name}")
    return changed


def _wrapped_by_torch(now: Any, value: Any, depth: int = 3) -> bool:
    """torch puts wrappers around functions of its own: when an optimizer is made, when something is compiled."""
    code = getattr(now, "__code__", None)
    if depth == 0 or getattr(code, "co_filename", None) not in WRAPPERS:
        return False
    held = [cell.cell_contents for cell in now.__closure__ or () if _is_filled(cell)]
    return any(each is value or _wrapped_by_torch(each, value, depth - 1) for each in held)


def _is_filled(cell: Any) -> bool:
    try:
        return bool(cell.cell_contents is not None)
    except ValueError:
        return False


def _holders() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    names = [*WATCHED, *sorted(name for name in sys.modules if name.startswith("course."))]
    for name in names:
        module = sys.modules.get(name)
        if not isinstance(module, ModuleType):
            continue
        yield name, module
        for value in list(vars(module).values()):
            is_open = isinstance(value, type) and value.__module__.startswith(OPENED)
            if is_open and id(value) not in seen:
                seen.add(id(value))
                yield f"{value.__module__}.{value.__qualname__}", value


def _callables(holder: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(holder).items():
        if callable(value) or isinstance(value, (classmethod, staticmethod, property)):
            yield name, value

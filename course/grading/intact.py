"""Whether what the probes rely on is still what it was: no function of torch, Python or the course was replaced.

An answer that replaces `torch.equal` can make a probe that compares in its own process say yes. The replacement is
noticed when it is still there after the probes, and also when it was put back before: CPython numbers the changes of
every dictionary, and a module or class whose dictionary was written to and holds what it held before was changed for
a while. It is a tripwire and not a wall: see :mod:`course.grading.gate` for what is looked at besides.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
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
OPENED = ("torch", "course")
# torch puts other functions here by itself, when something is traced or compiled.
LEFT_OUT = {("builtins", "_"), ("warnings", "showwarning"), ("os", "getpid")}
# Probes put other functions here for a while, and Python does so itself.
FOR_A_WHILE = {"builtins", "io", "os", "os.path", "random", "tempfile", "time", "warnings"}
FOR_A_WHILE |= {"torch.autograd", "torch.serialization"}
# What an exercise's file says, where its probes change more than that: the doctor and the compiler put their own
# functions into torch's classes. These stay watched all the same.
CHANGES_MORE = ("course.doctor", "compile", "torch.export", "torch.fx", "symbolic_trace")
ALWAYS = {"torch", "torch.Tensor", "torch.nn.functional", "torch.testing", "torch.linalg", "operator"}

HOME = os.path.dirname(torch.__file__)
WRAPPERS = tuple(
    os.path.join(HOME, *name.split("/"))
    for name in ("_compile.py", "_dynamo/eval_frame.py", "_dynamo/mutation_guard.py", "optim/optimizer.py")
)

NUMBER_OFFSET = 24  # of ma_version_tag in a PyDictObject


@dataclass
class Held:
    """A module or class. members: its functions and classes as they were in the beginning, names: of all that it had.
    content: all of it when it was last looked at. number: of the last change until then; None where none is kept."""

    holder: Any
    members: dict[str, Any]
    names: frozenset[str]
    content: dict[str, Any]
    number: Any
    seen: int | None

    def was_written(self) -> bool:
        return self.number is not None and self.number.value != self.seen


Baseline = dict[str, Held]


def baseline() -> Baseline:
    """What is watched, as it is now."""
    numbered, found = _changes_are_numbered(), {}
    for label, holder in _holders():
        members = {name: value for name, value in _callables(holder) if (label, name) not in LEFT_OUT}
        content = dict(vars(holder))
        number = _number_of(_dictionary(holder)) if numbered else None
        found[label] = Held(holder, members, frozenset(content), content, number, number and number.value)
    return found


def replaced(before: Baseline) -> list[str]:
    """Dotted names of what is no longer there or no longer the same."""
    changed = []
    for label, held in before.items():
        now = vars(held.holder)
        for name, value in held.members.items():
            if now.get(name) is not value and not _wrapped_by_torch(now.get(name), value):
                changed.append(f"{label}.{name}")
        if now.keys() != held.names:
            new = sorted(now.keys() - held.names)
            changed += [f"{label}.{name}" for name in new if _hides(held.holder, name, before)]
    return changed


def changed_for_a_while(before: Baseline, exercise: str | None = None) -> list[str]:
    """Dotted names of what was changed and is as it was, since the last time that this was asked.

    exercise: the text of its file and of its helpers, which tells what its own probes change.
    """
    more = any(word in (exercise or "") for word in CHANGES_MORE)
    changed = []
    for label, held in before.items():
        if not held.was_written():
            continue
        now = dict(vars(held.holder))
        different = {name for name in {*now, *held.content} if now.get(name, ...) is not held.content.get(name, ...)}
        if not different and label not in FOR_A_WHILE and (label in ALWAYS or not more):
            changed.append(f"{label} for a while")
        elif label.startswith("course.") and isinstance(held.holder, ModuleType):
            # Its functions and classes are looked at by `replaced`. The compiler and Python note things in a module.
            named = sorted(name for name in different - held.members.keys() if not name.startswith("__"))
            changed += [f"{label}.{name}" for name in named if not isinstance(now.get(name), ModuleType)]
        held.content, held.seen = now, held.number.value
    return changed


def _hides(holder: Any, name: str, before: Baseline) -> bool:
    """Whether a new name stands before one that was meant until now: a base class's, or Python's own."""
    value = vars(holder)[name]
    if not (callable(value) or isinstance(value, (classmethod, staticmethod, property))):
        return False
    if isinstance(holder, ModuleType):
        return holder.__name__.startswith("course.") and hasattr(builtins, name)
    base = next((each for each in holder.__mro__[1:] if name in vars(each)), None)
    if base is None:
        return False
    # The base class's own may have been wrapped in the meantime.
    meant = [held.members[name] for held in before.values() if held.holder is base and name in held.members]
    return not any(each is value or _wrapped_by_torch(value, each) for each in (*meant, vars(base)[name]))


def _dictionary(holder: Any) -> dict[str, Any]:
    shown = vars(holder)
    return shown if type(shown) is dict else gc.get_referents(shown)[0]


def _number_of(dictionary: dict[str, Any]) -> Any:
    return ctypes.c_uint64.from_address(id(dictionary) + NUMBER_OFFSET)


def _changes_are_numbered() -> bool:
    """Whether this Python numbers them, in this place: tried with a dictionary that is changed and put back."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    tried: dict[str, Any] = {"name": None}
    number, seen = _number_of(tried), []
    for value in (1, None, 1, None):
        seen.append(number.value)
        tried["name"] = value
    return len({*seen, number.value}) == 5


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
            is_open = isinstance(value, type) and value.__module__.split(".")[0] in OPENED
            if is_open and id(value) not in seen:
                seen.add(id(value))
                yield f"{value.__module__}.{value.__qualname__}", value


def _callables(holder: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(holder).items():
        if callable(value) or isinstance(value, (classmethod, staticmethod, property)):
            yield name, value

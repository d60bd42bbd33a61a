"""What a training setup refers to: the objects that running it may change."""

from __future__ import annotations

import collections
import dataclasses
import dis
import functools
import io
import random
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data.dataloader import _BaseDataLoaderIter

_ATOMS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    types.FrameType,
    types.TracebackType,
    torch.dtype,
    torch.device,
    torch.Size,
    np.generic,
    np.dtype,
    range,
    slice,
    # How far it was read cannot be put back, and with workers a part of it without the rest would be harmful.
    _BaseDataLoaderIter,
)
# Machinery whose insides are nobody's training state, or must not be touched.
_CLOSED = (
    "asyncio",
    "concurrent",
    "course.doctor",
    "IPython",
    "ipykernel",
    "logging",
    "matplotlib",
    "multiprocessing",
    "subprocess",
    "tensorboard",
    "threading",
    "torch._C",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed",
    "torch.fx",
    "torch.utils.tensorboard",
    "tqdm",
    "weakref",
)
_LIBRARIES = tuple(
    str(Path(place).resolve())
    for place in (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        Path(torch.__file__).parent,
    )
)
_GLOBAL_NAMES = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
# Longer ones are copied as they are, but not looked into: they are data sets.
_LONG = 10_000


@dataclasses.dataclass(frozen=True)
class Part:
    """One object that was reached; `path` says how, in the user's names."""

    path: str
    thing: Any


def is_atom(thing: object) -> bool:
    """Whether nothing inside can change, or be put back."""
    return isinstance(thing, _ATOMS) or (isinstance(thing, type) and not _is_users_class(thing))


def _is_users_class(cls: type) -> bool:
    # A class made in a notebook has a module without a file.
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or "<cell>"
    return cls.__module__ != "builtins" and not _from_library(file)


def class_data(cls: type) -> dict[str, Any]:
    """The attributes of a class that are neither functions nor descriptors nor Python's own."""
    return {
        name: value
        for name, value in vars(cls).items()
        if not name.startswith("__") and not hasattr(type(value), "__get__")
    }


@functools.lru_cache(maxsize=4096)
def _from_library(filename: str) -> bool:
    return filename.startswith("<frozen") or str(Path(filename).resolve()).startswith(_LIBRARIES)


def is_users(function: types.FunctionType) -> bool:
    """Whether a function is neither of the standard library nor of an installed package (nor of a notebook shell)."""
    return not _from_library(function.__code__.co_filename)


@functools.lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> frozenset[str]:
    """Names that code and the functions inside it look up or set in their module."""
    # co_names would not do: it holds the names of attributes as well.
    names = {entry.argval for entry in dis.get_instructions(code) if entry.opname in _GLOBAL_NAMES}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= global_names(constant)
    return frozenset(names)


def walk(roots: list[tuple[str, Any]], seen: set[int], *, limit: int) -> Iterator[Part]:
    """Everything reached from (path, object) roots that is not in `seen`, nearest first; `seen` grows.

    limit: how many objects at most; what lies further is not reached.
    """
    queue = collections.deque(Part(path, thing) for path, thing in roots)
    while queue and limit > 0:
        part = queue.popleft()
        if is_atom(part.thing) or id(part.thing) in seen:
            continue
        seen.add(id(part.thing))
        limit -= 1
        yield part
        queue.extend(children(part))


def children(part: Part) -> Iterator[Part]:
    """What an object refers to directly, as far as running it may change that."""
    path, thing = part.path, part.thing
    if isinstance(thing, Tensor):
        if (thing.is_leaf or thing.retains_grad) and thing.grad is not None:
            yield Part(f"{path}.grad", thing.grad)
        yield from _attributes(path, thing)
    elif isinstance(thing, dict):
        if len(thing) <= _LONG:
            # Keys too: the optimizer's state is kept by parameter.
            yield from (Part(f"{path}[...]", key) for key in list(thing) if not is_atom(key))
            yield from (Part(f"{path}[{key!r}]" if is_atom(key) else path, value) for key, value in list(thing.items()))
    elif isinstance(thing, (list, tuple, set, frozenset, collections.deque)):
        if len(thing) <= _LONG:
            yield from (Part(f"{path}[{number}]", value) for number, value in enumerate(list(thing)))
        if isinstance(thing, tuple):
            return
        yield from _attributes(path, thing)
    elif isinstance(thing, types.FunctionType):
        yield from _of_function(path, thing)
    elif isinstance(thing, type):
        yield from _in_class(path, thing)
    elif isinstance(thing, types.MethodType):
        yield Part(path, thing.__func__)
        yield Part("self", thing.__self__)
    elif isinstance(thing, functools.partial):
        yield Part(path, thing.func)
        yield from (Part(f"{path}({number})", value) for number, value in enumerate(thing.args))
        yield from (Part(f"{path}({name}=)", value) for name, value in thing.keywords.items())
    elif isinstance(thing, types.CellType):
        if (value := contents(thing)) is not EMPTY:
            yield Part(path, value)
    elif isinstance(thing, (np.ndarray, io.IOBase, random.Random, torch.Generator)):
        return
    elif not _closed(thing):
        yield from _attributes(path, thing)
        yield from _of_class(path, thing)


EMPTY = object()


def contents(cell: types.CellType) -> Any:
    """What a closure's cell holds, EMPTY where it is not bound yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def slots(thing: object) -> Iterator[tuple[str, Any]]:
    """(name, value) of the attributes that a class keeps in __slots__."""
    for cls in type(thing).__mro__:
        if cls.__module__ in ("builtins", "torch._C"):
            continue
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name in ("__dict__", "__weakref__") or name.startswith("__"):
                continue
            value = getattr(thing, name, EMPTY)
            if value is not EMPTY:
                yield name, value


def _closed(thing: object) -> bool:
    module = type(thing).__module__ or ""
    # Wrapped and compiled models are modules like any other; only their engine is left alone.
    return module.startswith(_CLOSED) and not isinstance(thing, torch.nn.Module)


def _attributes(path: str, thing: object) -> Iterator[Part]:
    members = getattr(thing, "__dict__", None)
    if isinstance(members, dict):
        # The dictionary itself is restored by whoever keeps the object; here only what it refers to.
        yield from (Part(f"{path}.{name}", value) for name, value in list(members.items()))
    yield from (Part(f"{path}.{name}", value) for name, value in slots(thing))


def _of_function(path: str, function: types.FunctionType) -> Iterator[Part]:
    if not is_users(function):
        if function.__closure__ and not (function.__module__ or "").startswith("torch."):
            yield from _cells(function)
        wrapped = getattr(function, "__wrapped__", None)
        if isinstance(wrapped, Callable):
            yield Part(path, wrapped)
        return
    yield from _cells(function)
    for value in function.__defaults__ or ():
        yield Part(path, value)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield Part(name, value)
    for name in sorted(global_names(function.__code__)):
        if name in function.__globals__:
            yield Part(name, function.__globals__[name])
    yield from (Part(f"{path}.{name}", value) for name, value in function.__dict__.items())


def _cells(function: types.FunctionType) -> Iterator[Part]:
    """The closure's cells under the names of their variables."""
    yield from (
        Part(name, cell) for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    )


def _of_class(path: str, thing: object) -> Iterator[Part]:
    """The user's classes of an object."""
    for cls in type(thing).__mro__:
        if not is_atom(cls):
            yield Part(path, cls)


def _in_class(path: str, cls: type) -> Iterator[Part]:
    """A class's own data, and what its functions look up in their module."""
    yield from (Part(f"{path}.{name}", value) for name, value in class_data(cls).items())
    for member in list(vars(cls).values()):
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if isinstance(function, types.FunctionType) and is_users(function):
            yield Part(path, function)
    for base in cls.__mro__[1:]:
        if not is_atom(base):
            yield Part(path, base)

"""What puts an object's own state back: of containers, closures, arrays, random generators, classes and others."""

from __future__ import annotations

import collections
import io
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from course.doctor import reach


def ways_back(thing: Any) -> Iterator[Callable[[], None]]:
    """What puts an object's own state back; not that of the objects it refers to."""
    if isinstance(thing, dict):
        yield _dict_back(thing)
    elif isinstance(thing, list):
        yield _list_back(thing)
    elif isinstance(thing, (set, collections.deque, bytearray)):
        yield _collection_back(thing)
    elif isinstance(thing, np.ndarray):
        yield _array_back(thing)
    elif isinstance(thing, random.Random):
        yield _call(thing.setstate, thing.getstate())
    elif isinstance(thing, torch.Generator):
        yield _call(thing.set_state, thing.get_state())
    elif isinstance(thing, np.random.RandomState):
        yield _call(thing.set_state, thing.get_state(legacy=False))
    elif isinstance(thing, np.random.BitGenerator):
        yield _bit_generator_back(thing)
    elif isinstance(thing, np.random.Generator):
        yield _bit_generator_back(thing.bit_generator)
    elif isinstance(thing, types.CellType):
        yield _cell_back(thing)
    elif isinstance(thing, types.FunctionType):
        yield from _function_back(thing)
    elif isinstance(thing, io.IOBase):
        yield from _file_back(thing)
    elif isinstance(thing, type):
        yield _class_back(thing)
    else:
        yield from _object_back(thing)


def _call(function: Callable[[Any], object], state: Any) -> Callable[[], None]:
    return lambda: function(state) and None


def _same(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(one is other for one, other in zip(now, before, strict=True))


def _dict_back(mapping: dict[Any, Any]) -> Callable[[], None]:
    # The class's own methods may do more than store; an OrderedDict keeps its order in a list beside the table.
    base: Any = collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict
    keys, values = list(base.keys(mapping)), list(base.values(mapping))
    factory = mapping.default_factory if isinstance(mapping, collections.defaultdict) else None

    def back() -> None:
        if not (_same(list(base.keys(mapping)), keys) and _same(list(base.values(mapping)), values)):
            base.clear(mapping)
            for key, value in zip(keys, values, strict=True):
                base.__setitem__(mapping, key, value)
        if isinstance(mapping, collections.defaultdict):
            mapping.default_factory = factory

    return back


def _list_back(sequence: list[Any]) -> Callable[[], None]:
    before = list.copy(sequence)

    def back() -> None:
        if not _same(list.copy(sequence), before):
            list.__setitem__(sequence, slice(None), before)

    return back


def _collection_back(collection: Any) -> Callable[[], None]:
    before = collection.copy()

    def back() -> None:
        if isinstance(collection, bytearray):
            if collection != before:
                collection[:] = before
        elif not _same(list(collection), list(before)):
            collection.clear()
            collection.update(before) if isinstance(collection, set) else collection.extend(before)

    return back


def _array_back(array: np.ndarray) -> Callable[[], None]:
    if array.dtype.hasobject or not array.flags.writeable:
        return lambda: None
    before = array.copy()

    def back() -> None:
        if array.tobytes() != before.tobytes():
            array[...] = before

    return back


def _bit_generator_back(generator: np.random.BitGenerator) -> Callable[[], None]:
    state = generator.state

    def back() -> None:
        generator.state = state

    return back


def _cell_back(cell: types.CellType) -> Callable[[], None]:
    before = reach.contents(cell)

    def back() -> None:
        if reach.contents(cell) is before:
            return
        if before is reach.EMPTY:
            del cell.cell_contents
        else:
            cell.cell_contents = before

    return back


def _function_back(function: types.FunctionType) -> Iterator[Callable[[], None]]:
    yield _dict_back(function.__dict__)
    if not reach.is_users(function):
        return
    space = function.__globals__
    before = {name: space.get(name, reach.EMPTY) for name in reach.global_names(function.__code__)}

    def back() -> None:
        for name, value in before.items():
            if space.get(name, reach.EMPTY) is value:
                continue
            if value is reach.EMPTY:
                del space[name]
            else:
                space[name] = value

    yield back


def _class_back(cls: type) -> Callable[[], None]:
    before = reach.class_data(cls)

    def back() -> None:
        now = reach.class_data(cls)
        for name in now.keys() - before.keys():
            delattr(cls, name)
        for name, value in before.items():
            if now.get(name, reach.EMPTY) is not value:
                setattr(cls, name, value)

    return back


def _file_back(file: io.IOBase) -> Iterator[Callable[[], None]]:
    in_memory = isinstance(file, (io.BytesIO, io.StringIO))
    if not file.closed and file.readable() and (in_memory or not file.writable()) and file.seekable():
        yield _call(file.seek, file.tell())


def _object_back(thing: Any) -> Iterator[Callable[[], None]]:
    members = getattr(thing, "__dict__", None)
    cls = type(thing)
    if isinstance(members, dict):
        inside = _dict_back(members)

        def back() -> None:
            # A lazy module becomes another class; a swapped __dict__ is put back as the same object.
            if type(thing) is not cls:
                thing.__class__ = cls
            if thing.__dict__ is not members:
                object.__setattr__(thing, "__dict__", members)
            inside()

        yield back
    before = list(reach.slots(thing))
    if before:

        def slots_back() -> None:
            for name, value in before:
                if getattr(thing, name, reach.EMPTY) is not value:
                    object.__setattr__(thing, name, value)

        yield slots_back

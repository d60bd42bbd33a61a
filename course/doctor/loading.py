"""Reading batches without disturbing the loader that they come from."""

from __future__ import annotations

import collections
import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from torch import Tensor
from torch.utils.data import DataLoader

_IN_PROCESS = {
    "num_workers": 0,
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "pin_memory": False,
    "_iterator": None,
    "_DataLoader__multiprocessing_context": None,
}


def in_process(loader: Any) -> Any:
    """The same loader without workers of its own: none is started, and none that runs is disturbed."""
    if not isinstance(loader, DataLoader) or (loader.num_workers == 0 and not loader.pin_memory):
        return loader
    clone = copy.copy(loader)
    clone.__dict__.update({name: value for name, value in _IN_PROCESS.items() if name in clone.__dict__})
    return clone


def read_once(loader: Any) -> bool:
    """Whether what is read from it is gone, as with a generator."""
    return isinstance(loader, Iterator)


def first_batches(loader: Iterable[Any], count: int, most_bytes: int, go_on: Callable[[], bool]) -> list[Any]:
    """The first batches: one at least, and no more than `count` or `most_bytes`, as long as go_on() is true."""
    batches: list[Any] = []
    size = 0
    iterator = iter(in_process(loader))
    try:
        for batch in iterator:
            batches.append(batch)
            size += bytes_of(batch)
            # A batch of the next size must fit in as well.
            if len(batches) >= count or size * (1 + 1 / len(batches)) > most_bytes or not go_on():
                break
    finally:
        close(iterator)
    return batches


def close(iterator: Any) -> None:
    """End an iterator: generators run their clean-up, workers of a loader stop."""
    for name in ("_shutdown_workers", "close"):
        end = getattr(iterator, name, None)
        if callable(end):
            with contextlib.suppress(Exception):
                end()


def bytes_of(value: Any) -> int:
    """Bytes of the tensors in a batch."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size() if value.device.type != "meta" else 0
    if isinstance(value, dict):
        return sum(bytes_of(member) for member in value.values())
    if isinstance(value, (list, tuple)):
        return sum(bytes_of(member) for member in value)
    return 0


def copy_of(value: Any) -> Any:
    """A batch with copies of its tensors, so that a step may change them in place."""
    # A copy of an inference tensor would be a normal one, with which autograd has no trouble.
    return mapped(lambda tensor: tensor if tensor.is_inference() else tensor.clone(), value)


def mapped(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The value with a function applied to the tensors in its tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(function, member) for member in value))
    if type(value) in (list, tuple):
        return type(value)(mapped(function, member) for member in value)
    if isinstance(value, dict) and type(value).__init__ in (dict.__init__, collections.OrderedDict.__init__):
        return type(value)((key, mapped(function, member)) for key, member in value.items())
    return value


@contextlib.contextmanager
def calm_loaders(check_time: Callable[[], None], most: int | None = None) -> Iterator[None]:
    """Inside the block every DataLoader is read in this process, and none beyond `most` batches where that is given.

    check_time is called before each batch; what it raises ends the reading.
    """
    original = DataLoader.__iter__

    def iterate(loader: DataLoader) -> Iterator[Any]:
        return _Calm(original(in_process(loader)), check_time, most)

    with mock.patch.object(DataLoader, "__iter__", iterate):
        yield


class _Calm:
    def __init__(self, batches: Any, check_time: Callable[[], None], most: int | None) -> None:
        self._batches, self._check_time, self._left = batches, check_time, most

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._check_time()
        if self._left is not None:
            if self._left == 0:
                raise StopIteration
            self._left -= 1
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

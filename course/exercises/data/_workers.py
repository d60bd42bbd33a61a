"""Worker processes played in one process, so that a probe can say when each of them does what.

Real workers are slow to start, race with each other, and cannot be spawned with a class from a notebook. What matters
to a dataset is little: a worker holds a copy of it, has random seeds of its own, is known to `get_worker_info`, and
(when forked) shares the file positions of all files that were open before. tests/exercises/data compares this with
real workers.
"""

from __future__ import annotations

import builtins
import copy
import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils.data._utils import worker as torch_worker


def seed_all(seed: int) -> None:
    """Seed the three global generators as a worker does when it starts."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


@contextmanager
def as_worker(dataset: Any, number: int, num_workers: int = 2, base_seed: int = 1234) -> Iterator[None]:
    """Inside the block this process looks like worker `number`, which has the dataset given."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    info = torch_worker.WorkerInfo(id=number, num_workers=num_workers, seed=base_seed + number, dataset=dataset)
    process = os.getpid() * 100 + number + 1
    with mock.patch.object(torch_worker, "_worker_info", info), mock.patch.object(os, "getpid", return_value=process):
        seed_all(base_seed + number)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_rng_state(states[2])


def copied(dataset: Any) -> Any:
    """The dataset as a worker gets it: a copy, its generators included."""
    return copy.deepcopy(dataset)


def forked(dataset: Any) -> Any:
    """The dataset as a forked worker gets it: open files are the same open files, with one position."""
    clone = object.__new__(type(dataset))
    clone.__dict__.update({name: _new_containers(value) for name, value in vars(dataset).items()})
    return clone


def _new_containers(value: Any) -> Any:
    if type(value) is dict:
        return {key: _new_containers(item) for key, item in value.items()}
    return list(value) if type(value) is list else value


def epoch(dataset: Any, indices: list[int], *, num_workers: int = 2, base_seed: int = 1234) -> list[list[Any]]:
    """What each worker reads in an epoch over copies of the dataset, one list a worker; all read the same indices."""
    seen = []
    for number in range(num_workers):
        mine = copied(dataset)
        with as_worker(mine, number, num_workers, base_seed):
            seen.append([mine[index] for index in indices])
    return seen


class OpenedFiles:
    """Counts how often a file is opened and how many bytes are read from it.

    It can let something happen right after a seek.
    """

    def __init__(self, path: Any) -> None:
        self.path, self.count, self.bytes_read = os.fspath(path), 0, 0
        self.handles: list[Any] = []
        self.after_seek: Callable[[], Any] | None = None

    def interrupt(self) -> None:
        action, self.after_seek = self.after_seek, None
        if action is not None:
            action()

    def still_open(self) -> int:
        """How many of the files that were opened have not been closed."""
        return sum(not handle.closed for handle in self.handles)

    @contextmanager
    def watched(self) -> Iterator[OpenedFiles]:
        really_open = io.open

        def opening(file: Any, *args: Any, **kwargs: Any) -> Any:
            handle = really_open(file, *args, **kwargs)
            if isinstance(file, int) or os.fspath(file) != self.path:
                return handle
            self.count += 1
            self.handles.append(handle)
            return _WatchedFile(handle, self)

        with mock.patch.object(builtins, "open", opening), mock.patch.object(io, "open", opening):
            yield self


class _WatchedFile:
    """A file in which another process may move the position between seek and read."""

    def __init__(self, handle: Any, files: OpenedFiles) -> None:
        self._handle, self._files = handle, files

    def seek(self, *place: int) -> int:
        position: int = self._handle.seek(*place)
        self._files.interrupt()
        return position

    def read(self, *size: int) -> Any:
        data = self._handle.read(*size)
        self._files.bytes_read += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def __enter__(self) -> _WatchedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._handle.close()

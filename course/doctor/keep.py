"""Keeping a training setup as it is: what an examination changes is put back, bit for bit.

What cannot be put back: files that the user's code writes, what it prints or sends, and how far a generator or an
iterator of its own has been read.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course.doctor import reach
from course.doctor.interrupts import uninterrupted
from course.doctor.process_state import ProcessState
from course.doctor.tensor_state import DataState, NotRestored, TensorState, size_of
from course.doctor.ways_back import ways_back

# What is not given to examine() itself but only referred to, such as a data set: so much of it is copied.
_REFERRED_BYTES = 64 * 2**20
_REFERRED_OBJECTS = 30_000
_MUCH = 16 * 2**20
_GIVEN_OBJECTS = 2_000_000


class NotEnoughMemory(Exception):
    """The copies that are needed to put everything back do not fit into memory."""


class Keeper:
    """Copies of everything that a setup refers to, and the way back.

    given: (path, object) that were given: their whole state is copied. referred: roots such as the step function and
    the loaders: what they refer to is copied up to 64 MiB and 30 000 objects; `not_kept` says what was left out.
    Raises NotEnoughMemory before anything is copied where the given state would take over half the memory left.
    """

    def __init__(self, given: list[tuple[str, Any]], referred: Sequence[tuple[str, Any]] = ()) -> None:
        self.parts: list[reach.Part] = []
        self.not_kept: list[str] = []
        self._seen: set[int] = set()
        self._ways_back: list[Callable[[], None]] = []
        self.tensors: list[TensorState | DataState] = []
        self._bytes_left = _REFERRED_BYTES
        self._total = 0
        self._process = ProcessState()
        parts = list(reach.walk(list(given), self._seen, limit=_GIVEN_OBJECTS))
        _check_memory(parts)
        # A copy that is made in inference mode could not be written from later.
        with torch.inference_mode(False), torch.no_grad():
            for part in parts:
                self._keep(part, given=True)
            self._take(list(referred))

    def also(self, path: str, thing: Any) -> None:
        """Keep an object that only turned up while the setup ran, such as a second optimizer, before it changes."""
        if id(thing) in self._seen:
            return
        with torch.inference_mode(False), torch.no_grad():
            for part in reach.walk([(path, thing)], self._seen, limit=_REFERRED_OBJECTS):
                self._keep(part, given=True)

    def has(self, thing: Any) -> bool:
        """Whether the object is kept, or was at least reached."""
        return id(thing) in self._seen

    def restore(self, *, thorough: bool = True) -> list[str]:
        """Put everything back; may be called again after further changes. Returns what could not be put back.

        thorough: compare the bits of all tensors. Otherwise, where there are many, and always with a data set's, those
        that autograd has counted no change of are taken for unchanged; a write through `.data` is not counted.
        """
        failures: list[str] = []
        with uninterrupted(), torch.no_grad(), torch.inference_mode(False):
            for way_back in self._ways_back:
                _attempt(way_back, failures)
            # Values first, then gradients: a gradient has to have its parameter's shape, dtype and device.
            quick = not thorough and self._total > _MUCH
            for state in self.tensors:
                if not ((quick or (not thorough and isinstance(state, DataState))) and state.untouched()):
                    _attempt(state.restore_value, failures)
            for state in self.tensors:
                _attempt(state.restore_gradient, failures)
            _attempt(self._process.restore, failures)
        return failures

    def _take(self, roots: list[tuple[str, Any]]) -> None:
        before = len(self._seen)
        for part in reach.walk(roots, self._seen, limit=_REFERRED_OBJECTS):
            self._keep(part, given=False)
        if len(self._seen) - before >= _REFERRED_OBJECTS:
            self.not_kept.append(f"more than {_REFERRED_OBJECTS} objects that the setup refers to")

    def _keep(self, part: reach.Part, *, given: bool) -> None:
        thing = part.thing
        self.parts.append(part)
        # What nobody could change in place needs no copy.
        if isinstance(thing, (tuple, frozenset, types.MethodType)):
            return
        size = 0
        if isinstance(thing, (Tensor, np.ndarray, bytearray)):
            size = size_of(thing)
        elif isinstance(thing, (list, dict, set, collections.deque)):
            size = 8 * len(thing)
        if not given and not isinstance(thing, nn.Parameter):
            if size > self._bytes_left:
                self._watch_only(part, size)
                return
            self._bytes_left -= size
        try:
            if isinstance(thing, Tensor):
                data = not given and DataState.fits(thing)
                self.tensors.append(DataState(thing, part.path) if data else TensorState(thing, part.path))
                # A tensor takes as much time as some thousand of its bytes, however small it is.
                self._total += size + 2**13
            else:
                self._ways_back.extend(ways_back(thing))
        except Exception as error:
            self.not_kept.append(f"`{part.path}` ({type(thing).__name__}: {error})")

    def _watch_only(self, part: reach.Part, size: int) -> None:
        """Say when something that is too large to be copied was changed."""
        thing = part.thing
        if not isinstance(thing, Tensor) or thing.is_inference():
            self.not_kept.append(f"`{part.path}` ({size / 2**20:.0f} MiB)")
            return
        version = thing._version

        def back() -> None:
            if thing._version != version:
                raise NotRestored(f"`{part.path}` was changed in place, and its {size / 2**20:.0f} MiB were not copied")

        self._ways_back.append(back)


def _attempt(action: Callable[[], None], failures: list[str]) -> None:
    try:
        action()
    except NotRestored as error:
        failures.append(str(error))
    except Exception as error:
        failures.append(f"{type(error).__name__}: {error}")


def _check_memory(parts: list[reach.Part]) -> None:
    import psutil

    needed = sum(size_of(part.thing) for part in parts if isinstance(part.thing, Tensor) and not part.thing.is_cuda)
    available = psutil.virtual_memory().available
    if needed > available // 2:
        raise NotEnoughMemory(
            f"to put everything back, {needed / 2**30:.1f} GiB would have to be copied, and only "
            f"{available / 2**30:.1f} GiB of memory are free. Examine a smaller model of the same kind."
        )

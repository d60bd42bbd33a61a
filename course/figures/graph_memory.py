"""What graphs keep for backward, counted by weak references to what they hold."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class _Kept:
    """A tensor on its way through a graph; it lives as long as the graph holds it."""

    def __init__(self, tensor: Tensor) -> None:
        # Detached: an operation that keeps its own result would otherwise hold itself.
        self.tensor = tensor.detach()


class KeptTensors:
    """Counts the tensors that graphs keep for backward, those recorded inside the ``with`` block::

        kept = KeptTensors()
        with kept:
            y = x.exp()
        kept.bytes  # of the storages that are kept now, each counted once
        len(kept)  # tensors that are kept now

    Each tensor that autograd saves is handed to the graph in a wrapper, and a weak reference to the wrapper tells
    whether the graph still holds it.
    """

    def __init__(self) -> None:
        self._wrappers: weakref.WeakSet[_Kept] = weakref.WeakSet()
        self._hooks: list[Any] = []

    def __enter__(self) -> KeptTensors:
        import torch

        hooks = torch.autograd.graph.saved_tensors_hooks(self._wrap, lambda wrapper: wrapper.tensor)
        hooks.__enter__()
        self._hooks.append(hooks)
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.pop().__exit__(*error)

    def __len__(self) -> int:
        return len(self._wrappers)

    @property
    def bytes(self) -> int:
        storages = [wrapper.tensor.untyped_storage() for wrapper in self._wrappers]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def _wrap(self, tensor: Tensor) -> _Kept:
        wrapper = _Kept(tensor)
        self._wrappers.add(wrapper)
        return wrapper

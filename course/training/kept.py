"""What graphs keep for backward, in bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

Result = TypeVar("Result")


class _Kept:
    """A tensor that a graph keeps."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def kept_bytes(call: Callable[[], Result]) -> tuple[int, Result]:
    """Return the bytes of activations that graphs keep after ``call()``, and what it returned.

    Each memory counts once, however many functions keep it; parameters do not count, as they exist anyway. What the
    call returns decides which graphs are still there.
    """
    graphs: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(tensor: Tensor) -> _Kept | Tensor:
        if isinstance(tensor, nn.Parameter) or (tensor._base is not None and isinstance(tensor._base, nn.Parameter)):
            return tensor
        graphs.add(kept := _Kept(tensor.detach()))
        return kept

    def unpack(kept: _Kept | Tensor) -> Tensor:
        return kept if isinstance(kept, Tensor) else kept.tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result = call()
    memory = {kept.tensor.data_ptr(): kept.tensor.nbytes for kept in graphs}
    return sum(memory.values()), result

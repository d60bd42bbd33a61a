"""A tensor's value, gradient and flags, and the way back to them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


class NotRestored(Exception):
    """Something could not be put back; the message says what."""


def size_of(thing: Any) -> int:
    """Bytes that a copy of a tensor, an array or a bytearray takes."""
    if isinstance(thing, Tensor):
        if is_lazy(thing) or thing.device.type == "meta":
            return 0
        if thing.layout != torch.strided:
            return 2 * thing._nnz() * thing.element_size() if thing.layout == torch.sparse_coo else 0
        return thing.numel() * thing.element_size()
    return thing.nbytes if isinstance(thing, np.ndarray) else len(thing)


def _address(tensor: Tensor) -> int | None:
    return tensor.data_ptr() if tensor.layout == torch.strided and tensor.device.type != "meta" else None


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same bits; NaN equals the same NaN, and 0.0 differs from -0.0."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_sparse:
        if one._nnz() != other._nnz() or one.is_coalesced() != other.is_coalesced():
            return False
        return same_bits(one._indices(), other._indices()) and same_bits(one._values(), other._values())
    if one.layout != torch.strided or one.is_quantized:
        return False
    one, other = one.contiguous().flatten(), other.to(one.device).contiguous().flatten()
    # As integers, NaN can be compared; as wide ones, many bytes at a time.
    aligned = one.numel() * one.element_size() % 8 == 0 and (one.data_ptr() | other.data_ptr()) % 8 == 0
    try:
        return torch.equal(one.view(torch.int64), other.view(torch.int64)) if aligned else _same_bytes(one, other)
    except RuntimeError:
        return _same_bytes(one, other)


def _same_bytes(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


class DataState:
    """A copy of a tensor that is mere data, of which there may be thousands: plain, without gradient, not sparse."""

    __slots__ = ("path", "tensor", "value", "version")
    lazy = False

    def __init__(self, tensor: Tensor, path: str) -> None:
        self.tensor, self.path = tensor, path
        self.version = tensor._version
        self.value = tensor.clone()

    @staticmethod
    def fits(tensor: Tensor) -> bool:
        return (
            type(tensor) is Tensor
            and not tensor.requires_grad
            and tensor.layout == torch.strided
            and tensor.device.type == "cpu"
            and not tensor.is_inference()
            and not tensor.__dict__
            and tensor.grad is None
        )

    def untouched(self) -> bool:
        tensor = self.tensor
        return tensor._version == self.version and not tensor.requires_grad and tensor.grad is None

    def restore_value(self) -> None:
        tensor = self.tensor
        if tensor.grad_fn is not None:
            tensor.detach_()
        tensor.requires_grad_(False)
        if tensor.shape != self.value.shape or tensor.dtype != self.value.dtype:
            raise NotRestored(f"`{self.path}` was given another shape or dtype")
        if not same_bits(tensor, self.value):
            tensor.data.copy_(self.value)
        _set_version(tensor, self.version)

    def restore_gradient(self) -> None:
        if self.tensor.grad is not None:
            self.tensor.grad = None


def _set_version(tensor: Tensor, version: int) -> None:
    if tensor._version != version:
        with contextlib.suppress(AttributeError, TypeError, RuntimeError):
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


class TensorState:
    """A copy of one tensor's state.

    The tensor stays the same object on the same memory: what was assigned to `.data` or `.grad` meanwhile is taken off
    again, and values are written back without counting as an in-place change.
    """

    def __init__(self, tensor: Tensor, path: str) -> None:
        self.tensor, self.path = tensor, path
        self.cls = type(tensor)
        self.lazy = is_lazy(tensor)
        self.members = dict(getattr(tensor, "__dict__", {}))
        self.memory = tensor.data
        if self.lazy:
            # Nothing else of an uninitialized parameter may be looked at.
            return
        self.requires_grad = tensor.requires_grad
        self.node = tensor.grad_fn
        self.version = None if tensor.is_inference() else tensor._version
        self.hooks = {name: _copy_of_hooks(tensor, name) for name in _HOOKS}
        # The tensors inside of a wrapper, such as the local part of a distributed one, are kept for themselves.
        self.value = None if tensor.device.type == "meta" or is_traceable_wrapper_subclass(tensor) else _copy(tensor)
        self.has_gradient = tensor.is_leaf or tensor.retains_grad
        self.gradient = tensor.grad if self.has_gradient else None

    def untouched(self) -> bool:
        """Whether nothing tells of a change: the same memory, flags and number of in-place changes."""
        tensor = self.tensor
        return (
            not self.lazy
            and self.version is not None
            and tensor._version == self.version
            and tensor.requires_grad == self.requires_grad
            and tensor.grad_fn is self.node
            and _address(tensor) == _address(self.memory)
            and tensor.shape == self.memory.shape
            and tensor.dtype == self.memory.dtype
            and not getattr(tensor, "_backward_hooks", None)
        )

    def restore_value(self) -> None:
        """Value, memory, flags, hooks and attributes, but not the gradient."""
        tensor = self.tensor
        if self.lazy:
            if self.cls is not type(tensor):
                # It was materialised, which its class says.
                tensor.grad = None
                tensor.data = self.memory
                tensor.__class__ = self.cls
            return
        if tensor.grad_fn is not self.node and (tensor.grad_fn is None) != (self.node is None):
            if self.node is not None:
                raise NotRestored(f"`{self.path}` was taken out of its graph")
            tensor.detach_()
        self._restore_memory()
        if tensor.is_leaf and tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)
        members = getattr(tensor, "__dict__", None)
        if members is not None and [*map(id, members.values())] != [*map(id, self.members.values())]:
            members.clear()
            members.update(self.members)
        for name, before in self.hooks.items():
            _restore_hooks(tensor, name, before)
        if self.version is not None:
            _set_version(tensor, self.version)

    def restore_gradient(self) -> None:
        """The gradient tensor that was there, or None; its value is a state of its own."""
        if not self.lazy and self.has_gradient and self.tensor.grad is not self.gradient:
            self.tensor.grad = self.gradient

    def _restore_memory(self) -> None:
        tensor, memory = self.tensor, self.memory
        if self.value is None:
            return
        if memory.layout != torch.strided:
            # Indices and values are tensors of their own; .data would have others.
            if not same_bits(tensor.detach(), self.value):
                tensor.detach().copy_(self.value) if tensor.requires_grad else tensor.copy_(self.value)
            return
        if memory.layout == torch.strided:
            moved = (
                tensor.dtype != memory.dtype
                or tensor.device != memory.device
                or tensor.shape != memory.shape
                or tensor.stride() != memory.stride()
                or _address(tensor) != _address(memory)
            )
            if moved:
                tensor.data = memory
            if memory.shape != self.value.shape:
                raise NotRestored(f"`{self.path}` was resized in place")
        if not same_bits(memory, self.value):
            with torch.inference_mode(memory.is_inference()):
                # Through .data nothing is counted: a graph that the user keeps stays valid.
                memory.copy_(self.value)


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _copy_of_hooks(tensor: Tensor, name: str) -> Any:
    hooks = getattr(tensor, name, None)
    return None if hooks is None else (hooks, list(hooks.items()))


def _restore_hooks(tensor: Tensor, name: str, before: Any) -> None:
    now = getattr(tensor, name, None)
    if before is None:
        if now:
            # Taking the mapping off the tensor is not possible everywhere; an empty one does the same.
            now.clear()
        return
    hooks, items = before
    if list(hooks.items()) != items:
        hooks.clear()
        hooks.update(items)
    if now is not hooks:
        setattr(tensor, name, hooks)


def _copy(tensor: Tensor) -> Tensor:
    """A copy, on the CPU where the accelerator has little memory left."""
    data = tensor.data
    if data.is_cuda:
        free, _ = torch.cuda.mem_get_info(data.device)
        if free < 4 * size_of(data) + 2**28:
            return data.cpu()
    return data.clone()

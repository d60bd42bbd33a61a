"""Shapes and values of what a loss is given: words for them, and what they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def size(value: Tensor | tuple[int, ...]) -> str:
    """A shape in words: "(8, 3)"."""
    return str(tuple(value.shape) if isinstance(value, Tensor) else tuple(value))


def span(value: Tensor) -> str:
    """The smallest and the largest value: "-1.3 to 2.5"."""
    if not value.numel():
        return "nothing"
    return f"{_short(value.min())} to {_short(value.max())}"


def _short(value: Tensor) -> str:
    return f"{value.item():.4g}"


def dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided and value.device.type != "meta"


def classes(given: Tensor) -> int:
    """The axis of the classes: 1, or 0 where there is no batch."""
    return 1 if given.ndim > 1 else 0


def tolerance(value: Tensor) -> float:
    """How far from 1 a sum of probabilities of this dtype may lie."""
    return 1e-3 if value.dtype in (torch.float32, torch.float64) else 2e-2


def sums_to_one(given: Tensor, axis: int, *, log: bool = False) -> bool:
    """Whether the numbers along an axis are probabilities, or with log their logarithms, that sum to 1."""
    if not given.is_floating_point() or given.shape[axis] < 2:
        return False
    value = given.float()
    slack = tolerance(given)
    if log:
        return bool((value <= slack).all()) and bool((value.exp().sum(axis) - 1).abs().max() < slack)
    return bool(((value >= -1e-6) & (value <= 1 + slack)).all()) and bool((value.sum(axis) - 1).abs().max() < slack)


def outer(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes differ by one axis of size 1 so that they broadcast to more elements than either has."""
    if len(one) == len(other):
        return False
    long, short = (one, other) if len(one) > len(other) else (other, one)
    if len(long) != len(short) + 1:
        return False
    drops = any(long[:axis] + long[axis + 1 :] == short for axis in range(len(long)) if long[axis] == 1)
    try:
        together = torch.Size(torch.broadcast_shapes(long, short))
    except RuntimeError:
        return False
    return drops and together.numel() > max(torch.Size(long).numel(), torch.Size(short).numel())


def labels(target: Tensor, kind: str) -> bool:
    """Whether a target holds class labels: zeros and ones only, both of them; behind a softmax, one 1 in each row."""
    values = target.float()
    if not bool(((values - values.round()).abs() < 1e-5).all()):
        return False
    values = values.round()
    if not (bool(((values == 0) | (values == 1)).all()) and bool((values == 0).any()) and bool((values == 1).any())):
        return False
    if kind == "softmax" and values.ndim > 1:
        return any(bool((values.sum(axis) == 1).all()) for axis in {1, values.ndim - 1})
    return True

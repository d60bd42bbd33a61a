"""Values that a cell reports: whether two are the same, how they read, and what they are as JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, exactly.

    Tensors and arrays by shape, dtype and values (NaN equals NaN); sequences and mappings by their items;
    everything else by ``==``. A tensor equals a plain number only if it has no axes.
    """
    if _is_array(left) and _is_array(right):
        return _same_arrays(left, right)
    if _is_array(left) or _is_array(right):
        array, other = (left, right) if _is_array(left) else (right, left)
        return isinstance(other, Number) and array.ndim == 0 and same(array.item(), other)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if _is_sequence(left) and _is_sequence(right):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    return bool(left == right)


def describe(value: Any) -> str:
    """A value as a reader should meet it; tensors with shape and dtype."""
    if _is_array(value):
        shape = f"shape {tuple(value.shape)}, {value.dtype}"
        return f"{value!r}\n{shape}" if _size(value) <= 1000 else f"a tensor of {shape}"
    return number(value)


def number(value: Any) -> str:
    """A number in a readable width, anything else as it prints."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def plain(value: Any) -> Any:
    """A value as JSON: numbers, strings, booleans, None and lists; anything else as its text.

    NaN and infinities, which JSON does not know, become text as well.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if _is_sequence(value):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_array(value: Any) -> bool:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return (torch is not None and isinstance(value, torch.Tensor)) or (
        numpy is not None and isinstance(value, numpy.ndarray)
    )


def _size(array: Any) -> int:
    return array.numel() if callable(getattr(array, "numel", None)) else array.size


def _same_arrays(left: Any, right: Any) -> bool:
    if type(left) is not type(right) or left.shape != right.shape or left.dtype != right.dtype:
        return False
    if hasattr(left, "device"):
        import torch

        if isinstance(left, torch.Tensor):
            equal = left.detach() == right.detach().to(left.device)
            nans = left.isnan() & right.isnan().to(left.device)
            return bool((equal | nans).all())
    return bool(((left == right) | ((left != left) & (right != right))).all())

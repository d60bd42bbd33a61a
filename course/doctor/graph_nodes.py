"""Nodes of the autograd graph: what they are called, what they saved, which way leads to the leaves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def _nodes(names: str, last: int = 1) -> frozenset[str]:
    return frozenset(f"{name}Backward{number}" for name in names.split() for number in range(last + 1))


# Nodes that only move, copy or convert values: what made the values lies behind them.
TRANSPARENT = _nodes(
    "View ReshapeAlias UnsafeView AsStrided Squeeze Unsqueeze Permute Transpose T MT Clone ToCopy Slice Select Index "
    "Narrow Expand Alias Unbind Split SplitWithSizes Copy Cat Stack Movedim Flatten Unflatten Contiguous Swapaxes "
    "Unfold Diagonal Chunk IndexSelect Repeat",
    3,
) | {"CopySlices"}

# Nodes of linear maps: what leaves them is any real number.
LINEAR = _nodes(
    "Addmm Mm Bmm Baddbmm Addbmm Addmv Mv Dot Convolution CudnnConvolution MkldnnConvolution ConvolutionOverrideable "
    "Linear MkldnnLinear"
)

SIGMOIDS = frozenset({"SigmoidBackward0", "HardsigmoidBackward0"})
SOFTMAXES = frozenset({"SoftmaxBackward0", "SafeSoftmaxBackward0"})
LOG_SOFTMAXES = frozenset({"LogSoftmaxBackward0"})
FLAT = {
    "RoundBackward0": "round",
    "RoundBackward1": "round",
    "FloorBackward0": "floor",
    "CeilBackward0": "ceil",
    "SignBackward0": "sign",
    "TruncBackward0": "trunc",
    "HeavisideBackward0": "heaviside",
    "FloorDivideBackward0": "floor_divide",
}
# Nodes that give a gradient of 0 to what they leave out; 0 times an infinite slope is NaN.
SELECTING = _nodes("Where MaskedFill MaskedSelect Index NanToNum", 2)

MOST_NODES = 4000
_MOST_SECONDS = 0.1


def node_name(node: Any) -> str:
    """The name of a backward node, such as "SoftmaxBackward0"."""
    with contextlib.suppress(Exception):
        name: str = node.name()
        return name.rsplit("::", 1)[-1]
    return type(node).__name__


def parents(node: Any) -> list[Any]:
    """The nodes that a backward node hands gradients to, None where an input needs none."""
    return [parent for parent, _ in node.next_functions]


def source(node: Any, most: int = 40) -> Any:
    """The node that made the values: the first one behind views, copies and conversions."""
    while node is not None and most and node_name(node) in TRANSPARENT:
        node = next((parent for parent in parents(node) if parent is not None), None)
        most -= 1
    return node


def made_by(origin: tuple[str, ...]) -> str:
    """The same for a chain of names, newest first; "" where nothing is known."""
    return next((name for name in origin if name not in TRANSPARENT), "")


def shape_of(node: Any) -> tuple[int, ...] | None:
    """The shape of what a node computed; None where this torch does not tell."""
    with contextlib.suppress(Exception):
        return tuple(int(size) for size in node._input_metadata[0].shape)
    return None


def saved(node: Any, name: str) -> Any:
    """A tensor or number that a node saved for backward; None where there is none, or it was freed."""
    with contextlib.suppress(Exception):
        value = getattr(node, f"_saved_{name}")
        return value.detach() if isinstance(value, Tensor) else value
    return None


def nodes(root: Tensor) -> Iterator[tuple[Any, Any]]:
    """Each node behind a tensor once, nearest first, with what is selected between; limited in time.

    The second is False where nothing is selected, True where it is not known what, and else a mask of what is left out.
    """
    if root.grad_fn is None:
        return
    end, seen = time.perf_counter() + _MOST_SECONDS, {root.grad_fn}
    queue: list[tuple[Any, Any]] = [(root.grad_fn, False)]
    for node, selected in queue:
        yield node, selected
        if len(seen) > MOST_NODES or time.perf_counter() > end:
            return
        for position, parent in enumerate(parents(node)):
            if parent is not None and parent not in seen:
                seen.add(parent)
                left_out = _left_out(node, position) if node_name(node) in SELECTING else False
                queue.append((parent, selected if left_out is False else left_out))


def _left_out(node: Any, position: int) -> Any:
    """Where a selecting node does not take its input: a mask, or True where that is not known."""
    mask = saved(node, "condition")
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return ~mask if position == 0 else mask
    mask = saved(node, "mask")
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return mask if node_name(node).startswith("MaskedFill") else ~mask
    return True


def is_left_out(bad: Tensor, selected: Any) -> bool:
    """Whether all bad places are among what a later selection leaves out."""
    if not isinstance(selected, Tensor):
        return bool(selected)
    try:
        return bool(selected.expand(bad.shape)[bad].all())
    except RuntimeError:
        return True

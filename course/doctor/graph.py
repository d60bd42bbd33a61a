"""What the autograd graph behind a loss tells, read before backward frees it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from course.doctor.graph_nodes import (
    FLAT,
    LOG_SOFTMAXES,
    MOST_NODES,
    SIGMOIDS,
    SOFTMAXES,
    is_left_out,
    node_name,
    nodes,
    parents,
    saved,
    shape_of,
    source,
)

_EMPTY = {
    "MeanBackward0": "a mean over no elements",
    "MeanBackward1": "a mean over no elements",
    "NllLossBackward0": "the mean over targets that are all ignored or weigh nothing",
    "NllLoss2DBackward0": "the mean over targets that are all ignored or weigh nothing",
    "StdBackward0": "a deviation of a single value",
    "VarBackward0": "a variance of a single value",
}
_OUTER = {"LogSoftmaxBackward0", "SoftmaxBackward0", "SigmoidBackward0", "LogSigmoidBackward0", "SoftplusBackward0"}
_MOST_ELEMENTS = 4_000_000


@dataclass(frozen=True)
class Fact:
    """One thing seen in a graph: `kind` says what, `data` has its numbers.

    ==================  ============================================================================================
    log                 ``name``, ``zeros``, ``negatives``, ``elements``, ``shape``, ``selected`` (behind where, masks)
    empty               ``what``: a mean or deviation that divides by zero
    division            ``name``, ``zeros``, ``elements``, ``shape``, ``selected``, ``zero_over_zero``
    sqrt                ``name``, ``zeros``, ``negatives``, ``elements``, ``shape``, ``selected``
    squared             ``name``, ``made_by`` ("sigmoid", "softmax"), ``shape``, ``target`` (detached tensor)
    double_softmax      ``outer``, ``inner``, ``shape``
    double_sigmoid      ``outer``, ``inner``, ``shape``
    softmax             ``name``, ``dim`` (not negative), ``shape``
    leaf                ``tensor``: a leaf that gets a gradient
    flat                ``names``: every path from the loss to its leaves goes through one of these
    ==================  ============================================================================================
    """

    kind: str
    data: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


def look(root: Any) -> list[Fact]:
    """What the graph behind a tensor shows. Never raises; [] for anything without a graph."""
    facts: list[Fact] = []
    try:
        if not isinstance(root, Tensor) or root.grad_fn is None:
            return facts
        with torch.no_grad(), _plain_functions():
            for node, selected in nodes(root):
                with contextlib.suppress(Exception):
                    facts += _facts_of(node, node_name(node), selected)
            facts += _flat(root)
    except Exception:
        return facts
    return facts


def _plain_functions() -> Any:
    # Without it a watch that is active would take these looks for the user's own calls.
    return torch._C.DisableTorchFunction()


def _facts_of(node: Any, name: str, selected: Any) -> Iterator[Fact]:
    if name == "AccumulateGrad":
        yield Fact("leaf", {"tensor": node.variable})
    elif name in ("LogBackward0", "Log2Backward0", "Log10Backward0"):
        yield from _zeros("log", node, name, saved(node, "self"), selected)
    elif name == "XlogyBackward0":
        yield from _zeros("log", node, name, saved(node, "other"), selected)
    elif name in ("DivBackward0", "DivBackward2"):
        yield from _division(node, name, selected)
    elif name in ("SqrtBackward0",):
        yield from _zeros("sqrt", node, name, saved(node, "result"), selected)
    elif name in ("ReciprocalBackward0", "RsqrtBackward0"):
        result = saved(node, "result")
        if result is not None and result.numel() <= _MOST_ELEMENTS and (zeros := int(torch.isinf(result).sum())):
            yield Fact(
                "division", _numbers(name, torch.isinf(result), selected) | {"zeros": zeros, "zero_over_zero": 0}
            )
    elif name == "PowBackward0":
        yield from _power(node, name, selected)
    elif name == "PowBackward1":  # the exponent is a tensor: a root of a negative number is NaN
        result, base = saved(node, "result"), saved(node, "self")
        if isinstance(base, Tensor) and not base.is_complex() and base.numel() <= _MOST_ELEMENTS:
            bad = torch.isnan(result) & (base < 0) & ~torch.isnan(saved(node, "exponent"))
            if bad.any():
                yield Fact("sqrt", _numbers(name, bad, selected) | {"zeros": 0, "negatives": int(bad.sum())})
    elif name == "AbsBackward0":
        yield from _squared(node, name, parents(node)[0], saved(node, "self"))
    elif name == "MulBackward0":
        if len(two := parents(node)) == 2 and two[0] is not None and two[0] is two[1]:
            yield from _squared(node, name, two[0], saved(node, "self"))
    elif name in _OUTER:
        yield from _twice(node, name)
    elif name in _EMPTY:
        yield from _of_nothing(node, name)
    if name in SOFTMAXES | LOG_SOFTMAXES and (shape := shape_of(node)):
        dim = saved(node, "dim")
        if isinstance(dim, int):
            dim = dim - 2**64 if dim >= 2**63 else dim  # read as unsigned by some versions
            yield Fact("softmax", {"name": name, "dim": dim % len(shape), "shape": shape})


def _numbers(name: str, bad: Tensor, selected: Any) -> dict[str, Any]:
    return {
        "name": name,
        "elements": bad.numel(),
        "shape": tuple(bad.shape),
        "selected": is_left_out(bad, selected),
    }


def _zeros(kind: str, node: Any, name: str, value: Any, selected: Any) -> Iterator[Fact]:
    if not isinstance(value, Tensor) or value.is_complex() or not 0 < value.numel() <= _MOST_ELEMENTS:
        return
    zeros = int((value == 0).sum())
    below = value < 0 if kind == "log" else torch.isnan(value)
    negatives = int(below.sum())
    if zeros or negatives:
        yield Fact(kind, _numbers(name, (value == 0) | below, selected) | {"zeros": zeros, "negatives": negatives})


def _division(node: Any, name: str, selected: Any) -> Iterator[Fact]:
    below = saved(node, "other")
    if not isinstance(below, Tensor) or below.is_complex() or not 0 < below.numel() <= _MOST_ELEMENTS:
        return
    if zeros := int((below == 0).sum()):
        above = saved(node, "self")
        both = 0
        if isinstance(above, Tensor):
            with contextlib.suppress(RuntimeError):
                both = int(((above == 0) & (below == 0)).sum())
        yield Fact("division", _numbers(name, below == 0, selected) | {"zeros": zeros, "zero_over_zero": both})


def _of_nothing(node: Any, name: str) -> Iterator[Fact]:
    """Means that divide by zero: of no elements, of targets that are all ignored, a deviation of one value."""
    what = _EMPTY[name]
    if name.startswith("Mean"):
        numbers = [saved(node, key) for key in ("self_sym_numel", "self_numel")]
        empty = 0 in numbers or 0 in (saved(node, "self_sym_sizes") or ())
    elif name.startswith("Nll"):
        weight = saved(node, "total_weight")
        empty = (
            isinstance(weight, Tensor) and weight.numel() == 1 and float(weight) == 0 and saved(node, "reduction") == 1
        )
    else:
        value, dim = saved(node, "self"), saved(node, "dim")
        sizes = [] if not isinstance(value, Tensor) else [value.shape[d] for d in dim] if dim else [value.numel()]
        empty = bool(sizes) and math.prod(sizes) == 1 and saved(node, "correction") != 0
    if empty:
        yield Fact("empty", {"what": what})


def _power(node: Any, name: str, selected: Any) -> Iterator[Fact]:
    base, exponent = saved(node, "self"), saved(node, "exponent")
    if not isinstance(base, Tensor) or not isinstance(exponent, (int, float)):
        return
    if exponent == 2:
        yield from _squared(node, name, parents(node)[0], base)
    elif 0 < exponent < 1:
        yield from _zeros("sqrt", node, name, base, selected)
    elif exponent < 0 and base.numel() <= _MOST_ELEMENTS and (zeros := int((base == 0).sum())):
        yield Fact("division", _numbers(name, base == 0, selected) | {"zeros": zeros, "zero_over_zero": 0})


def _squared(node: Any, name: str, difference: Any, value: Any) -> Iterator[Fact]:
    """(p - y) ** 2 with p from a sigmoid or softmax: y is what is left of p when the difference is taken away."""
    if difference is None or node_name(difference) != "SubBackward0" or not isinstance(value, Tensor):
        return
    for position, parent in enumerate(parents(difference)[:2]):
        maker = source(parent)
        other = parents(difference)[1 - position]
        if maker is None or other is not None or node_name(maker) not in SIGMOIDS | SOFTMAXES:
            continue
        made = saved(maker, "result")
        if not isinstance(made, Tensor) or made.numel() != value.numel() or made.numel() > _MOST_ELEMENTS:
            continue
        # Behind a transposition the elements are in another order, and the difference below would be nonsense.
        if any(node_name(step) in ("PermuteBackward0", "TransposeBackward0") for step in _between(parent, maker)):
            continue
        made = made.reshape(value.shape)
        target = made - value if position == 0 else made + value
        kind = "softmax" if node_name(maker) in SOFTMAXES else "sigmoid"
        yield Fact("squared", {"name": name, "made_by": kind, "shape": tuple(value.shape), "target": target})
        return


def _between(node: Any, end: Any) -> Iterator[Any]:
    while node is not None and node is not end:
        yield node
        node = next((parent for parent in parents(node) if parent is not None), None)


def _twice(node: Any, name: str) -> Iterator[Fact]:
    maker = next((source(parent) for parent in parents(node) if parent is not None), None)
    if maker is None:
        return
    inner = node_name(maker)
    if inner == "NegBackward0":  # softplus(-x) and log_sigmoid(-x) are halves of the binary cross-entropy
        maker = next((source(parent) for parent in parents(maker) if parent is not None), None)
        inner = node_name(maker) if maker is not None else ""
        if name not in ("LogSigmoidBackward0", "SoftplusBackward0"):
            return
    if name == "SoftmaxBackward0":
        if inner in SOFTMAXES:
            yield Fact("double_softmax", {"outer": name, "inner": inner, "shape": shape_of(node)})
    elif name == "LogSoftmaxBackward0" and inner in SOFTMAXES | SIGMOIDS:
        yield Fact("double_softmax", {"outer": name, "inner": inner, "shape": shape_of(node)})
    elif name != "LogSoftmaxBackward0" and inner in SIGMOIDS:
        yield Fact("double_sigmoid", {"outer": name, "inner": inner, "shape": shape_of(node)})


def _flat(root: Tensor) -> Iterator[Fact]:
    """Whether every way from the loss to a leaf is blocked by an operation whose slope is 0."""
    blocked, seen, queue = set(), {root.grad_fn}, [root.grad_fn]
    for node in queue:
        name = node_name(node)
        if name == "AccumulateGrad" or len(seen) > MOST_NODES:
            return
        if name in FLAT:
            blocked.add(FLAT[name])
            continue
        for parent in parents(node):
            if parent is not None and parent not in seen:
                seen.add(parent)
                queue.append(parent)
    if blocked:
        yield Fact("flat", {"names": sorted(blocked)})

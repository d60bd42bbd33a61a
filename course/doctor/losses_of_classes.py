"""Losses of class indices and of log-probabilities: faults in one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from course.doctor.graph_nodes import LINEAR, LOG_SOFTMAXES, SIGMOIDS, SOFTMAXES, TRANSPARENT, made_by
from course.doctor.loss_values import classes, size, span, sums_to_one, tolerance
from course.doctor.report import Finding

_MOVES_AXES = {"TransposeBackward0", "PermuteBackward0", "MovedimBackward0", "TBackward0", "MTBackward0"}


def _targets(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    """dtype, shape and range of class targets."""
    if target is None or given.ndim == 0:
        return
    axis = classes(given)
    number = given.shape[axis]
    wanted = given.shape[:axis] + given.shape[axis + 1 :]
    takes_soft = event.name == "cross_entropy"
    indices = not target.is_floating_point() and not target.is_complex()
    seen = f"`{event.name}` got input {size(given)} and target {size(target)} of dtype {str(target.dtype)[6:]}"
    if target.shape == given.shape and target.ndim > 1 and (takes_soft or target.shape[1] > 1):
        last = target.ndim - 1
        if last > 1 and not indices and sums_to_one(target, last) and not sums_to_one(target, 1):
            yield Finding(
                "class-axis-misplaced",
                f"{seen}: the probabilities of the target sum to 1 along the last axis, and the loss takes axis 1 "
                "for the "
                "classes.",
            )
        if indices and number > 1:
            yield Finding(
                "class-target-dtype",
                f"{seen}: a target of the input's shape holds probabilities, and those have to be floating point. For "
                "one-hot rows use `target.argmax(1)`.",
            )
        return
    if target.shape == wanted:
        if target.dtype not in (torch.int64, torch.uint8):
            yield Finding("class-target-dtype", f"{seen}: class indices have to be int64.")
        elif indices and (yield from _misplaced(event, given, target, seen)):
            return
        if indices or _whole(target):
            yield from _range(event, target, number, seen)
    elif target.ndim == given.ndim > 1 and target.shape[1] == 1 and target.numel() == wanted.numel():
        yield Finding("class-target-shape", f"{seen}: class indices for it have shape {size(wanted)}.")
    elif given.ndim >= 3 and target.shape == given.shape[:-1]:
        yield Finding(
            "class-axis-misplaced",
            f"{seen}: the target fits all axes but the last, so the {given.shape[-1]} classes stand in the last "
            f"axis. The loss takes axis 1, of size {given.shape[1]}, for the classes.",
        )


def _whole(target: Tensor) -> bool:
    return bool((target == target.round()).all())


def _misplaced(event: Any, given: Tensor, target: Tensor, seen: str) -> Iterator[Finding]:
    """Square inputs (N, T, T): both axes fit, and only what made the input tells which one holds the classes."""
    if given.ndim != 3 or given.shape[1] != given.shape[2] or event.name not in ("cross_entropy", "nll_loss"):
        return False
    if event.name == "nll_loss" and sums_to_one(given, 2, log=True) and not sums_to_one(given, 1, log=True):
        reason = "its log-probabilities sum to 1 along the last axis, not along axis 1"
    else:
        # In three axes each transposition swaps the same two, 1 and 2.
        swaps = 0
        for name in event.origin:
            if name in _MOVES_AXES:
                swaps += 1
            elif "Convolution" in name:
                if swaps % 2 == 0:
                    return False
                reason = "it comes from a convolution, whose channels stand in axis 1, and its axes were swapped since"
                break
            elif name in LINEAR:
                if swaps % 2 == 1:
                    return False
                reason = (
                    "it comes from a linear layer, whose outputs stand in the last axis, and no axis was moved since"
                )
                break
            elif name not in TRANSPARENT and name not in LOG_SOFTMAXES and not name.startswith("Add"):
                return False
        else:
            return False
    yield Finding(
        "class-axis-misplaced",
        f"{seen}. Axes 1 and 2 are both {given.shape[1]} long, so nothing fails; but {reason}. The loss takes "
        "axis 1 for the classes.",
    )
    return True


def _range(event: Any, target: Tensor, number: int, seen: str) -> Iterator[Finding]:
    ignored = event.options.get("ignore_index", -100)
    counted = target[target != ignored] if isinstance(ignored, int) else target
    wrong = counted[(counted < 0) | (counted >= number)]
    if wrong.numel():
        yield Finding(
            "class-index-out-of-range",
            f"{seen}. The targets go from {span(counted)}, and {number} classes have the indices 0 to {number - 1}; "
            f"{wrong.numel()} of {counted.numel()} targets lie outside.",
        )


def cross_entropy(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    yield from _targets(event, given, target)
    if not given.is_floating_point() or not torch.isfinite(given).all():
        return
    axis = classes(given)
    maker = made_by(event.origin)
    floor = _floor(given.shape[axis])
    if sums_to_one(given, axis) and (maker in SOFTMAXES or given.max() - given.min() > 1e-6):
        how = " and come from a softmax" if maker in SOFTMAXES else ""
        yield Finding(
            "double-softmax",
            f"The {given.shape[axis]} numbers that `cross_entropy` gets for each sample go from {span(given)}, sum "
            f"to 1{how}. The loss applies a softmax itself, and with these inputs it cannot fall below {floor:.2f}.",
        )
    elif maker in SOFTMAXES | SIGMOIDS and given.shape[axis] > 1:
        name = "softmax" if maker in SOFTMAXES else "sigmoid"
        yield Finding(
            "double-softmax",
            f"The input of `cross_entropy`, {size(given)}, is the result of a {name}: its values go from "
            f"{span(given)}. The loss applies a softmax itself, and with inputs between 0 and 1 it cannot fall below "
            f"{floor:.2f}.",
        )


def _floor(number: int) -> float:
    return float(torch.tensor(1 + (number - 1) / torch.e).log())


def nll(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    yield from _targets(event, given, target)
    yield from log_probabilities(event, given, classes(given))


def ctc(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    yield from log_probabilities(event, given, given.ndim - 1)


def log_probabilities(event: Any, given: Tensor, axis: int) -> Iterator[Finding]:
    """A loss that takes log-probabilities got something else."""
    if not given.is_floating_point() or given.shape[axis] < 2 or not torch.isfinite(given).all():
        return
    if sums_to_one(given, axis, log=True):
        return
    maker = made_by(event.origin)
    seen = f"`{event.name}` got input {size(given)} with values from {span(given)}"
    other = next((a for a in range(given.ndim) if a != axis and sums_to_one(given, a, log=True)), None)
    if other is not None and maker in LOG_SOFTMAXES | {"", "LogBackward0"}:
        axes = f"the log-probabilities sum to 1 along axis {other}, and the classes are taken from axis {axis}"
        misplaced = given.ndim > 2 and other != 0 and event.name == "nll_loss"
        yield Finding("class-axis-misplaced" if misplaced else "argmax-wrong-axis", f"{seen}: {axes}.")
        return
    value = "" if event.value is None else f" The loss is {event.value:.4g}."
    if sums_to_one(given, axis) or maker in SOFTMAXES | SIGMOIDS:
        yield Finding(
            "nll-without-log",
            f"{seen}: these are probabilities, and the loss takes their logarithms.{value}",
        )
    elif maker in LINEAR or bool((given > tolerance(given)).any()):
        sums = given.float().exp().sum(axis)
        yield Finding(
            "nll-without-log",
            f"{seen}: the exponentials of log-probabilities sum to 1, and these sum to {span(sums)}. Raw logits need "
            f"`log_softmax` first.{value}",
        )

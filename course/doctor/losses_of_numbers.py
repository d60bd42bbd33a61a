"""Binary losses, and losses of differences: faults in one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from course.doctor.graph_nodes import LINEAR, SIGMOIDS, SOFTMAXES, made_by
from course.doctor.loss_values import labels, outer, size, span
from course.doctor.report import Finding


def _binary_target(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    if target is None:
        return
    if not target.is_floating_point():
        yield Finding(
            "bce-target-dtype",
            f"`{event.name}` got a target of dtype {str(target.dtype)[6:]}, shape {size(target)}; it has to be "
            "floating point, as the input is.",
        )
        return
    if target.numel() and (bool((target < 0).any()) or bool((target > 1).any())):
        value = "" if event.value is None else f" The loss is {event.value:.4g}, and can fall without end."
        yield Finding(
            "class-index-out-of-range",
            f"`{event.name}` got targets from {span(target)}; binary targets lie between 0 and 1.{value}",
        )


def bce(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    yield from _binary_target(event, given, target)
    maker = made_by(event.origin)
    outside = int(((given < 0) | (given > 1)).sum())
    if outside:
        yield Finding(
            "bce-fed-logits",
            f"`binary_cross_entropy` takes probabilities, and its input, {size(given)}, goes from {span(given)}: "
            f"{outside} of {given.numel()} values lie outside 0 to 1.",
        )
    elif maker in LINEAR or maker in ("ReluBackward0", "LeakyReluBackward0"):
        layer = "a rectifier" if "elu" in maker else "a linear layer or convolution"
        yield Finding(
            "bce-fed-logits",
            f"The input of `binary_cross_entropy`, {size(given)}, comes straight from {layer}, without a sigmoid. "
            f"In this batch its values happen to lie between 0 and 1, from {span(given)}; nothing keeps them there.",
        )


def bce_logits(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    yield from _binary_target(event, given, target)
    maker = made_by(event.origin)
    inside = bool(((given >= 0) & (given <= 1)).all())
    # 1 / (1 + exp(-x)), written by hand.
    by_hand = "ExpBackward0" in event.origin[:6] and bool({"ReciprocalBackward0", "DivBackward0"} & {*event.origin[:3]})
    if inside and (maker in SIGMOIDS | SOFTMAXES or by_hand):
        name = "softmax" if maker in SOFTMAXES else "sigmoid"
        yield Finding(
            "double-sigmoid",
            f"The input of `{event.name}`, {size(given)}, is the result of a {name}: its values go from "
            f"{span(given)}. The loss applies the sigmoid itself, so that they count as probabilities from "
            f"{_through(given)}.",
        )


def _through(given: Tensor) -> str:
    return span(given.float().sigmoid())


def shapes(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    if target is not None and outer(tuple(given.shape), tuple(target.shape)):
        together = torch.Size(torch.broadcast_shapes(given.shape, target.shape))
        yield Finding(
            "broadcast-outer-product",
            f"`{event.name}` got input {size(given)} and target {size(target)}: they broadcast to {size(together)}, "
            f"so that each prediction is compared with every target: {together.numel()} differences for "
            f"{given.shape[0]} samples.",
        )


def difference(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    yield from shapes(event, given, target)
    if target is None:
        return
    maker = made_by(event.origin)
    kind = "softmax" if maker in SOFTMAXES else "sigmoid" if maker in SIGMOIDS else ""
    if kind and given.shape == target.shape and labels(target, kind):
        yield squared_probabilities(f"`{event.name}`", kind, target)


def squared_probabilities(loss: str, kind: str, target: Tensor) -> Finding:
    """The finding for a loss of differences between probabilities and labels."""
    return Finding(
        "mse-on-probabilities",
        f"{loss} compares the result of a {kind}, {size(target)}, with labels that are 0 or 1. Its gradient passes "
        f"through the slope of the {kind}, which is practically 0 where the model is confident, also where it is "
        "wrong: at a logit of -10 and the label 1 it is 0.00009, that of the cross-entropy is 1.",
        severity="warning",
    )

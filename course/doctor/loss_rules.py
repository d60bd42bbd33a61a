"""What one call of a loss function tells by its input and target: pure functions of a loss event.

A loss event has ``name``, ``input`` and ``target`` (detached tensors or None), ``options``, ``value`` and ``origin``
(names of the backward nodes that made the input, newest first); see course.doctor.watch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from course.doctor import losses_of_classes, losses_of_numbers
from course.doctor.loss_values import dense
from course.doctor.report import Finding

_MOST_ELEMENTS = 20_000_000


def judge(event: Any) -> Iterator[Finding]:
    """The faults that a call of a loss function shows."""
    rule = _RULES.get(event.name)
    given, target = event.input, event.target
    if rule is None or not dense(given) or given.numel() == 0 or given.numel() > _MOST_ELEMENTS:
        return
    if target is not None and not dense(target):
        return
    with torch.no_grad():
        yield from rule(event, given.detach(), None if target is None else target.detach())


def _kl(event: Any, given: Tensor, target: Tensor | None) -> Iterator[Finding]:
    if given.ndim:
        yield from losses_of_classes.log_probabilities(event, given, given.ndim - 1)
    yield from losses_of_numbers.shapes(event, given, target)


_RULES: dict[str, Callable[[Any, Tensor, Tensor | None], Iterator[Finding]]] = {
    "cross_entropy": losses_of_classes.cross_entropy,
    "nll_loss": losses_of_classes.nll,
    "ctc_loss": losses_of_classes.ctc,
    "kl_div": _kl,
    "binary_cross_entropy": losses_of_numbers.bce,
    "binary_cross_entropy_with_logits": losses_of_numbers.bce_logits,
    "mse_loss": losses_of_numbers.difference,
    "l1_loss": losses_of_numbers.difference,
    "smooth_l1_loss": losses_of_numbers.difference,
    "huber_loss": losses_of_numbers.difference,
}

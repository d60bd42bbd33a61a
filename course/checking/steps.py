"""Watch a training step: the order of zero_grad, backward, clip and step, and the parameters after it.

For exercises whose answer is a training step. A probe builds a fixed model and optimizer, runs the answer inside
:func:`watched_steps` and returns what it recorded together with the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import nn


class StepRecord:
    """What happened, in order: "zero_grad", "backward", "clip" and "step"."""

    def __init__(self, model: nn.Module) -> None:
        self.events: list[str] = []
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._gradients: list[torch.Tensor | None] | None = None

    def _snapshot(self) -> list[torch.Tensor | None]:
        return [None if p.grad is None else p.grad.detach().clone() for p in self._parameters]

    def after_backward(self) -> None:
        self.events.append("backward")
        self._gradients = self._snapshot()

    def before_step(self, *_: Any) -> None:
        # Seen from the gradients themselves: a clip counts however the answer's author has imported or written it.
        if self._gradients is not None and not _equal(self._gradients, self._snapshot()):
            self.events.append("clip")
        self.events.append("step")
        self._gradients = None

    def zeroed(self) -> None:
        self.events.append("zero_grad")
        self._gradients = self._snapshot()


def _equal(first: list[torch.Tensor | None], second: list[torch.Tensor | None]) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(first, second, strict=True)
    )


@contextmanager
def watched_steps(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[StepRecord]:
    """Record the steps that are taken inside the block.

    "clip" stands for any change of the gradients between backward() and step(). Gradients that are cleared without
    zero_grad() (``p.grad = None``) leave no event of their own; the parameters after two steps show them.
    """
    record = StepRecord(model)
    backward = torch.autograd.backward

    def watched_backward(*args: Any, **kwargs: Any) -> None:
        backward(*args, **kwargs)
        record.after_backward()

    def watched_zero(original: Any) -> Any:
        def zero_grad(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            record.zeroed()

        return zero_grad

    handle = optimizer.register_step_pre_hook(record.before_step)
    with ExitStack() as stack:
        stack.callback(handle.remove)
        stack.enter_context(mock.patch.object(torch.autograd, "backward", watched_backward))
        for owner in (optimizer, model):
            stack.enter_context(mock.patch.object(owner, "zero_grad", watched_zero(owner.zero_grad)))
        yield record

"""Try some training steps on one batch, with the learning rate as it is or changed, and see where the loss goes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from course.doctor import running

if TYPE_CHECKING:
    from course.doctor.setup import Setup


@dataclass
class Trial:
    """The loss at each step of a trial, before the step. factor: what the learning rate was multiplied by."""

    factor: float
    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    error: Exception | None = None

    @property
    def finite(self) -> bool:
        """Whether every loss is."""
        return all(math.isfinite(loss) for loss in self.losses)

    @property
    def fall(self) -> float:
        """By what share of its first value the loss fell; negative where it grew."""
        first, last = self.losses[0], self.losses[-1]
        return (first - last) / max(abs(first), 1e-12) if math.isfinite(last) else -math.inf

    @property
    def grown(self) -> bool:
        """Whether the loss went up and stayed there, or was lost altogether."""
        first = self.losses[0]
        if not math.isfinite(first):
            return False
        if not self.finite:
            return True
        tail = self.losses[-max(2, len(self.losses) // 3) :]
        return min(tail) > first + 0.5 * abs(first)

    @property
    def spiked(self) -> bool:
        """Whether the loss rose to many times its first value on the way."""
        return self.losses[0] > 1e-3 and max(self.losses) > 8 * self.losses[0]

    @property
    def stuck_high(self) -> bool:
        """Whether the loss rose to more than twice its first value and did not come back below it."""
        return self.losses[0] > 1e-3 and max(self.losses) > 2 * self.losses[0] and self.fall < 0.1


def try_steps(setup: Setup, steps: int, factor: float = 1.0, *, rate: float | None = None, share: float = 0.3) -> Trial:
    """Train on the first batch; everything is put back. The random numbers of each step are the same.

    factor: of the learning rate of each optimizer that steps. rate: in place of all of them. share: of the time left
    that it may take; it ends early when that is over.
    """
    trial = Trial(factor)
    end = setup.clock.left() * (1 - share)
    batch = setup.batches[0] if setup.batches else None
    with setup.scratch(), running.quiet(), _rates_changed(trial, factor, rate, setup):
        if setup.model is not None and not setup.model.training:
            setup.model.train()
        for _ in range(steps):
            torch.manual_seed(0)
            found: list[float] = []
            try:
                with losses_of(found):
                    setup.train_step(batch)
            except Exception as error:
                trial.error = error
                break
            if not found:
                break
            trial.losses.append(found[0])
            if not math.isfinite(found[0]) or not setup.clock.allows(end):
                break
    return trial


@contextlib.contextmanager
def losses_of(found: list[float]) -> Iterator[None]:
    """Collect the value of what each backward is called on, without a scaler's scale."""
    engine, scale = torch.autograd._engine_run_backward, torch.amp.GradScaler.scale
    before: dict[int, float] = {}

    def watched(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("accumulate_grad") and len(tensors) and isinstance(tensors[0], Tensor):
            root = tensors[0]
            if root.numel() == 1:
                found.append(before.get(id(root), float(root.detach())))
        return engine(tensors, *args, **kwargs)

    def scaled(self: Any, outputs: Any) -> Any:
        result = scale(self, outputs)
        if isinstance(outputs, Tensor) and outputs.numel() == 1:
            before[id(result)] = float(outputs.detach())
        return result

    with (
        mock.patch.object(torch.autograd, "_engine_run_backward", watched),
        mock.patch.object(torch.amp.GradScaler, "scale", scaled),
    ):
        yield


@contextlib.contextmanager
def _rates_changed(trial: Trial, factor: float, rate: float | None, setup: Setup) -> Iterator[None]:
    """Multiply learning rates just around each step, so that schedules do not notice."""
    held: dict[int, list[Any]] = {}

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        setup.keep_also(optimizer)
        held[id(optimizer)] = [group.get("lr") for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            trial.rates.append(float(group.get("lr", 0.0)))
            if "lr" in group:
                group["lr"] = rate if rate is not None else group["lr"] * factor

    def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group, lr in zip(optimizer.param_groups, held.pop(id(optimizer), []), strict=False):
            if lr is not None:
                group["lr"] = lr

    first = register_optimizer_step_pre_hook(before)
    second = register_optimizer_step_post_hook(after)
    try:
        yield
    finally:
        first.remove()
        second.remove()

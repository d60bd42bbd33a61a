"""Learning rate schedules as factors for ``torch.optim.lr_scheduler.LambdaLR``, and the rates a scheduler gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def warmup_cosine(step: int, *, total: int, warmup: int = 0, floor: float = 0.0) -> float:
    """Factor at step 0 .. total - 1: a straight rise over ``warmup`` steps, then half a cosine down to ``floor``.

    The first step has the factor 1 / warmup (not 0, which would waste it), step ``warmup`` has 1, and from step
    ``total`` on it stays at ``floor``.
    """
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))


def triangular(step: int, *, total: int, peak: float = 0.25, floor: float = 0.0) -> float:
    """Factor at step 0 .. total - 1: a straight rise to 1 at the share ``peak`` of the run, then straight to ``floor``.

    It starts at 0.2 and stays at ``floor`` from step ``total`` on.
    """
    top = peak * total
    if step < top:
        return 0.2 + 0.8 * step / top
    return max(floor, 1 - (1 - floor) * (step - top) / max(1, total - top))


def learning_rates(
    scheduler: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler], steps: int, *, lr: float = 0.1
) -> list[float]:
    """The learning rate of each step of an SGD run (momentum 0.9) under a scheduler; look at it before you train.

    scheduler: makes one from an optimizer, such as ``lambda o: StepLR(o, step_size=30)``. lr: of the optimizer.
    """
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=lr, momentum=0.9)
    made = scheduler(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        made.step()
    return rates

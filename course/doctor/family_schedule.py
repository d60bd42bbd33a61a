"""Learning-rate schedules: when they are stepped, and whether their length fits to that."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import lr_scheduler

from course.doctor.report import Finding
from course.doctor.setup import Setup

# How far a schedule is followed.
_HORIZON = 20_000
# A learning rate below this share of its peak is over.
_OVER = 0.01


def examine(setup: Setup) -> Iterator[Finding]:
    """scheduler-before-optimizer, scheduler-per-batch."""
    recording = setup.training
    if recording is None or setup.step is None:
        return
    events = recording.of("optimizer_step", "scaler_step", "scheduler_step")
    yield from too_early(events)
    length = epoch_length(setup.loader)
    for scheduler, steps, calls in stepped_per_batch(events, recording.calls):
        with_epoch = any(isinstance(event.metric, float) and event.metric % 1 for event in steps)
        if isinstance(scheduler, lr_scheduler.CosineAnnealingWarmRestarts) and with_epoch:
            continue  # stepped with a fraction of an epoch
        yield from too_fast(scheduler, length, len(steps), calls)


def too_early(events: list[Any]) -> Iterator[Finding]:
    """A schedule that moves on before the optimizer has used its first value."""
    stepped: set[int] = set()
    early: dict[int, list[Any]] = {}
    for event in events:
        if event.kind in ("optimizer_step", "scaler_step"):
            stepped.add(id(event.optimizer))
        elif id(event.optimizer) not in stepped:
            early.setdefault(id(event.optimizer), []).append(event)
    for optimizer, found in early.items():
        if optimizer not in stepped:
            continue
        first = found[0]
        changed = first.before != first.after
        yield Finding(
            "scheduler-before-optimizer",
            f"{type(first.scheduler).__name__}.step() came before the first {type(first.optimizer).__name__}.step(): "
            "the "
            + (
                f"learning rate {_short(max(first.before))} was replaced by {_short(max(first.after or [0.0]))} before "
                "it was used."
                if changed
                else "schedule is one step ahead of the updates."
            ),
            severity="warning",
        )
        return


def stepped_per_batch(events: list[Any], calls: int) -> Iterator[tuple[Any, list[Any], int]]:
    """Schedulers that are stepped with (nearly) each update of the parameters, and by how many calls."""
    by_scheduler: dict[int, list[Any]] = {}
    for event in events:
        if event.kind == "scheduler_step" and event.phase == "step":
            by_scheduler.setdefault(id(event.scheduler), []).append(event)
    for steps in by_scheduler.values():
        updates = sum(
            event.kind == "optimizer_step" and event.optimizer is steps[0].optimizer and event.phase == "step"
            for event in events
        )
        if len(steps) >= 2 and len(steps) >= 0.9 * min(updates or calls, calls):
            yield steps[0].scheduler, steps, calls


def epoch_length(loader: Any) -> int | None:
    """Batches of an epoch; None where nobody knows."""
    try:
        return len(loader)
    except TypeError:
        return None


def too_fast(scheduler: Any, length: int | None, steps: int, calls: int) -> Iterator[Finding]:
    """A schedule whose rate is practically zero long before a run can be over, stepped for each batch."""
    per_step = f"{type(scheduler).__name__} was stepped {steps} times in {calls} batches"
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        if length and scheduler.patience < min(length, 50) and scheduler.patience <= 20:
            yield Finding(
                "scheduler-per-batch",
                f"{per_step}. Its patience of {scheduler.patience} counts calls: it lowers the rate after "
                f"{scheduler.patience + 1} batches without a new best loss, within an epoch of {length} batches, where "
                "single batches differ by chance.",
                severity="warning",
            )
        return
    rates = follow(scheduler, _HORIZON if length is None else min(_HORIZON, 10 * length + 200))
    if len(rates) < 3 or max(rates) <= 0:
        return
    verdict = judge(rates, length, epochwise=is_epochwise(scheduler, rates, length))
    if verdict is not None:
        yield Finding("scheduler-per-batch", f"{per_step}. {verdict}", severity="warning")


def judge(rates: list[float], length: int | None, *, epochwise: bool) -> str | None:
    """Say what is wrong with rates, one for each batch, if they are those of a schedule counted in epochs.

    length: batches of an epoch, None where unknown. epochwise: whether the schedule has a step or a decay that is only
    sensible once an epoch, so that it is judged over several epochs; others have an end of their own, and are wrong
    only if that comes well within the first epoch.
    """
    # The first that reaches the peak; later ones of a periodic schedule are higher by rounding.
    top = next(i for i, rate in enumerate(rates) if rate >= 0.999 * max(rates))
    peak = rates[top]
    over = next((i for i in range(top, len(rates)) if rates[i] <= _OVER * peak), None)
    epoch = length or 50
    limit = max(5 * epoch, 50) if epochwise else 0.8 * epoch
    if over is None or over >= limit:
        return None
    end = min(epoch, len(rates) - 1)
    known = f"an epoch has {length} batches" if length else "the number of batches of an epoch is not known"
    return (
        f"The rate falls from {_short(peak)} below a hundredth of that after {over} batches ({known}); "
        f"after batch {end} it is {_short(rates[end])}."
    )


def is_epochwise(scheduler: Any, rates: list[float], length: int | None) -> bool:
    """Whether a schedule is of a kind that decays without an end of its own, faster than per-batch ones do."""
    parts = getattr(scheduler, "_schedulers", None) or [scheduler]
    last = parts[-1]
    epoch = length or 50
    if isinstance(last, lr_scheduler.StepLR):
        return bool(last.step_size < epoch)
    if isinstance(last, lr_scheduler.MultiStepLR):
        return bool(min(last.milestones, default=epoch) < epoch)
    if isinstance(last, lr_scheduler.ExponentialLR):
        return bool(last.gamma <= 0.97)
    # A factor that is the same at each step is exponential decay, whatever class computes it.
    top = next(i for i, rate in enumerate(rates) if rate >= 0.999 * max(rates))
    tail = [rate for rate in rates[top : top + 30] if rate > 0]
    factors = [b / a for a, b in itertools.pairwise(tail)]
    return len(factors) >= 10 and max(factors) <= 0.97 and max(factors) - min(factors) < 1e-6


def follow(scheduler: Any, steps: int) -> list[float]:
    """The largest rate of the groups at each of the coming steps, tried on a copy; [] where it cannot be copied."""
    optimizer = scheduler.optimizer
    groups = [
        {"params": [torch.zeros(1)], **{k: copy.deepcopy(v) for k, v in group.items() if k != "params"}}
        for group in optimizer.param_groups
    ]
    rates: list[float] = []
    try:
        stand_in = torch.optim.SGD(groups, lr=0.0)
        parts = [scheduler, *getattr(scheduler, "_schedulers", ())]
        own = [bound for part in parts for bound in getattr(part, "lr_lambdas", ())]
        memo = {id(optimizer): stand_in, **{id(function): function for function in own}}
        twin = copy.deepcopy(scheduler, memo)
        rates.append(_rate(stand_in))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(steps):
                twin.step()
                rates.append(_rate(stand_in))
                if len(rates) > 200 and rates[-1] <= 1e-6 * max(rates):
                    break
    except Exception:  # an end that raises (OneCycleLR), or a schedule that is not to be copied
        pass
    return rates


def _rate(optimizer: torch.optim.Optimizer) -> float:
    return max(float(group["lr"]) for group in optimizer.param_groups)


def _short(number: float) -> str:
    return f"{number:.3g}"

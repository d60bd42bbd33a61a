"""Whether a few steps on one batch make its loss fall, and whether the learning rate is what prevents it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from torch.optim import lr_scheduler

from course.doctor.family_schedule import follow
from course.doctor.report import Finding
from course.doctor.setup import Setup
from course.doctor.trials import Trial, try_steps

_STEPS = 20
_FEWEST = 6
# A loss that loses less than this share of itself in a step needs tens of thousands of steps to halve.
_STANDSTILL = 3e-5


def examine(setup: Setup) -> Iterator[Finding]:
    """learning-rate-too-high, learning-rate-too-low."""
    recording = setup.training
    if recording is None or recording.error is not None or not recording.of("backward"):
        return
    updates = [e for e in recording.of("optimizer_step", "scaler_step") if e.get("optimizer") is not None]
    if len({id(event.optimizer) for event in updates}) > 1:
        return  # losses of several networks need not fall
    if updates:
        yield from rate_of_zero(setup, recording.of("optimizer_step"))
    per_step = recording.seconds / max(1, recording.calls)
    # What is not watched takes less than that; the trial itself looks at the clock.
    if not setup.clock.allows(2 * per_step):
        setup.skip("whether one batch can be learnt", f"{per_step:.2g} s a step leave no time")
        return
    usual = try_steps(setup, _STEPS * _calls_per_update(recording), share=0.5)
    steps = len(usual.losses)
    if steps < _FEWEST and usual.error is None and usual.finite:
        setup.skip("whether one batch can be learnt", f"there was time for {steps} steps")
        return
    if steps < 2 or not math.isfinite(usual.losses[0]) or usual.error is not None:
        return
    if usual.grown or usual.spiked or usual.stuck_high:
        yield from too_high(setup, usual, steps, bool(updates))
    elif updates and abs(usual.losses[0]) > 1e-6 and abs(usual.fall) < _STANDSTILL * len(usual.losses):
        yield from too_low(setup, usual, steps)


def _calls_per_update(recording: object) -> int:
    calls = max(1, recording.calls)
    updates = len(recording.of("optimizer_step"))
    return min(8, max(1, round(calls / updates))) if updates else 1


def rate_of_zero(setup: Setup, events: list) -> Iterator[Finding]:
    """A learning rate that is 0 and will be."""
    if not events or any(rate > 0 for event in events for rate in event.rates):
        return
    if any(peak_factor(setup, event.optimizer) for event in events[:1]):
        return
    norms = [norm for norm in events[0].gradients.values() if norm]
    yield Finding(
        "learning-rate-too-low",
        f"The learning rate of {type(events[0].optimizer).__name__} is 0 in all {len(events)} steps, and no schedule "
        f"raises it: gradients of norm {math.hypot(*norms):.3g} changed nothing.",
    )


def peak_factor(setup: Setup, optimizer: object) -> float | None:
    """How much higher the rate will be at the peak of a schedule (inf from 0); None where no schedule raises it."""
    schedulers = [*setup.schedulers, *(thing for _, thing in setup.reached(lr_scheduler.LRScheduler))]
    best = None
    now = max((float(group.get("lr", 0.0)) for group in optimizer.param_groups), default=0.0)
    peaks = [float(group[key]) for group in optimizer.param_groups for key in ("max_lr", "initial_lr") if key in group]
    for scheduler in schedulers:
        if getattr(scheduler, "optimizer", None) is optimizer:
            peaks += follow(scheduler, 2000)
    if peaks and max(peaks) > now:
        best = max(peaks) / now if now else math.inf
    return best


def too_high(setup: Setup, usual: Trial, steps: int, has_optimizer: bool) -> Iterator[Finding]:
    """The loss of one batch grew; with a smaller rate it falls."""
    if not has_optimizer:
        if not usual.finite or usual.losses[-1] > 1000 * abs(usual.losses[0]):
            yield Finding(
                "learning-rate-too-high",
                f"On one batch the loss went {_course(usual)}.",
                severity="warning",
                confidence=0.6,
            )
        return
    for factor in (0.1, 0.01, 0.001):
        trial = try_steps(setup, steps, factor)
        if len(trial.losses) < 3 or not trial.finite or max(trial.losses) >= 2 * abs(trial.losses[0]):
            continue
        if trial.fall > (0 if usual.grown or usual.spiked else 0.3):
            rate = max(usual.rates, default=0.0)
            yield Finding(
                "learning-rate-too-high",
                f"On one batch, with the learning rate {rate:.3g} as it is, the loss went {_course(usual)}; with "
                f"{rate * factor:.3g} it went {_course(trial)}.",
            )
            return


def too_low(setup: Setup, usual: Trial, steps: int) -> Iterator[Finding]:
    """The loss of one batch stood still; with a rate that is many times higher it falls."""
    rates = usual.rates
    rising = len(set(rates)) > 2 and any(b > a for a, b in itertools.pairwise(rates[:8]))
    if not rates or max(rates) == 0 or rising:
        return  # told by rate_of_zero, or a warm-up
    optimizers = {id(e.optimizer): e.optimizer for e in setup.training.of("optimizer_step")}
    for optimizer in optimizers.values():
        factor = peak_factor(setup, optimizer)
        if factor is not None and factor != math.inf:
            peak = try_steps(setup, steps, factor)
            if len(peak.losses) >= 3 and abs(peak.fall) >= _STANDSTILL * len(peak.losses):
                return
    for factor in (1e2, 1e4, 1e6, 1e7, 1e8):
        trial = try_steps(setup, steps, factor)
        if len(trial.losses) >= 3 and trial.finite and trial.fall > 0.1:
            rate = max(rates)
            yield Finding(
                "learning-rate-too-low",
                f"On one batch, with the learning rate {rate:.3g} as it is, the loss went {_course(usual)}, a change "
                f"of {abs(usual.fall):.1e} of it; with {rate * factor:.3g} it went {_course(trial)}.",
                severity="warning",
            )
            return
    setup.note(
        f"The loss of one batch stood still ({_course(usual)}), and did so with learning rates a hundred to 1e8 times "
        "higher."
    )


def _course(trial: Trial) -> str:
    first, last = trial.losses[0], trial.losses[-1]
    top = max(trial.losses)
    over = f" over {top:.5g}" if top > 2 * max(abs(first), abs(last)) else ""
    return f"from {first:.5g}{over} to {last:.5g} in {len(trial.losses)} steps"

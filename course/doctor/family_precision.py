"""Half precision: overflow, underflow, what the scaler is given, and sums that stand still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from course.doctor.replay import replay
from course.doctor.report import Finding
from course.doctor.setup import Setup
from course.doctor.watch import Recording

_HALVES = (torch.float16, torch.bfloat16)
_BOOST = 2.0**12


def examine(setup: Setup) -> Iterator[Finding]:
    """half-overflow, gradient-underflow, pure-half-adam, half-accumulator, legacy-amp-api, scaler-update-missing,
    unscale-twice."""
    yield from old_names(setup)
    recording = setup.training
    if recording is None:
        return
    yield from scaler_misused(recording)
    yield from adam_on_halves(recording)
    if recording.error is not None:
        return
    seen = replay(setup)
    if seen.overflow:
        name, shape, largest = seen.overflow[0]
        yield Finding(
            "half-overflow",
            f"The operation {name} gave an infinite float16 in a result of shape {shape}; its inputs were finite, the "
            f"largest {largest:.4g}. float16 ends at 65504.",
        )
    if seen.stuck:
        name, shape, dtype, same = seen.stuck[0]
        number = "a single number" if shape in ((), (1,)) else f"a tensor of shape {shape}"
        yield Finding(
            "half-accumulator",
            f"{name}_ on {number} in {dtype}, which lasts from step to step, left {same:.0%} of it as it was."
            if same > 0.5
            else f"{name}_ adds up in {number} of {dtype}: equal amounts stop to count after "
            f"{256 if dtype == torch.bfloat16 else 2048} of them.",
            severity="warning",
        )
    yield from underflow(setup, recording)


def old_names(setup: Setup) -> Iterator[Finding]:
    """torch.cuda.amp in place of torch.amp."""
    recordings = [r for r in (setup.training, setup.evaluation) if r is not None]
    names = sorted({event.name for r in recordings for event in r.of("old_name")})
    scalers = [setup.scaler, *(thing for _, thing in setup.reached(torch.cuda.amp.GradScaler))]
    if any(isinstance(scaler, torch.cuda.amp.GradScaler) for scaler in scalers):
        names.append("torch.cuda.amp.GradScaler")
    if not names:
        return
    missing = "" if torch.cuda.is_available() else " No CUDA device is here, so they switch themselves off."
    yield Finding(
        "legacy-amp-api",
        f"{', '.join(dict.fromkeys(names))}: names from before torch 2.4.{missing}",
        severity="warning",
    )


def scaler_misused(recording: Recording) -> Iterator[Finding]:
    """A scaler whose calls raise or whose scaled loss is not what backward was called on."""
    for event in recording.of("scaler_step", "unscale"):
        text = event.error or ""
        if "step() has already been called since the last update()" in text:
            yield Finding(
                "scaler-update-missing",
                f"scaler.step() was called a second time without scaler.update() in between: {text}",
                confidence=0.97,
            )
            return
        if "unscale_() has already been called" in text or "unscale_() is being called after step()" in text:
            yield Finding(
                "unscale-twice", f"scaler.unscale_() was called again before update(): {text}", confidence=0.97
            )
            return
    steps = [event for event in recording.of("scaler_step") if event.enabled and not event.own]
    scaled = [event for event in recording.of("scale") if event.enabled]
    passes = [event for event in recording.of("backward") if not event.nested]
    if steps and scaled and passes and not any(event.scale for event in passes) and scaled[0].scale != 1:
        yield Finding(
            "gradient-underflow",
            f"scaler.scale(loss) was called, but backward() ran on a loss that is not scaled ({passes[0].loss:.4g}); "
            f"scaler.step() divided the gradients by {scaled[0].scale:.4g} all the same.",
            fix="Call backward() on what scale() returns: scaler.scale(loss).backward().",
            severity="warning",
        )
    updates = recording.of("scaler_update")
    if len(steps) >= 2 and not updates and recording.error is None:
        yield Finding(
            "scaler-update-missing",
            f"scaler.step() was called {len(steps)} times and update() never: the scale stays {steps[-1].scale:g}.",
        )


def adam_on_halves(recording: Recording) -> Iterator[Finding]:
    """Optimizers with moments whose parameters are half, so that eps and squares of gradients vanish."""
    for event in recording.of("optimizer_step"):
        for group in event.optimizer.param_groups:
            halves = [p for p in group["params"] if p.dtype in _HALVES and p.requires_grad]
            if not halves or "eps" not in group or _own_precision(event.optimizer, halves):
                continue
            kind, lr = type(event.optimizer).__name__, float(group.get("lr", 0.0))
            lost = [p for p in halves if p.dtype == torch.float16 and float(torch.tensor(group["eps"]).half()) == 0]
            if lost:
                yield Finding(
                    "pure-half-adam",
                    f"{kind} holds {len(lost)} float16 parameters; its eps of {group['eps']:g} is 0 in float16, and so "
                    "is the square of a gradient below 2e-4. The largest change of a parameter in one step was "
                    f"{max(event.moved.values(), default=0.0):.3g}, at a learning rate of {lr:g}.",
                )
                return
            share = _standing_still(halves, lr)
            if share > 0.5:
                yield Finding(
                    "pure-half-adam",
                    f"{kind} holds {len(halves)} {halves[0].dtype} parameters. At a learning rate of {lr:g}, "
                    f"{share:.0%} of their entries are so large that a step of that size rounds back to where it was.",
                    severity="warning",
                )
                return


def _own_precision(optimizer: torch.optim.Optimizer, halves: list[Tensor]) -> bool:
    """Whether the optimizer keeps its moments wider than the parameters."""
    for parameter in halves[:3]:
        moments = [v for v in optimizer.state.get(parameter, {}).values() if isinstance(v, Tensor) and v.dim()]
        if moments and all(value.dtype not in _HALVES for value in moments):
            return True
    return False


def _standing_still(halves: list[Tensor], lr: float) -> float:
    if lr == 0:
        return 0.0
    with torch.no_grad():
        still = sum(int((p.detach().float().abs() * _half_gap(p.dtype) > lr).sum()) for p in halves)
    return still / max(1, sum(p.numel() for p in halves))


def _half_gap(dtype: torch.dtype) -> float:
    """Half the relative distance to the next number."""
    return torch.finfo(dtype).eps / 4


def underflow(setup: Setup, recording: Recording) -> Iterator[Finding]:
    """float16 gradients that are zero, and are not when the loss is larger."""
    if any(event.enabled for event in recording.of("scale")) or not recording.of("backward"):
        return
    autocast = any(event.autocast == torch.float16 for event in recording.of("forward", "loss"))
    if not autocast and not any(p.dtype == torch.float16 for p in setup.parameters.values()):
        return
    plain, boosted = zero_share(setup, 1.0), zero_share(setup, _BOOST)
    if plain is None or boosted is None or plain - boosted < 0.1:
        return
    yield Finding(
        "gradient-underflow",
        f"{plain:.0%} of the entries of the gradients are exactly 0 in float16; with a loss multiplied by {_BOOST:g} "
        f"they are {boosted:.0%}. No scaler is used.",
        severity="warning",
    )


def zero_share(setup: Setup, factor: float) -> float | None:
    """Share of the gradients' entries that are exactly 0 after one backward whose loss is multiplied by a factor."""
    shares: list[float] = []
    engine = torch.autograd._engine_run_backward

    def larger(tensors: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
        grads = tuple(None if grad is None else grad * factor for grad in grads)
        result = engine(tensors, grads, *args, **kwargs)
        found = [p.grad for p in setup.parameters.values() if p.grad is not None and not p.grad.is_sparse]
        entries = sum(grad.numel() for grad in found)
        if entries:
            shares.append(sum(int((grad == 0).sum()) for grad in found) / entries)
        return result

    if not _one_step(setup, larger):
        return None
    return shares[0] if shares else None


def _one_step(setup: Setup, engine: Callable[..., Any]) -> bool:
    batch = setup.batches[0] if setup.batches else None
    with setup.scratch(), mock.patch.object(torch.autograd, "_engine_run_backward", engine):
        if setup.model is not None and not setup.model.training:
            setup.model.train()
        try:
            torch.manual_seed(0)
            setup.train_step(batch)
        except Exception:
            return False
    return True

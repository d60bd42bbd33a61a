"""Initialisation: units that are and stay identical, units that nothing wakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor import loading, registration, tour
from course.doctor.loss_values import size
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup

_STEPS = 6
_LAYERS = (nn.Linear, nn.Bilinear, nn.RNNBase, nn.MultiheadAttention, nn.modules.conv._ConvNd)
_DEAD = 0.75
_SATURATED = 0.75
_ROWS = 32


def examine(setup: Setup) -> Iterator[Finding]:
    """Symmetric weights by what training makes of them; dead and saturated activations on the first batches."""
    found = candidates(setup)
    if found:
        yield from _symmetric(setup, found)
    seen = tour.take(setup)
    if seen is not None:
        yield from dead(seen)


# --- symmetry -----------------------------------------------------------------------------------------------------


def units(module: nn.Module, weight: Tensor) -> list[Tensor]:
    """A weight as matrices with one row for each unit; gates of recurrent layers apart."""
    weight = weight.detach()
    if isinstance(module, nn.modules.conv._ConvTransposeNd):
        weight = weight.transpose(0, 1)
    rows = weight.flatten(1)
    if not isinstance(module, _LAYERS):
        # A parameter of the user's own, as in x @ weight: its units are columns.
        rows = rows.t()
    gates = {"LSTM": 4, "GRU": 3}.get(getattr(module, "mode", ""), 1)
    if isinstance(module, nn.MultiheadAttention) and rows.shape[0] == 3 * rows.shape[1]:
        gates = 3
    return list(rows.chunk(gates))


def identical(matrices: list[Tensor], slack: float = 1e-6) -> bool:
    """Whether in each matrix all rows are equal, up to rounding: slack times the largest value."""
    for rows in matrices:
        if rows.shape[0] < 2:
            return False
        spread = (rows - rows[:1]).abs().max()
        if not torch.isfinite(spread) or float(spread) > slack * float(rows.abs().max()):
            return False
    return True


def candidates(setup: Setup) -> list[tuple[str, nn.Module, nn.Parameter]]:
    """(name, module, weight) of trainable weights whose units are all equal now."""
    found = []
    for name, module in setup.modules.items():
        if not isinstance(module, _LAYERS) and not registration.users(module):
            continue
        groups = getattr(module, "groups", 1)
        if isinstance(groups, int) and groups > 1:
            continue  # each unit has inputs of its own
        for key, weight in module.named_parameters(recurse=False):
            if weight.ndim < 2 or not weight.requires_grad or isinstance(weight, nn.UninitializedParameter):
                continue
            if not isinstance(module, _LAYERS) and (weight.ndim != 2 or min(weight.shape) < 2):
                continue
            if identical(units(module, weight)):
                found.append((f"{name}.{key}" if name else key, module, weight))
    return found


def _symmetric(setup: Setup, found: list[tuple[str, nn.Module, nn.Parameter]]) -> Iterator[Finding]:
    recording = setup.training
    if recording is None or not setup.batches:
        yield from _static(setup, found)
        return
    if recording.error is not None or not recording.calls:
        return
    if not setup.clock.allows(_STEPS * recording.seconds / recording.calls):
        setup.skip("weights that are equal", "the budget was spent before")
        return
    gradients: dict[int, list[bool]] = {id(weight): [] for _, _, weight in found}
    kept = []
    with setup.scratch():
        if setup.model is not None:
            setup.model.train()
        start = {id(p): p.detach().clone() for p in setup.parameters.values()}
        hooks = [weight.register_hook(_noter(module, gradients[id(weight)])) for _, module, weight in found]
        try:
            for number in range(_STEPS):
                setup.train_step(setup.to_device(loading.copy_of(setup.batches[number % len(setup.batches)])))
        except Exception:
            return
        finally:
            for hook in hooks:
                hook.remove()
        moved = any(not torch.equal(start[id(p)], p) for p in setup.parameters.values() if id(p) in start)
        for name, module, weight in found:
            seen = gradients[id(weight)]
            if len(seen) > 1 and seen[-1] and seen[-2] and identical(units(module, weight), 1e-4):
                kept.append((name, module, weight))
    if kept and moved:
        name, module, weight = kept[0]
        rows = units(module, weight)[0].shape[0]
        more = f" So have {len(kept) - 1} more weights." if len(kept) > 1 else ""
        alike = (
            f"all values are {_value(weight)}" if float(weight.min()) == float(weight.max()) else "all rows are equal"
        )
        yield Finding(
            "symmetric-init",
            f"`{name}` {size(weight)} has {rows} identical units ({alike}), they get identical gradients, and after "
            f"{_STEPS} steps of training they are still identical.{more}",
        )


def _value(weight: Tensor) -> str:
    return f"{float(weight.detach().flatten()[0]):.4g}"


def _noter(module: nn.Module, seen: list[bool]) -> Any:
    def note(gradient: Tensor) -> None:
        seen.append(identical(units(module, gradient), 1e-3) or not bool(gradient.any()))

    return note


def _static(setup: Setup, found: list[tuple[str, nn.Module, nn.Parameter]]) -> Iterator[Finding]:
    """Without data: only where every weight of a model with hidden layers is so."""
    weights = [p for p in setup.parameters.values() if p.ndim > 1 and p.requires_grad and p.shape[0] > 1]
    alike = {id(weight) for _, _, weight in found}
    if len(found) >= 1 and len(weights) >= 1 and all(id(p) in alike for p in weights) and len(setup.parameters) > 2:
        name, _, weight = found[0]
        yield Finding(
            "symmetric-init",
            f"All {len(weights)} weights with several units have identical units, such as `{name}` {size(weight)}.",
        )


# --- dead and saturated units -------------------------------------------------------------------------------------


def dead(seen: tour.Tour) -> Iterator[Finding]:
    """Layers of which nearly all units are off, or at the ends of their range, for all samples seen."""
    worst: tuple[float, str] | None = None
    for activation in seen.activations.values():
        where = f"behind `{activation.name}`" if activation.name not in ("", "?") else "in the model"
        if activation.rows < _ROWS:
            continue
        if activation.alive is not None and activation.alive.numel() >= 4:
            number = activation.alive.numel()
            off = number - int(activation.alive.sum())
            if off / number >= _DEAD and (worst is None or off / number > worst[0]):
                worst = (
                    off / number,
                    f"{off} of {number} units of a {activation.kind} {where} are 0 for all {activation.rows} samples "
                    "seen, "
                    "so no gradient passes them.",
                )
        elif activation.values and not activation.is_output:
            share = activation.flat / activation.values
            if share >= _SATURATED and (worst is None or share > worst[0]):
                worst = (
                    share,
                    f"{100 * share:.0f} % of the values of a {activation.kind} {where} lie at the ends of its range, "
                    "for "
                    f"{activation.rows} samples: there its slope is below "
                    f"{0.02 if activation.kind == 'tanh' else 0.01}.",
                )
    if worst is not None:
        yield Finding("dead-activation", worst[1], severity="warning", confidence=0.8)

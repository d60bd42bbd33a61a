"""The scale of what the first layer is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor import tour
from course.doctor.family_structure import call_of_model
from course.doctor.loss_values import size
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup

_LARGE = 50.0
_ROWS = 8


def examine(setup: Setup) -> Iterator[Finding]:
    """Grey levels, features of very different scale, inputs that pretrained statistics do not fit."""
    seen = tour.take(setup)
    if seen is None:
        return
    for module, name, given in seen.firsts:
        if isinstance(module, (nn.Linear, nn.Bilinear, nn.RNNBase, nn.modules.conv._ConvNd)):
            found = list(judge(module, name, given))
            if found:
                yield from found
                break
    with setup.scratch():
        yield from _pretrained(setup)


def judge(module: nn.Module, name: str, given: Tensor) -> Iterator[Finding]:
    """What the input of a first layer tells: it is measured there, behind whatever the model normalises itself."""
    if not given.is_floating_point() or given.ndim < 2 or given.numel() < 2 or not bool(torch.isfinite(given).all()):
        return
    image = isinstance(module, nn.Conv2d)
    low, high = float(given.min()), float(given.max())
    layer = f"`{name}` ({type(module).__name__})" if name not in ("", "?") else f"the {type(module).__name__}"
    seen = f"The first layer, {layer}, is given {size(given)} with values from {low:.4g} to {high:.4g}"
    whole = float((given == given.round()).double().mean())
    wide = image or given.shape[-1] >= 48 or given.ndim > 3
    if wide and low >= 0 and 100 <= high <= 255.5 and (image or whole > 0.9):
        yield Finding(
            "input-scale-mismatch",
            f"{seen}, {100 * whole:.0f} % of them whole numbers: grey levels of 0 to 255, where layers are made for "
            "inputs of "
            "about 1.",
        )
    elif image and low >= 0 and 0 < high <= 1 / 250:
        yield Finding(
            "input-scale-mismatch",
            f"{seen}: grey levels that were divided by 255 twice (1/255 is 0.0039).",
        )
    else:
        yield from _features(module, given, seen)


def _features(module: nn.Module, given: Tensor, seen: str) -> Iterator[Finding]:
    axis = 1 if isinstance(module, nn.modules.conv._ConvNd) and given.ndim > 2 else given.ndim - 1
    columns = given.double().movedim(axis, 0).flatten(1)
    if columns.shape[1] < _ROWS:
        return
    scale = columns.square().mean(1).sqrt()
    varies = scale[scale > 0]
    if not len(varies):
        return
    top, bottom = float(scale.max()), float(varies.min())
    if top < _LARGE and not (top >= 10 and top / bottom >= 1000):
        return
    largest = int(scale.argmax())
    mean, deviation = float(columns[largest].mean()), float(columns[largest].std())
    others = f" The smallest has {bottom:.3g}." if len(varies) > 1 else ""
    yield Finding(
        "unnormalised-inputs",
        f"{seen}. Feature {largest} of {len(scale)} has a mean of {mean:.4g} and a deviation of {deviation:.3g}; its "
        "root "
        f"mean square is {top:.3g}.{others}",
    )


def _pretrained(setup: Setup) -> Iterator[Finding]:
    """Inputs of the first trained BatchNorm against the statistics that it has learnt."""
    found = call_of_model(setup)
    if found is None:
        return
    model, args, kwargs = found
    norms = [
        module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm) and trained(module)
    ]
    if not norms:
        return
    inputs: list[tuple[nn.Module, Tensor]] = []

    def note(module: nn.Module, given: Any) -> None:
        if not inputs and isinstance(given[0], Tensor):
            inputs.append((module, given[0].detach().double()))

    hooks = [module.register_forward_pre_hook(note) for module in norms]
    model.eval()
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    except Exception:
        return
    finally:
        for hook in hooks:
            hook.remove()
    for module, given in inputs:
        axes = [axis for axis in range(given.ndim) if axis != 1]
        if given.ndim < 2 or given.shape[0] < _ROWS:
            continue
        deviation = module.running_var.double().clamp_min(1e-12).sqrt()
        apart = float(((given.mean(axes) - module.running_mean.double()).abs() / deviation).median())
        ratio = float((given.std(axes) / deviation).median())
        if apart > 2 or not 1 / 4 < ratio < 4:
            yield Finding(
                "pretrained-normalisation",
                f"The first BatchNorm, `{setup.name_of(module)}`, has learnt statistics. In this batch its channels "
                "lie "
                f"{apart:.2g} deviations from the learnt means, and their deviation is {ratio:.2g} times the learnt "
                "one "
                "(medians over the channels): the inputs are on another scale than those it was trained on.",
                severity="warning",
            )


def trained(module: nn.Module) -> bool:
    """Whether running statistics come from enough batches to be relied on, or from a checkpoint without a count."""
    if module.running_mean is None or module.running_var is None:
        return False
    changed = bool(module.running_mean.any()) or bool((module.running_var != 1).any())
    count = int(module.num_batches_tracked) if module.num_batches_tracked is not None else 0
    return changed and (count == 0 or count >= 50)

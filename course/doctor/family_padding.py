"""Padding that takes part in outputs or in the loss, where a mask or lengths say what is padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor import datasets
from course.doctor.family_structure import call_of_model
from course.doctor.loss_values import size
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup


def examine(setup: Setup) -> Iterator[Finding]:
    """A sample alone and in its batch; losses that count padded positions."""
    found = call_of_model(setup)
    if found is None or not setup.batches:
        return
    model, args, kwargs = found
    given = next((v for v in (*datasets.arrays(list(args)), *datasets.arrays(kwargs)) if v.ndim in (2, 3)), None)
    if given is None:
        return
    others = [*datasets.arrays(list(args)), *datasets.arrays(kwargs), *datasets.arrays(setup.batches[0])]
    lengths = real_lengths(given, others)
    if lengths is None:
        # Without a mask an embedding may say which token is padding: enough to look at the loss.
        lengths = _by_padding_index(model, given)
        if lengths is not None:
            yield from _in_loss(setup, given, lengths)
        return
    yield from _in_loss(setup, given, lengths)
    with setup.scratch():
        model.eval()
        yield from _alone(model, args, kwargs, given, lengths)


def real_lengths(given: Tensor, others: list[Tensor]) -> list[int] | None:
    """How many positions of each sample are real, by a mask (N, T) or lengths (N,) that agree with constant padding."""
    number, steps = given.shape[:2]
    if number < 2 or steps < 2:
        return None
    for other in others:
        if other is given or other.is_complex():
            continue
        if tuple(other.shape) == (number, steps + 1) and _binary(other):
            other = other[:, :steps]  # the inputs of a language model are all tokens but the last
        if tuple(other.shape) == (number, steps) and _binary(other):
            mask = other != 0
            choices = [mask.sum(1), (~mask).sum(1)]
            choices = [c for c, real in zip(choices, (mask, ~mask), strict=True) if _begins(real)]
        elif other.ndim == 1 and len(other) == number and not other.is_floating_point() and other.dtype != torch.bool:
            choices = [other]
        else:
            continue
        for lengths in choices:
            if _fits(given, [int(n) for n in lengths]):
                return [int(n) for n in lengths]
    return None


def _by_padding_index(model: nn.Module, given: Tensor) -> list[int] | None:
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None and not given.is_floating_point():
            real = given != module.padding_idx
            if given.ndim == 2 and _begins(real) and _fits(given, real.sum(1).tolist()):
                return [int(n) for n in real.sum(1)]
    return None


def _binary(value: Tensor) -> bool:
    return value.dtype == torch.bool or bool(((value == 0) | (value == 1)).all())


def _begins(real: Tensor) -> bool:
    """Whether the real positions of each sample stand at its beginning."""
    return bool((real.int().diff(dim=1) <= 0).all())


def _fits(given: Tensor, lengths: list[int]) -> bool:
    """Whether everything behind the lengths is one and the same value, and what stands before is not."""
    steps = given.shape[1]
    if min(lengths) < 1 or max(lengths) > steps or min(lengths) == steps:
        return False
    tails = torch.cat([given[row, length:].flatten() for row, length in enumerate(lengths)])
    if not tails.numel() or bool((tails != tails[0]).any()):
        return False
    ends = [bool((given[row, length - 1] != tails[0]).any()) for row, length in enumerate(lengths) if length < steps]
    return sum(ends) >= 0.9 * len(ends)


def _in_loss(setup: Setup, given: Tensor, lengths: list[int]) -> Iterator[Finding]:
    number, steps = given.shape[:2]
    padding = torch.arange(steps)[None] >= torch.tensor(lengths)[:, None]
    for event in setup.training.of("loss", call=0) if setup.training else ():
        target = event.target
        if not isinstance(target, Tensor) or event.options.get("reduction", "mean") == "none":
            continue
        if target.shape[:2] != (number, steps) and not (target.ndim == 1 and target.numel() == number * steps):
            continue
        if not isinstance(event.input, Tensor) or event.input.numel() < target.numel():
            continue
        wanted = target.detach().cpu().reshape(number, steps, -1)[..., 0]
        counted = padding
        if event.name in ("cross_entropy", "nll_loss"):
            counted = padding & (wanted != event.options.get("ignore_index", -100))
        elif isinstance(event.options.get("weight"), Tensor):
            continue
        if int(counted.sum()):
            yield Finding(
                "padding-leaks",
                f"`{event.name}` counts {int(counted.sum())} padded positions of {number * steps} ({size(target)}): "
                "the "
                f"lengths go from {min(lengths)} to {max(lengths)}, and none of these targets is ignored.",
            )
            return


def _alone(model: Any, args: Any, kwargs: Any, given: Tensor, lengths: list[int]) -> Iterator[Finding]:
    row = min(range(len(lengths)), key=lengths.__getitem__)
    length = lengths[row]
    number, steps = given.shape[:2]

    def cut(value: Any) -> Any:
        """A tensor's part for this sample, without padding."""
        if isinstance(value, dict):
            return {key: cut(member) for key, member in value.items()}
        if type(value) in (list, tuple):
            return type(value)(cut(member) for member in value)
        if not isinstance(value, Tensor) or not value.ndim:
            return value
        if value.shape[0] == number:
            value = value[row : row + 1]
        # Beyond axis 1 only masks have an axis of positions.
        last = value.ndim if value.dtype == torch.bool or value.ndim == 4 else 2
        for axis in range(1, min(last, value.ndim)):
            if value.shape[axis] == steps:
                value = value.narrow(axis, 0, length)
        return value

    try:
        with torch.no_grad():
            together, again, alone = model(*args, **kwargs), model(*args, **kwargs), model(*cut(args), **cut(kwargs))
    except Exception:
        return
    ours, same, theirs = (_first(value) for value in (together, again, alone))
    if ours is None or theirs is None or same is None or not torch.equal(ours, same) or ours.shape[0] != number:
        return
    ours = ours[row : row + 1]
    if ours.ndim == theirs.ndim and ours.ndim > 1 and ours.shape[1] == steps and theirs.shape[1] == length:
        ours = ours[:, :length]
    if ours.shape != theirs.shape:
        return
    apart, scale = float((ours - theirs).abs().max()), float(theirs.abs().max())
    if apart > 0.01 * max(scale, 1e-6):
        yield Finding(
            "padding-leaks",
            f"Sample {row} of the batch has {length} real positions of {steps}. Alone and without padding its output "
            "differs "
            f"by up to {apart:.3g} from that in the batch, where outputs are up to {scale:.3g}.",
        )


def _first(value: Any) -> Tensor | None:
    found = datasets.arrays(value)
    return found[0].double() if found and not found[0].is_complex() else None

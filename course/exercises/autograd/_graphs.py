"""What the probes of several exercises share: small models, and a witness that lives as long as a graph does."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import torch
from torch import Tensor, nn


class Witness:
    """Held by a node of a graph and by nothing else."""


class _Witnessed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, witness: Witness) -> Tensor:
        ctx.witness = witness
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def witnessed(x: Tensor) -> tuple[Tensor, weakref.ref[Witness]]:
    """The same numbers one operation later, and a weak reference that is dead once that operation's node is freed."""
    witness = Witness()
    return _Witnessed.apply(x, witness), weakref.ref(witness)


class _Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: list[weakref.ref[Witness]]) -> Tensor:
        copy = x.clone()
        witness = Witness()
        copy.witness = witness  # an attribute lives as long as the tensor that is saved, whoever refers to that
        kept.append(weakref.ref(witness))
        ctx.save_for_backward(copy)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (copy,) = ctx.saved_tensors
        return gradient + 0 * copy, None


class Keeping(nn.Module):
    """Passes its input on; what it saves for backward is witnessed in ``kept`` until backward has freed it."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[weakref.ref[Witness]] = []

    def forward(self, x: Tensor) -> Tensor:
        return _Kept.apply(x, self.kept) if x.requires_grad else x


def alive(witnesses: list[weakref.ref[Any]]) -> int:
    """How many of the referents still exist, reference cycles collected."""
    if any(witness() is not None for witness in witnesses):  # collecting takes time; mostly it is not needed
        gc.collect()
    return sum(witness() is not None for witness in witnesses)


def small_model(*sizes: int, flatten: bool = False, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Linear layers with tanh between them and fixed, unequal weights."""
    layers: list[nn.Module] = [nn.Flatten()] if flatten else []
    for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        layer = nn.Linear(inputs, outputs, dtype=dtype)
        with torch.no_grad():
            layer.weight.copy_(numbers(outputs, inputs, start=1 + number))
            layer.bias.copy_(numbers(outputs, start=2.5 + number))
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def numbers(*shape: int, start: float = 1.0) -> Tensor:
    """Fixed float64 numbers of both signs without any symmetry, between -1 and 1."""
    count = torch.Size(shape).numel()
    return torch.sin(start + 1.7 * torch.arange(count, dtype=torch.float64)).reshape(shape)


def gradients(model: nn.Module) -> dict[str, Tensor | None]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def uneven_loss(output: Tensor, target: Tensor) -> Tensor:
    """A mean over rows that treats output and target differently, shape ()."""
    return ((output - target).square() * (0.3 * output).exp()).mean()

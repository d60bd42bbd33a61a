"""What the probes of this lesson share: weights that are known, and what a module has registered."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def numbers(*shape: int, start: float = 0.0) -> Tensor:
    """Unequal numbers between -1 and 1, shape `shape`, float32; the same ones each time."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count) * 0.7 + start).reshape(shape)


def filled(answer: Callable[..., nn.Module], *arguments: Any, **options: Any) -> nn.Module:
    """`answer(*arguments)`, with parameters and buffers that depend on nothing but their names and shapes.

    Layers that are not registered keep their first values, drawn after a fixed seed."""
    torch.manual_seed(0)
    module = answer(*arguments, **options)
    with torch.no_grad():
        for name, tensor in sorted(module.state_dict().items()):
            if tensor.is_floating_point():
                values = numbers(*tensor.shape, start=zlib.crc32(name.encode()) % 100)
                tensor.copy_(values.abs() + 0.5 if name.endswith("running_var") else values)
    return module


def registered(module: nn.Module) -> dict[str, list[str]]:
    """The names, sorted, under which parameters and state are found."""
    return {
        "parameters": sorted(name for name, _ in module.named_parameters()),
        "state": sorted(module.state_dict()),
    }


def gradients(module: nn.Module) -> dict[str, Tensor | None]:
    """The gradient of each parameter, by name."""
    return {name: parameter.grad for name, parameter in sorted(module.named_parameters())}


def weighted_sum(output: Tensor) -> Tensor:
    """A scalar that depends on each element of `output` with a weight of its own."""
    return (output * numbers(*output.shape, start=5.0)).sum()


def heard(module: nn.Module, names: Sequence[str], *inputs: Tensor) -> list[str]:
    """Call the module and return, in order, which of the named submodules ran their forward hooks."""
    calls: list[str] = []
    for name in names:
        module.get_submodule(name).register_forward_hook(lambda *_, name=name: calls.append(name))
    module(*inputs)
    return calls


def hook_count(module: nn.Module) -> int:
    """How many forward hooks and forward pre-hooks hang on a module and all below it."""
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())

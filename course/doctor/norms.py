"""Norms of gradients and changes of tensors, as numbers."""

from __future__ import annotations

import contextlib
import math

import torch
from torch import Tensor


def gradient_norms(parameters: dict[str, Tensor]) -> dict[str, float | None]:
    """The 2-norm of each gradient by name, in float32 or wider; None where there is no gradient."""
    norms: dict[str, float | None] = dict.fromkeys(parameters)
    dense: dict[tuple[torch.device, torch.dtype], dict[str, Tensor]] = {}
    for name, parameter in parameters.items():
        grad = parameter.grad
        if grad is None:
            continue
        if grad.layout != torch.strided or type(grad) is not Tensor:
            with contextlib.suppress(Exception):
                norms[name] = float((grad.coalesce().values() if grad.is_sparse else grad).detach().float().norm())
        elif grad.is_complex() or grad.numel() == 0:
            norms[name] = float(grad.detach().abs().norm()) if grad.numel() else 0.0
        else:
            dense.setdefault((grad.device, grad.dtype), {})[name] = grad.detach()
    for (_, dtype), grads in dense.items():
        values = list(grads.values())
        if dtype in (torch.float16, torch.bfloat16):
            values = [value.float() for value in values]
        found = torch.stack([n.reshape(()) for n in torch._foreach_norm(values)]).tolist()
        norms.update(zip(grads, found, strict=True))
    return norms


def largest_change(before: Tensor, now: Tensor) -> float:
    """The largest absolute difference between two values of a tensor; inf where the shapes differ."""
    if before.shape != now.shape or before.numel() == 0:
        return 0.0 if before.shape == now.shape else math.inf
    return float((now.detach().to(before.dtype) - before).abs().max())

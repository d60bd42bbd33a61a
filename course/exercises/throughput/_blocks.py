"""Blocks that say when they are called and what of theirs is alive, for the probes of recomputation."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef


class Account:
    """What the blocks of one probe did.

    inner: memory of what a block keeps for backward. results: memory of what a block returned. most: the largest
    number of inner results that were alive when a block went backward. calls: the numbers of the blocks, in the order
    in which they were called.
    """

    def __init__(self) -> None:
        self.inner: list[StorageWeakRef] = []
        self.results: list[StorageWeakRef] = []
        self.most = 0
        self.calls: list[int] = []

    def note_backward(self) -> None:
        self.most = max(self.most, _alive(self.inner))


def memory_of(tensor: Tensor) -> StorageWeakRef:
    """A weak reference to the tensor's memory: it expires when no tensor uses that memory, in a graph or elsewhere."""
    return StorageWeakRef(tensor.untyped_storage())


def _alive(memory: Iterable[StorageWeakRef]) -> int:
    return sum(not reference.expired() for reference in memory)


def still_alive(memory: Sequence[StorageWeakRef], bound: int) -> str:
    """How many of these memories are still used, in the words of `at_most`; reference cycles are collected."""
    if _alive(memory) > bound:  # collecting takes time; mostly it is not needed
        gc.collect()
    return at_most(_alive(memory), bound)


def at_most(seen: int, bound: int) -> str:
    """The same text for everything up to the bound, and the number where it is larger."""
    return str(seen) if seen > bound else f"at most {bound}" if bound else "none"


class _Waves(torch.autograd.Function):
    """sin(x * weight), which keeps x * weight for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, account: Account) -> Tensor:
        inner = x * weight
        account.inner.append(memory_of(inner))
        ctx.account = account
        ctx.save_for_backward(x, weight, inner)
        return inner.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, inner = ctx.saved_tensors
        ctx.account.note_backward()
        gradient = gradient * inner.cos()
        return gradient * weight, (gradient * x).sum(0), None


class Block(nn.Module):
    """(N, width) to (N, width), float64; the numbers of all blocks differ."""

    def __init__(self, number: int, account: Account, width: int = 3) -> None:
        super().__init__()
        self.number, self.account = number, account
        self.weight = nn.Parameter(torch.linspace(0.6, 1.4, width, dtype=torch.float64) + number / 8)

    def forward(self, x: Tensor) -> Tensor:
        self.account.calls.append(self.number)
        result = _Waves.apply(x, self.weight, self.account)
        self.account.results.append(memory_of(result))
        return result


Run = Callable[[Sequence[nn.Module], Tensor, int], Tensor]


def observed(answer: Run, count: int, size: int, *, of_input: bool = False, kind: type = list) -> dict[str, object]:
    """What the answer's way through blocks gives, keeps and repeats.

    of_input: whether the input requires a gradient. kind: the type of the sequence of blocks."""
    account = Account()
    blocks = kind([Block(number, account) for number in range(count)])
    x = torch.linspace(-1, 2, 12, dtype=torch.float64).reshape(4, 3).requires_grad_(of_input)
    result = answer(blocks, x, size)
    segments, forward = -(-count // size), len(account.calls)
    kept = {
        "inner results of blocks alive after the forward pass": still_alive(account.inner, 0),
        # The input of the first segment is x; the result of the last one is returned.
        "results of blocks alive after the forward pass": still_alive(account.results, segments),
    }
    if result.requires_grad:
        (result * torch.linspace(1, 3, 12, dtype=torch.float64).reshape(4, 3)).sum().backward()
    return {
        "output": result.detach(),
        "gradients of the weights": [block.weight.grad for block in blocks],
        "gradient of x": x.grad,
        **kept,
        "inner results of blocks alive at a time in the backward pass": at_most(account.most, min(size, count)),
        "results of blocks alive after the backward pass": still_alive(account.results, 1),
        "calls of each block": [account.calls.count(number) for number in range(count)],
        "blocks called in the backward pass": account.calls[forward:],
    }

"""What DDP does with gradients, on half batches, against one process that has the whole batch.

    torchrun --standalone --nproc-per-node 2 -m course.distributed.scripts.gradients

Each question is a function that returns what it saw; rank 0 reports all of them. Runs on the CPU, in seconds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 (its usual name)

from course.distributed.worker import report, say


def network(*, norm: bool = False) -> nn.Sequential:
    """A small classifier; the same numbers on every rank, because the seed is the same."""
    torch.manual_seed(0)
    middle: list[nn.Module] = [nn.BatchNorm1d(64)] if norm else []
    return nn.Sequential(nn.Linear(32, 64), *middle, nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def whole_batch(size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(size, 32, generator=generator), torch.randint(10, (size,), generator=generator)


def gradients(model: nn.Module) -> Tensor:
    """All gradients in one vector; zeros where there is none."""
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in model.parameters()])


def difference(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


def across_ranks(vector: Tensor) -> float:
    """The largest difference between this rank's vector and rank 0's, over all ranks."""
    first = vector.clone()
    dist.broadcast(first, src=0)
    largest = (vector - first).abs().max()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return largest.item()


def compare_with_large_batch(sizes: list[int], *, norm: bool = False) -> dict[str, float]:
    """DDP with sizes[rank] examples a rank, against one process with all of them. The loss is the mean."""
    x, y = whole_batch(sum(sizes))
    alone = network(norm=norm)
    cross_entropy(alone(x), y).backward()

    rank = dist.get_rank()
    start = sum(sizes[:rank])
    mine = slice(start, start + sizes[rank])
    ddp = DDP(network(norm=norm))
    cross_entropy(ddp(x[mine]), y[mine]).backward()
    found = gradients(ddp)
    return {
        "difference": difference(found, gradients(alone)),
        "largest_gradient": gradients(alone).abs().max().item(),
        "across_ranks": across_ranks(found),
    }


def buckets_of(bucket_cap_mb: float) -> dict[str, list[int]]:
    """Bytes of each bucket in the order in which they are reduced, in the first and the second backward pass."""
    sizes: list[int] = []

    def counting_hook(state, bucket):  # DDP compares annotations as objects, and those of this module are text
        sizes.append(bucket.buffer().nbytes)
        return allreduce_hook(state, bucket)

    ddp = DDP(network(), bucket_cap_mb=bucket_cap_mb)
    ddp.register_comm_hook(None, counting_hook)
    x, y = whole_batch(8)
    passes = []
    for _ in range(2):
        sizes.clear()
        cross_entropy(ddp(x), y).backward()
        passes.append(list(sizes))
    return {"first_pass": passes[0], "second_pass": passes[1]}


def accumulate() -> dict[str, float]:
    """Two small batches, the first under no_sync: only the second backward pass communicates."""
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = whole_batch(8 * world)
    alone = network()
    cross_entropy(alone(x), y).backward()

    mine = [slice(8 * rank + 4 * part, 8 * rank + 4 * (part + 1)) for part in range(2)]
    ddp = DDP(network())
    with ddp.no_sync():
        (cross_entropy(ddp(x[mine[0]]), y[mine[0]]) / 2).backward()
    after_first = across_ranks(gradients(ddp))
    (cross_entropy(ddp(x[mine[1]]), y[mine[1]]) / 2).backward()
    found = gradients(ddp)
    return {
        "across_ranks_after_first": after_first,
        "across_ranks_after_second": across_ranks(found),
        "difference": difference(found, gradients(alone)),
    }


class Branches(nn.Module):
    """A network of two heads, of which a batch uses one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads = nn.ModuleList([nn.Linear(32, 10), nn.Linear(32, 10)])

    def forward(self, x: Tensor) -> Tensor:
        return self.heads[0](x)


def unused_parameters() -> dict[str, object]:
    """Parameters that get no gradient: the second forward pass raises, unless DDP is told to look for them."""
    x, y = whole_batch(8)

    def train(ddp: DDP) -> str:
        try:
            for _ in range(2):
                cross_entropy(ddp(x), y).backward()
        except RuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    return {
        "error": train(DDP(Branches())),
        "error_when_told": train(DDP(Branches(), find_unused_parameters=True)),
    }


def bypass() -> dict[str, float]:
    """Calling the module inside DDP: the backward pass then does not communicate."""
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = whole_batch(4 * world)
    mine = slice(4 * rank, 4 * rank + 4)

    def spread(call: Callable[[DDP], nn.Module]) -> float:
        ddp = DDP(network())
        cross_entropy(call(ddp)(x[mine]), y[mine]).backward()
        return across_ranks(gradients(ddp))

    return {"ddp(x)": spread(lambda ddp: ddp), "ddp.module(x)": spread(lambda ddp: ddp.module)}


def seeds() -> dict[str, float]:
    """The same seed on all ranks makes them draw the same noise; another seed does not make another model under DDP."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    same_seed = across_ranks(torch.rand(100))
    torch.manual_seed(0 + rank)
    other_seed = across_ranks(torch.rand(100))
    torch.manual_seed(0 + rank)
    model = nn.Linear(32, 10)
    before = across_ranks(model.weight.detach())
    DDP(model)  # sends rank 0's parameters to all
    return {
        "noise_same_seed": same_seed,
        "noise_seed_plus_rank": other_seed,
        "weights_before_ddp": before,
        "weights_after_ddp": across_ranks(model.weight.detach()),
    }


def main() -> None:
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    warnings.filterwarnings("ignore", message="find_unused_parameters=True was specified")
    questions: dict[str, Callable[[], object]] = {
        "equal halves": lambda: compare_with_large_batch([8] * world),
        "unequal halves": lambda: compare_with_large_batch([4 + 8 * (rank % 2) for rank in range(world)]),
        "with BatchNorm": lambda: compare_with_large_batch([8] * world, norm=True),
        "buckets": lambda: {"25 MiB": buckets_of(25), "0.01 MiB": buckets_of(0.01)},
        "accumulation": accumulate,
        "unused parameters": unused_parameters,
        "bypass": bypass,
        "seeds": seeds,
    }
    answers: dict[str, object] = {"world": world}
    for name, ask in questions.items():
        if dist.get_rank() == 0:
            say(name)
        answers[name] = ask()
    report(answers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

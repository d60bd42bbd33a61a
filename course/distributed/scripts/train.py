"""A small training on several ranks, with all that a real one needs, and resuming it on another number of ranks.

    torchrun --standalone --nproc-per-node 2 -m course.distributed.scripts.train --folder RUN --epochs 2
    torchrun --standalone --nproc-per-node 3 -m course.distributed.scripts.train --folder RUN --epochs 3

The second call finds the checkpoint of the first and goes on. The data are made: points around one centre a class. The
number of examples is divided by neither 2 nor 3 ranks, so that what a sampler does with the rest can be seen.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 (its usual name)
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from course.distributed.worker import report, say

SEED = 0
CLASSES, FEATURES = 10, 32
GLOBAL_BATCH = 48  # of all ranks together: a rank's share follows from their number
TRAIN, HELD_OUT = 1201, 301


def points(number: int, seed: int) -> TensorDataset:
    """Points (number, 32) and their classes. A third value is each example's own number."""
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(SEED))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (number,), generator=generator)
    noise = torch.randn(number, FEATURES, generator=generator)
    return TensorDataset(centres[labels] + 2.0 * noise, labels, torch.arange(number))


def network(dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, CLASSES))


def summed(*values: float) -> list[float]:
    """The sums over ranks. Sums and counts travel, not means: ranks may hold different numbers of examples."""
    both = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(both)
    return both.tolist()


def train_epoch(ddp: DDP, optimizer: torch.optim.Optimizer, loader: DataLoader) -> tuple[float, list[int]]:
    """One epoch; the mean loss over all ranks' examples, and the numbers of the examples that this rank saw."""
    ddp.train()
    total, seen = 0.0, []
    for x, y, numbers in loader:
        optimizer.zero_grad()
        loss = cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
        seen += numbers.tolist()
    total, count = summed(total, len(seen))
    return total / count, seen


@torch.no_grad()
def evaluate(ddp: DDP, data: TensorDataset) -> dict[str, float]:
    """Accuracy on held-out data: right, of one rank alone, and with the examples a DistributedSampler repeats."""
    ddp.eval()
    rank, world = dist.get_rank(), dist.get_world_size()

    def right(indices: list[int]) -> float:
        x, y, _ = data[torch.tensor(indices)]
        # The module itself: evaluating needs no gradients, and ranks may have different numbers of batches.
        return (ddp.module(x).argmax(1) == y).sum().item()

    mine = list(range(rank, len(data), world))  # every example once; ranks differ by one
    padded = list(DistributedSampler(data, shuffle=False))  # as many on every rank; some twice
    hits, count, hits_padded, count_padded = summed(right(mine), len(mine), right(padded), len(padded))
    return {
        "accuracy": hits / count,
        "examples": count,
        "accuracy_rank_0": right(mine) / len(mine),
        "accuracy_padded": hits_padded / count_padded,
        "examples_padded": count_padded,
    }


def save(path: Path, ddp: DDP, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Rank 0 writes what all ranks share: weights, optimizer, epochs done. Under another name first: no half files."""
    if dist.get_rank() == 0:
        state = {"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        state["world"] = dist.get_world_size()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        torch.save(state, part)
        os.replace(part, path)
    dist.barrier()  # no rank goes on, and perhaps reads, before the file is there


def batches_of(data: TensorDataset, epoch: int, world: int) -> list[list[int]]:
    """The numbers of the examples that all ranks together see in each step of an epoch, sorted."""
    orders = []
    for rank in range(world):
        sampler = DistributedSampler(data, num_replicas=world, rank=rank, seed=SEED)
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
    share = GLOBAL_BATCH // world
    starts = range(0, len(orders[0]), share)
    return [sorted(number for order in orders for number in order[start : start + share]) for start in starts]


def compare_worlds(data: TensorDataset, resumed: dict, world: int) -> dict[str, object]:
    """What the next epoch has in common with the same epoch on the number of ranks that wrote the checkpoint.

    Where batches are the same, gradients are, but for rounding and for the noise of dropout: each rank draws its own
    for its share, so another number of ranks means other noise for the same example.
    """
    old, new = (batches_of(data, resumed["epoch"], each) for each in (resumed["world"], world))
    return {
        "steps": [len(old), len(new)],
        "same_batches": sum(a == b for a, b in zip(old, new, strict=False)),
        "examples_with_repeats": [sum(map(len, old)), sum(map(len, new))],
    }


def across_ranks(values: Tensor) -> float:
    """The largest difference between ranks."""
    low, high = values.clone(), values.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    return (high - low).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the checkpoint is")
    parser.add_argument("--epochs", type=int, default=2, help="epochs in all, those of the checkpoint included")
    parser.add_argument("--dropout", type=float, default=0.1, help="0 leaves out the noise that each rank draws")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    # Each rank its own noise (dropout); DDP gives all of them rank 0's weights all the same.
    torch.manual_seed(SEED + rank)
    ddp = DDP(network(options.dropout))
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=3e-3)
    data, held_out = points(TRAIN, seed=1), points(HELD_OUT, seed=2)
    sampler = DistributedSampler(data, seed=SEED)  # shuffles: the loader must not
    loader = DataLoader(data, batch_size=GLOBAL_BATCH // world, sampler=sampler)

    checkpoint, resumed = options.folder / "last.pt", None
    if checkpoint.exists():
        resumed = torch.load(checkpoint, weights_only=True)
        ddp.module.load_state_dict(resumed["model"])
        optimizer.load_state_dict(resumed["optimizer"])

    losses, orders = [], []
    score_before = evaluate(ddp, held_out)
    for epoch in range(resumed["epoch"] if resumed else 0, options.epochs):
        sampler.set_epoch(epoch)  # without it every epoch has the order of the first
        loss, seen = train_epoch(ddp, optimizer, loader)
        losses.append(loss)
        orders.append(seen)
        save(checkpoint, ddp, optimizer, epoch + 1)
        if rank == 0:
            say(f"epoch {epoch + 1}: loss {loss:.3f}")

    weights = torch.cat([p.detach().reshape(-1) for p in ddp.parameters()])
    all_orders = [None] * world
    dist.all_gather_object(all_orders, orders[0] if orders else [])
    report(
        {
            "world": world,
            "resumed": {name: resumed[name] for name in ("epoch", "world")} if resumed else None,
            "before": score_before,
            "losses": losses,
            "after": evaluate(ddp, held_out),
            "weights_across_ranks": across_ranks(weights),
            "batch_a_rank": GLOBAL_BATCH // world,
            "steps_an_epoch": len(loader),
            "orders_differ": len({tuple(order) for order in orders}) == len(orders),
            "seen_by_rank": [len(each) for each in all_orders],
            "seen_different": len({number for each in all_orders for number in each}),
            "against_checkpoint": compare_worlds(data, resumed, world) if resumed else None,
        }
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""How long an all-reduce takes, by size: torch's own, and the ring of `course.distributed.ring`.

    torchrun --standalone --nproc-per-node 2 -m course.distributed.scripts.collectives [--repeats 15] [--largest 65536]

The two take turns, and so do the sizes, so that a busy moment of the machine hits all alike. A time is that of the
slowest rank; the report holds medians in seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from course.distributed.ring import ring_all_reduce
from course.distributed.worker import report, say

SIZES = (4, 4096, 65536, 262144, 1048576, 4194304, 16777216)


def seconds_of(reduce: Callable[[Tensor], object], tensor: Tensor) -> float:
    """Seconds that one call took on the slowest rank; all start together."""
    dist.barrier()
    start = time.perf_counter()
    reduce(tensor)
    taken = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return taken.item()


def largest_difference(nbytes: int) -> float:
    """How far the sums of ring and torch lie apart, at most, over all ranks."""
    mine = torch.rand(nbytes // 4, generator=torch.Generator().manual_seed(dist.get_rank()))
    by_torch, by_ring = mine.clone(), mine.clone()
    dist.all_reduce(by_torch)
    ring_all_reduce(by_ring)
    apart = (by_torch - by_ring).abs().max()
    dist.all_reduce(apart, op=dist.ReduceOp.MAX)
    return apart.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--largest", type=int, default=SIZES[-2], help="bytes of the largest message")
    options = parser.parse_args()
    dist.init_process_group("gloo")

    sizes = [size for size in SIZES if size <= options.largest]
    ways: dict[str, Callable[[Tensor], object]] = {"torch": dist.all_reduce, "ring": ring_all_reduce}
    times = {(way, size): [] for way in ways for size in sizes}
    for turn in range(options.repeats + 1):
        for size in sizes:
            tensor = torch.zeros(size // 4)  # zeros stay finite however often they are summed
            for way, reduce in ways.items():
                taken = seconds_of(reduce, tensor)
                if turn > 0:  # the first turn makes connections
                    times[way, size].append(taken)
    difference = max(largest_difference(size) for size in sizes)

    rows = [
        {"bytes": size, **{way: statistics.median(times[way, size]) for way in ways}, "repeats": options.repeats}
        for size in sizes
    ]
    if dist.get_rank() == 0:
        for row in rows:
            say(f"{row['bytes']:>9} bytes: torch {1e3 * row['torch']:.2f} ms, ring {1e3 * row['ring']:.2f} ms")
    report({"world": dist.get_world_size(), "rows": rows, "difference": difference})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

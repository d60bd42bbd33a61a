"""Batches of sequences of similar length, and what padding costs without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.utils.data import Sampler


def padding_share(lengths: Sequence[int], batches: Iterable[Sequence[int]]) -> float:
    """Which share of all cells is padding, 0 to 1, when each batch is padded to its own longest sequence.

    lengths: of every sample. batches: lists of indices into `lengths`, as a batch sampler gives them.
    """
    real = cells = 0
    for batch in batches:
        sizes = [lengths[index] for index in batch]
        real += sum(sizes)
        cells += len(sizes) * max(sizes)
    return 1 - real / cells if cells else 0.0


class BucketBatchSampler(Sampler[list[int]]):
    """A batch sampler for DataLoader(batch_sampler=...) that puts samples of similar length together.

    Each epoch shuffles all indices, sorts within pools of `pool` batches by length, cuts the pools into batches and
    shuffles the batches. So every sample comes once, batches differ from epoch to epoch, and short ones do not all
    come first. A larger pool wastes less padding and mixes less.

    lengths: of every sample. batch_size: samples a batch; the last one may be smaller.
    generator: of the order; the global one where None.
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, pool: int = 20, generator: torch.Generator | None = None
    ) -> None:
        if batch_size < 1 or pool < 1:
            raise ValueError(f"batch_size {batch_size} and pool {pool} were given; both must be at least 1")
        self.lengths, self.batch_size, self.pool, self.generator = list(lengths), batch_size, pool, generator

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = self._shuffled(len(self.lengths))
        pool_size = self.batch_size * self.pool
        batches = []
        for start in range(0, len(order), pool_size):
            pool = sorted(order[start : start + pool_size], key=self.lengths.__getitem__)
            batches += [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
        return (batches[i] for i in self._shuffled(len(batches)))

    def _shuffled(self, size: int) -> list[int]:
        return torch.randperm(size, generator=self.generator).tolist()

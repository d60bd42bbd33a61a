"""Lesson 04: batches of samples of similar length."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

from course.checking import Exercise

exercise = Exercise(
    "data.bucket_batches",
    title="A batch sampler that buckets by length",
    task="""
        `BucketBatches(lengths, batch_size, pool=10, generator=None)` is a batch sampler: iterating over it gives the
        batches of one epoch, each a list of indices into `lengths`.

        An epoch shuffles all indices, cuts them into pools of `pool * batch_size`, sorts each pool by length, cuts the
        pools into batches of `batch_size`, and gives the batches in shuffled order (at least within each pool).

        - Every index comes exactly once in an epoch. The last batch to be cut may be smaller; `len(sampler)` counts it.
        - Another epoch has other batches. All randomness comes from `generator`, or from torch's global generator where
          it is None: the same seed gives the same epochs, also to a sampler that has walked before.
        - Short batches do not all come first: neighbours in the epoch are in no order of length.
        """,
    hints=(
        "torch.randperm(n, generator=...) makes a shuffled order of n things, once for the indices and again for the "
        "batches of a pool. Sort indices, not lengths: sorted() takes a key.",
        "Walk over the order in steps of pool * batch_size. In each pool: sort by length, make a list of slices of "
        "batch_size, and yield these in an order from randperm.",
    ),
    random=True,
)


@exercise.stub
class BucketBatches(Sampler):
    """Lists of indices of samples of similar length, every index once, shuffled anew in each epoch."""

    def __init__(
        self, lengths: Sequence[int], batch_size: int, pool: int = 10, generator: torch.Generator | None = None
    ):
        raise NotImplementedError

    def __len__(self) -> int:
        """Return the number of batches."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[list[int]]:
        raise NotImplementedError


@exercise.reference
class SortedPools(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.pool, self.generator = lengths, batch_size, pool, generator

    def __len__(self):
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.pool * self.batch_size):
            pool = sorted(order[start : start + self.pool * self.batch_size], key=lambda i: self.lengths[i])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            for number in torch.randperm(len(batches), generator=self.generator):
                yield batches[number]


@exercise.alternative
class AllBatchesShuffled(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.pool, self.generator = torch.as_tensor(lengths), batch_size, pool, generator

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator)
        batches = []
        for pool in order.split(self.batch_size * self.pool):
            pool = pool[self.lengths[pool].argsort()]
            batches.extend(batch.tolist() for batch in pool.split(self.batch_size) if len(batch))
        return iter([batches[i] for i in torch.randperm(len(batches), generator=self.generator)])


@exercise.wrong(
    "Everything is sorted once, and the batches come in that order: the same batches in every epoch, short ones first. "
    "Little padding, but training sees no shuffled data. Shuffle before you sort, and sort within pools only.",
    fault="unshuffled-classes",
)
class SortedAltogether(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size = lengths, batch_size

    def __len__(self):
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        for start in range(0, len(order), self.batch_size):
            yield order[start : start + self.batch_size]


@exercise.wrong(
    "The batches are made once and only their order is shuffled. The same samples always share a batch, so every epoch "
    "takes the same steps in another order. Shuffle the indices too."
)
class FixedBatches(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.generator = lengths, batch_size, generator

    def __len__(self):
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for number in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[number]


@exercise.wrong(
    "Within a pool the batches come in order of length, short ones first. The model sees a wave of short, then of long "
    "sequences. The batches of a pool need a shuffled order of their own."
)
class PoolsInOrder(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.pool, self.generator = lengths, batch_size, pool, generator

    def __len__(self):
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.pool * self.batch_size):
            pool = sorted(order[start : start + self.pool * self.batch_size], key=lambda i: self.lengths[i])
            for i in range(0, len(pool), self.batch_size):
                yield pool[i : i + self.batch_size]


@exercise.wrong(
    "The incomplete batch is dropped, so some samples are missing from the epoch. The task wants every index once."
)
class IncompleteDropped(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.pool, self.generator = lengths, batch_size, pool, generator

    def __len__(self):
        return len(self.lengths) // self.batch_size

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.pool * self.batch_size):
            pool = sorted(order[start : start + self.pool * self.batch_size], key=lambda i: self.lengths[i])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            for number in torch.randperm(len(batches), generator=self.generator).tolist():
                if len(batches[number]) == self.batch_size:
                    yield batches[number]


@exercise.wrong(
    "The lengths themselves are sorted and handed out. A batch sampler gives indices; the loader will look up the "
    "sample whose number happens to be a length."
)
class LengthsInsteadOfIndices(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.pool, self.generator = lengths, batch_size, pool, generator

    def __len__(self):
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.pool * self.batch_size):
            pool = sorted(self.lengths[i] for i in order[start : start + self.pool * self.batch_size])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            for number in torch.randperm(len(batches), generator=self.generator).tolist():
                yield batches[number]


@exercise.wrong(
    "The generator is seeded again at the start of every epoch, so all epochs are the same. A seed belongs to the "
    "start of the run; the generator then goes on from epoch to epoch."
)
class TheSameEveryEpoch(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.pool = lengths, batch_size, pool
        self.seed = (generator or torch.default_generator).initial_seed()

    def __len__(self):
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        for start in range(0, len(order), self.pool * self.batch_size):
            pool = sorted(order[start : start + self.pool * self.batch_size], key=lambda i: self.lengths[i])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            for number in torch.randperm(len(batches), generator=generator).tolist():
                yield batches[number]


@exercise.wrong(
    "len() counts samples; of a batch sampler it is the number of batches. A progress bar or a learning-rate schedule "
    "that asks the loader for its length would be wrong by a factor."
)
class LengthInSamples(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.pool, self.generator = lengths, batch_size, pool, generator

    def __len__(self):
        return len(self.lengths)

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.pool * self.batch_size):
            pool = sorted(order[start : start + self.pool * self.batch_size], key=lambda i: self.lengths[i])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            for number in torch.randperm(len(batches), generator=self.generator).tolist():
                yield batches[number]


@exercise.wrong(
    "The batches are shuffled, but nothing is sorted: samples of any length share a batch, and the padding is that of "
    "ordinary shuffling."
)
class NotSorted(Sampler):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        self.lengths, self.batch_size, self.generator = lengths, batch_size, generator

    def __len__(self):
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.batch_size):
            yield order[start : start + self.batch_size]


@exercise.wrong(
    "Each epoch shuffles on from the order that the epoch before left behind. Then a seed alone does not decide an "
    "epoch: a run that is resumed with the generator's saved state gets other batches. Shuffle all indices anew, "
    "starting from the same order."
)
class ShufflesOn(SortedPools):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        super().__init__(lengths, batch_size, pool, generator)
        self.order = list(range(len(lengths)))

    def __iter__(self):
        self.order = [self.order[i] for i in torch.randperm(len(self.order), generator=self.generator)]
        for start in range(0, len(self.order), self.pool * self.batch_size):
            pool = sorted(self.order[start : start + self.pool * self.batch_size], key=lambda i: self.lengths[i])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            for number in torch.randperm(len(batches), generator=self.generator):
                yield batches[number]


@exercise.wrong(
    "Each pool comes in order of length, from short to long or from long to short, and only the direction is drawn. "
    "The model still sees waves. The batches of a pool need a shuffled order."
)
class WavesOfLength(SortedPools):
    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.pool * self.batch_size):
            pool = sorted(order[start : start + self.pool * self.batch_size], key=lambda i: self.lengths[i])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            backwards = torch.rand((), generator=self.generator) < 0.5
            yield from reversed(batches) if backwards else batches


@exercise.wrong(
    "The batches are cut once, when the sampler is made; epochs differ only in their order. The same samples always "
    "share a batch. Shuffle and cut anew in each epoch."
)
class CutOnce(SortedPools):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        super().__init__(lengths, batch_size, pool, generator)
        self.batches = list(super().__iter__())

    def __iter__(self):
        for number in torch.randperm(len(self.batches), generator=self.generator):
            yield self.batches[number]


@exercise.wrong(
    "Without a generator the sampler makes one of its own, with a fixed seed. torch.manual_seed then has no effect, "
    "and every run sees the same batches. With None, randperm draws from torch's global generator."
)
class FixedSeedOfItsOwn(SortedPools):
    def __init__(self, lengths, batch_size, pool=10, generator=None):
        super().__init__(lengths, batch_size, pool, generator or torch.Generator().manual_seed(0))


@exercise.wrong(
    "`pool` is taken for a number of samples. It counts batches: a pool holds `pool * batch_size` indices. Smaller "
    "pools leave more padding, and every pool ends with a batch of its own that may be incomplete."
)
class PoolOfSamples(SortedPools):
    def __iter__(self):
        order = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        for start in range(0, len(order), self.pool):
            pool = sorted(order[start : start + self.pool], key=lambda i: self.lengths[i])
            batches = [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
            for number in torch.randperm(len(batches), generator=self.generator):
                yield batches[number]


def _lengths(count: int) -> list[int]:
    return [1 + (i * 37) % 101 for i in range(count)]


def _padding(lengths: list[int], batches: list[list[int]]) -> float:
    cells = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1 - sum(lengths[i] for batch in batches for i in batch) / cells


@exercise.probe
def every_index_once(answer):
    batches = list(answer(_lengths(23), 4, 2))
    return sorted(i for batch in batches for i in batch), sorted(len(batch) for batch in batches)


@exercise.probe
def number_of_batches(answer):
    return [len(answer(_lengths(count), 4)) for count in (8, 9, 3, 0)], list(answer([], 4)), len(list(answer([5], 4)))


@exercise.probe
def little_padding(answer):
    lengths = _lengths(600)
    return _padding(lengths, list(answer(lengths, 6))) < 0.15


@exercise.probe
def pools_limit_the_sorting(answer):
    # A pool of one batch sorts nothing across batches. Random batches of 6 pad about 40 %, pools of 60 about 8 %.
    lengths = _lengths(600)
    small, large = (_padding(lengths, list(answer(lengths, 6, pool))) for pool in (1, 100))
    return small > 0.25, large < 0.03


@exercise.probe
def ten_batches_a_pool_unless_told_otherwise(answer):
    lengths, seeded = _lengths(200), torch.Generator().manual_seed
    return list(answer(lengths, 4, generator=seeded(3))) == list(answer(lengths, 4, 10, seeded(3)))


@exercise.probe
def no_order_of_length(answer):
    # Of 100 shuffled batches half are longer than the one before; six standard deviations are about 0.17.
    lengths = _lengths(600)
    longest = [max(lengths[i] for i in batch) for batch in answer(lengths, 6)]
    return abs(sum(a < b for a, b in itertools.pairwise(longest)) / 99 - 0.5) < 0.17 + 0.05


@exercise.probe
def other_batches_in_another_epoch(answer):
    sampler = answer(_lengths(120), 4)
    first, second = list(sampler), list(sampler)
    common = {frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}
    return len(common) < 10, first == second


@exercise.probe
def the_generator_decides(answer):
    epochs = []
    for torch_seed, seed in ((1, 5), (2, 5), (2, 6)):
        torch.manual_seed(torch_seed)
        epochs.append(list(answer(_lengths(60), 4, generator=torch.Generator().manual_seed(seed))))
    return epochs[0] == epochs[1], epochs[1] == epochs[2]


@exercise.probe
def else_the_global_generator(answer):
    epochs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        epochs.append(list(answer(_lengths(60), 4)))
    return epochs[0] == epochs[1], epochs[1] == epochs[2]


@exercise.probe
def no_waves_of_length(answer):
    # In shuffled order two of three batches are longer, or shorter, than both neighbours; 0.4 is six deviations off.
    lengths = _lengths(600)
    longest = [max(lengths[i] for i in batch) for batch in answer(lengths, 6)]
    triples = list(zip(longest, longest[1:], longest[2:]))
    return sum((one < two) == (three < two) for one, two, three in triples) > 0.4 * len(triples)


@exercise.probe
def seeded_again_after_an_epoch(answer):
    generator = torch.Generator()
    sampler, epochs = answer(_lengths(60), 4, generator=generator), []
    for _ in range(2):
        generator.manual_seed(8)
        epochs.append(list(sampler))
    return epochs[0] == epochs[1]

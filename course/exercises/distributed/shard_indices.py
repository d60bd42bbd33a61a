"""Lesson 11: which samples a rank takes."""

from __future__ import annotations

import itertools
import math

import torch
from torch.utils.data import DistributedSampler

from course.checking import Exercise

exercise = Exercise(
    "distributed.shard_indices",
    title="Which samples a rank takes",
    task="""
        `shard_indices(count, rank, ranks, epoch, seed, training)` returns the list of sample numbers that one of
        `ranks` ranks takes in an epoch, out of `range(count)`.

        - For training: `torch.randperm(count)` from a generator of its own, seeded with `seed + epoch`. Every rank
          takes equally many samples, `ceil(count / ranks)`, so the order is filled up with its own first elements,
          again and again if need be. Rank r then takes every `ranks`-th element, from position r on.
        - For evaluation: the numbers in ascending order, none left out and none twice, whatever the epoch. Rank r takes
          every `ranks`-th, from position r on. Shares may differ by one.

        The training shares are those of `DistributedSampler`. `count` is at least 1. The global generator is not used.
        """,
    hints=(
        "Every rank has to compute the same order, without talking to the others. What may the seed of that order "
        "depend on, and what not? Then each takes its slice.",
        "A generator seeded with seed + epoch gives the order; repeat the list until it is long enough and cut it at "
        "ceil(count / ranks) * ranks; the share is a slice with a step. Evaluation does neither.",
    ),
)


@exercise.stub
def shard_indices(count: int, rank: int, ranks: int, epoch: int, seed: int, training: bool) -> list[int]:
    """Return the numbers of the samples that this rank takes in this epoch."""
    raise NotImplementedError


@exercise.reference
def by_slice(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(range(rank, count, ranks))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    each = math.ceil(count / ranks)
    return (order * ranks)[rank : each * ranks : ranks]


@exercise.alternative
def by_distributed_sampler(count, rank, ranks, epoch, seed, training):
    if training:
        sampler = DistributedSampler(range(count), num_replicas=ranks, rank=rank, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)
    return [number for number in range(count) if number % ranks == rank]


@exercise.alternative
def by_walking_round(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(itertools.islice(range(count), rank, None, ranks))
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order = torch.randperm(count, generator=generator)
    return [int(order[(rank + step * ranks) % count]) for step in range(-(-count // ranks))]


@exercise.wrong(
    "The seed of the order depends on the rank, so each rank takes its slice of another order: some samples come "
    "twice, others never. The order has to be the same on every rank; only the slice differs."
)
def own_order_on_each_rank(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(range(rank, count, ranks))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch + rank)).tolist()
    return (order * ranks)[rank : math.ceil(count / ranks) * ranks : ranks]


@exercise.wrong(
    "The epoch does not enter, so every epoch has the same order and each rank sees the same share of the data for "
    "ever.",
    fault="sampler-set-epoch",
)
def the_same_order_every_epoch(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(range(rank, count, ranks))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return (order * ranks)[rank : math.ceil(count / ranks) * ranks : ranks]


@exercise.wrong(
    "Evaluation is filled up as well: the repeated samples are counted twice, and the metric changes with the number "
    "of ranks.",
    fault="sampler-duplicates-in-metric",
)
def evaluation_padded(count, rank, ranks, epoch, seed, training):
    order = list(range(count))
    if training:
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    return (order * ranks)[rank : math.ceil(count / ranks) * ranks : ranks]


@exercise.wrong(
    "In training the shares differ by one. A rank with one batch less leaves the others waiting in an all-reduce that "
    "it never enters. Fill the order up first."
)
def training_not_padded(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(range(rank, count, ranks))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    return order[rank::ranks]


@exercise.wrong(
    "The shares are made equal by leaving samples out, as DistributedSampler does with drop_last=True. The task asks "
    "to fill up."
)
def the_rest_dropped(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(range(rank, count, ranks))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    return order[rank : count // ranks * ranks : ranks]


@exercise.wrong(
    "Each rank takes a block of neighbours. Nothing comes twice, but these are other samples than "
    "DistributedSampler's: rank r takes every `ranks`-th element."
)
def blocks(count, rank, ranks, epoch, seed, training):
    order, each = list(range(count)), math.ceil(count / ranks)
    if training:
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist() * ranks
    return order[rank * each : (rank + 1) * each]


@exercise.wrong(
    "The order is filled up once, with at most as many elements as it has. Where there are more than twice as many "
    "ranks as samples, some ranks stay empty."
)
def filled_up_once(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(range(rank, count, ranks))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    order += order[: math.ceil(count / ranks) * ranks - count]
    return order[rank::ranks]


@exercise.wrong(
    "The evaluation is shuffled too. No sample is lost, but the task asks for ascending order, in which results can be "
    "put together again."
)
def evaluation_shuffled(count, rank, ranks, epoch, seed, training):
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    return (order * ranks)[rank : math.ceil(count / ranks) * ranks : ranks] if training else order[rank::ranks]


@exercise.wrong(
    "The order is drawn from the global generator, which is seeded for that. From then on every random number of the "
    "process, dropout and augmentation included, is the same on all ranks and repeats with the epoch."
)
def global_generator_seeded(count, rank, ranks, epoch, seed, training):
    if not training:
        return list(range(rank, count, ranks))
    torch.manual_seed(seed + epoch)
    return (torch.randperm(count).tolist() * ranks)[rank : math.ceil(count / ranks) * ranks : ranks]


def _shares(answer, count, ranks, epoch, seed, training):
    return [answer(count, rank, ranks, epoch, seed, training) for rank in range(ranks)]


@exercise.probe
def one_rank_in_training():
    return 10, 1, 4, 0, 0, True


@exercise.probe
def one_rank_in_evaluation():
    return 10, 2, 4, 0, 0, False


@exercise.probe
def a_later_epoch():
    return 7, 0, 2, 3, 5, True


@exercise.probe
def every_rank_in_training(answer):
    return _shares(answer, 11, 4, 2, 100, True)


@exercise.probe
def every_rank_in_evaluation(answer):
    return _shares(answer, 11, 4, 2, 100, False)


@exercise.probe
def a_whole_number_of_shares(answer):
    return _shares(answer, 12, 3, 1, 7, True), _shares(answer, 12, 3, 1, 7, False)


@exercise.probe
def many_more_ranks_than_samples(answer):
    return _shares(answer, 2, 7, 0, 3, True), _shares(answer, 2, 7, 0, 3, False)


@exercise.probe
def one_sample_on_three_ranks(answer):
    return _shares(answer, 1, 3, 0, 3, True), _shares(answer, 1, 3, 0, 3, False)


@exercise.probe
def one_rank_alone(answer):
    return _shares(answer, 5, 1, 4, 2, True), _shares(answer, 5, 1, 4, 2, False)


@exercise.probe
def the_global_generator_stays(answer):
    before = torch.get_rng_state()
    answer(9, 1, 2, 1, 0, True)
    answer(9, 1, 2, 1, 0, False)
    return torch.equal(before, torch.get_rng_state())

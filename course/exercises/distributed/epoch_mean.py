"""Lesson 11: the mean loss of an epoch, over all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from course.checking import Exercise
from course.exercises.distributed._ranks import as_ranks

exercise = Exercise(
    "distributed.epoch_mean",
    title="One mean for all ranks",
    task="""
        Each rank has evaluated its share of the data. `losses[i]` is the mean loss of its batch i (a float), `sizes[i]`
        the number of samples in it. `epoch_mean(losses, sizes)` returns the mean loss of a **sample**, over the batches
        of all ranks, as a Python float: the same number on every rank.

        Ranks may have different numbers of batches, and a rank may have none at all. Every rank calls the function, and
        at least one of them has a sample. `dist`, which is `torch.distributed`, is initialised.
        """,
    hints=(
        "Two numbers determine a mean over samples, and both can simply be added up over ranks. Is a mean one of them?",
        "all_reduce a tensor of two numbers, the sum of loss times size and the sum of the sizes, and divide "
        "afterwards. A rank without batches takes part with two zeros.",
    ),
)


@exercise.stub
def epoch_mean(losses: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the mean loss of a sample over all ranks; losses are means of batches, sizes their numbers of samples."""
    raise NotImplementedError


@exercise.reference
def sum_and_count(losses, sizes):
    total = sum(loss * size for loss, size in zip(losses, sizes))
    both = torch.tensor([total, sum(sizes)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()


@exercise.alternative
def two_reductions(losses, sizes):
    weights = torch.tensor(list(sizes), dtype=torch.float64)
    total = (torch.tensor(list(losses), dtype=torch.float64) * weights).sum()
    count = weights.sum()
    dist.all_reduce(total)
    dist.all_reduce(count)
    return float(total / count)


@exercise.alternative
def gathered(losses, sizes):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, (list(losses), list(sizes)))
    count = sum(sum(theirs) for _, theirs in parts)
    return sum(loss * size for part in parts for loss, size in zip(*part)) / count


@exercise.wrong(
    "This is the mean of one rank's own share. Each rank prints another number, and rank 0's stands in the log as if "
    "it were everyone's.",
    fault="metric-not-reduced",
)
def own_share_only(losses, sizes):
    count = sum(sizes)
    return sum(loss * size for loss, size in zip(losses, sizes)) / count if count else 0.0


@exercise.wrong(
    "The means of the ranks are averaged. A rank with few samples then counts as much as one with many. Reduce sums "
    "and counts, and divide once.",
    fault="mean-of-batch-means",
)
def mean_of_the_ranks_means(losses, sizes):
    count = sum(sizes)
    mean = torch.tensor(sum(loss * size for loss, size in zip(losses, sizes)) / max(count, 1), dtype=torch.float64)
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).item()


@exercise.wrong(
    "Sums and counts are reduced over the ranks, but every batch counts the same, whatever its size. The last batch "
    "of an epoch is often a small one.",
    fault="mean-of-batch-means",
)
def every_batch_the_same(losses, sizes):
    pair = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(pair)
    return (pair[0] / pair[1]).item()


@exercise.wrong("The sum is reduced, the count is not: the losses of all ranks are divided by the samples of one.")
def count_not_reduced(losses, sizes):
    total = torch.tensor(sum(loss * size for loss, size in zip(losses, sizes)), dtype=torch.float64)
    dist.all_reduce(total)
    return total.item() / max(sum(sizes), 1)


@exercise.wrong(
    "A rank without batches returns before it has called the collective. The other ranks wait for it, until the "
    "timeout of the process group ends the job. Every rank has to make the same calls."
)
def an_empty_rank_leaves(losses, sizes):
    if not losses:
        return 0.0
    pair = torch.tensor([sum(loss * size for loss, size in zip(losses, sizes)), sum(sizes)], dtype=torch.float64)
    dist.all_reduce(pair)
    return (pair[0] / pair[1]).item()


@exercise.wrong(
    "There is one all_reduce for each batch. Ranks with different numbers of batches make different numbers of calls, "
    "and one of them waits for ever. Add up on the rank first."
)
def one_call_for_each_batch(losses, sizes):
    pair = torch.zeros(2, dtype=torch.float64)
    for loss, size in zip(losses, sizes):
        part = torch.tensor([loss * size, size], dtype=torch.float64)
        dist.all_reduce(part)
        pair += part
    return (pair[0] / pair[1]).item() if pair[1] else 0.0


@exercise.wrong(
    "The result is reduced to rank 0 only. The others divide their own numbers, or numbers half summed, and go on with "
    "another loss: early stopping would stop on some ranks alone."
)
def only_rank_0_knows(losses, sizes):
    pair = torch.tensor([sum(loss * size for loss, size in zip(losses, sizes)), sum(sizes)], dtype=torch.float64)
    dist.reduce(pair, 0)
    return (pair[0] / pair[1]).item() if pair[1] else 0.0


@exercise.wrong(
    "The dtype follows from the numbers. On a rank without batches the sum is the integer 0, so its tensor is int64 "
    "while the others' are float32, and the ranks reduce tensors that do not fit. Name the dtype."
)
def dtype_left_to_the_numbers(losses, sizes):
    pair = torch.tensor([sum(loss * size for loss, size in zip(losses, sizes)), sum(sizes)])
    dist.all_reduce(pair)
    return (pair[0] / pair[1]).item()


@exercise.wrong("The result is a tensor. The task asks for a Python float.")
def a_tensor(losses, sizes):
    pair = torch.tensor([sum(loss * size for loss, size in zip(losses, sizes)), sum(sizes)], dtype=torch.float64)
    dist.all_reduce(pair)
    return pair[0] / pair[1]


def _run(answer, *shares):
    results, _ = as_ranks(lambda rank, world: answer(*shares[rank]), len(shares))
    return results


@exercise.probe
def two_equal_ranks(answer):
    return _run(answer, ([1.0, 2.0], [4, 4]), ([3.0, 5.0], [4, 4]))


@exercise.probe
def a_small_last_batch(answer):
    return _run(answer, ([1.0, 9.0], [8, 1]), ([2.0, 7.0], [8, 3]))


@exercise.probe
def different_numbers_of_batches(answer):
    return _run(answer, ([1.0, 2.0, 4.0], [5, 5, 2]), ([8.0], [3]), ([0.5, 0.25], [5, 1]))


@exercise.probe
def an_empty_rank(answer):
    return _run(answer, ([], []), ([1.0, 3.0], [2, 1]))


@exercise.probe
def the_last_rank_is_empty(answer):
    return _run(answer, ([6.0], [7]), ([], []), ([1.5], [3]), ([], []))


@exercise.probe
def one_rank_alone(answer):
    return _run(answer, ([2.0, 0.0, -1.0], [3, 2, 1]))


@exercise.probe
def the_lists_stay_as_they_were(answer):
    shares = [([1.0, 2.0], [3, 4]), ([5.0], [6])]
    _run(answer, *shares)
    return shares

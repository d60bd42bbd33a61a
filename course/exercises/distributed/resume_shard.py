"""Lesson 11: go on in the middle of an epoch with another number of ranks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from course.checking import Exercise

exercise = Exercise(
    "distributed.resume_shard",
    title="Resume on another number of ranks",
    task="""
        A job ran on `old_ranks` ranks. `order` is the order of the samples in this epoch, the same on all ranks. Rank r
        took every `old_ranks`-th element of it, from position r on, in batches of `batch` samples. After `steps` steps
        on every rank a checkpoint was written. Now the job goes on with `new_ranks` ranks.

        `resume_shard(order, steps, batch, old_ranks, rank, new_ranks)` returns the list of samples that rank `rank` of
        the new job takes in the rest of the epoch: of what is left, in order, every `new_ranks`-th, beginning with the
        `rank`-th. No sample comes twice, none is lost. Shares may differ by one; nothing is filled up. If all samples
        are done, every share is empty.
        """,
    hints=(
        "After one step, which positions of `order` have been taken, by all old ranks together? Draw it for 2 ranks "
        "and batches of 3. The new number of ranks has no say in it.",
        "In a step all ranks together take the next batch * old_ranks elements. Skip as many for each step done, and "
        "only then cut what is left among the new ranks.",
    ),
)


@exercise.stub
def resume_shard(order: Sequence[int], steps: int, batch: int, old_ranks: int, rank: int, new_ranks: int) -> list[int]:
    """Return the samples that this rank of the new job takes in the rest of the epoch."""
    raise NotImplementedError


@exercise.reference
def skip_then_share(order, steps, batch, old_ranks, rank, new_ranks):
    done = steps * batch * old_ranks
    return list(order[done + rank :: new_ranks])


@exercise.alternative
def by_position(order, steps, batch, old_ranks, rank, new_ranks):
    done = steps * batch * old_ranks
    return [sample for at, sample in enumerate(order) if at >= done and (at - done) % new_ranks == rank]


@exercise.alternative
def by_replaying_the_old_job(order, steps, batch, old_ranks, rank, new_ranks):
    taken = set()
    for old in range(old_ranks):
        taken.update(range(len(order))[old::old_ranks][: steps * batch])
    left = (order[at] for at in range(len(order)) if at not in taken)
    return list(itertools.islice(left, rank, None, new_ranks))


@exercise.wrong(
    "The new share is cut out of the whole epoch first, and each rank then skips its own steps * batch samples. That "
    "counts with the new number of ranks, but what is done was done by the old ones: with more ranks than before "
    "samples are lost, with fewer some come twice."
)
def share_then_skip(order, steps, batch, old_ranks, rank, new_ranks):
    return list(order[rank::new_ranks][steps * batch :])


@exercise.wrong(
    "Only one rank's samples are skipped. In a step every old rank took a batch, so most of what was done is done "
    "again."
)
def one_ranks_samples_skipped(order, steps, batch, old_ranks, rank, new_ranks):
    return list(order[steps * batch :][rank::new_ranks])


@exercise.wrong("Steps are counted as if a step took one sample of each rank. It takes a batch of each.")
def batch_forgotten(order, steps, batch, old_ranks, rank, new_ranks):
    return list(order[steps * old_ranks :][rank::new_ranks])


@exercise.wrong("The epoch starts again from its beginning. All that was done is done a second time.")
def from_the_beginning(order, steps, batch, old_ranks, rank, new_ranks):
    return list(order[rank::new_ranks])


@exercise.wrong(
    "What is left is cut into blocks of equal size, and the remainder is in none of them: it is lost for this epoch."
)
def blocks_without_the_remainder(order, steps, batch, old_ranks, rank, new_ranks):
    left = order[steps * batch * old_ranks :]
    size = len(left) // new_ranks
    return list(left[rank * size : (rank + 1) * size])


@exercise.wrong("What is left is filled up so that all shares are equal. The task asks for no sample twice.")
def filled_up(order, steps, batch, old_ranks, rank, new_ranks):
    left = list(order[steps * batch * old_ranks :])
    while left and len(left) % new_ranks:
        left.append(left[0])
    return left[rank::new_ranks]


@exercise.wrong(
    "The rest of the epoch goes on at the step after the next: a step's batches are skipped without having been done. "
    "`steps` counts the steps that are finished."
)
def one_step_too_far(order, steps, batch, old_ranks, rank, new_ranks):
    return list(order[(steps + 1) * batch * old_ranks + rank :: new_ranks])


def _order(count):
    return [(7 * number + 3) % count for number in range(count)]


def _shares(answer, order, steps, batch, old_ranks, new_ranks):
    return [answer(order, steps, batch, old_ranks, rank, new_ranks) for rank in range(new_ranks)]


@exercise.probe
def from_two_ranks_to_three():
    return _order(20), 2, 3, 2, 1, 3


@exercise.probe
def from_four_ranks_to_one():
    return _order(30), 1, 5, 4, 0, 1


@exercise.probe
def every_share_of_a_grown_job(answer):
    return _shares(answer, _order(46), 3, 2, 4, 7)


@exercise.probe
def every_share_of_a_smaller_job(answer):
    return _shares(answer, _order(45), 2, 4, 3, 2)


@exercise.probe
def as_many_ranks_as_before(answer):
    return _shares(answer, _order(24), 1, 3, 2, 2)


@exercise.probe
def nothing_done_yet(answer):
    return _shares(answer, _order(11), 0, 4, 3, 2)


@exercise.probe
def all_done_but_two(answer):
    return _shares(answer, _order(26), 3, 2, 4, 5)


@exercise.probe
def all_done(answer):
    return _shares(answer, _order(12), 3, 2, 2, 3), _shares(answer, _order(10), 2, 3, 2, 4)


@exercise.probe
def an_order_that_is_a_range(answer):
    return _shares(answer, range(100, 120), 1, 4, 2, 3)


@exercise.probe
def the_order_stays_as_it_was(answer):
    order = _order(20)
    _shares(answer, order, 1, 2, 2, 3)
    return order

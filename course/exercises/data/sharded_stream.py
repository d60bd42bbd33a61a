"""Lesson 04: an iterable dataset that shares its items out among workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from course.checking import Exercise
from course.exercises.data._workers import as_worker, copied

exercise = Exercise(
    "data.sharded_stream",
    title="A stream that workers share",
    task="""
        `ShardedStream(items)` is an iterable dataset over `items`, which can be walked over again and again (a list, a
        range, or an object that opens a file in `__iter__`); its length is not known.

        - In the main process, iterating gives all items in order.
        - In a worker it gives the worker's share: together the workers give every item exactly once, and their shares
          differ by one item at most. Within a share the order of the items is kept.
        - Each epoch starts again at the beginning.
        - Items are taken one after the other, not collected: the stream may be longer than memory.
        """,
    hints=(
        "Every worker runs the same code on its own copy. get_worker_info() is how the code finds out in which of "
        "how many workers it runs; in the main process it returns None.",
        "Ask in __iter__, not in __init__: the dataset is made in the main process. Worker k of n takes every n-th "
        "item, and itertools.islice can do that.",
    ),
)


@exercise.stub
class ShardedStream(IterableDataset):
    """The items in order; in a worker, the worker's share of them."""

    def __init__(self, items: Iterable):
        raise NotImplementedError

    def __iter__(self) -> Iterator:
        raise NotImplementedError


@exercise.reference
class EveryNth(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        worker = get_worker_info()
        if worker is None:
            return iter(self.items)
        return itertools.islice(self.items, worker.id, None, worker.num_workers)


@exercise.alternative
class CountedOut(IterableDataset):
    def __init__(self, items):
        super().__init__()
        self.items = items

    def __iter__(self):
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for position, item in enumerate(self.items):
            if position % workers == number:
                yield item


@exercise.wrong(
    "Every worker yields all the items, so each comes as often as there are workers: an epoch is longer, and a metric "
    "counts everything several times. Only the dataset can share them out; a sampler does not exist for a stream.",
    fault="iterable-not-sharded",
)
class EverythingEverywhere(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


@exercise.wrong(
    "The share is decided in __init__. That runs in the main process, where there is no worker to ask about, so every "
    "worker believes that it is alone. Ask when the iteration starts.",
    fault="iterable-not-sharded",
)
class DecidedTooEarly(IterableDataset):
    def __init__(self, items):
        worker = get_worker_info()
        self.items = items
        self.number, self.workers = (worker.id, worker.num_workers) if worker else (0, 1)

    def __iter__(self):
        yield from itertools.islice(self.items, self.number, None, self.workers)


@exercise.wrong("Only the first worker yields anything. Nothing comes twice, but the other workers idle.")
class OnlyTheFirstWorker(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        worker = get_worker_info()
        return iter(self.items if worker is None or worker.id == 0 else ())


@exercise.wrong(
    "Blocks of equal size leave the remainder out: with 10 items and 4 workers two items are lost in every epoch. (And "
    "blocks need the length, for which everything has to be read first.)"
)
class EqualBlocks(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        items, worker = list(self.items), get_worker_info()
        if worker is None:
            return iter(items)
        size = len(items) // worker.num_workers
        return iter(items[worker.id * size : (worker.id + 1) * size])


@exercise.wrong(
    "The shares are right, but the whole stream is read into a list first. An endless or very long stream never "
    "gives its first item."
)
class CollectedFirst(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        items, worker = [item for item in self.items], get_worker_info()
        return iter(items if worker is None else items[worker.id :: worker.num_workers])


@exercise.wrong(
    "The iterator is made once, in __init__. After the first epoch it is at its end, and every later epoch is empty, "
    "without an error. (It could not be pickled for a spawned worker either.)"
)
class OneWalkOnly(IterableDataset):
    def __init__(self, items):
        self.walk = iter(items)

    def __iter__(self):
        worker = get_worker_info()
        if worker is None:
            return self.walk
        return itertools.islice(self.walk, worker.id, None, worker.num_workers)


@exercise.wrong(
    "Workers are numbered from 0. Taking every n-th item from id + 1 on skips the first item, and the main process "
    "must not skip any."
)
class OneItemSkipped(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        worker = get_worker_info()
        if worker is None:
            return iter(self.items)
        return itertools.islice(self.items, worker.id + 1, None, worker.num_workers)


@exercise.wrong(
    "The item itself says which worker takes it. Equal items then all go to one worker, and text goes by a hash that "
    "is another one in every process, so that items come twice or never. Count positions."
)
class SharedByValue(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        worker = get_worker_info()
        for item in self.items:
            if worker is None or hash(item) % worker.num_workers == worker.id:
                yield item


@exercise.wrong(
    "The position is counted on the dataset and goes on from where the last epoch stopped. After an epoch that was "
    "broken off, a worker takes the share of another one: items come twice, others never. Count in a local variable."
)
class CountedOnTheDataset(IterableDataset):
    def __init__(self, items):
        self.items, self.position = items, -1

    def __iter__(self):
        worker = get_worker_info()
        for item in self.items:
            self.position += 1
            if worker is None or self.position % worker.num_workers == worker.id:
                yield item


class _Source:
    """Numbers that can be walked over again and again; notes how many were taken."""

    def __init__(self, size: int) -> None:
        self.size, self.taken = size, 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.size):
            self.taken += 1
            yield number


def _shares(dataset: Any, workers: int) -> list[list[Any]]:
    shares = []
    for number in range(workers):
        mine = copied(dataset)
        with as_worker(mine, number, workers):
            shares.append(list(mine))
    return shares


@exercise.probe
def main_process(answer):
    return list(answer(["a", "b", "c", "d"])), list(answer([]))


@exercise.probe
def every_item_once(answer):
    shares = _shares(answer(_Source(10)), 4)
    return sorted(itertools.chain(*shares)), sorted(len(share) for share in shares), [s == sorted(s) for s in shares]


@exercise.probe
def more_workers_than_items(answer):
    shares = _shares(answer(["x", "y"]), 3)
    return sorted(itertools.chain(*shares)), sorted(len(share) for share in shares)


@exercise.probe
def made_in_a_worker(answer):
    with as_worker(None, 1, 2):
        share = list(answer(range(5)))
    # Whether worker 1 has the larger share is left to the answer.
    return len(share) in (2, 3), share == sorted(set(share) & set(range(5)))


@exercise.probe
def one_worker(answer):
    return _shares(answer(_Source(5)), 1)


@exercise.probe
def every_epoch_starts_again(answer):
    dataset = answer(_Source(6))
    here = list(dataset), list(dataset)
    mine = copied(dataset)
    with as_worker(mine, 1, 2):
        return here, len(list(mine)), len(list(mine))


@exercise.probe
def items_are_not_collected(answer):
    source = _Source(1000)
    dataset = answer(source)
    first = next(iter(dataset))
    with as_worker(dataset, 0, 2):
        next(iter(dataset))
    return first, source.taken < 10


@exercise.probe
def items_that_are_equal(answer):
    return sorted(len(share) for share in _shares(answer([8, 8, 8, 4, 4, 4, 0]), 2))


@exercise.probe
def an_epoch_that_is_broken_off(answer):
    dataset, shares = answer(_Source(6)), []
    for number in range(2):
        mine = copied(dataset)
        with as_worker(mine, number):
            if number == 0:
                next(iter(mine))
            shares += mine
    return sorted(shares)

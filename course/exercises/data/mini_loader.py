"""Lesson 04, build it: a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from course.checking import Exercise

exercise = Exercise(
    "data.mini_loader",
    title="Build it: a DataLoader",
    task="""
        `MiniLoader(dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None)` does what `DataLoader` does
        without workers. `dataset` is map-style; iterating over the loader gives the batches of one epoch.

        - Without `shuffle` samples come in order. With it, every epoch has a new order from torch's global generator.
        - The last batch may be smaller; `drop_last=True` leaves an incomplete one out. `len(loader)` is the number of
          batches.
        - A sample is read, by a Python int, when its batch is asked for, once an epoch, and not before. Two
          loops over one loader, one inside the other, do not disturb each other.
        - `collate_fn` takes the list of a batch's samples. Where it is None, batches are those of `default_collate`:
          tensors are stacked; ints and floats become a tensor (of int64 and float64), bools too; tuples and lists are
          collated position by position into a list, dicts key by key into a dict, all of them nested to any depth;
          strings stay as they are, in a list.

        About 30 lines. `default_collate` and `DataLoader` themselves are not to be used.
        """,
    hints=(
        "__iter__ can be a generator function: a new order each time it starts, then one slice of the order after the "
        "other. Everything an epoch needs is a local variable of it.",
        "Collating is a recursion over the type of the first sample: stack tensors, make a tensor of numbers, and for "
        "containers collate each position or key. zip(*samples) turns a list of samples into one of columns.",
    ),
    random=True,
)


@exercise.stub
class MiniLoader:
    """Batches of a map-style dataset, as DataLoader without workers gives them."""

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list], Any] | None = None,
    ):
        raise NotImplementedError

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError


@exercise.reference
class SlicesOfAnOrder:
    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn = collate_fn or self.collate

    def __len__(self):
        complete, rest = divmod(len(self.dataset), self.batch_size)
        return complete + (rest > 0 and not self.drop_last)

    def __iter__(self):
        size = len(self.dataset)
        order = torch.randperm(size).tolist() if self.shuffle else range(size)
        for number in range(len(self)):
            indices = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.collate_fn([self.dataset[i] for i in indices])

    def collate(self, samples):
        first = samples[0]
        if isinstance(first, Tensor):
            return torch.stack(samples)
        if isinstance(first, float):
            return torch.tensor(samples, dtype=torch.float64)
        if isinstance(first, int):
            return torch.tensor(samples)
        if isinstance(first, dict):
            return {key: self.collate([sample[key] for sample in samples]) for key in first}
        if isinstance(first, (tuple, list)):
            return [self.collate(list(column)) for column in zip(*samples)]
        return samples


@exercise.alternative
class FilledBatches:
    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        def collate(samples):
            kind = type(samples[0])
            if issubclass(kind, Tensor):
                return torch.stack(list(samples), 0)
            if kind in (int, bool, float):
                return torch.tensor(samples, dtype={int: torch.int64, bool: torch.bool, float: torch.float64}[kind])
            if kind is dict:
                return {k: collate([s[k] for s in samples]) for k in samples[0]}
            if kind in (tuple, list):
                return list(map(collate, zip(*samples)))
            return list(samples)

        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn = collate if collate_fn is None else collate_fn

    def __len__(self):
        samples = len(self.dataset)
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __iter__(self):
        order = torch.randperm(len(self.dataset)) if self.shuffle else torch.arange(len(self.dataset))
        batch = []
        for index in order.tolist():
            batch.append(self.dataset[index])
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)


def _collate(samples: Any) -> Any:
    first = samples[0]
    if isinstance(first, Tensor):
        return torch.stack(list(samples))
    if isinstance(first, float):
        return torch.tensor(samples, dtype=torch.float64)
    if isinstance(first, int):
        return torch.tensor(samples)
    if isinstance(first, dict):
        return {key: _collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        return [_collate(column) for column in zip(*samples)]
    return list(samples)


class _Basis:
    """What the wrong answers below have in common; each spoils one thing."""

    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn = collate_fn or _collate

    def __len__(self):
        complete, rest = divmod(len(self.dataset), self.batch_size)
        return complete + (rest > 0 and not self.drop_last)

    def order(self):
        size = len(self.dataset)
        return torch.randperm(size).tolist() if self.shuffle else list(range(size))

    def __iter__(self):
        order = self.order()
        for number in range(len(self)):
            indices = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.collate_fn([self.dataset[i] for i in indices])


@exercise.wrong(
    "The order is drawn when the loader is made, so every epoch shuffles the same way. Draw it when an epoch starts."
)
class ShuffledOnce(_Basis):
    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        super().__init__(dataset, batch_size, shuffle, drop_last, collate_fn)
        self.fixed = _Basis.order(self)

    def order(self):
        return self.fixed


@exercise.wrong(
    "The samples of a batch are drawn independently, with replacement. Over an epoch some come twice and about a third "
    "never. Shuffling is a permutation."
)
class DrawnWithReplacement(_Basis):
    def order(self):
        size = len(self.dataset)
        return torch.randint(max(size, 1), (size,)).tolist() if self.shuffle else list(range(size))


@exercise.wrong(
    "The incomplete last batch is always left out, also where drop_last is False. Those samples are never seen in an "
    "epoch without shuffling, and validation counts too few."
)
class AlwaysDropped(_Basis):
    def __len__(self):
        return len(self.dataset) // self.batch_size


@exercise.wrong(
    "drop_last is ignored: an incomplete batch comes all the same, and a batch of one sample stops a BatchNorm layer.",
    fault="batchnorm-single-sample",
)
class NeverDropped(_Basis):
    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)


@exercise.wrong("len() is the number of samples here. A loader's length is the number of its batches.")
class LengthInSamples(_Basis):
    def __len__(self):
        return len(self.dataset)

    def __iter__(self):
        order = self.order()
        end = len(order) - (len(order) % self.batch_size if self.drop_last else 0)
        for start in range(0, end, self.batch_size):
            yield self.collate_fn([self.dataset[i] for i in order[start : start + self.batch_size]])


@exercise.wrong(
    "The whole dataset is read before the first batch comes. A loader reads a sample when its batch is asked for; the "
    "data need not fit into memory."
)
class ReadsEverythingFirst(_Basis):
    def __iter__(self):
        order = self.order()
        samples = [self.dataset[i] for i in order]
        return iter(
            [
                self.collate_fn(samples[number * self.batch_size : (number + 1) * self.batch_size])
                for number in range(len(self))
            ]
        )


@exercise.wrong(
    "The loader is its own iterator and keeps its place on itself. A second loop over it, such as a validation inside "
    "an epoch, starts the first one anew. Let __iter__ return something new each time."
)
class OneIteratorForAll(_Basis):
    def __iter__(self):
        self.current = super().__iter__()
        return self

    def __next__(self):
        return next(self.current)


@exercise.wrong(
    "Samples are collated as they are: a batch of pairs stays a list of pairs. Training code unpacks a batch into "
    "inputs and targets, so positions have to be collected across the samples.",
    fault="list-sample-transposed",
)
class NotTransposed(_Basis):
    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        def collate(samples):
            containers = isinstance(samples[0], (tuple, list, dict))
            return list(samples) if containers else _collate(samples)

        super().__init__(dataset, batch_size, shuffle, drop_last, collate_fn or collate)


@exercise.wrong(
    "Collating stops after one level: the positions of a sample are stacked, but a tuple or dict inside a sample is "
    "not taken apart. Let the function call itself."
)
class OneLevelOnly(_Basis):
    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        def flat(samples):
            return list(samples) if isinstance(samples[0], (tuple, list, dict)) else _collate(samples)

        def collate(samples):
            first = samples[0]
            if isinstance(first, dict):
                return {key: flat([sample[key] for sample in samples]) for key in first}
            if isinstance(first, (tuple, list)):
                return [flat(column) for column in zip(*samples)]
            return _collate(samples)

        super().__init__(dataset, batch_size, shuffle, drop_last, collate_fn or collate)


@exercise.wrong(
    "Floats become float32. default_collate makes float64 of Python floats, as NumPy does, so targets that are floats "
    "arrive in another dtype than the model's outputs. It surprises, but it is what the loader does.",
    fault="float64-input",
)
class FloatsInSinglePrecision(_Basis):
    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        def collate(samples):
            first = samples[0]
            if isinstance(first, float):
                return torch.tensor(samples)
            if isinstance(first, dict):
                return {key: collate([sample[key] for sample in samples]) for key in first}
            if isinstance(first, (tuple, list)):
                return [collate(column) for column in zip(*samples)]
            return _collate(samples)

        super().__init__(dataset, batch_size, shuffle, drop_last, collate_fn or collate)


@exercise.wrong(
    "Tensors are joined along their first axis by cat. A batch needs a new axis for the samples: two images of shape "
    "(3, 32, 32) make (2, 3, 32, 32), and numbers without axes can be stacked too."
)
class Concatenated(_Basis):
    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        def collate(samples):
            first = samples[0]
            if isinstance(first, Tensor):
                return torch.cat([sample.reshape(1) if sample.ndim == 0 else sample for sample in samples])
            if isinstance(first, dict):
                return {key: collate([sample[key] for sample in samples]) for key in first}
            if isinstance(first, (tuple, list)):
                return [collate(column) for column in zip(*samples)]
            return _collate(samples)

        super().__init__(dataset, batch_size, shuffle, drop_last, collate_fn or collate)


@exercise.wrong(
    "The order is kept on the loader. A second loop draws another one while the first is still under way, and the rest "
    "of the first epoch then follows the new order: some samples come twice, others not at all. Keep it in a local "
    "variable of __iter__."
)
class OrderOnTheLoader(_Basis):
    def __iter__(self):
        self.current = self.order()
        for number in range(len(self)):
            indices = self.current[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.collate_fn([self.dataset[i] for i in indices])


@exercise.wrong(
    "Samples are remembered and not read again. A random augmentation is then drawn once for the whole training, and "
    "the data must fit into memory. Read each sample in every epoch."
)
class SamplesRemembered(_Basis):
    def __iter__(self):
        self.known = getattr(self, "known", {})
        order = self.order()
        for number in range(len(self)):
            indices = order[number * self.batch_size : (number + 1) * self.batch_size]
            self.known.update({i: self.dataset[i] for i in indices if i not in self.known})
            yield self.collate_fn([self.known[i] for i in indices])


class _Counted:
    """Samples 0, 1, 2, ...; notes which were read."""

    def __init__(self, size: int) -> None:
        self.size, self.read = size, []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(index)
        self.read.append(index)
        return index


def _nested(i: int) -> dict[str, Any]:
    return {
        "image": torch.full((2, 3), float(i)),
        "boxes": ((i, float(i) / 4), [torch.tensor(i), {"name": f"box {i}", "hard": i % 2 == 0}]),
        "id": i * 10,
    }


@exercise.probe
def pairs_in_order(answer):
    return list(answer([(torch.tensor([i, i + 1.0]), i) for i in range(5)], batch_size=2))


@exercise.probe
def nested_samples(answer):
    return list(answer([_nested(i) for i in range(5)], 2, drop_last=True))


@exercise.probe
def plain_samples(answer):
    kinds = [[3, 1, 4], [0.5, 2.0, 1.25], [True, False, True], ["a", "b", "c"], list(torch.eye(3))]
    return [next(iter(answer(samples, batch_size=3))) for samples in kinds], list(answer([7, 8]))


@exercise.probe
def number_of_batches(answer):
    cases = [(size, n, drop) for size in (0, 1, 6, 7) for n in (1, 3, 8) for drop in (False, True)]
    made = [answer(list(range(size)), n, False, drop) for size, n, drop in cases]
    return [len(loader) for loader in made], [len(list(loader)) for loader in made]


@exercise.probe
def shuffling_is_a_permutation(answer):
    dataset = _Counted(50)
    loader = answer(dataset, 8, shuffle=True)
    first, second = ([i for batch in loader for i in batch.tolist()] for _ in range(2))
    kinds = {type(index).__name__ for index in dataset.read}
    return sorted(first), sorted(second), first == second, first == list(range(50)), kinds


@exercise.probe
def torch_s_seed_decides(answer):
    orders = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        orders.append([batch.tolist() for batch in answer(_Counted(30), 7, shuffle=True, drop_last=True)])
    return orders[0] == orders[1], orders[1] == orders[2]


@exercise.probe
def read_when_asked_for(answer):
    dataset = _Counted(9)
    batches = iter(answer(dataset, 3))
    before = list(dataset.read)
    next(batches)
    after_one = list(dataset.read)
    list(batches)
    return before, after_one, dataset.read


@exercise.probe
def two_loops_at_once(answer):
    loader = answer(_Counted(4), 2)
    return [(outer, inner) for outer in loader for inner in loader]


@exercise.probe
def own_collate_function(answer):
    return list(answer([[1], [2, 3], [4, 5, 6]], 2, collate_fn=lambda samples: ("batch", samples)))


@exercise.probe
def dropped_under_shuffling(answer):
    loader = answer(_Counted(7), 3, shuffle=True, drop_last=True)
    batches = [batch.tolist() for batch in loader]
    return [len(batch) for batch in batches], len({i for batch in batches for i in batch})


@exercise.probe
def two_loops_under_shuffling(answer):
    loader = answer(_Counted(30), 10, shuffle=True)
    outer, inner = iter(loader), iter(loader)
    first, second = next(outer).tolist(), next(inner).tolist()
    for batches, seen in ((outer, first), (inner, second)):
        for batch in batches:
            seen.extend(batch.tolist())
    return sorted(first), sorted(second)


@exercise.probe
def read_again_in_every_epoch(answer):
    dataset = _Counted(4)
    loader = answer(dataset, 2)
    return [list(loader) for _ in range(2)], dataset.read

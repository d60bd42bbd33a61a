"""Lesson 04: training and validation parts with transforms of their own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Subset, random_split

from course.checking import Exercise
from course.data.splits import Transformed

exercise = Exercise(
    "data.split_with_transforms",
    title="A split with two transforms",
    task="""
        `split_with_transforms(dataset, n_validation, train_transform, validation_transform, seed=0)` takes a map-style
        dataset of pairs `(x, y)` and returns two map-style datasets, training first: `n_validation` samples drawn at
        random, and all the others. In each, `x` has gone through the transform of its part; `y` is left alone.

        - No sample is in both parts, none is lost.
        - The seed alone decides which sample goes where. Whatever random numbers were drawn before makes no difference,
          and the global generators are left as they are.
        - Splitting reads no sample. A transform is called when a sample is read, each time anew.

        The class `Transformed(dataset, transform)` from the cell above is at hand.
        """,
    hints=(
        "Split indices, not transformed data: Subset(dataset, indices) or random_split give parts of the raw dataset. "
        "Each part is then wrapped for itself.",
        "Draw one permutation from a generator of your own, torch.Generator().manual_seed(seed), and cut it in two.",
    ),
)


@exercise.stub
def split_with_transforms(
    dataset: Dataset, n_validation: int, train_transform: Callable, validation_transform: Callable, seed: int = 0
) -> tuple[Dataset, Dataset]:
    """Return the training and the validation part of a dataset of pairs (x, y), each with its own transform of x."""
    raise NotImplementedError


@exercise.reference
def by_one_permutation(dataset, n_validation, train_transform, validation_transform, seed=0):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    train, validation = Subset(dataset, order[n_validation:]), Subset(dataset, order[:n_validation])
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.alternative
def by_random_split(dataset, n_validation, train_transform, validation_transform, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = [len(dataset) - n_validation, n_validation]
    train, validation = random_split(dataset, sizes, generator=generator)
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.alternative
def by_shuffling_in_python(dataset, n_validation, train_transform, validation_transform, seed=0):
    order = list(range(len(dataset)))
    random.Random(seed).shuffle(order)
    cut = len(dataset) - n_validation
    whole = [Transformed(dataset, train_transform), Transformed(dataset, validation_transform)]
    return Subset(whole[0], order[:cut]), Subset(whole[1], order[cut:])


@exercise.wrong(
    "Both parts look at one dataset with one transform, so validation images are augmented like training images. The "
    "score then measures something else, and is another at every run. Split first, then give each part its transform.",
    fault="augmented-validation",
)
def one_transform_for_both(dataset, n_validation, train_transform, validation_transform, seed=0):
    whole = Transformed(dataset, train_transform)
    sizes = [len(dataset) - n_validation, n_validation]
    return tuple(random_split(whole, sizes, generator=torch.Generator().manual_seed(seed)))


@exercise.wrong(
    "Both parts share one dataset object. Setting its transform for the validation part sets it for the training part "
    "too: whoever sets it last wins, and training goes on without augmentation."
)
def transform_set_twice(dataset, n_validation, train_transform, validation_transform, seed=0):
    whole = Transformed(dataset, None)
    sizes = [len(dataset) - n_validation, n_validation]
    train, validation = random_split(whole, sizes, generator=torch.Generator().manual_seed(seed))
    train.dataset.transform = train_transform
    validation.dataset.transform = validation_transform
    return train, validation


@exercise.wrong(
    "The two parts come from two different random splits, so some samples are in both and some in none. The model is "
    "validated on what it was trained on. Cut one permutation in two."
)
def two_random_splits(dataset, n_validation, train_transform, validation_transform, seed=0):
    sizes = [len(dataset) - n_validation, n_validation]
    generator = torch.Generator().manual_seed(seed)
    train, _ = random_split(Transformed(dataset, train_transform), sizes, generator=generator)
    _, validation = random_split(Transformed(dataset, validation_transform), sizes, generator=generator)
    return train, validation


@exercise.wrong(
    "The samples of the validation part stand next to each other in the dataset, its first or its last ones. Many "
    "datasets are sorted by class, and then validation knows only some of the classes and training only the others. "
    "Draw the samples at random.",
    fault="unshuffled-classes",
)
def the_first_ones(dataset, n_validation, train_transform, validation_transform, seed=0):
    train = Subset(dataset, range(n_validation, len(dataset)))
    validation = Subset(dataset, range(n_validation))
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.wrong(
    "The global generator is seeded for the split. Every random number of the program after it, such as the initial "
    "weights, is then decided here, and runs that should differ do not. Use a generator of your own."
)
def global_seed(dataset, n_validation, train_transform, validation_transform, seed=0):
    torch.manual_seed(seed)
    order = torch.randperm(len(dataset)).tolist()
    train, validation = Subset(dataset, order[n_validation:]), Subset(dataset, order[:n_validation])
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.wrong(
    "The split ignores the seed: it comes from the global generator, so it is another one whenever something drew a "
    "number before. After a restart, samples that were trained on turn up in validation."
)
def without_the_seed(dataset, n_validation, train_transform, validation_transform, seed=0):
    train, validation = random_split(dataset, [len(dataset) - n_validation, n_validation])
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.wrong(
    "All samples are transformed while splitting, and the results are kept. A random augmentation is then drawn once "
    "for the whole training, and the data must fit into memory."
)
def transformed_at_once(dataset, n_validation, train_transform, validation_transform, seed=0):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    train = [(train_transform(x), y) for x, y in (dataset[i] for i in order[n_validation:])]
    validation = [(validation_transform(x), y) for x, y in (dataset[i] for i in order[:n_validation])]
    return train, validation


@exercise.wrong(
    "The sizes are swapped: n_validation samples are left for training. Mind which part of the permutation is which."
)
def sizes_swapped(dataset, n_validation, train_transform, validation_transform, seed=0):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    train, validation = Subset(dataset, order[:n_validation]), Subset(dataset, order[n_validation:])
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.wrong(
    "`seed` is not used: every seed gives the same split. Whoever wants to know how much a score depends on the split "
    "tries some seeds, and sees no difference."
)
def always_the_same_split(dataset, n_validation, train_transform, validation_transform, seed=0):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
    train, validation = Subset(dataset, order[n_validation:]), Subset(dataset, order[:n_validation])
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.wrong(
    "NumPy's global generator is seeded for the split. What draws from it afterwards, an augmentation for example, is "
    "then decided here. np.random.default_rng(seed) is a generator of your own."
)
def global_seed_of_numpy(dataset, n_validation, train_transform, validation_transform, seed=0):
    np.random.seed(seed)
    order = np.random.permutation(len(dataset)).tolist()
    train, validation = Subset(dataset, order[n_validation:]), Subset(dataset, order[:n_validation])
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.wrong(
    "All samples are read in order to split them. The data must fit into memory, and what the dataset draws at random "
    "when it is read is drawn once and for all. Split the indices."
)
def read_while_splitting(dataset, n_validation, train_transform, validation_transform, seed=0):
    samples = [dataset[i] for i in range(len(dataset))]
    sizes = [len(samples) - n_validation, n_validation]
    train, validation = random_split(samples, sizes, generator=torch.Generator().manual_seed(seed))
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


@exercise.wrong(
    "With `n_validation` 0 everything lands in the validation part: order[-0:] is order[0:], the whole list. Cut at a "
    "position that is counted from the front."
)
def cut_from_the_end(dataset, n_validation, train_transform, validation_transform, seed=0):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    train, validation = Subset(dataset, order[:-n_validation]), Subset(dataset, order[-n_validation:])
    return Transformed(train, train_transform), Transformed(validation, validation_transform)


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(i, i * i) for i in range(count)]


def _samples(part: Any) -> list[Any]:
    return [part[i] for i in range(len(part))]


def _members(answer: Any, count: int, n_validation: int, *seed: int) -> tuple[list[int], list[int]]:
    parts = answer(_pairs(count), n_validation, int, int, *seed)
    return tuple([x for x, _ in _samples(part)] for part in parts)


@exercise.probe
def each_sample_in_one_part(answer):
    train, validation = _members(answer, 20, 6)
    return len(train), len(validation), sorted(train + validation)


@exercise.probe
def each_part_has_its_transform(answer):
    train, validation = answer(_pairs(12), 5, lambda x: x + 100, lambda x: x + 1000, 3)
    signs = [sorted({x // 100 for x, _ in _samples(part)}) for part in (train, validation)]
    labels = [all(y == (x % 100) ** 2 for x, y in _samples(part)) for part in (train, validation)]
    return signs, labels


@exercise.probe
def drawn_at_random(answer):
    # 20 of 200 at random: the chance that none or all come from one half is below one in 100,000, and two are
    # neighbours in about two places, where of 20 in a row there are 19. Their order is left to the answer.
    _, validation = _members(answer, 200, 20, 4)
    neighbours = sum((x + 1) % 200 in validation for x in validation)
    return neighbours < 10, 0 < sum(x < 100 for x in validation) < 20


@exercise.probe
def the_seed_decides(answer):
    splits = []
    for torch_seed, seed in ((1, 7), (2, 7), (2, 8)):
        torch.manual_seed(torch_seed)
        random.seed(torch_seed)
        splits.append([sorted(part) for part in _members(answer, 40, 10, seed)])
    return splits[0] == splits[1], splits[1] == splits[2]


@exercise.probe
def the_seed_is_zero_unless_given(answer):
    return [sorted(part) for part in _members(answer, 40, 10)] == [sorted(part) for part in _members(answer, 40, 10, 0)]


@exercise.probe
def global_generators_are_left_alone(answer):
    torch.manual_seed(11)
    random.seed(11)
    np.random.seed(11)
    wanted = torch.rand(1).item(), random.random(), np.random.rand()
    torch.manual_seed(11)
    random.seed(11)
    np.random.seed(11)
    _members(answer, 30, 10, 2)
    return [mine == theirs for mine, theirs in zip(wanted, (torch.rand(1).item(), random.random(), np.random.rand()))]


@exercise.probe
def transforms_run_when_read(answer):
    calls: list[int] = []

    def counted(x: int) -> int:
        calls.append(x)
        return len(calls)

    train, validation = answer(_pairs(8), 3, counted, counted, 1)
    before = len(calls)
    seen = [train[2][0], train[2][0], validation[1][0], train[4][0]]
    return before, seen, len(calls)


@exercise.probe
def nothing_to_validate(answer):
    train, validation = _members(answer, 5, 0)
    return sorted(train), validation


class _Counted(Dataset):
    """Pairs; notes how often one was read."""

    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.reads += 1
        return index, index


@exercise.probe
def splitting_reads_no_sample(answer):
    dataset = _Counted()
    train, _ = answer(dataset, 3, int, int)
    before = dataset.reads
    train[0]
    train[0]
    return before, dataset.reads

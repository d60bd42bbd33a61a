"""Lesson 04: random augmentation that is right in every worker."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from course.checking import Exercise
from course.exercises.data._workers import as_worker, copied, epoch, seed_all

exercise = Exercise(
    "data.randomly_flipped",
    title="Random augmentation that is safe in workers",
    task="""
        `RandomlyFlipped(images, p=0.5)` is a map-style dataset over `images`, shape `(N, C, H, W)`. `dataset[i]` is
        image `i`, mirrored left to right with probability `p`: a new draw at every access, in every epoch.

        - Workers do not repeat each other, and not the process that started them, also when that process has read a
          sample before.
        - Who seeds the global generators (`torch.manual_seed`, `random.seed`, `np.random.seed`, as every worker does
          when it starts) gets the same flips again.
        - Reading a sample changes neither `images` nor how other random numbers come out, beyond drawing from a
          generator.
        """,
    hints=(
        "A worker gets a copy of the dataset, with everything that is stored on it. What is the state of a generator "
        "that was stored? And which generators does the loader seed anew for each worker?",
        "Draw in __getitem__ from a global generator, torch's for example, and store no generator at all. Return "
        "image.flip(-1) or the image.",
    ),
    random=True,
)


@exercise.stub
class RandomlyFlipped(Dataset):
    """Images (N, C, H, W), each mirrored left to right with probability p whenever it is read."""

    def __init__(self, images: Tensor, p: float = 0.5):
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Tensor:
        raise NotImplementedError


@exercise.reference
class DrawnFromTorch(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        flip = torch.bernoulli(torch.tensor(self.p))
        return self.images[index].flip(-1) if flip else self.images[index]


@exercise.alternative
class DrawnFromPython(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return self.images.shape[0]

    def __getitem__(self, index):
        image = self.images[index].clone()
        if random.random() < self.p:
            image = image.flip(2)
        return image


@exercise.alternative
class DrawnFromNumPy(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return torch.flip(image, (-1,)) if np.random.uniform() < self.p else image


@exercise.wrong(
    "The generator is made once and stored on the dataset. Every worker gets a copy of it in the same state, so all "
    "workers draw the same numbers. (NumPy's global generator, which older advice blames, is seeded for each worker.)",
    fault="worker-rng-duplicated",
)
class StoredGenerator(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p
        self.rng = np.random.default_rng(torch.initial_seed() % 2**32)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return image.flip(-1) if self.rng.random() < self.p else image


@exercise.wrong(
    "The generator is made at the first access, from the worker's seed. That is right until somebody looks at a sample "
    "before the workers start: then it exists already and is copied like any stored generator.",
    fault="worker-rng-duplicated",
)
class GeneratorAtFirstUse(Dataset):
    rng = None

    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed() % 2**32)
        image = self.images[index]
        return image.flip(-1) if self.rng.random() < self.p else image


@exercise.wrong(
    "The global generator is seeded with the index at each access. So image i is flipped always or never, and every "
    "other random number of the process (dropout, shuffling) starts again with each sample."
)
class SeededByTheIndex(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        torch.manual_seed(index)
        image = self.images[index]
        return image.flip(-1) if torch.rand(()) < self.p else image


@exercise.wrong(
    "Which images are flipped is decided when the dataset is made. Each epoch then sees the same pictures: the "
    "training set is a different one, but no larger."
)
class DecidedOnce(Dataset):
    def __init__(self, images, p=0.5):
        self.images = images
        self.flips = torch.rand(len(images)) < p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index].flip(-1) if self.flips[index] else self.images[index]


@exercise.wrong(
    "The draw comes from a generator with a seed from the operating system. Workers differ, but the run can never be "
    "repeated: torch.manual_seed has no effect on it."
)
class UnseededGenerator(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return image.flip(-1) if np.random.default_rng().random() < self.p else image


@exercise.wrong(
    "The image is mirrored top to bottom. The last axis of (C, H, W) runs from left to right, the one before it from "
    "top to bottom."
)
class UpsideDown(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return image.flip(-2) if torch.rand(()) < self.p else image


@exercise.wrong("p is read the other way round: it is the probability of a flip, so p = 0 never flips.")
class FlippedUnless(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return image.flip(-1) if torch.rand(()) > self.p else image


@exercise.wrong(
    "The flipped image is written back into the stored images. The next access flips the flipped one, and the data "
    "that the caller passed in are no longer what they were.",
    fault="dataset-mutates-cache",
)
class WrittenBack(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if torch.rand(()) < self.p:
            self.images[index] = self.images[index].flip(-1)
        return self.images[index].clone()


@exercise.wrong(
    "Every channel draws for itself. An image then has its red mirrored and its blue not, which no camera sees. One "
    "draw decides about the whole image."
)
class EachChannelByItself(Dataset):
    def __init__(self, images, p=0.5):
        self.images, self.p = images, p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        flip = torch.rand(len(image), 1, 1) < self.p
        return torch.where(flip, image.flip(-1), image)


def _arrows(count: int = 3) -> Tensor:
    """Images whose left, right, top and bottom can be told apart."""
    return torch.arange(count * 12).reshape(count, 1, 3, 4)


def _flips(samples: list[Tensor]) -> list[bool]:
    return [bool(image[0, 0, 0] > image[0, 0, -1]) for image in samples]


@exercise.probe
def never_and_always(answer):
    images = _arrows()
    never, always = answer(images, 0.0), answer(images, 1.0)
    return len(never), [never[i] for i in range(3)], [always[i] for i in range(3)], images


@exercise.probe
def share_of_flips(answer):
    # Six standard deviations of the share among 400 draws.
    dataset, draws, near = answer(_arrows(), 0.3), 400, []
    share = sum(_flips([dataset[i % 3] for i in range(draws)])) / draws
    near.append(abs(share - 0.3) < 6 * (0.3 * 0.7 / draws) ** 0.5)
    share = sum(_flips([answer(_arrows())[0] for _ in range(draws)])) / draws
    near.append(abs(share - 0.5) < 6 * 0.5 / draws**0.5)
    return near


@exercise.probe
def images_stay_as_they_are(answer):
    images = _arrows()
    dataset = answer(images, 0.5)
    for _ in range(64):
        dataset[1]
    return images


@exercise.probe
def epochs_differ(answer):
    dataset = answer(_arrows(), 0.5)
    first, second = (_flips([dataset[i % 3] for i in range(64)]) for _ in range(2))
    return first != second


@exercise.probe
def workers_differ(answer):
    first, second = (_flips(read) for read in epoch(answer(_arrows(), 0.5), [0, 1, 2] * 30))
    return first != second


@exercise.probe
def workers_differ_after_a_look(answer):
    dataset = answer(_arrows(), 0.5)
    dataset[0]
    in_workers = [_flips(read) for read in epoch(dataset, [0, 1, 2] * 30)]
    here = _flips([copied(dataset)[i % 3] for i in range(90)])
    return in_workers[0] != in_workers[1], here not in in_workers


@exercise.probe
def the_same_seeds_again(answer):
    dataset = answer(_arrows(), 0.5)
    runs = [[_flips(read) for read in epoch(dataset, [0, 1, 2] * 20, base_seed=seed)] for seed in (5, 5, 6)]
    return runs[0] == runs[1], runs[0] == runs[2]


@exercise.probe
def other_random_numbers_go_on(answer):
    dataset = answer(_arrows(), 0.5)
    seed_all(3)
    numbers = []
    for _ in range(3):
        dataset[0]
        numbers.append((torch.rand(1).item(), random.random(), np.random.rand()))
    return all(len(set(column)) == 3 for column in zip(*numbers))


@exercise.probe
def a_worker_can_read_it(answer):
    mine = copied(answer(_arrows(), 1.0))
    with as_worker(mine, 1):
        return mine[2]


@exercise.probe
def all_channels_together(answer):
    images = torch.arange(72).reshape(2, 4, 3, 3)
    dataset = answer(images, 0.5)
    seen = [(dataset[i % 2], images[i % 2]) for i in range(40)]
    return all(torch.equal(read, image) or torch.equal(read, image.flip(-1)) for read, image in seen)

"""Lesson 04: a map-style dataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from course.checking import Exercise

exercise = Exercise(
    "data.window_dataset",
    title="A map-style dataset",
    task="""
        `WindowDataset(series, length, transform=None)` makes samples of a series, a tensor of shape `(N,)`. Sample `i`
        is a pair of tensors: the window `series[i], ..., series[i + length - 1]`, shape `(length,)`, and the number
        that follows it, shape `()`.

        - `len(dataset)` is the number of windows that have a number after them; 0 for a series that is too short.
        - `dataset[i]` raises `IndexError` for every `i` outside of `0 ... len(dataset) - 1`, negative ones too. A `for`
          loop over the dataset ends by that.
        - `transform`, if there is one, is applied to the window, not to the number after it, each time the sample is
          read. It may work in place; so may whoever reads the sample. `series` stays as it is all the same.

        Example: for `series = [1, 2, 4, 8]` and `length = 2` the samples are `([1, 2], 4)` and `([2, 4], 8)`.
        """,
    hints=(
        "A slice never complains about its bounds, so ask first whether the index is one of the dataset's. And a "
        "slice of a tensor is a view: who writes into it writes into the series.",
        "The last window starts at N - length - 1, because one number has to follow. Copy the slice, then transform "
        "the copy, in __getitem__.",
    ),
)


@exercise.stub
class WindowDataset(Dataset):
    """Windows of `length` numbers of a series, shape (N,), each with the number that follows."""

    def __init__(self, series: Tensor, length: int, transform: Callable[[Tensor], Tensor] | None = None):
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the window (length,) and the number after it, both as tensors."""
        raise NotImplementedError


@exercise.reference
class CopiedSlices(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length, self.transform = series, length, transform

    def __len__(self):
        return len(self.series[self.length :])

    def __getitem__(self, index):
        if index not in range(len(self)):
            raise IndexError(f"there is no sample {index}")
        end = index + self.length
        window = self.series[index:end].clone()
        return self.transform(window) if self.transform else window, self.series[end].clone()


@exercise.alternative
class UnfoldedCopies(Dataset):
    def __init__(self, series, length, transform=None):
        count = max(0, series.numel() - length)
        self.rows = series.unfold(0, length + 1, 1) if count else series.new_empty(0, length + 1)
        self.transform = transform or (lambda window: window)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        if index < 0 or index >= len(self.rows):
            raise IndexError(index)
        row = torch.clone(self.rows[index])
        return self.transform(row[:-1].clone()), row[-1]


@exercise.wrong(
    "The window is a view of the series. A transform that works in place then changes the stored series, a little more "
    "at every access: the data drift from epoch to epoch, and neighbouring windows overlap. Give a copy away.",
    fault="dataset-mutates-cache",
)
class ViewsOfTheSeries(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length, self.transform = series, length, transform

    def __len__(self):
        return max(0, len(self.series) - self.length)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        window = self.series[index : index + self.length]
        return self.transform(window) if self.transform else window, self.series[index + self.length]


@exercise.wrong(
    "N - length + 1 windows fit into the series, but the last of them has no number after it. Count the windows that "
    "have one."
)
class OneWindowTooMany(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length, self.transform = series, length, transform

    def __len__(self):
        return max(0, len(self.series) - self.length + 1)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        window = self.series[index : index + self.length].clone()
        return self.transform(window) if self.transform else window, self.series[index + self.length].clone()


@exercise.wrong(
    "One sample is missing at the end. Write the first and the last window of a series of four numbers down and count."
)
class OneWindowTooFew(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length, self.transform = series, length, transform

    def __len__(self):
        return max(0, len(self.series) - self.length - 1)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        window = self.series[index : index + self.length].clone()
        return self.transform(window) if self.transform else window, self.series[index + self.length].clone()


@exercise.wrong(
    "The number to predict is the last one of the window itself. A model learns to copy it, the loss is excellent, and "
    "nothing was predicted. The target comes after the window."
)
class TargetInsideTheWindow(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length, self.transform = series, length, transform

    def __len__(self):
        return max(0, len(self.series) - self.length)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        window = self.series[index : index + self.length].clone()
        target = window[-1].clone()
        return self.transform(window) if self.transform else window, target


@exercise.wrong(
    "The transform runs once, when the dataset is made, and its results are stored. A random transform is then drawn "
    "once and for all: every epoch sees the same augmentation. Apply it when a sample is read."
)
class TransformedOnce(Dataset):
    def __init__(self, series, length, transform=None):
        transform = transform or torch.clone
        self.samples = [
            (transform(series[i : i + length].clone()), series[i + length].clone())
            for i in range(max(0, len(series) - length))
        ]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        window, target = self.samples[index]
        return window.clone(), target.clone()


@exercise.wrong(
    "Nothing checks the index. Indexing the series happens to fail behind its end, but a negative index counts from "
    "the end: the window is then empty or cut, and the target comes from somewhere else."
)
class AnyIndex(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length, self.transform = series, length, transform

    def __len__(self):
        return max(0, len(self.series) - self.length)

    def __getitem__(self, index):
        window = self.series[index : index + self.length].clone()
        return self.transform(window) if self.transform else window, self.series[index + self.length].clone()


@exercise.wrong(
    "An index outside raises ValueError here. The old protocol by which a `for` loop walks over an object with "
    "__getitem__ ends at IndexError and nothing else, so such a loop fails instead of ending."
)
class AnotherError(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length, self.transform = series, length, transform

    def __len__(self):
        return max(0, len(self.series) - self.length)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise ValueError("no such sample")
        window = self.series[index : index + self.length].clone()
        return self.transform(window) if self.transform else window, self.series[index + self.length].clone()


@exercise.wrong(
    "The transform is applied to the number after the window as well. What is done to the input must not be done to "
    "the target: a loss would compare with a number that is not in the data."
)
class TransformedTarget(Dataset):
    def __init__(self, series, length, transform=None):
        self.series, self.length = series, length
        self.transform = transform or torch.clone

    def __len__(self):
        return max(0, len(self.series) - self.length)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError("outside")
        end = index + self.length
        return self.transform(self.series[index:end].clone()), self.transform(self.series[end].clone())


@exercise.wrong(
    "The number goes through Python and comes back as float32, whatever dtype the series has. Window and number then "
    "differ in dtype, and digits are lost. Index the series, and copy what comes out."
)
class NumberMadeAnew(CopiedSlices):
    def __getitem__(self, index):
        window, target = super().__getitem__(index)
        return window, torch.tensor(target.item())


SERIES = (3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0)


@exercise.probe
def samples_of_a_short_series(answer):
    dataset = answer(torch.tensor([1.0, 2.0, 4.0, 8.0]), 2)
    return [dataset[i] for i in range(2)]


@exercise.probe
def number_of_samples(answer):
    return [len(answer(torch.arange(size), length)) for size, length in [(7, 3), (4, 3), (3, 3), (2, 3), (0, 1)]]


@exercise.probe
def last_sample(answer):
    return answer(torch.tensor(SERIES), 3)[3]


@exercise.probe
def walking_to_the_end(answer):
    # More would mean that the walk does not end.
    return list(itertools.islice(answer(torch.arange(6), 4), 10))


@exercise.probe
def indices_outside(answer):
    dataset, names = answer(torch.tensor(SERIES), 3), []
    for index in (4, 5, 100, -1, -4):
        try:
            names.append(dataset[index])
        except Exception as error:
            names.append(type(error).__name__)
    return names


@exercise.probe
def transform_in_place(answer):
    series = torch.tensor(SERIES)
    dataset = answer(series, 3, lambda window: window.mul_(10))
    return dataset[1], dataset[1], dataset[2], series


@exercise.probe
def a_sample_that_is_overwritten(answer):
    series = torch.tensor(SERIES)
    dataset = answer(series, 2)
    for part in dataset[0]:
        part.fill_(-1)
    return dataset[0], series


@exercise.probe
def transform_at_each_access(answer):
    calls: list[Any] = []

    def counted(window: Tensor) -> Tensor:
        calls.append(window.tolist())
        return window + len(calls)

    dataset = answer(torch.tensor(SERIES), 3, counted)
    before = len(calls)
    return before, dataset[0], dataset[2], dataset[0], calls


@exercise.probe
def batches_of_a_loader(answer):
    return list(DataLoader(answer(torch.arange(8), 3), batch_size=2))


@exercise.probe
def double_precision(answer):
    return answer(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), 1)[1]

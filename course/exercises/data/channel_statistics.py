"""Lesson 04: mean and deviation of each channel in one pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course.checking import Exercise
from course.checking.observation import leaves

exercise = Exercise(
    "data.channel_statistics",
    title="Mean and deviation of each channel in one pass",
    task="""
        `streaming_statistics(batches)` takes an iterable of batches of images, uint8 from 0 to 255, shape
        `(N, C, H, W)` with N, H and W that differ from batch to batch. It returns two float64 tensors of shape `(C,)`,
        for pixels scaled to 0 ... 1: the mean of each channel, and its standard deviation, both over *all* pixels of
        all batches.

        - Every pixel weighs the same. The deviation divides by the number of pixels, not by one less.
        - `batches` can be walked over once, like a file, and it need not fit into memory: keep sums, not batches.
        - The digits count: compute in float64. A channel in which all pixels are equal has deviation 0, not NaN.

        Example: for the single batch `[[[[0, 255]]]]` the mean is `[0.5]` and the deviation `[0.5]`.
        """,
    hints=(
        "Three running numbers for each channel are enough for both results: how many pixels, their sum, and the sum "
        "of their squares.",
        "The variance is the mean of the squares minus the square of the mean. Convert each batch to float64 before "
        "you square (uint8 wraps), and mind that rounding can leave something slightly below 0 under the root.",
    ),
    rtol=1e-6,
    atol=1e-7,
)


@exercise.stub
def streaming_statistics(batches: Iterable) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel, float64 (C,), of uint8 images (N, C, H, W) scaled to 0..1."""
    raise NotImplementedError


@exercise.reference
def by_three_sums(batches):
    count, total, squares = 0, 0, 0
    for batch in batches:
        pixels = batch.double() / 255
        count += pixels[:, 0].numel()
        total += pixels.sum((0, 2, 3))
        squares += pixels.square().sum((0, 2, 3))
    mean = total / count
    return mean, (squares / count - mean**2).relu().sqrt()


@exercise.alternative
def by_whole_numbers(batches):
    count, total, squares = 0, 0, 0
    for batch in batches:
        pixels = batch.long()
        count += pixels.numel() // pixels.shape[1]
        total = total + pixels.sum((0, 2, 3))
        squares = squares + (pixels * pixels).sum((0, 2, 3))
    variance = (count * squares - total * total).double() / count**2  # integers do not round
    return total.double() / count / 255, variance.sqrt() / 255


@exercise.alternative
def by_merging_moments(batches):
    count, mean, spread = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for batch in batches:
        x = batch.to(torch.float64).div(255)
        n = x.numel() // x.shape[1]
        variance, its_mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        delta = its_mean - mean
        spread = spread + variance * n + delta**2 * (count * n / (count + n))
        mean = mean + delta * (n / (count + n))
        count += n
    return mean, (spread / count).sqrt()


@exercise.wrong(
    "This is the mean of the deviations of single images. Images differ in their own mean, and that part of the "
    "spread is left out, so the result is too small. The well-known (0.2023, 0.1994, 0.2010) of CIFAR-10 came about "
    "like this."
)
def mean_of_image_deviations(batches):
    count, total, deviations = 0, 0, 0
    for batch in batches:
        x = batch.double() / 255
        count += len(x)
        total = total + x.mean((2, 3)).sum(0)
        deviations = deviations + x.std((2, 3), correction=0).sum(0)
    return total / count, deviations / count


@exercise.wrong(
    "This is the mean of the deviations of the batches. What the batches differ in is left out, and a small last batch "
    "weighs as much as a full one. Deviations cannot be averaged; sums of squares can be added."
)
def mean_of_batch_deviations(batches):
    means, deviations = [], []
    for batch in batches:
        variance, mean = torch.var_mean(batch.double() / 255, (0, 2, 3), correction=0)
        means.append(mean)
        deviations.append(variance.sqrt())
    return torch.stack(means).mean(0), torch.stack(deviations).mean(0)


@exercise.wrong(
    "The moments of the batches are averaged as if every batch had as many pixels. The last batch is smaller, and "
    "images may differ in size: count pixels."
)
def every_batch_weighs_the_same(batches):
    count, total, squares = 0, 0, 0
    for batch in batches:
        x = batch.double() / 255
        count += 1
        total = total + x.mean((0, 2, 3))
        squares = squares + x.square().mean((0, 2, 3))
    mean = total / count
    return mean, (squares / count - mean**2).clamp(min=0).sqrt()


@exercise.wrong(
    "The squares are taken in uint8, where they wrap modulo 256. Convert first, then square.",
    fault="uint8-overflow",
)
def squared_in_uint8(batches):
    count, total, squares = 0, 0, 0
    for batch in batches:
        count += batch.numel() // batch.shape[1]
        total = total + batch.sum((0, 2, 3)).double() / 255
        squares = squares + (batch * batch).sum((0, 2, 3)).double() / 255**2
    mean = total / count
    return mean, (squares / count - mean**2).clamp(min=0).sqrt()


@exercise.wrong(
    "The sums are kept in float32, which has about seven digits. The mean of the squares minus the square of the mean "
    "then loses most of them where the deviation is small against the mean. Accumulate in float64."
)
def sums_in_float32(batches):
    count, total, squares = 0, 0, 0
    for batch in batches:
        x = batch.float() / 255
        count += x.numel() // x.shape[1]
        total = total + x.sum((0, 2, 3))
        squares = squares + x.square().sum((0, 2, 3))
    mean = total / count
    return mean.double(), (squares / count - mean**2).clamp(min=0).sqrt().double()


@exercise.wrong(
    "A channel of equal pixels gives NaN: by rounding, the mean of the squares comes out a little below the square of "
    "the mean, and the root of a negative number is NaN. A variance has a lower bound."
)
def root_of_a_negative_number(batches):
    count, total, squares = 0, 0, 0
    for batch in batches:
        x = batch.double() / 255
        count += x.numel() // x.shape[1]
        total = total + x.sum((0, 2, 3))
        squares = squares + x.square().sum((0, 2, 3))
    mean = total / count
    return mean, (squares / count - mean**2).sqrt()


@exercise.wrong(
    "The batches are walked over twice. That works for a list; a stream is at its end after the first walk, so the "
    "second one sees nothing. Sum the squares in the same pass."
)
def walked_twice(batches):
    count, total, spread = 0, torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for batch in batches:
        count += batch.numel() // batch.shape[1]
        total = total + (batch.double() / 255).sum((0, 2, 3))
    mean = total / count
    for batch in batches:
        spread = spread + (batch.double() / 255 - mean[:, None, None]).square().sum((0, 2, 3))
    return mean, (spread / count).sqrt()


@exercise.wrong(
    "All batches are collected before anything is computed. The numbers are right, but a dataset that does not fit "
    "into memory ends the process. Keep running sums and let each batch go."
)
def collected_first(batches):
    images = [batch.transpose(0, 1).flatten(1) for batch in list(batches)]
    pixels = torch.cat(images, 1).double() / 255
    return pixels.mean(1), pixels.std(1, correction=0)


@exercise.wrong(
    "The variance divides by n - 1. That estimates the variance of something the pixels were drawn from; the task "
    "asks for that of the pixels at hand."
)
def one_less_than_the_count(batches):
    count, total, squares = 0, 0, 0
    for batch in batches:
        x = batch.double() / 255
        count += x.numel() // x.shape[1]
        total = total + x.sum((0, 2, 3))
        squares = squares + x.square().sum((0, 2, 3))
    mean = total / count
    return mean, ((squares - count * mean**2) / (count - 1)).clamp(min=0).sqrt()


@exercise.wrong(
    "The batches go, but a copy of each stays in a list until the end. That takes as much memory as the batches "
    "themselves, and more once they are converted. Keep three numbers for each channel."
)
def copies_collected(batches):
    pixels = torch.cat([batch.transpose(0, 1).reshape(batch.shape[1], -1) for batch in batches], 1).double() / 255
    return pixels.mean(1), pixels.std(1, correction=0)


def _images(*shape: int, start: int = 0, step: int = 37) -> Tensor:
    return ((torch.arange(torch.Size(shape).numel()) * step + start) % 256).to(torch.uint8).reshape(shape)


class _OneWalk:
    """An iterator over batches that keeps none of them and notes how many are alive at a time."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = iter(sizes)
        self.given: list[weakref.ref[Tensor]] = []
        self.most = 0

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        self.most = max(self.most, sum(reference() is not None for reference in self.given))
        batch = _images(next(self.sizes), 2, 3, 3, start=len(self.given))
        self.given.append(weakref.ref(batch))
        return batch


@exercise.probe
def one_small_batch():
    return [torch.tensor([[[[0, 255]]]], dtype=torch.uint8)]


@exercise.probe
def a_smaller_last_batch():
    return [_images(4, 3, 2, 2), _images(1, 3, 2, 2, start=200, step=3)]


@exercise.probe
def images_of_different_sizes():
    return [_images(1, 3, 4, 5), _images(2, 3, 1, 2, start=90, step=11), _images(3, 3, 2, 7, start=5, step=101)]


@exercise.probe
def batches_that_differ_in_brightness():
    return [_images(2, 2, 3, 3, step=1), _images(2, 2, 3, 3, start=219, step=1)]


@exercise.probe
def small_deviation_of_bright_pixels():
    bright = torch.full((16, 1, 8, 8), 254, dtype=torch.uint8)
    bright[3, 0, 2, 2] = 255
    return [bright, bright.flip(0), bright[:5]]


@exercise.probe
def equal_pixels():
    levels = torch.tensor([11, 22, 44, 67, 155, 255, 0], dtype=torch.uint8)
    return [levels.reshape(1, 7, 1, 1).expand(n, 7, 3, 3).clone() for n in (3, 4)]


@exercise.probe
def a_stream_that_is_walked_once(answer):
    mean, deviation = answer(_OneWalk([3, 3, 2]))
    return mean, deviation


@exercise.probe
def batches_alive_at_a_time(answer):
    stream = _OneWalk([2] * 8)
    answer(stream)
    # The last one is still bound to the loop's variable while the next is made.
    return stream.most <= 2


class _Largest(TorchDispatchMode):
    """Notes how many elements the largest tensor had that was made or viewed in the block."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        made = (leaf.numel() for leaf in leaves((result,)) if isinstance(leaf, Tensor))
        self.elements = max(self.elements, *made, 0)
        return result


@exercise.probe
def nothing_grows_with_the_stream(answer):
    # A batch has 36 numbers and the stream 2160; a histogram of both channels has 512.
    with _Largest() as largest:
        answer(_OneWalk([2] * 60))
    return largest.elements < 1000

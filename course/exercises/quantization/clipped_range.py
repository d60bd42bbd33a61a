"""Lesson 13: an observer that outliers do not move."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "quantization.clipped_range",
    title="A range that outliers do not stretch",
    task="""
        `clipped_range(batches, share)` looks at all numbers of a list of float tensors, of any shapes, and returns the
        range `(low, high)` to quantize them in, a tuple of two Python floats.

        - Of the n numbers of **all batches together**, the `floor(share * n)` smallest and as many of the largest are
          left out. `low` and `high` are the smallest and the largest of the rest, numbers that did occur: nothing is
          interpolated. `share` is at least 0 and less than 0.5.
        - The range always contains 0.
        - Without any numbers (no batch, or empty ones) it is `(0.0, 0.0)`.

        Example: the numbers 1, 2, ..., 7 and 1000 with a share of 0.125 give `(0.0, 7.0)`.
        """,
    hints=(
        "Sorting answers every question about the k smallest. What has to be done before, so that all batches count "
        "together?",
        "After torch.cat of the flattened batches and sort, the rest are the places k to n - 1 - k. Then take min(low, "
        "0) and max(high, 0).",
    ),
)


@exercise.stub
def clipped_range(batches: list[Tensor], share: float) -> tuple[float, float]:
    """Return (low, high) of all numbers but floor(share * n) at each end; contains 0; (0.0, 0.0) without numbers."""
    raise NotImplementedError


@exercise.reference
def by_sorting(batches, share):
    numbers = torch.cat([torch.zeros(0), *[batch.flatten() for batch in batches]]).sort().values
    if len(numbers) == 0:
        return 0.0, 0.0
    cut = math.floor(share * len(numbers))
    return min(numbers[cut].item(), 0.0), max(numbers[-1 - cut].item(), 0.0)


@exercise.alternative
def by_python(batches, share):
    numbers = sorted(number for batch in batches for number in batch.flatten().tolist())
    cut = int(share * len(numbers))
    rest = numbers[cut : len(numbers) - cut]
    return min([0.0, *rest]), max([0.0, *rest])


@exercise.alternative
def by_kthvalue(batches, share):
    parts = [batch.reshape(-1) for batch in batches if batch.numel()]
    if not parts:
        return 0.0, 0.0
    numbers = torch.cat(parts)
    cut = int(share * numbers.numel())
    low, high = numbers.kthvalue(cut + 1).values, numbers.kthvalue(numbers.numel() - cut).values
    return min(low.item(), 0.0), max(high.item(), 0.0)


def _all(batches):
    return torch.cat([torch.zeros(0), *[batch.flatten() for batch in batches]])


@exercise.wrong(
    "Nothing is left out: `share` is ignored. One number a thousand times too large makes the step a thousand times "
    "too coarse.",
    fault="quantization-outlier",
)
def minimum_and_maximum(batches, share):
    numbers = _all(batches)
    return (min(numbers.min().item(), 0.0), max(numbers.max().item(), 0.0)) if len(numbers) else (0.0, 0.0)


@exercise.wrong(
    "The quantile is interpolated between two numbers. With an outlier next to the cut, a part of it comes back in."
)
def interpolated(batches, share):
    numbers = _all(batches)
    if len(numbers) == 0:
        return 0.0, 0.0
    return min(numbers.quantile(share).item(), 0.0), max(numbers.quantile(1 - share).item(), 0.0)


@exercise.wrong(
    "Each batch is cut on its own, and the widest range kept. A batch of large numbers decides alone, whatever "
    "its size."
)
def batch_by_batch(batches, share):
    ranges = [by_sorting([batch], share) for batch in batches if batch.numel()]
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else (0.0, 0.0)


@exercise.wrong("Only the largest numbers are cut. Outliers come at both ends.")
def upper_end_only(batches, share):
    numbers = _all(batches).sort().values
    if len(numbers) == 0:
        return 0.0, 0.0
    cut = math.floor(share * len(numbers))
    return min(numbers[0].item(), 0.0), max(numbers[-1 - cut].item(), 0.0)


@exercise.wrong("The share is rounded up: one number too many is left out at each end.")
def rounded_up(batches, share):
    numbers = _all(batches).sort().values
    if len(numbers) == 0:
        return 0.0, 0.0
    cut = min(math.ceil(share * len(numbers)), (len(numbers) - 1) // 2)
    return min(numbers[cut].item(), 0.0), max(numbers[-1 - cut].item(), 0.0)


@exercise.wrong("The share is split between the two ends: half of it is left out at each.")
def share_of_both_ends(batches, share):
    numbers = _all(batches).sort().values
    if len(numbers) == 0:
        return 0.0, 0.0
    cut = math.floor(share * len(numbers) / 2)
    return min(numbers[cut].item(), 0.0), max(numbers[-1 - cut].item(), 0.0)


@exercise.wrong("The range need not contain 0: after a ReLU and a bias, say, it starts at 2, and no code stands for 0.")
def without_zero(batches, share):
    numbers = _all(batches).sort().values
    if len(numbers) == 0:
        return 0.0, 0.0
    cut = math.floor(share * len(numbers))
    return numbers[cut].item(), numbers[-1 - cut].item()


@exercise.wrong(
    "Without numbers there is an error about an empty tensor or list. Calibration can meet an empty batch; the "
    "task says what then."
)
def empty_forgotten(batches, share):
    numbers = torch.cat([batch.flatten() for batch in batches]).sort().values
    cut = math.floor(share * len(numbers))
    return min(numbers[cut].item(), 0.0), max(numbers[-1 - cut].item(), 0.0)


@exercise.wrong("The range is made symmetric by the magnitudes. A ReLU's outputs would waste half of the codes.")
def by_magnitude(batches, share):
    numbers = _all(batches).abs().sort().values
    if len(numbers) == 0:
        return 0.0, 0.0
    high = numbers[-1 - math.floor(share * len(numbers))].item()
    return -high, high


@exercise.wrong("Only the last batch is looked at. The range has to fit all of them.")
def last_batch(batches, share):
    return by_sorting(batches[-1:], share)


@exercise.probe
def example():
    return [torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 1000.0])], 0.125


@exercise.probe
def outliers_at_both_ends():
    return [torch.tensor([[-900.0, -2.0, -1.0, 3.0], [4.0, 0.5, 700.0, 1.5]])], 0.125


@exercise.probe
def several_batches():
    return [torch.tensor([-3.0, 1.0, 2.0]), torch.tensor([[80.0]]), torch.tensor([-70.0, 0.25, 5.0, -1.0])], 0.125


@exercise.probe
def nothing_left_out():
    return [torch.tensor([-3.0, 1.0]), torch.tensor([6.0])], 0.0


@exercise.probe
def share_of_less_than_one():
    return [torch.tensor([-3.0, 1.0, 6.0, 2.0, -5.0])], 0.125


@exercise.probe
def a_quarter():
    return [torch.arange(-6.0, 5.0)], 0.25


@exercise.probe
def nearly_half():
    return [torch.tensor([9.0, -2.0, 4.0, -8.0])], 0.4375


@exercise.probe
def negative_numbers():
    return [torch.tensor([-5.0, -3.0, -4.0, -2.0])], 0.25


@exercise.probe
def constant():
    return [torch.full((2, 2), 3.0)], 0.25


@exercise.probe
def no_batch():
    return [], 0.25


@exercise.probe
def empty_batches():
    return [torch.zeros(0, 3), torch.tensor([])], 0.0


@exercise.probe
def one_of_them_empty():
    return [torch.tensor([2.0, -1.0]), torch.zeros(2, 0)], 0.0

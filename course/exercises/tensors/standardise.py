"""Lesson 01: zero mean and unit deviation along an axis."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.standardise",
    title="Standardise along an axis",
    task="""
        `standardise(x, dim=0)` takes a floating tensor `x` with two or more axes. It subtracts the mean along axis
        `dim` and divides by the standard deviation along the same axis. Shape and dtype stay as they are, and so does
        `x` itself.

        - With `dim=0` each column of a matrix gets mean 0 and deviation 1, with `dim=1` each row does.
        - The standard deviation is that of the numbers at hand: the mean of the squared differences divides by n, not
          by n - 1.
        - Where all numbers along the axis are equal, the result is 0: neither NaN nor infinite. The same goes for
          n = 1.

        Example: `[[1, 10], [3, 10]]` becomes `[[-1, 0], [1, 0]]`.
        """,
    hints=(
        "mean(dim) removes the axis, and broadcasting then lines up what is left from the right. For dim=0 of a "
        "matrix that happens to fit. What would keep the reduced axis in its place, with size 1?",
        "Use keepdim=True for the mean and for std(dim, correction=0, ...). Then decide what to divide by where the "
        "deviation is 0, for example with where().",
    ),
)


@exercise.stub
def standardise(x: Tensor, dim: int = 0) -> Tensor:
    """Return (x - mean) / deviation along axis dim, of the shape of x; 0 where the deviation is 0."""
    raise NotImplementedError


@exercise.reference
def by_keeping_the_axis(x, dim=0):
    deviation = x.std(dim, correction=0, keepdim=True)
    # Anything finite divided by infinity is 0.
    return (x - x.mean(dim, keepdim=True)) / deviation.where(deviation > 0, torch.inf)


@exercise.alternative
def by_hand(x, dim=0):
    centred = x - x.mean(dim=dim, keepdim=True)
    deviation = centred.square().mean(dim=dim, keepdim=True).sqrt()
    return centred / torch.where(deviation == 0, 1.0, deviation)


@exercise.alternative
def by_a_small_constant(x, dim=0):
    variance, mean = torch.var_mean(x, dim, correction=0, keepdim=True)
    return (x - mean) / (variance.sqrt() + 1e-8)


@exercise.wrong(
    "Where all numbers along the axis are equal the deviation is 0, and 0 / 0 is NaN. One constant column is enough "
    "to make every loss NaN later on. The division needs another divisor there.",
    fault="division-by-zero",
)
def without_a_guard(x, dim=0):
    return (x - x.mean(dim, keepdim=True)) / x.std(dim, correction=0, keepdim=True)


@exercise.wrong(
    "Without keepdim the reduced axis is gone, and broadcasting lines up what is left from the right. For dim=0 of a "
    "matrix that is right by luck; for dim=1 it fails, and for a square matrix it silently subtracts the mean of the "
    "wrong row."
)
def axis_dropped(x, dim=0):
    deviation = x.std(dim, correction=0)
    return (x - x.mean(dim)) / deviation.where(deviation > 0, torch.inf)


@exercise.wrong(
    "This is std() as it comes, which divides by n - 1: an estimate for a population of which x is a sample. The "
    "task asks for the deviation of the numbers at hand, which divides by n. The argument that decides it is called "
    "correction."
)
def sample_deviation(x, dim=0):
    deviation = x.std(dim, keepdim=True)
    return (x - x.mean(dim, keepdim=True)) / deviation.where(deviation > 0, torch.inf)


@exercise.wrong(
    "One mean and one deviation were taken over the whole tensor. Then columns with large numbers still dwarf the "
    "others. Name the axis, so that each column (or row) gets its own."
)
def over_the_whole_tensor(x, dim=0):
    deviation = x.std(correction=0)
    return (x - x.mean()) / deviation.where(deviation > 0, torch.inf)


@exercise.wrong(
    "Division binds tighter than subtraction: x - mean / deviation divides only the mean. Put the difference in "
    "parentheses."
)
def parentheses_missing(x, dim=0):
    deviation = x.std(dim, correction=0, keepdim=True)
    return x - x.mean(dim, keepdim=True) / deviation.where(deviation > 0, torch.inf)


@exercise.wrong(
    "The divisor is the variance. The deviation is its root; only then the result has deviation 1. Check it with "
    "std() on your result."
)
def divided_by_the_variance(x, dim=0):
    variance = x.var(dim, correction=0, keepdim=True)
    return (x - x.mean(dim, keepdim=True)) / variance.where(variance > 0, torch.inf)


@exercise.wrong(
    "This brings each column into the range from 0 to 1, which is min-max scaling. Standardising gives mean 0 and "
    "deviation 1 and has no fixed range."
)
def scaled_to_a_range(x, dim=0):
    low, high = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    return (x - low) / (high - low).where(high > low, torch.inf)


@exercise.wrong(
    "The result is right, but the caller's x has changed: -=, /= and methods that end in an underscore write into "
    "the tensor that was passed in. Make a new tensor instead."
)
def written_into_x(x, dim=0):
    deviation = x.std(dim, correction=0, keepdim=True)
    x -= x.mean(dim, keepdim=True)
    x /= deviation.where(deviation > 0, torch.inf)
    return x


@exercise.probe
def columns_by_default():
    return torch.tensor([[1.0, 20.0], [2.0, -40.0], [6.0, 50.0]])


@exercise.probe
def rows():
    return torch.tensor([[1.0, 2.0, 6.0, 7.0], [-30.0, 10.0, 5.0, 0.0]]), 1


@exercise.probe
def rows_of_a_square_matrix():
    return torch.tensor([[1.0, 2.0, 6.0], [-30.0, 10.0, 5.0], [0.5, 0.25, 0.125]]), 1


@exercise.probe
def constant_column():
    return torch.tensor([[5.0, 1.0, 0.0], [5.0, 2.0, 0.0], [5.0, 4.0, 0.0]])


@exercise.probe
def small_deviation():
    return torch.tensor([[0.25, 3.0], [0.5, 3.125]])


@exercise.probe
def three_axes():
    return torch.tensor([1.0, 5.0, 2.0, -3.0, 0.0, 8.0, 4.0, 4.0, -6.0, 7.0, 9.0, 2.5]).reshape(2, 3, 2), 1


@exercise.probe
def one_row():
    return torch.tensor([[3.0, -2.0]])


@exercise.probe
def double_precision():
    return torch.tensor([[1.0, 4.0], [2.0, -4.0], [9.0, 3.0]], dtype=torch.float64), -1

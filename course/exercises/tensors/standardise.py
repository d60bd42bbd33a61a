"""Lesson 01: zero mean and unit deviation along an axis."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.standardise",
    title="Standardise along an axis",
    task="""
        `standardise(x, dim=0)` takes a floating tensor `x` with two or more axes and at least one number along axis
        `dim`. It subtracts the mean along that axis and divides by the standard deviation along it. Shape and dtype
        stay as they are, and so does `x` itself.

        - With `dim=0` each column of a matrix gets mean 0 and deviation 1, with `dim=1` each row does.
        - The standard deviation is that of the numbers at hand: the mean of the squared differences divides by n, not
          by n - 1.
        - Where all numbers along the axis are equal, the result is exactly 0. The same goes for n = 1. Mind that a
          mean may be rounded: seven times 0.1 has a mean that differs from 0.1 in the last digit.
        - Everywhere else the deviation of the result is 1, be the numbers near 1000.1 or as small as 1e-9.

        Example: `[[1, 10], [3, 10]]` becomes `[[-1, 0], [1, 0]]`.
        """,
    hints=(
        "mean(dim) removes the axis, and broadcasting then lines up what is left from the right. For dim=0 of a "
        "matrix that happens to fit. What would keep the reduced axis in its place, with size 1?",
        "Use keepdim=True for the mean and for std(dim, correction=0, ...). Whether all numbers are equal is asked of "
        "x itself, before anything is rounded: how do its largest and its smallest number compare? Put the 0 there "
        "with where() or masked_fill().",
    ),
)


@exercise.stub
def standardise(x: Tensor, dim: int = 0) -> Tensor:
    """Return (x - mean) / deviation along axis dim, of the shape of x; 0 where the deviation is 0."""
    raise NotImplementedError


@exercise.reference
def by_keeping_the_axis(x, dim=0):
    # The mean of equal numbers may be rounded; then neither the difference nor the deviation is 0.
    constant = x.amax(dim, keepdim=True) == x.amin(dim, keepdim=True)
    centred = x - x.mean(dim, keepdim=True)
    return (centred / x.std(dim, correction=0, keepdim=True)).masked_fill(constant, 0.0)


@exercise.alternative
def by_hand(x, dim=0):
    centred = x - x.mean(dim=dim, keepdim=True)
    deviation = centred.square().mean(dim=dim, keepdim=True).sqrt()
    constant = (x == x.narrow(dim, 0, 1)).all(dim=dim, keepdim=True)
    return torch.where(constant, 0.0, centred / deviation)


@exercise.alternative
def by_counting_from_the_first(x, dim=0):
    # Equal numbers are all 0 when the first one has been subtracted, and a mean of zeros is not rounded.
    shifted = x - x.narrow(dim, 0, 1)
    variance, mean = torch.var_mean(shifted, dim, correction=0, keepdim=True)
    return (shifted - mean) / variance.sqrt().where(variance > 0, 1.0)


def divided(difference: Tensor, divisor: Tensor, x: Tensor, dim: int) -> Tensor:
    """The quotient, 0 where all numbers of x along dim are equal: each wrong answer below has one other mistake."""
    constant = (x == x.narrow(dim, 0, 1)).all(dim, keepdim=True)
    return (difference / divisor).masked_fill(constant, 0.0)


@exercise.wrong(
    "Where all numbers along the axis are equal the deviation is 0, and 0 / 0 is NaN. One constant column is enough "
    "to make every loss NaN later on. That case needs a result of its own.",
    fault="division-by-zero",
)
def without_a_guard(x, dim=0):
    return (x - x.mean(dim, keepdim=True)) / x.std(dim, correction=0, keepdim=True)


@exercise.wrong(
    "Equal numbers were recognised by a deviation of 0, and that is not always so. The mean of equal numbers may be "
    "rounded in its last digit; each number then differs from it by that little, the deviation is as little, and the "
    "quotient is 1 or -1. Whether numbers are equal can be asked of the numbers themselves."
)
def deviation_compared_with_0(x, dim=0):
    deviation = x.std(dim, correction=0, keepdim=True)
    return (x - x.mean(dim, keepdim=True)) / deviation.where(deviation > 0, torch.inf)


@exercise.wrong(
    "NaN was replaced after the division. That covers 0 / 0 and nothing else: the mean of equal numbers may be rounded "
    "in its last digit, and then the difference is not 0 and the quotient not NaN, but huge or 1. Whether numbers are "
    "equal can be asked of the numbers themselves."
)
def nan_replaced_afterwards(x, dim=0):
    return ((x - x.mean(dim, keepdim=True)) / x.std(dim, correction=0, keepdim=True)).nan_to_num()


@exercise.wrong(
    "The divisor is a little more than the deviation. That avoids 0 / 0, and it has two effects: numbers that are "
    "themselves of the size of the little more come out too small, and equal numbers whose mean was rounded do not "
    "become 0. The case of equal numbers can be told apart exactly."
)
def a_little_added_to_the_deviation(x, dim=0):
    return (x - x.mean(dim, keepdim=True)) / (x.std(dim, correction=0, keepdim=True) + 1e-8)


@exercise.wrong(
    "A little was added to the variance before the root was taken, as normalising layers do. Small deviations suffer: "
    "with 1e-5 under the root, numbers of deviation 0.003 are divided by 0.0044. The case of equal numbers can be "
    "told apart exactly."
)
def a_little_added_to_the_variance(x, dim=0):
    return (x - x.mean(dim, keepdim=True)) / (x.var(dim, correction=0, keepdim=True) + 1e-5).sqrt()


@exercise.wrong(
    "The divisor is never smaller than a fixed bound. Numbers with a smaller deviation than that are not "
    "standardised, and equal numbers whose mean was rounded do not become 0. There is no bound that fits every unit: "
    "the same lengths are a thousand times smaller in kilometres. The case of equal numbers can be told apart exactly."
)
def deviation_with_a_lower_bound(x, dim=0):
    return (x - x.mean(dim, keepdim=True)) / x.std(dim, correction=0, keepdim=True).clamp(min=1e-6)


@exercise.wrong(
    "The mean of the squares minus the square of the mean is the variance on paper. For numbers far from 0 the two "
    "are nearly equal and large, and their difference is lost in rounding; it may even be negative, with NaN as its "
    "root. Subtract the mean first and square afterwards."
)
def mean_of_squares_minus_squared_mean(x, dim=0):
    mean = x.mean(dim, keepdim=True)
    return divided(x - mean, (x.square().mean(dim, keepdim=True) - mean.square()).sqrt(), x, dim)


@exercise.wrong(
    "The reduced axis is gone from mean and deviation, and broadcasting lines up what is left from the right. For "
    "dim=0 of a matrix that is right by luck; for dim=1 it fails, and for a square matrix it silently subtracts the "
    "mean of the wrong row. The axis has to stay, with size 1."
)
def axis_dropped(x, dim=0):
    return divided(x - x.mean(dim), x.std(dim, correction=0), x, dim)


@exercise.wrong(
    "The squared differences were divided by n - 1, which is what std() does unless told otherwise: an estimate for a "
    "population of which x is a sample. The task asks for the deviation of the numbers at hand, which divides by n."
)
def sample_deviation(x, dim=0):
    return divided(x - x.mean(dim, keepdim=True), x.std(dim, keepdim=True), x, dim)


@exercise.wrong(
    "One mean and one deviation were taken over the whole tensor. Then columns with large numbers still dwarf the "
    "others. Name the axis, so that each column (or row) gets its own."
)
def over_the_whole_tensor(x, dim=0):
    return (x - x.mean()) / x.std(correction=0)


@exercise.wrong(
    "Only the mean was divided by the deviation, and the quotient was subtracted. Division binds tighter than "
    "subtraction, so the difference needs parentheses."
)
def parentheses_missing(x, dim=0):
    constant = x.amax(dim, keepdim=True) == x.amin(dim, keepdim=True)
    return (x - x.mean(dim, keepdim=True) / x.std(dim, correction=0, keepdim=True)).masked_fill(constant, 0.0)


@exercise.wrong(
    "The divisor is the variance. The deviation is its root; only then the result has deviation 1. Look at the "
    "deviation of your result."
)
def divided_by_the_variance(x, dim=0):
    return divided(x - x.mean(dim, keepdim=True), x.var(dim, correction=0, keepdim=True), x, dim)


@exercise.wrong(
    "This brings each column into the range from 0 to 1, which is min-max scaling. Standardising gives mean 0 and "
    "deviation 1 and has no fixed range."
)
def scaled_to_a_range(x, dim=0):
    low, high = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    return divided(x - low, high - low, x, dim)


@exercise.wrong(
    "The mean was subtracted and nothing was divided: each column has mean 0, and still the deviation that it came "
    "with."
)
def only_centred(x, dim=0):
    constant = x.amax(dim, keepdim=True) == x.amin(dim, keepdim=True)
    return (x - x.mean(dim, keepdim=True)).masked_fill(constant, 0.0)


@exercise.wrong(
    "The result is right, but the caller's x has changed: the new numbers were written into the tensor that was "
    "passed in, as -=, /= and methods that end in an underscore do. Make a new tensor instead."
)
def written_into_x(x, dim=0):
    return x.copy_(divided(x - x.mean(dim, keepdim=True), x.std(dim, correction=0, keepdim=True), x, dim))


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
def equal_numbers_in_one_row():
    return torch.tensor([[5.0, 1.0, 2.0], [5.0, 5.0, 5.0], [5.0, 7.0, 0.0]]), 1


@exercise.probe
def same_number_first_and_last():
    return torch.tensor([[2.0, 1.0], [6.0, 8.0], [3.0, 1.0], [2.0, 1.0]])


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


@exercise.probe
def seven_equal_numbers():
    return torch.full((7, 1), 0.1)


@exercise.probe
def two_columns_of_equal_numbers():
    return torch.full((7, 2), 0.1)


@exercise.probe
def rows_of_equal_numbers():
    return torch.full((2, 3), 1000.1), 1


@exercise.probe
def equal_numbers_in_double_precision():
    return torch.full((3, 2), 0.1, dtype=torch.float64)


@exercise.probe
def far_from_zero():
    return torch.tensor([[1000.0 - 2**-7, 2000.0], [1000.0 + 2**-7, 2000.25]])


@exercise.probe
def tiny_numbers():
    return torch.tensor([[-3.0, 8.0], [1.0, 2.0], [6.0, -1.0], [0.0, 0.0]]) * 2.0**-30

"""Lesson 02: a norm whose gradient is finite at zero."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise, no_call
from course.exercises.autograd._graphs import numbers

exercise = Exercise(
    "autograd.safe_norm",
    title="A norm with a finite gradient at zero",
    task="""
        `safe_norm(x)` returns the Euclidean norm along the last axis of `x`, floating, shape `(..., D)`: shape
        `(...)`, the dtype of `x`. It is exact everywhere (no epsilon), and so is its gradient, with one convention: a
        row of zeros has the norm 0 and the gradient 0.

        Use elementary operations. `torch.linalg.vector_norm` and its relatives have this convention built in; the
        formulas that you will write yourself have not. So no `norm`, `vector_norm`, `cdist`, `dist` or `hypot`.

        Rows are neither so large nor so small that their squares leave the range of the dtype.
        """,
    hints=(
        "The slope of sqrt at 0 is infinite, and 0 times infinity is NaN. It does not help to replace the NaN-making "
        "result afterwards: backward still goes through it. What must not reach sqrt?",
        "Either put a harmless number in the place of each zero before sqrt, and a 0 in the place of its result "
        "after; or take the root of the positive squares only, and write the roots into a tensor of zeros.",
    ),
    compare=("value", "shape", "dtype", "gradients"),
    requires=(no_call("norm", "vector_norm", "matrix_norm", "cdist", "dist", "pairwise_distance", "hypot"),),
    rtol=1e-5,
    atol=1e-12,
)


@exercise.stub
def safe_norm(x: Tensor) -> Tensor:
    """Return the Euclidean norm of x (..., D) along its last axis, shape (...).

    A row of zeros has the norm 0 and the gradient 0."""
    raise NotImplementedError


@exercise.reference
def by_the_positive_squares(x):
    squares = (x * x).sum(-1)
    positive = squares > 0
    result = torch.zeros_like(squares)
    result[positive] = squares[positive].sqrt()
    return result


@exercise.alternative
def by_two_wheres(x):
    squares = x.square().sum(dim=-1)
    is_zero = squares == 0
    safe = torch.where(is_zero, 1.0, squares)
    return torch.where(is_zero, 0.0, safe.sqrt())


@exercise.alternative
def by_masked_fill(x):
    squares = x.pow(2).sum(-1)
    is_zero = squares == 0
    return squares.masked_fill(is_zero, 4.0).sqrt().masked_fill(is_zero, 0.0)


@exercise.wrong(
    "At a row of zeros backward multiplies the infinite slope of sqrt by the zero slope of the square: NaN. "
    "A where around the result does not help: backward goes through the branch that was not chosen too, and "
    "multiplies its infinite slope by 0. No zero may reach sqrt.",
    fault="sqrt-at-zero",
)
def root_of_zero(x):
    squares = (x * x).sum(-1)
    return torch.where(squares > 0, squares.sqrt(), 0.0)


@exercise.wrong(
    "An epsilon under the root makes the gradient finite, and every norm a little too large: that of a row of zeros "
    "is the root of epsilon. Often that is good enough; here the norm is to be exact."
)
def epsilon_under_the_root(x):
    return ((x * x).sum(-1) + 1e-8).sqrt()


@exercise.wrong(
    "The epsilon is added outside the root. That moves every norm, and the slope of sqrt at 0 is as infinite as "
    "before.",
    fault="sqrt-at-zero",
)
def epsilon_outside_the_root(x):
    return (x * x).sum(-1).sqrt() + 1e-8


@exercise.wrong(
    "clamp keeps sqrt away from zero, so the gradient is finite, but rows below the bound all get the norm of the "
    "bound: a row of zeros does not have the norm 0."
)
def clamped(x):
    return (x * x).sum(-1).clamp(min=1e-6).sqrt()


@exercise.wrong(
    "This is the sum of the absolute values. It is a norm with finite slopes, but another one: the Euclidean norm is "
    "the root of the sum of the squares."
)
def sum_of_absolute_values(x):
    return x.abs().sum(-1)


@exercise.wrong("The squares are summed over all axes, but each row along the last axis has a norm of its own.")
def over_all_axes(x):
    squares = (x * x).sum()
    return squares.sqrt() if squares > 0 else squares


@exercise.wrong(
    "A row is taken for zero when its numbers add up to zero. [3, -3] does, and its norm is not 0. The squares add up "
    "to zero only where every number is."
)
def zero_by_the_sum(x):
    is_zero = x.sum(-1) == 0
    squares = torch.where(is_zero, 1.0, (x * x).sum(-1))
    return torch.where(is_zero, 0.0, squares.sqrt())


@exercise.wrong("A row counts as zero as soon as one of its numbers is 0. Only a row of zeros alone has the norm 0.")
def zero_by_one_number(x):
    is_zero = (x == 0).any(-1)
    squares = torch.where(is_zero, 1.0, (x * x).sum(-1))
    return torch.where(is_zero, 0.0, squares.sqrt())


@exercise.wrong(
    "squeeze() removes every axis of length 1, not only the last: x of shape (1, D) gives shape () in place of (1,).",
    fault="squeeze-drops-batch",
)
def squeezed(x):
    squares = (x * x).sum(-1, keepdim=True)
    is_zero = squares == 0
    return torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, squares).sqrt()).squeeze()


@exercise.probe
def rows_that_add_up_to_zero():
    return torch.tensor([[3.0, -3.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0]], requires_grad=True)


@exercise.probe
def a_batch_of_one_row():
    return torch.tensor([[6.0, -8.0]], requires_grad=True)


@exercise.probe
def no_zeros():
    return torch.tensor([[3.0, 4.0], [-5.0, 12.0]], requires_grad=True)


@exercise.probe
def a_row_of_zeros():
    return torch.tensor([[0.0, 0.0], [3.0, -4.0]], dtype=torch.float64, requires_grad=True)


@exercise.probe
def only_zeros():
    return torch.zeros(2, 3, requires_grad=True)


@exercise.probe
def one_row():
    return torch.tensor([1.0, -2.0, 2.0], requires_grad=True)


@exercise.probe
def one_row_of_zeros():
    return torch.zeros(3, dtype=torch.float64, requires_grad=True)


@exercise.probe
def short_rows():
    return (1e-4 * numbers(3, 2)).requires_grad_()


@exercise.probe
def three_axes():
    x = numbers(2, 3, 4, start=5.0)
    x[1, 2] = 0
    x[0, 0, 1:] = 0
    return x.requires_grad_()


@exercise.probe
def without_gradients():
    return numbers(2, 2, start=3.0)

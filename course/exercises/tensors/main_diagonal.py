"""Lesson 01: the main diagonal of any matrix as a view."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.main_diagonal",
    title="The main diagonal as a view",
    task="""
        `main_diagonal(x)` takes a matrix of shape `(rows, columns)`, square or not, with any strides and any offset,
        and returns the elements `x[0, 0], x[1, 1], ...` as far as there are any: shape `(min(rows, columns),)`, the
        dtype of `x`. The result is a view: a write into it shows in `x`.

        Example: for `[[0, 1, 2], [3, 4, 5]]` it is `[0, 4]`. A matrix without rows or without columns has a diagonal
        of shape `(0,)`.

        You may look for a method that does it, or build it from `x.stride()` with `as_strided`.
        """,
    hints=(
        "One step along the diagonal goes one row down and one column to the right. What is that in memory, in terms "
        "of the two strides of x?",
        "torch.diag and torch.diagonal differ in one point, and their documentation names it. With as_strided: the "
        "length is the smaller of the two sizes, the stride a sum.",
    ),
    compare=("value", "shape", "dtype", "sharing"),
)


@exercise.stub
def main_diagonal(x: Tensor) -> Tensor:
    """Return a view of shape (min(rows, columns),): the elements x[i, i] of x (rows, columns)."""
    raise NotImplementedError


@exercise.reference
def by_diagonal(x):
    return x.diagonal()


@exercise.alternative
def by_stride_arithmetic(x):
    return x.as_strided((min(x.shape),), (sum(x.stride()),))


@exercise.alternative
def by_einsum(x):
    n = min(x.shape)
    return torch.einsum("ii->i", x[:n, :n])


@exercise.wrong(
    "The numbers are right, but they lie in new memory, so a write into them does not reach x. (torch.diag() copies, "
    "and so do index tensors and lists in brackets.) The diagonal is equally spaced in memory, so a view can show it."
)
def by_diag(x):
    return x.diag()


@exercise.wrong(
    "The step from one diagonal element to the next is taken from the shape. That holds for a matrix whose rows lie "
    "side by side in memory; a slice or a transpose has other strides. Work with x.stride()."
)
def assuming_packed_rows(x):
    return x.as_strided((min(x.shape),), (x.size(1) + 1,))


@exercise.wrong(
    "One column to the right is taken to be one element in memory. In a transpose or in every second column of a "
    "matrix it is not; x.stride(1) says how far it is."
)
def assuming_adjacent_columns(x):
    return x.as_strided((min(x.shape),), (x.stride(0) + 1,))


@exercise.wrong(
    "Every (columns + 1)-th element of the flattened matrix is on the diagonal only until the matrix ends: below the "
    "last column of a tall matrix the walk goes on and wraps around. Also, flattening copies where x is not "
    "contiguous."
)
def by_stepping_through_the_flat_matrix(x):
    return x.reshape(-1)[:: x.size(1) + 1]


@exercise.wrong(
    "The numbers are right, but they lie in new memory wherever the square part of x is not contiguous, so a write "
    "into them does not reach x. Flattening copies in that case. It is not needed: the diagonal is equally spaced in "
    "memory."
)
def by_stepping_through_the_flat_square(x):
    n = min(x.shape)
    return x[:n, :n].flatten()[:: n + 1]


@exercise.wrong(
    "The view starts at the beginning of the memory. x may be cut out of a larger matrix and starts at its storage "
    "offset then."
)
def offset_forgotten(x):
    return x.as_strided((min(x.shape),), (sum(x.stride()),), 0)


@exercise.wrong(
    "The length is the number of rows. A matrix with fewer columns than rows has a shorter diagonal; beyond it there "
    "is other memory, or none."
)
def as_long_as_the_rows(x):
    return x.as_strided((x.size(0),), (sum(x.stride()),))


@exercise.wrong(
    "This is the first column: each step goes one row down and stays in its column. A step along the diagonal goes "
    "one column to the right as well, so both strides take part."
)
def first_column(x):
    return x[: min(x.shape), :1].reshape(-1)


@exercise.probe
def wide_matrix():
    return torch.arange(6).reshape(2, 3)


@exercise.probe
def tall_matrix():
    return torch.arange(15.0).reshape(5, 3)


@exercise.probe
def transposed_matrix():
    return torch.arange(12).reshape(3, 4).t()


@exercise.probe
def part_of_a_larger_matrix():
    return torch.arange(35.0).reshape(5, 7)[1:4, 2::2]


@exercise.probe
def one_row():
    return torch.arange(4, 8).reshape(1, 4)


@exercise.probe
def no_columns():
    return torch.arange(0.0).reshape(3, 0)

"""Lesson 01: the anti-diagonal of a square matrix as a view."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.anti_diagonal",
    title="The anti-diagonal as a view",
    task="""
        `anti_diagonal(x)` takes a square matrix of shape `(N, N)`, `N >= 1`, and returns the elements from the top
        right corner to the bottom left one: shape `(N,)`, the dtype of `x`. The result is a view: a write into it
        shows in `x`.

        Example: for `[[0, 1, 2], [3, 4, 5], [6, 7, 8]]` it is `[2, 4, 6]`.

        `x` may itself be a view: a corner of a larger matrix, or every second column of one. You may count on
        `x.stride(0) > x.stride(1)`. (The anti-diagonal of a transposed matrix runs backwards through memory, and
        PyTorch has no negative strides: no view could show it.)
        """,
    hints=(
        "One step along the anti-diagonal goes one row down and one column to the left. What is that in memory, in "
        "terms of the two strides of x?",
        "x.as_strided(size, stride, storage_offset) needs one stride, a difference of two, and the place of the top "
        "right corner. x[0, -1] is a view that already starts there, and as_strided keeps the offset of the tensor "
        "it is called on.",
    ),
    compare=("value", "shape", "dtype", "sharing"),
)


@exercise.stub
def anti_diagonal(x: Tensor) -> Tensor:
    """Return a view of shape (N,): the elements of x (N, N) from the top right to the bottom left corner.

    x.stride(0) is larger than x.stride(1)."""
    raise NotImplementedError


@exercise.reference
def from_the_corner(x):
    down, right = x.stride()
    return x[0, -1].as_strided((len(x),), (down - right,))


@exercise.alternative
def by_offset_arithmetic(x):
    n = x.size(0)
    start = x.storage_offset() + (n - 1) * x.stride(1)
    return torch.as_strided(x, (n,), (x.stride(0) - x.stride(1),), start)


@exercise.alternative
def as_the_diagonal_of_a_sheared_view(x):
    down, right = x.stride()
    return x[:, -1:].as_strided((len(x), 1), (down - right, right)).squeeze(1)


@exercise.wrong(
    "The numbers are right, but they lie in new memory, so a write into them does not reach x. Flipping copies in "
    "PyTorch (in NumPy it is a view with a negative stride), and so do index tensors and lists in brackets. The "
    "elements are equally spaced in memory: one offset and one stride describe them."
)
def diagonal_of_a_flipped_copy(x):
    return x.flip(1).diagonal()


@exercise.wrong(
    "This is the main diagonal, from the top left to the bottom right corner. It goes one row down and one column to "
    "the right with each step; the anti-diagonal goes to the left."
)
def main_diagonal(x):
    return x.diagonal()


@exercise.wrong(
    "Start and step are right for a matrix whose rows lie side by side in memory. x may be cut out of a larger one; "
    "then the distance from row to row is not N. Work with x.stride() instead of the shape."
)
def assuming_packed_rows(x):
    n = len(x)
    return x.as_strided((n,), (n - 1,), x.storage_offset() + n - 1)


@exercise.wrong(
    "Neighbours in a row are taken to lie side by side in memory. x may be every second column of a larger matrix; "
    "then one column to the left is x.stride(1) elements, in the step and on the way to the top right corner."
)
def assuming_adjacent_columns(x):
    n = len(x)
    return x.as_strided((n,), (x.stride(0) - 1,), x.storage_offset() + n - 1)


@exercise.wrong(
    "From the right corner on, each step goes one row down and one column to the *right*, into the next row or out of "
    "x altogether. On the anti-diagonal it goes to the left, and that makes the distance in memory shorter."
)
def down_and_to_the_right(x):
    return x.as_strided((len(x),), (sum(x.stride()),), x.storage_offset() + (len(x) - 1) * x.stride(1))


@exercise.wrong(
    "The start is counted from the beginning of x, but the view takes it from the beginning of the memory. A matrix "
    "that was cut out of a larger one starts later: x.storage_offset() says where."
)
def offset_forgotten(x):
    down, right = x.stride()
    return x.as_strided((len(x),), (down - right,), (len(x) - 1) * right)


@exercise.wrong(
    "Start and step are right only for a matrix that fills its memory from the beginning. x may be cut out of a larger "
    "one; then it starts later (x.storage_offset() says where), and the distance from row to row is not N "
    "(x.stride() says what it is)."
)
def as_if_x_filled_its_memory(x):
    n = len(x)
    return x.as_strided((n,), (n - 1,), n - 1)


@exercise.wrong(
    "The elements come in the opposite order, from the bottom left corner upwards, and in new memory, because flipping "
    "copies. The first element of the result is the one at the top right."
)
def from_the_bottom_left(x):
    return x.flip(0).diagonal()


@exercise.wrong(
    "This is the last column: each step goes one row down and stays in its column. On the anti-diagonal a step also "
    "goes one column to the left, which shortens the distance in memory."
)
def straight_down(x):
    return x[:, -1]


@exercise.probe
def three_by_three():
    return torch.arange(9).reshape(3, 3)


@exercise.probe
def corner_of_a_larger_matrix():
    return torch.arange(42.0).reshape(6, 7)[2:, 3:]


@exercise.probe
def every_second_column():
    return torch.arange(24).reshape(3, 8)[:, 1::3]


@exercise.probe
def every_second_row():
    return torch.arange(20.0).reshape(5, 4)[1::2, :2]


@exercise.probe
def one_element():
    return torch.arange(12).reshape(3, 4)[1:2, 2:3]

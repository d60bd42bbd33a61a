"""Lesson 01: flatten, sharing memory wherever the layout allows it."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.flatten",
    title="Flatten without a needless copy",
    task="""
        `flatten_elements(x)` returns the elements of `x`, a tensor of any shape, as a tensor with one axis: shape
        `(x.numel(),)`, the dtype of `x`, in row-major order (the last axis varies fastest).

        Where strides can describe the result over the memory of `x`, it must be a view of that memory. Only where
        none can, it is a copy.

        - Example: `[[0, 1, 2], [3, 4, 5]]` becomes `[0, 1, 2, 3, 4, 5]`, a view.
        - Its transpose `[[0, 3], [1, 4], [2, 5]]` becomes `[0, 3, 1, 4, 2, 5]`, a copy: the steps between its
          elements are not all equal.
        - A column of a matrix is not contiguous, and still it needs no copy. The same may hold for several columns.
        - A tensor without axes, such as `torch.tensor(7)`, becomes a tensor with one element.
        """,
    hints=(
        "view() never copies and refuses where it would have to; contiguous() copies whatever is not contiguous. The "
        "method you need is between the two.",
        "The documentation of torch.reshape says when it returns a view. One of its sizes may be -1: it is inferred.",
    ),
    compare=("value", "shape", "dtype", "sharing"),
)


@exercise.stub
def flatten_elements(x: Tensor) -> Tensor:
    """Return the elements of x (any shape) in row-major order, shape (x.numel(),).

    Share memory with x wherever its layout allows it."""
    raise NotImplementedError


@exercise.reference
def by_reshape(x):
    return x.reshape(-1)


@exercise.alternative
def by_flatten(x):
    return x.flatten()


@exercise.alternative
def by_view_where_possible(x):
    try:
        return x.view(x.numel())
    except RuntimeError:
        return x.contiguous().view(x.numel())


@exercise.wrong(
    "A view only gives the same memory a new shape and strides; it never moves numbers. After a transpose the "
    "elements in row-major order are not equally spaced in memory, so no stride describes them and PyTorch refuses. "
    "Something has to copy in that case, and only in that case.",
    fault="view-of-noncontiguous",
)
def view_only(x):
    return x.view(-1)


@exercise.wrong(
    "The numbers are right, but those of a tensor that is not contiguous were copied even where a view would do. A "
    "column of a matrix is not contiguous, nor is every second column of it, and yet the elements are equally spaced "
    "in memory: one stride describes them. (contiguous() and ravel() do not look for that stride.)"
)
def contiguous_first(x):
    return x.contiguous().view(-1)


@exercise.wrong(
    "The numbers are right, but they lie in new memory even where a view was possible. For a large tensor that costs "
    "time and as much memory again, and a write into the result no longer shows in x. Let the layout of x decide."
)
def always_a_copy(x):
    return x.flatten().clone()


@exercise.wrong(
    "These elements are in the order of the memory, not in row-major order of x. For a contiguous tensor the two are "
    "the same; a transposed or sliced x walks through its memory in another order, or leaves elements out. Go by the "
    "indices of x."
)
def in_memory_order(x):
    return x.as_strided((x.numel(),), (1,))


@exercise.wrong(
    "The first axis is still there, as if it were the axis of a batch, and only the others were joined. Here every "
    "axis goes into the one that is left."
)
def keeps_the_batch_axis(x):
    return x.flatten(1)


@exercise.wrong(
    "Only axes of size 1 are gone, as after squeeze(); the others are as they were and none were joined. A matrix "
    "stays a matrix."
)
def squeezed(x):
    return x.squeeze()


@exercise.probe
def contiguous_matrix():
    return torch.arange(6).reshape(2, 3)


@exercise.probe
def transposed_matrix():
    return torch.arange(6).reshape(2, 3).t()


@exercise.probe
def rows_after_an_offset():
    return torch.arange(20.0).reshape(5, 4)[2:]


@exercise.probe
def column_of_a_matrix():
    return torch.arange(12.0).reshape(4, 3)[:, 1]


@exercise.probe
def column_that_keeps_its_axis():
    return torch.arange(12.0).reshape(4, 3)[:, 1:2]


@exercise.probe
def every_second_column():
    return torch.arange(12).reshape(3, 4)[:, ::2]


@exercise.probe
def every_second_element_of_three_axes():
    return torch.arange(24.0).reshape(2, 3, 4)[..., 1::2]


@exercise.probe
def two_neighbouring_columns():
    return torch.arange(12.0).reshape(3, 4)[:, 1:3]


@exercise.probe
def one_number_expanded():
    return torch.tensor([[7.0]]).expand(2, 3)


@exercise.probe
def rows_that_are_one_row():
    return torch.arange(3).expand(2, 3)


@exercise.probe
def image_with_channels_moved():
    return torch.arange(24, dtype=torch.uint8).reshape(2, 4, 3).permute(2, 0, 1)


@exercise.probe
def no_axes():
    return torch.tensor(7)


@exercise.probe
def no_elements():
    return torch.arange(0.0).reshape(2, 0)

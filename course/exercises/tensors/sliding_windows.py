"""Lesson 01: sliding windows as a view."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.sliding_windows",
    title="Sliding windows as a view",
    task="""
        `sliding_windows(x, size, step)` cuts windows out of `x` along its last axis. Window `k` holds the `size`
        elements that start at position `k * step`. Only complete windows count; what is left over at the end is
        dropped.

        - `x`: shape `(T,)`, or `(channels, T)` for several signals; any strides and any offset. `1 <= size <= T`,
          `step >= 1`.
        - Result: shape `(number, size)` or `(channels, number, size)`, the dtype of `x`. It is a view: it shares the
          memory of `x`, although overlapping windows show an element several times.

        Example: `sliding_windows(torch.arange(6), 3, 2)` is `[[0, 1, 2], [2, 3, 4]]`: the 5 is left over.
        """,
    hints=(
        "Two neighbours inside a window are as far apart in memory as in x. How far apart are the first elements of "
        "two neighbouring windows?",
        "Tensor.unfold(dimension, size, step) does exactly this along one axis; as_strided can do it as well if you "
        "compute both strides from x.stride(-1).",
    ),
    compare=("value", "shape", "dtype", "sharing"),
)


@exercise.stub
def sliding_windows(x: Tensor, size: int, step: int) -> Tensor:
    """Return the complete windows of length size, step apart, along the last axis of x, as a view.

    (T,) becomes (number, size); (channels, T) becomes (channels, number, size)."""
    raise NotImplementedError


@exercise.reference
def by_unfold(x, size, step):
    return x.unfold(-1, size, step)


@exercise.alternative
def by_stride_arithmetic(x, size, step):
    *leading, along = x.stride()
    number = (x.shape[-1] - size) // step + 1
    return x.as_strided((*x.shape[:-1], number, size), (*leading, step * along, along))


@exercise.alternative
def by_every_nth_of_all_windows(x, size, step):
    return x.unfold(-1, size, 1)[..., ::step, :]


@exercise.wrong(
    "The windows are right, but stack() writes every one of them into new memory; overlapping elements are stored "
    "several times. As a view they cost nothing: the axis of the windows only needs a stride of its own."
)
def stacked_slices(x, size, step):
    starts = range(0, x.shape[-1] - size + 1, step)
    return torch.stack([x[..., start : start + size] for start in starts], dim=-2)


@exercise.wrong(
    "The last complete window is missing. From the last possible start, T - size, a window still fits exactly, so "
    "that start has to be counted as well. Count the windows for size == T by hand."
)
def last_window_missing(x, size, step):
    number = (x.shape[-1] - size) // step
    return x.unfold(-1, size, step).narrow(-2, 0, number)


@exercise.wrong(
    "The strides assume that neighbours of x lie side by side in memory. x may be a view itself, for example every "
    "second element of a signal; then one step along x is x.stride(-1) elements of memory, for both axes of the "
    "windows."
)
def assuming_stride_one(x, size, step):
    number = (x.shape[-1] - size) // step + 1
    return x.as_strided((*x.shape[:-1], number, size), (*x.stride()[:-1], step, 1))


@exercise.wrong(
    "The windows start at the beginning of the memory, not at the beginning of x. A slice shares the memory of what "
    "it was cut from and starts at its storage offset. as_strided keeps that offset unless it is given another one."
)
def offset_forgotten(x, size, step):
    *leading, along = x.stride()
    number = (x.shape[-1] - size) // step + 1
    return x.as_strided((*x.shape[:-1], number, size), (*leading, step * along, along), 0)


@exercise.wrong(
    "Length and step have changed roles: the windows are `step` long and `size` apart. In unfold the length of a "
    "window comes first, then the distance between two windows."
)
def size_and_step_swapped(x, size, step):
    return x.unfold(-1, step, size)


@exercise.wrong(
    "These windows lie end to end, `size` apart. How far apart they start is a number of its own, `step`: a smaller "
    "one makes them overlap, a larger one leaves gaps."
)
def end_to_end(x, size, step):
    return x.unfold(-1, size, size)


@exercise.wrong(
    "The two new axes have changed places: each column is a window here. The result is to be read as result[k], the "
    "k-th window, so the axis of the positions inside a window comes last."
)
def windows_as_columns(x, size, step):
    return x.unfold(-1, size, step).transpose(-1, -2)


@exercise.wrong(
    "The windows run along the first axis. For (T,) that is also the last axis; for (channels, T) it cuts across the "
    "channels. A negative number counts axes from the end."
)
def along_the_first_axis(x, size, step):
    return x.unfold(0, size, step)


@exercise.probe
def overlapping_windows():
    return torch.arange(7), 3, 2


@exercise.probe
def elements_left_over():
    return torch.arange(10.0) - 4, 4, 3


@exercise.probe
def gaps_between_windows():
    return torch.arange(9), 2, 3


@exercise.probe
def window_as_long_as_the_signal():
    return torch.arange(5.0), 5, 2


@exercise.probe
def windows_of_one_element():
    return torch.arange(20, 26), 1, 2


@exercise.probe
def every_third_element_of_a_signal():
    return torch.arange(20)[1::3], 3, 1


@exercise.probe
def two_channels():
    return torch.arange(14.0).reshape(2, 7), 2, 2


@exercise.probe
def channels_of_a_transposed_table():
    return torch.arange(40).reshape(8, 5)[1:, 1:4].t(), 4, 3

"""Lesson 01: sliding windows that end with the newest element, as a view."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.sliding_windows",
    title="The newest windows, as a view",
    task="""
        A forecast learns from windows of a signal, and the newest numbers matter most. `sliding_windows(x, size,
        step)` cuts windows of `size` elements out of `x` along its last axis, `step` apart and in the order of `x`,
        so that the **last window ends with the last element**. Only complete windows count: what does not fit is left
        over at the beginning.

        - `x`: shape `(T,)`, or `(channels, T)` for several signals; any strides and any offset. `1 <= size <= T`,
          `step >= 1`.
        - Result: shape `(number, size)` or `(channels, number, size)`, the dtype of `x`. It is a view: it shares the
          memory of `x`, although overlapping windows show an element several times.

        Example: `sliding_windows(torch.arange(6), 3, 2)` is `[[1, 2, 3], [3, 4, 5]]`: the 0 is left over.
        """,
    hints=(
        "Two neighbours inside a window are as far apart in memory as in x. How far apart are the first elements of "
        "two neighbouring windows? And where does the first window start?",
        "The start of the last window is T - size. Going back in steps from there, what is the smallest start that "
        "is not negative? Tensor.unfold(dimension, size, step) begins at the first element of what it is called on.",
    ),
    compare=("value", "shape", "dtype", "sharing"),
)


@exercise.stub
def sliding_windows(x: Tensor, size: int, step: int) -> Tensor:
    """Return the complete windows of length size, step apart, along the last axis of x, as a view.

    The last window ends with the last element. (T,) becomes (number, size); (channels, T) becomes
    (channels, number, size)."""
    raise NotImplementedError


@exercise.reference
def by_unfold(x, size, step):
    start = (x.shape[-1] - size) % step
    return x[..., start:].unfold(-1, size, step)


@exercise.alternative
def by_stride_arithmetic(x, size, step):
    *leading, along = x.stride()
    left_over = (x.shape[-1] - size) % step
    number = (x.shape[-1] - size) // step + 1
    first = x.storage_offset() + left_over * along
    return x.as_strided((*x.shape[:-1], number, size), (*leading, step * along, along), first)


@exercise.alternative
def by_every_nth_of_all_windows(x, size, step):
    every = x.unfold(-1, size, 1)
    return every[..., (every.shape[-2] - 1) % step :: step, :]


@exercise.wrong(
    "The windows start with the first element, so what is left over is at the end: the newest elements are missing. "
    "Leave out as many elements at the beginning as do not fit."
)
def left_over_at_the_end(x, size, step):
    return x.unfold(-1, size, step)


@exercise.wrong(
    "The wrong number of elements was left out at the beginning: T % step does not tell how many do not fit. It is the "
    "starts of the windows that are `step` apart, and the last start is T - size; the first one follows from that."
)
def remainder_of_the_length(x, size, step):
    return x[..., x.shape[-1] % step :].unfold(-1, size, step)


@exercise.wrong(
    "The windows are right, but every one of them was written into new memory; overlapping elements are stored "
    "several times. As a view they cost nothing: the axis of the windows only needs a stride of its own."
)
def stacked_slices(x, size, step):
    last = x.shape[-1] - size
    return torch.stack([x[..., start : start + size] for start in range(last % step, last + 1, step)], dim=-2)


@exercise.wrong(
    "A window is missing: from the last possible start, T - size, a window still fits exactly, so that start has to be "
    "counted as well. Count the windows for size == T by hand."
)
def last_window_missing(x, size, step):
    number = (x.shape[-1] - size) // step
    return x[..., (x.shape[-1] - size) % step :].unfold(-1, size, step).narrow(-2, 0, number)


@exercise.wrong(
    "The strides assume that neighbours of x lie side by side in memory. x may be a view itself, for example every "
    "second element of a signal; then one step along x is x.stride(-1) elements of memory, for both axes of the "
    "windows and for the start as well."
)
def assuming_stride_one(x, size, step):
    number = (x.shape[-1] - size) // step + 1
    first = x.storage_offset() + (x.shape[-1] - size) % step
    return x.as_strided((*x.shape[:-1], number, size), (*x.stride()[:-1], step, 1), first)


@exercise.wrong(
    "The windows are counted from the beginning of the memory, not from the beginning of x. A slice shares the memory "
    "of what it was cut from and starts at its storage offset."
)
def offset_forgotten(x, size, step):
    *leading, along = x.stride()
    number = (x.shape[-1] - size) // step + 1
    first = (x.shape[-1] - size) % step * along
    return x.as_strided((*x.shape[:-1], number, size), (*leading, step * along, along), first)


@exercise.wrong(
    "Length and step have changed roles: the windows are `step` long and `size` apart. Look at the shape of the "
    "result: its last axis should be the length of a window."
)
def size_and_step_swapped(x, size, step):
    return x[..., (x.shape[-1] - step) % size :].unfold(-1, step, size)


@exercise.wrong(
    "These windows lie end to end, `size` apart. How far apart they start is a number of its own, `step`: a smaller "
    "one makes them overlap, a larger one leaves gaps."
)
def end_to_end(x, size, step):
    return x[..., x.shape[-1] % size :].unfold(-1, size, size)


@exercise.wrong(
    "The two new axes have changed places: each column is a window here. The result is to be read as result[k], the "
    "k-th window, so the axis of the positions inside a window comes last."
)
def windows_as_columns(x, size, step):
    return x[..., (x.shape[-1] - size) % step :].unfold(-1, size, step).transpose(-1, -2)


@exercise.wrong(
    "The windows run along the first axis. For (T,) that is also the last axis; for (channels, T) it cuts across the "
    "channels. A negative number counts axes from the end."
)
def along_the_first_axis(x, size, step):
    return x[(x.shape[0] - size) % step :].unfold(0, size, step)


@exercise.wrong(
    "The right windows, but the newest one comes first. They have to stand in the order of x. (A view cannot go "
    "backwards, so the numbers were also copied.)"
)
def newest_first(x, size, step):
    return x[..., (x.shape[-1] - size) % step :].unfold(-1, size, step).flip(-2)


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

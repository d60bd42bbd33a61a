"""Lesson 01, build it: from index, stride and offset to the address of an element."""

from __future__ import annotations

import torch

from course.checking import Exercise

exercise = Exercise(
    "tensors.element_address",
    title="Build it: the address of an element",
    task="""
        A tensor is a window on a flat strip of memory. Write the rule that finds an element in the strip.

        `element_address(index, stride, offset=0)` takes

        - `index`: a tuple of non-negative integers, one for each axis, such as `(2, 1)` for `x[2, 1]`,
        - `stride`: a tuple of the same length, what `x.stride()` returns; a stride may be 0,
        - `offset`: where the tensor starts in its memory, what `x.storage_offset()` returns,

        and returns the position in memory as a Python `int`, counted in elements.

        Example: `x = torch.arange(12).reshape(3, 4)` has strides `(4, 1)`, so `element_address((2, 1), (4, 1))` is 9.
        With `offset=5` it is 14. A tensor without axes has index `()` and stride `()`: its element lies at the
        offset.
        """,
    hints=(
        "Start at the offset. One step along an axis moves by that axis's stride: how far do you get with index[0] "
        "steps along the first axis, and how far with index[1] along the second?",
        "The address is the offset plus a sum over the axes; each axis contributes its index times its stride. `zip` "
        "or `enumerate` gives you the pairs.",
    ),
)


@exercise.stub
def element_address(index: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> int:
    """Return where in memory the element with this index lies, counted in elements.

    index and stride have one integer for each axis. offset is the position of the tensor's first element."""
    raise NotImplementedError


@exercise.reference
def by_sum_over_axes(index, stride, offset=0):
    return offset + sum(i * stride[axis] for axis, i in enumerate(index))


@exercise.alternative
def by_walking(index, stride, offset=0):
    address = offset
    for steps, step in zip(index, stride, strict=True):
        address += steps * step
    return address


@exercise.alternative
def by_asking_torch(index, stride, offset=0):
    size = [i + 1 for i in index]
    return torch.empty_strided(size, stride, device="meta").as_strided(size, stride, offset)[index].storage_offset()


@exercise.wrong(
    "The address is counted from the start of the tensor here. A view may start anywhere in its memory: `x[1:]` "
    "begins one row later in the same strip, and that start is what `offset` holds."
)
def without_offset(index, stride, offset=0):
    return sum(i * step for i, step in zip(index, stride, strict=True))


@exercise.wrong(
    "The offset is treated as a number of rows here. `storage_offset()` already counts elements, like the address "
    "itself, so no stride applies to it. Try it on `torch.arange(12).reshape(3, 4)[1:]`, whose offset is 4."
)
def offset_in_rows(index, stride, offset=0):
    return sum(i * step for i, step in zip(index, stride, strict=True)) + offset * max(stride, default=1)


@exercise.wrong(
    "Indices and strides are paired in opposite order here. Both tuples start with the first axis: stride[0] is the "
    "step from row to row, for a contiguous matrix the larger one."
)
def last_axis_first(index, stride, offset=0):
    return offset + sum(i * step for i, step in zip(index, reversed(stride), strict=True))


@exercise.wrong(
    "The steps are multiplied by four here, as for byte addresses of float32 numbers. That is how NumPy counts "
    "strides; PyTorch counts strides and offset in elements, whatever their dtype."
)
def in_bytes(index, stride, offset=0):
    return offset + 4 * sum(i * step for i, step in zip(index, stride, strict=True))


@exercise.wrong(
    "A stride of 0 is replaced here as if it were a mistake. It is what `expand` makes: all indices along that axis "
    "mean one and the same element, so a step along it does not move in memory at all."
)
def zero_stride_as_one(index, stride, offset=0):
    return offset + sum(i * max(step, 1) for i, step in zip(index, stride, strict=True))


@exercise.wrong(
    "The strides are used here as if they were sizes: address * size + index, axis after axis, is the rule that "
    "makes row-major addresses from a shape. A stride already is the full step in memory for its own axis and is not "
    "multiplied with any other."
)
def strides_as_sizes(index, stride, offset=0):
    address = 0
    for i, size in zip(index, stride, strict=True):
        address = address * size + i
    return offset + address


@exercise.wrong(
    "Only the first axis has contributed; all the others are missing. If `return` is indented like the body of the "
    "loop, the function ends in its first round."
)
def returned_after_the_first_axis(index, stride, offset=0):
    address = offset
    for i, step in zip(index, stride, strict=True):
        address += i * step
        return address
    return address


@exercise.wrong(
    "Only the last axis has contributed. The address was set anew for each axis, so what the axes before had given "
    "was forgotten. The contributions have to add up."
)
def only_the_last_axis(index, stride, offset=0):
    address = offset
    for i, step in zip(index, stride, strict=True):
        address = offset + i * step
    return address


@exercise.wrong(
    "Exactly two axes were expected here. A tensor may have any number of them, also none; with three the third one "
    "has no effect. Let the length of the tuples decide how many terms the sum has."
)
def for_two_axes_only(index, stride, offset=0):
    return offset + index[0] * stride[0] + index[1] * stride[1]


@exercise.wrong(
    "The products were multiplied with each other. Steps along different axes add up: two rows down and three to the "
    "right is the one distance plus the other."
)
def product_over_axes(index, stride, offset=0):
    address = 1
    for i, step in zip(index, stride, strict=True):
        address *= i * step
    return offset + address


@exercise.probe
def row_major_matrix():
    return (2, 1), (4, 1)


@exercise.probe
def transposed_with_offset():
    return (3, 2), (1, 5), 7


@exercise.probe
def three_axes():
    return (2, 0, 3), (20, 5, 2), 1


@exercise.probe
def expanded_axis():
    return (4, 2), (0, 3), 6


@exercise.probe
def no_axes():
    return (), (), 11


@exercise.probe
def first_element():
    return (0, 0), (6, 2), 3


@exercise.probe
def element_of_a_real_view():
    x = torch.arange(60).reshape(3, 4, 5)[1:, ::2].transpose(0, 2)
    return (3, 1, 1), x.stride(), x.storage_offset()

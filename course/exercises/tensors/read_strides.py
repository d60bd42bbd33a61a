"""Lesson 01: strides read off a picture."""

from __future__ import annotations

import torch

from course.checking import ValueExercise

exercise = ValueExercise(
    "tensors.read_strides",
    title="Read strides off a picture",
    name="strides",
    expects="a tuple of two integers: the steps in memory for one row down and for one column to the right",
    task="""
        Twenty float32 numbers lie side by side in memory. Letters stand for the numbers.

        ```text
        address   0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19
        number    a  b  c  d  e  f  g  h  i  j  k  l  m  n  o  p  q  r  s  t
        ```

        The tensor `x` is a view of this memory. It has 2 rows and 4 columns:

        ```text
                  column 0   column 1   column 2   column 3
        row 0         b          g          l          q
        row 1         d          i          n          s
        ```

        What does `x.stride()` return? Set `strides` to a tuple of two integers, for example `strides = (7, 3)`. Read
        it off the picture before you run any code.
        """,
    hints=(
        "A stride is a distance in memory, measured in elements. Find the addresses of two cells that are neighbours "
        "along one axis and ask how far apart they are.",
        "strides[0] is the address of row 1, column 0 minus the address of row 0, column 0. strides[1] is the same "
        "for column 1 and column 0 of row 0.",
    ),
)


@exercise.reference
def by_counting():
    return (2, 5)


@exercise.alternative
def by_building_it():
    return torch.arange(20).reshape(4, 5)[:, 1::2].t().stride()


@exercise.wrong(
    "Both distances are right, but they stand in the other order. strides[0] belongs to the first axis: it is the "
    "step from one row to the next, and strides[1] the step from one column to the next. In this view the larger "
    "step is not the first one. Follow one column downwards in the picture and compare."
)
def columns_before_rows():
    return (5, 2)


@exercise.wrong(
    "These are the strides of a 2 x 4 tensor whose numbers lie side by side. This one is a view: its neighbours in a "
    "row, b and g, are not neighbours in memory. The shape alone does not tell the strides, so look up addresses."
)
def as_if_contiguous():
    return (4, 1)


@exercise.wrong(
    "These distances are in bytes, the way NumPy's strides are: a float32 takes four. PyTorch counts strides in "
    "elements, so that they do not depend on the dtype. Count cells of the memory strip."
)
def in_bytes():
    return (8, 20)


@exercise.wrong(
    "These are the numbers of cells that lie between two neighbours. A stride is the distance from one address to "
    "the other, as in `address + stride`: side by side in memory means stride 1, not 0."
)
def cells_between():
    return (1, 4)


@exercise.wrong(
    "These are addresses: where d and where g lie. A stride is the distance from the cell before, and the first cell "
    "of this view does not lie at address 0. Where the view starts is a separate number, its storage offset."
)
def addresses():
    return (3, 6)


@exercise.wrong(
    "This is the shape: how many rows and columns there are. The strides tell how far to walk in memory for one step "
    "along each axis. Pick two neighbouring cells and look up their addresses."
)
def shape_instead():
    return (2, 4)

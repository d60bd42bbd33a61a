"""Lesson 04: what padding costs, by hand."""

from __future__ import annotations

from course.checking import ValueExercise

exercise = ValueExercise(
    "data.padding_cells",
    title="Count the padding",
    name="padding_cells",
    expects="a tuple of two integers: padded cells in the given order, and in order of length",
    task="""
        Six sequences have the lengths 2, 9, 3, 8, 10 and 1. They are batched in twos, and each batch is padded to its
        own longest sequence. How many cells are padding

        - when the batches are cut in the given order: (2, 9), (3, 8), (10, 1);
        - when the sequences are sorted by length first, and then cut into batches?

        Set `padding_cells` to a tuple of the two numbers. Count by hand.
        """,
    hints=(
        "Draw one batch as a table with two rows. It has as many columns as its longer sequence; count the empty "
        "cells.",
        "In a batch of two the padding is the difference of the two lengths. Add the differences of the three batches, "
        "for one order and then for the other.",
    ),
)


@exercise.reference
def by_hand():
    return (21, 7)


@exercise.alternative
def by_differences():
    return (sum([9 - 2, 8 - 3, 10 - 1]), sum([2 - 1, 8 - 3, 10 - 9]))


@exercise.wrong(
    "This pads everything to the longest sequence of all. Each batch is padded to its own longest one only; that is "
    "why it matters which sequences share a batch."
)
def padded_to_the_longest_of_all():
    return (27, 27)


@exercise.wrong("These are all cells of the batches, data included. Take the 33 real elements off.")
def all_cells():
    return (54, 40)


@exercise.wrong("The two numbers stand in the other order: first the order that was given, then the sorted one.")
def the_other_order():
    return (7, 21)


@exercise.wrong(
    "Sorting was left out: the second number belongs to the batches (1, 2), (3, 8) and (9, 10), which are cut after "
    "all six are in order of length."
)
def sorting_changes_nothing():
    return (21, 21)


@exercise.wrong(
    "These are real elements, which do not depend on the order. Count the cells that the longer sequence of a batch "
    "has and the shorter one has not."
)
def real_elements():
    return (33, 33)

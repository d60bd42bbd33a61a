"""Lesson 01: which expression copies."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "tensors.copy_or_view",
    title="Copy or view",
    name="choice",
    task="""
        Let `x = torch.arange(12).reshape(3, 4)`. Four of these five expressions return a view: a tensor that uses the
        memory of `x`. One of them copies the numbers into new memory, so that a write into the result leaves `x` as
        it was.

        Which one copies? Set `choice` to its letter, for example `choice = "a"`.
        """,
    choices={
        "a": "`x[:, 0:3:2]`",
        "b": "`x.t()[1]`",
        "c": "`x.reshape(2, 6)`",
        "d": "`x[:, [0, 2]]`",
        "e": "`x.expand(2, 3, 4)`",
    },
    right="d",
    wrong={
        "a": "A slice takes every n-th element by a larger stride, here (4, 2). Offset, shape and strides describe "
        "the result completely, so no number has to move. Which of the other expressions picks elements in a way "
        "that cannot be described by one stride for each axis in general?",
        "b": "t() swaps the two strides, and an integer index only moves the offset: row 1 of the transpose is "
        "column 1 of x, read with stride 4. Nothing is copied.",
        "c": "reshape() copies only where no strides could describe the new shape. The numbers of x lie side by side "
        "in row-major order, so a (2, 6) tensor over the same memory has strides (6, 1). After a transpose it would "
        "be another matter.",
        "e": "The result has twice as many elements, but no more memory: expand() gives the new axis stride 0, so "
        "both halves are the same twelve numbers. (repeat() is the one that copies.)",
    },
    hints=(
        "A view can only be described by an offset, a shape and one fixed stride for each axis. For which kind of "
        "index does PyTorch not even try to find them?",
        "Slices and integers in brackets give views. There is another kind of index, called advanced indexing in the "
        "documentation: lists, index tensors and masks.",
    ),
)

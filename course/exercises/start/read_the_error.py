"""Lesson 00: the sizes in an error message."""

from __future__ import annotations

import torch
from torch import nn

from course.checking import ValueExercise

exercise = ValueExercise(
    "start.read_the_error",
    title="Read the error",
    name="in_features",
    expects="one integer: the number of features that reach the layer which raised the error",
    task="""
        A network ends like this, and a batch of 8 images goes in:

        ```python
        x = self.pool(self.conv(x))
        x = x.flatten(1)
        return self.head(x)        # self.head = nn.Linear(1024, 10)
        ```

        The traceback ends with

        ```text
            return self.head(x)        # self.head = nn.Linear(1024, 10)
        RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x1152 and 1024x10)
        ```

        Which number must stand in the place of 1024 in `nn.Linear(1024, 10)`? Set `in_features` to it. No code has to
        be run.
        """,
    hints=(
        "A matrix product multiplies (rows x inner) by (inner x columns). One of the two matrices is what came in, the "
        "other is the layer's weight. Which is which?",
        "mat1 is the batch, one sample a row. Its second size is what each sample brings along.",
    ),
)


@exercise.reference
def from_the_message():
    return 1152


@exercise.alternative
def by_letting_torch_count():
    return nn.Flatten()(torch.zeros(8, 8, 12, 12)).shape[1]


@exercise.wrong(
    "That is the layer's own size, the one that does not fit. The message shows both sides of the product; the other "
    "side, mat1, is what arrives."
)
def what_the_layer_has():
    return 1024


@exercise.wrong(
    "That is the batch: 8 samples, one a row. A layer never depends on how many samples come at a time; look at "
    "what each of them brings."
)
def the_batch():
    return 8


@exercise.wrong(
    "That is what the layer gives out, its number of classes. The two inner sizes of the product are the ones "
    "that must agree, and 10 is an outer one."
)
def the_output():
    return 10


@exercise.wrong(
    "That is the number of all elements of the batch. `flatten(1)` keeps the batch axis, and a layer sees one row "
    "at a time."
)
def the_whole_batch():
    return 8 * 1152


@exercise.wrong(
    "That is the difference of the two sizes. The layer does not need more weights beside those that it has; it needs "
    "as many inputs as arrive."
)
def the_difference():
    return 128

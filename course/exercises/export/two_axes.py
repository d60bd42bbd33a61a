"""Lesson 12: two dynamic axes, and two sizes that belong together."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim

from course.checking import Exercise
from course.exercises.export._exporting import attempt, outcome

exercise = Exercise(
    "export.two_axes",
    seconds=60,
    title="Batch, length, and a length less one",
    task="""
        ```python
        class NextStep(nn.Module):
            def forward(self, inputs, targets):  # (batch, length, 3) and (batch, length - 1, 3)
                return (self.layer(inputs[:, :-1]) - targets).abs().sum(dim=(1, 2))
        ```

        `export_sequences(model, inputs, targets)` exports a model that takes and relates its two arguments in this way,
        and returns the `ExportedProgram`.

        - It takes every batch size from 1 and every length from 2, up to 1000 each.
        - It refuses two arguments of different batch sizes, targets that are not one step shorter, and another number
          of features.
        - The examples have a batch size of 2 or more and a length of 3 or more.
        """,
    hints=(
        "One Dim may stand in several places: it is one size. A Dim may also be computed from another one, by adding "
        "or subtracting an integer.",
        'steps = Dim("steps", max=1000) is the length of the targets; the length of the inputs is steps + 1. Both '
        "arguments share one Dim for the batch.",
    ),
)


@exercise.stub
def export_sequences(model: nn.Module, inputs: Tensor, targets: Tensor) -> torch.export.ExportedProgram:
    """Export model for every batch size and length; inputs (B, T, F), targets (B, T - 1, F)."""
    raise NotImplementedError


@exercise.reference
def derived_length(model, inputs, targets):
    batch, steps = Dim("batch"), Dim("steps", max=1000)
    shapes = ({0: batch, 1: steps + 1}, {0: batch, 1: steps})
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.alternative
def length_less_one(model, inputs, targets):
    batch, length = Dim("batch", min=1, max=2000), Dim("length", min=2, max=1001)
    shapes = [{0: batch, 1: length}, {0: batch, 1: length - 1}]
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.alternative
def left_to_torch(model, inputs, targets):
    free = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    return torch.export.export(model, (inputs, targets), dynamic_shapes=(free, free))


@exercise.wrong("Every size is fixed to the examples'.", fault="static-shape-export")
def no_dynamic_shapes(model, inputs, targets):
    return torch.export.export(model, (inputs, targets))


@exercise.wrong(
    "The batch is free and the length is still the example's. Each axis needs an entry.", fault="static-shape-export"
)
def batch_alone(model, inputs, targets):
    batch = Dim("batch")
    return torch.export.export(model, (inputs, targets), dynamic_shapes=({0: batch}, {0: batch}))


@exercise.wrong(
    "The length is free and the batch is still the example's. Each axis needs an entry.", fault="static-shape-export"
)
def length_alone(model, inputs, targets):
    steps = Dim("steps", max=1000)
    return torch.export.export(model, (inputs, targets), dynamic_shapes=({1: steps + 1}, {1: steps}))


@exercise.wrong(
    "Two independent names for two lengths that the code ties together. torch.export refuses: the subtraction holds "
    "only when one is the other plus one."
)
def independent_lengths(model, inputs, targets):
    batch = Dim("batch")
    shapes = ({0: batch, 1: Dim("length")}, {0: batch, 1: Dim("steps")})
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.wrong("One name for both lengths says that they are equal. They differ by one, in the examples already.")
def one_length(model, inputs, targets):
    batch, length = Dim("batch"), Dim("length", max=1000)
    shapes = ({0: batch, 1: length}, {0: batch, 1: length})
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.wrong("Two names for one batch size. The subtraction needs equal ones, so they have to share one Dim.")
def two_batches(model, inputs, targets):
    steps = Dim("steps", max=1000)
    shapes = ({0: Dim("first"), 1: steps + 1}, {0: Dim("second"), 1: steps})
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.wrong("The lengths have a maximum that is too small: the task asks for lengths up to 1000.")
def short_sequences(model, inputs, targets):
    batch, steps = Dim("batch"), Dim("steps", max=64)
    shapes = ({0: batch, 1: steps + 1}, {0: batch, 1: steps})
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.wrong("The lengths have a minimum that is too large: a sequence of two steps has one target.")
def long_sequences(model, inputs, targets):
    batch, steps = Dim("batch"), Dim("steps", min=3, max=1000)
    shapes = ({0: batch, 1: steps + 1}, {0: batch, 1: steps})
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.wrong("The batch has a maximum that is too small.")
def small_batches(model, inputs, targets):
    batch, steps = Dim("batch", max=64), Dim("steps", max=1000)
    shapes = ({0: batch, 1: steps + 1}, {0: batch, 1: steps})
    return torch.export.export(model, (inputs, targets), dynamic_shapes=shapes)


@exercise.wrong(
    "The features are free as well, wherever the model leaves them so. The task asks for their number to be refused."
)
def free_features(model, inputs, targets):
    free = dict.fromkeys(range(3), Dim.AUTO)
    return torch.export.export(model, (inputs, targets), dynamic_shapes=(free, free))


class NextStep(nn.Module):
    def __init__(self, layer=None):
        super().__init__()
        torch.manual_seed(6)
        self.layer = nn.Linear(3, 3) if layer is None else layer

    def forward(self, inputs, targets):
        return (self.layer(inputs[:, :-1]) - targets).abs().sum(dim=(1, 2))


class Other(nn.Module):
    def forward(self, sequence, shifted):
        return sequence[:, 1:] * shifted


def pair(batch, length, *, features=3, shift=1, more=0):
    inputs = torch.arange(batch * length * features).reshape(batch, length, features) % 7 - 3.0
    return inputs, torch.ones(batch + more, length - shift, features)


def tried(answer, model, *calls):
    program = attempt(answer, model.eval(), *pair(4, 6))
    return program if isinstance(program, str) else [outcome(program, *call) for call in calls]


@exercise.probe
def batches_and_lengths(answer):
    return tried(answer, NextStep(), pair(4, 6), pair(1, 6), pair(7, 6), pair(4, 3), pair(4, 9), pair(3, 12))


@exercise.probe
def the_ends(answer):
    return tried(answer, NextStep(), pair(1, 2), pair(3, 2), pair(2, 1000), pair(1000, 3))


@exercise.probe
def what_does_not_belong_together(answer):
    return tried(answer, NextStep(), pair(4, 6, shift=0), pair(4, 6, shift=2), pair(4, 6, more=1))


@exercise.probe
def another_number_of_features(answer):
    return tried(answer, NextStep(nn.ReLU()), pair(2, 4), pair(2, 4, features=5))


@exercise.probe
def arguments_of_other_names(answer):
    return tried(answer, Other(), pair(2, 4), pair(5, 3))

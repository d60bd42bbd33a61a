"""Lesson 12: export for every batch size."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim

from course.checking import Exercise
from course.exercises.export._exporting import attempt, outcome

exercise = Exercise(
    "export.dynamic_batch",
    seconds=60,
    title="A program for every batch size",
    task="""
        `export_any_batch(model, example)` exports a model in evaluation mode that takes one tensor, and returns the
        `ExportedProgram`.

        - The program takes every batch size from 1 up. The first axis is the batch.
        - Every other size stays the one of `example`: other sizes are refused.
        - `example` is one batch, **of any size, also of size 1**. The parameter of `forward` may have any name.
        """,
    hints=(
        "dynamic_shapes as a tuple goes by position, so no name is needed. What does torch.export do with an axis "
        "whose size in the example is 1?",
        "An axis of size 1 in the example is taken for a constant. Nothing says that you have to hand over the example "
        "as it is: export with two copies of it, one after the other along the batch, and a named Dim for axis 0.",
    ),
)


@exercise.stub
def export_any_batch(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """Export model for every batch size; example (N, ...) gives dtype and the other sizes."""
    raise NotImplementedError


@exercise.reference
def twice_the_example(model, example):
    batch = torch.cat([example, example])
    return torch.export.export(model, (batch,), dynamic_shapes=({0: Dim("batch")},))


@exercise.alternative
def zeros_of_its_shape(model, example):
    batch = example.new_zeros((5, *example.shape[1:]))
    return torch.export.export(model, (batch,), dynamic_shapes=(({0: Dim("n", min=1, max=100_000)}),))


@exercise.alternative
def a_hint_instead_of_a_name(model, example):
    batch = example.repeat(3, *[1] * (example.dim() - 1))
    return torch.export.export(model, (batch,), dynamic_shapes=((Dim.DYNAMIC, *[None] * (example.dim() - 1)),))


@exercise.wrong(
    "Without dynamic_shapes every size is the one of the example. The program refuses all other batch sizes.",
    fault="static-shape-export",
)
def no_dynamic_shapes(model, example):
    return torch.export.export(model, (example,))


@exercise.wrong(
    "A named Dim on the example as it is. This works until the example has batch size 1: an axis of size 1 is taken "
    "for a constant, because size 1 broadcasts, and the Dim is refused."
)
def example_as_it_is(model, example):
    return torch.export.export(model, (example,), dynamic_shapes=({0: Dim("batch")},))


@exercise.wrong(
    "Dim.AUTO means: dynamic if possible. With an example of batch size 1 it is not, so the batch is frozen at 1 with "
    "one line in the log. A named Dim would have been an error.",
    fault="static-shape-export",
)
def auto(model, example):
    return torch.export.export(model, (example,), dynamic_shapes=({0: Dim.AUTO},))


@exercise.wrong(
    "Every axis is dynamic where the model allows it. Images of another height, or rows of another width, are no "
    "longer refused. Only the batch was to be free."
)
def all_axes(model, example):
    batch = torch.cat([example, example])
    return torch.export.export(model, (batch,), dynamic_shapes=(dict.fromkeys(range(batch.dim()), Dim.AUTO),))


@exercise.wrong("The Dim has a maximum below what the task asks for: a batch of 64 is refused.")
def small_maximum(model, example):
    batch = torch.cat([example, example])
    return torch.export.export(model, (batch,), dynamic_shapes=({0: Dim("batch", max=32)},))


@exercise.wrong(
    "The Dim has a maximum that nobody asked for: batches up to it pass, larger ones are refused. The task says every "
    "batch size from 1 up; a Dim needs no maximum."
)
def unasked_maximum(model, example):
    batch = torch.cat([example, example])
    return torch.export.export(model, (batch,), dynamic_shapes=({0: Dim("batch", max=1024)},))


@exercise.wrong(
    "The model is put into training mode before it is exported. The program holds the dropout of training, and its "
    "outputs are not those of the model."
)
def in_training_mode(model, example):
    batch = torch.cat([example, example])
    return torch.export.export(model.train(), (batch,), dynamic_shapes=({0: Dim("batch")},))


@exercise.wrong(
    'The key "x" is the name of one model\'s parameter. Another forward calls it otherwise, and torch.export refuses '
    "the name. A tuple goes by position."
)
def by_the_name_x(model, example):
    batch = torch.cat([example, example])
    return torch.export.export(model, (batch,), dynamic_shapes={"x": {0: Dim("batch")}})


@exercise.wrong("Axis 1 was made dynamic. The batch is axis 0, and it is still fixed.")
def the_other_axis(model, example):
    batch = torch.cat([example, example])
    return torch.export.export(model, (batch,), dynamic_shapes=({1: Dim.AUTO},))


@exercise.wrong("This is the callable module. The task asks for the ExportedProgram, which can be saved.")
def the_module(model, example):
    return torch.export.export(model, (torch.cat([example, example]),), dynamic_shapes=({0: Dim("batch")},)).module()


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x).relu()


class Pixels(nn.Module):
    """No weight knows the height or width here, so nothing but the export fixes them."""

    def forward(self, images):
        return (images * 2).sum(dim=1)


class Ids(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.table = nn.Embedding(5, 2)

    def forward(self, ids):
        return self.table(ids).mean(dim=1)


def rows(count, width=3):
    return torch.arange(count * width).reshape(count, width) / 8


def tried(answer, model, example, *calls):
    program = attempt(answer, model.eval(), example)
    return program if isinstance(program, str) else [outcome(program, call) for call in calls]


@exercise.probe
def from_a_batch_of_four(answer):
    return tried(answer, Rows(), rows(4), *map(rows, (1, 2, 4, 7, 64)), rows(4, width=2))


@exercise.probe
def from_a_batch_of_one(answer):
    return tried(answer, Rows(), rows(1), *map(rows, (1, 2, 7)), rows(2, width=4))


@exercise.probe
def a_large_batch(answer):
    return tried(answer, Rows(), rows(2), rows(5000))


@exercise.probe
def with_dropout(answer):
    model = nn.Sequential(Rows(), nn.Dropout(1.0))  # all or nothing: no random numbers in the outcome
    return tried(answer, model, rows(3), rows(4)), model.training


@exercise.probe
def images_under_another_name(answer):
    calls = [torch.ones(2, 3, 4, 5), torch.ones(3, 3, 4, 5), torch.ones(2, 3, 6, 5), torch.ones(2, 3, 4, 6)]
    return tried(answer, Pixels(), torch.ones(2, 3, 4, 5), *calls)


@exercise.probe
def integers(answer):
    return tried(answer, Ids(), torch.tensor([[1, 4, 2]]), torch.tensor([[0, 1, 1], [4, 3, 2], [2, 2, 0]]))

"""Lesson 01: one score a sample, also for a batch of one."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.scores",
    title="One score a sample, also for a batch of one",
    task="""
        `scores(head, batch)` takes a layer `head`, such as `nn.Linear(3, 1)`, and a batch of shape `(N, 3)`. The
        layer gives `head(batch)` the shape `(N, 1)`. Return the same numbers with shape `(N,)`, for every N: also for
        the last batch of an epoch with one sample, and for an empty one.

        Call the layer once, on the whole batch. Gradients must still reach the weights of the layer.

        Example: if `head(batch)` is `[[0.5], [-2.0]]`, return `[0.5, -2.0]`; if it is `[[0.5]]`, return `[0.5]`, a
        tensor with one axis.
        """,
    hints=(
        "squeeze() without an argument removes every axis of size 1. Which axes are that when N is 1?",
        "Say which axis is to go. squeeze takes its number, and an index or flatten would do as well.",
    ),
    compare=("value", "shape", "dtype", "gradients"),
)


@exercise.stub
def scores(head: torch.nn.Module, batch: Tensor) -> Tensor:
    """Return the output of head for batch (N, features) without its axis of size 1: shape (N,)."""
    raise NotImplementedError


@exercise.reference
def by_naming_the_axis(head, batch):
    return head(batch).squeeze(1)


@exercise.alternative
def by_indexing(head, batch):
    return head(batch)[:, 0]


@exercise.alternative
def by_flattening(head, batch):
    return head(batch).flatten()


@exercise.wrong(
    "For a batch of one sample the axis of the batch is gone as well, since it has size 1 there, and a tensor without "
    "axes is left, which the loss then meets at the end of an epoch. Say which axis is meant. (squeeze() without an "
    "argument removes every axis of size 1.)",
    fault="squeeze-drops-batch",
)
def squeezing_everything(head, batch):
    return head(batch).squeeze()


@exercise.wrong(
    "The result still has two axes, (N, 1). Against targets of shape (N,) a loss or a comparison would broadcast to "
    "(N, N).",
    fault="broadcast-outer-product",
)
def still_a_column(head, batch):
    return head(batch)


@exercise.wrong(
    "One score is left for the whole batch, that of the first sample. The batch is the first axis, so [0] takes a "
    "sample and not a column."
)
def first_sample_only(head, batch):
    return head(batch)[0]


@exercise.wrong(
    "The numbers are right, but they are cut off from the layer: no_grad(), detach(), item(), tolist() and a new "
    "tensor made from numbers all leave the graph behind, so nothing would be learned. Change the shape of the "
    "output itself.",
    fault="graph-cut",
)
def through_python_numbers(head, batch):
    return torch.tensor([score.item() for score in head(batch)])


@exercise.wrong(
    "The result has the shape (1, N). Transposing, or adding an axis in front, moves the samples to the second axis; "
    "the axis of size 1 has to disappear for every N."
)
def as_a_row(head, batch):
    return head(batch).t()


@exercise.wrong(
    "A batch of one sample is special-cased here, but comes out as (1, 1). The axis to remove is the same for every N."
)
def one_sample_left_as_it_is(head, batch):
    output = head(batch)
    return output.squeeze() if len(output) > 1 else output


@exercise.wrong(
    "Nothing changes here, without a word, unless there is one sample: the axis that is named is that of the batch. "
    "Count the axes from 0: which one has size 1 for every N?"
)
def squeezing_the_batch(head, batch):
    return head(batch).squeeze(0)


@exercise.wrong(
    "The layer is called once for each sample. That is many small operations instead of one large one, it has "
    "nothing to join for an empty batch, and a layer that looks at the whole batch (BatchNorm) would give other "
    "numbers. Call the layer on the batch and change the shape of its output."
)
def one_call_a_sample(head, batch):
    return torch.cat([head(sample) for sample in batch])


def linear_head(*weight: float, bias: float) -> torch.nn.Linear:
    """A layer with these weights and one output, made without drawing random numbers."""
    head = torch.nn.utils.skip_init(torch.nn.Linear, len(weight), 1)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([weight]))
        head.bias.fill_(bias)
    return head


@exercise.probe
def several_samples():
    return linear_head(1.0, -2.0, 0.5, bias=0.25), torch.arange(12.0).reshape(4, 3)


@exercise.probe
def one_sample():
    return linear_head(1.0, -2.0, 0.5, bias=0.25), torch.tensor([[3.0, 1.0, -4.0]])


@exercise.probe
def no_samples():
    return linear_head(1.0, -2.0, bias=0.25), torch.arange(0.0).reshape(0, 2)


@exercise.probe
def as_many_samples_as_features():
    return linear_head(0.5, 3.0, bias=-1.0), torch.tensor([[1.0, -2.0], [4.0, 0.0]])


@exercise.probe
def samples_with_gradients():
    batch = torch.tensor([[1.0, 2.0], [5.0, -3.0], [0.0, 4.0]], requires_grad=True)
    return linear_head(2.0, -1.0, bias=0.5), batch


@exercise.probe
def calls_of_the_layer(answer):
    """Shapes that the layer was called with."""
    shapes = []
    head = linear_head(2.0, -1.0, bias=0.5)
    head.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(inputs[0].shape)))
    answer(head, torch.tensor([[1.0, 2.0], [5.0, -3.0], [0.0, 4.0]]))
    return shapes

"""Lesson 04: a loss over real tokens only."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course.checking import Exercise

exercise = Exercise(
    "data.token_loss",
    title="A loss that ignores padding",
    task="""
        A model gives `logits`, shape `(B, T, C)`: C scores for each position of a padded batch. `targets`, int64, shape
        `(B, T)`, holds the class of each position, and `lengths`, int64, shape `(B,)`, says how many positions of each
        sequence are real.

        `token_loss(logits, targets, lengths)` returns the mean cross-entropy of the real positions of the batch, shape
        `()`. Every real position weighs the same, in short sequences as in long ones. At least one position is real.

        - Padded positions count for nothing: the loss is the same whatever their logits are, also NaN, and finite ones
          get gradient 0. Their targets are some valid class, which occurs as a real class too.
        - The model may be very sure: scores that lie hundreds apart give a finite loss and the right gradient.
        - `targets` stays as it is.
        """,
    hints=(
        "F.cross_entropy takes one row of C scores for each target: (N, C) and (N,). Which rows should be among the N?",
        "Make the mask of real positions from the lengths. Indexing with a mask gives what it selects; or mark padded "
        "targets, in a copy, with the number that cross_entropy ignores.",
    ),
    compare=("value", "shape", "dtype", "gradients"),
)


@exercise.stub
def token_loss(logits: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean cross-entropy over real positions; logits (B, T, C), targets (B, T), lengths (B,)."""
    raise NotImplementedError


@exercise.reference
def by_selecting(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    return F.cross_entropy(logits[real], targets[real])


@exercise.alternative
def by_ignore_index(logits, targets, lengths):
    padding = torch.arange(targets.shape[1]) >= lengths[:, None]
    return F.cross_entropy(logits.transpose(1, 2), targets.masked_fill(padding, -100), ignore_index=-100)


@exercise.alternative
def by_weights(logits, targets, lengths):
    real = torch.arange(targets.shape[1], device=targets.device).expand_as(targets) < lengths.unsqueeze(1)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return losses.where(real.flatten(), 0.0).sum() / real.sum()


@exercise.wrong(
    "Padded positions are part of the mean. The model is rewarded for predicting the filler, which is easy, so the "
    "loss looks better the more padding there is.",
    fault="padding-leaks",
)
def over_everything(logits, targets, lengths):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@exercise.wrong(
    "ignore_index drops every target of that class, real ones too. Class 0 occurs in the data, so part of what should "
    "be learnt is ignored. The filler must be a number that is no class, put where the lengths say.",
    fault="padding-leaks",
)
def ignoring_class_zero(logits, targets, lengths):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


@exercise.wrong(
    "The losses of the padding are set to 0, but they are still counted: the mean is over B * T positions. Divide by "
    "the number of real ones.",
    fault="padding-leaks",
)
def divided_by_everything(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return (losses * real).mean()


@exercise.wrong(
    "This is the mean of the sequences' means: a position of a short sequence weighs more than one of a long sequence. "
    "The task wants each real position to weigh the same."
)
def mean_of_means(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return ((losses * real).sum(1) / lengths).mean()


@exercise.wrong(
    "cross_entropy wants the classes in axis 1. Reshaping (B, T, C) to (B, C, T) gives that shape, but it pours the "
    "scores of different positions together; only a transpose moves the axis.",
    fault="reshape-instead-of-permute",
)
def reshaped_logits(logits, targets, lengths):
    padding = torch.arange(targets.shape[1]) >= lengths[:, None]
    B, T, C = logits.shape
    return F.cross_entropy(logits.reshape(B, C, T), targets.masked_fill(padding, -100))


@exercise.wrong(
    "One padded position counts for each sequence that is shorter than T. Positions start at 0.",
    fault="padding-leaks",
)
def one_position_too_many(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) <= lengths[:, None]
    return F.cross_entropy(logits[real], targets[real])


@exercise.wrong(
    "The loss is right, but the caller's targets are overwritten with the ignored number. A metric that reads them "
    "afterwards, or the next epoch of a dataset that keeps them, sees -100."
)
def targets_overwritten(logits, targets, lengths):
    targets[torch.arange(targets.shape[1]) >= lengths[:, None]] = -100
    return F.cross_entropy(logits.transpose(1, 2), targets)


@exercise.wrong(
    "This is the sum over real positions. It grows with the amount of data in the batch, and with it the gradient: a "
    "batch of long sequences takes larger steps."
)
def summed(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    return F.cross_entropy(logits[real], targets[real], reduction="sum")


@exercise.wrong(
    "The losses are multiplied by the mask, and NaN * 0 is NaN: one padded position whose scores are not finite spoils "
    "the loss of the whole batch. Choose the real positions instead.",
    fault="padding-leaks",
)
def losses_times_the_mask(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return (losses * real).sum() / real.sum()


@exercise.wrong(
    "Softmax first, then its logarithm: where the model is sure, a probability comes out as exactly 0 and its "
    "logarithm as minus infinity. cross_entropy and log_softmax take both steps at once, which stays finite.",
    fault="log-of-zero",
)
def logarithm_of_softmax(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    return F.nll_loss(logits[real].softmax(-1).log(), targets[real])


@exercise.wrong(
    "A small number under the logarithm keeps the loss finite, but it also keeps it below about 20 and stops the "
    "gradient where the model is most wrong. cross_entropy needs no such help."
)
def logarithm_with_a_floor(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    return F.nll_loss((logits[real].softmax(-1) + 1e-9).log(), targets[real])


def _scores(*shape: int) -> Tensor:
    return torch.linspace(-2, 3, torch.Size(shape).numel()).reshape(shape).mul(7).sin().mul(3)


@exercise.probe
def two_sequences():
    return _scores(2, 4, 3), torch.tensor([[2, 0, 1, 1], [0, 2, 0, 0]]), torch.tensor([4, 2])


@exercise.probe
def class_zero_is_real():
    return _scores(2, 3, 2), torch.tensor([[0, 0, 1], [0, 1, 0]]), torch.tensor([2, 3])


@exercise.probe
def very_different_lengths():
    targets = torch.tensor([[1, 2, 3, 0, 1, 2], [3, 0, 0, 0, 0, 0], [2, 1, 3, 3, 3, 3]])
    return _scores(3, 6, 4), targets, torch.tensor([6, 1, 2])


@exercise.probe
def one_is_empty():
    return _scores(2, 3, 5), torch.tensor([[4, 3, 0], [1, 1, 1]]), torch.tensor([2, 0])


@exercise.probe
def gradients():
    return _scores(2, 3, 3).requires_grad_(), torch.tensor([[1, 2, 0], [0, 1, 1]]), torch.tensor([1, 3])


@exercise.probe
def as_many_classes_as_positions():
    return _scores(2, 3, 3).double(), torch.tensor([[1, 2, 2], [0, 1, 0]]), torch.tensor([2, 1])


@exercise.probe
def nothing_is_padding():
    return _scores(1, 2, 4), torch.tensor([[3, 0]]), torch.tensor([2])


@exercise.probe
def padded_scores_that_are_not_numbers():
    logits = _scores(2, 3, 2)
    logits[0, 2] = torch.nan
    logits[1, 1, 0], logits[1, 2, 1] = torch.inf, -torch.inf
    return logits, torch.tensor([[0, 1, 1], [1, 1, 0]]), torch.tensor([2, 1])


@exercise.probe
def scores_of_a_sure_model():
    logits = torch.tensor([[[300.0, 0.0, -300.0], [0.0, 250.0, 0.0], [9.0, 0.0, 0.0]]], requires_grad=True)
    return logits, torch.tensor([[2, 1, 0]]), torch.tensor([2])

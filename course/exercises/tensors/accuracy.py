"""Lesson 01: accuracy that survives targets of shape (N, 1)."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.accuracy",
    title="An accuracy that survives (N, 1) targets",
    task="""
        `accuracy(logits, targets)` takes scores `logits`, shape `(N, C)`, and the right classes `targets`, int64,
        shape `(N,)` or `(N, 1)`. The predicted class of a row is the column with the largest score. Return the share
        of rows whose prediction is right, between 0 and 1, as a Python `float`. N is at least 1. A score may be any
        finite number, also a large one.

        Example: `logits = [[0.1, 2.0], [1.5, 0.3], [0.2, 0.9]]` predicts the classes 1, 0, 1. For the targets
        `[1, 1, 1]` the accuracy is 2/3, and it is the same for `[[1], [1], [1]]`.
        """,
    hints=(
        "Print the shapes of both sides of your comparison for targets of shape (N, 1), then the shape of the "
        "result. What does broadcasting make of (N,) and (N, 1)?",
        "Take argmax over the axis of the classes, bring the targets to shape (N,) whatever they had, compare, and "
        "average the comparison as floating numbers. A tensor with one element has a method that returns it as a "
        "Python number.",
    ),
)


@exercise.stub
def accuracy(logits: Tensor, targets: Tensor) -> float:
    """Return the share of rows of logits (N, C) whose largest score is at the class in targets, (N,) or (N, 1)."""
    raise NotImplementedError


@exercise.reference
def by_flat_targets(logits, targets):
    return (logits.argmax(1) == targets.flatten()).float().mean().item()


@exercise.alternative
def by_matching_shapes(logits, targets):
    predicted = logits.argmax(dim=-1).view_as(targets)
    return (predicted == targets).double().mean().item()


@exercise.alternative
def by_counting(logits, targets):
    right = logits.argmax(dim=1).eq(targets.reshape(-1)).sum().item()
    return right / len(logits)


@exercise.wrong(
    "With targets of shape (N, 1) the comparison broadcasts: (N,) against (N, 1) is (N, N), every prediction against "
    "every target, and the mean is taken over all of them. No error is raised. Both sides need the same shape before "
    "they are compared.",
    fault="broadcast-outer-product",
)
def compared_with_a_column(logits, targets):
    return (logits.argmax(1) == targets).float().mean().item()


@exercise.wrong(
    "With targets of shape (N, 1) the comparison broadcasts to (N, N), every prediction against every target. The "
    "number of matches is counted over all N * N pairs and divided by N, so the accuracy may even exceed 1. Both "
    "sides need the same shape before they are compared.",
    fault="broadcast-outer-product",
)
def counted_over_all_pairs(logits, targets):
    return (logits.argmax(1) == targets).sum().item() / len(logits)


@exercise.wrong(
    "Here the predictions are a column, (N, 1). That fits targets of shape (N, 1); against targets of shape (N,) the "
    "comparison broadcasts to (N, N). Bring both sides to one shape, whatever the targets came with.",
    fault="broadcast-outer-product",
)
def predictions_as_a_column(logits, targets):
    return (logits.argmax(1, keepdim=True) == targets).float().mean().item()


@exercise.wrong(
    "The largest score was looked for along axis 0, which is the batch: that tells for each class which row has it. "
    "The classes are the columns, so it is the other axis that has to go.",
    fault="argmax-wrong-axis",
)
def argmax_over_the_batch(logits, targets):
    return (logits.argmax(0) == targets.flatten()).float().mean().item()


@exercise.wrong(
    "The number is right, but it is still a tensor: it stays on its device, and it prints and compares like a "
    "tensor. The task asks for a Python float."
)
def still_a_tensor(logits, targets):
    return (logits.argmax(1) == targets.flatten()).float().mean()


@exercise.wrong("This is the number of right predictions. Their share is that number divided by N.")
def count_instead_of_share(logits, targets):
    return float((logits.argmax(1) == targets.flatten()).sum())


@exercise.wrong("This is in percent. The accuracy asked for lies between 0 and 1.")
def in_percent(logits, targets):
    return 100 * (logits.argmax(1) == targets.flatten()).float().mean().item()


@exercise.wrong(
    "The largest score itself was compared with the target. The predicted class is not that score but its place: the "
    "number of the column. (max() along an axis returns both, the values first.)"
)
def scores_instead_of_places(logits, targets):
    return (logits.max(1).values == targets.flatten()).float().mean().item()


@exercise.wrong("This is the share of wrong predictions, the error rate: 1 minus the accuracy.")
def error_rate(logits, targets):
    return (logits.argmax(1) != targets.flatten()).float().mean().item()


@exercise.wrong(
    "Large scores became equal before they were compared, and of equal ones the first wins. A function that "
    "saturates does that (the sigmoid of 20 and that of 30 are both 1, exp(100) and exp(200) both inf), and so does a "
    "narrower dtype. The largest score can be found among the scores as they are."
)
def saturated_before_comparing(logits, targets):
    return (logits.sigmoid().argmax(1) == targets.flatten()).float().mean().item()


@exercise.wrong(
    "The scores became integers before they were compared: what comes after the point was cut off. 0.2 and 0.9 are "
    "both 0 then, and of equal ones the first wins. Compare the scores as they are."
)
def scores_as_integers(logits, targets):
    return (logits.long().argmax(1) == targets.flatten()).float().mean().item()


def scores_for(*classes: int, of: int) -> Tensor:
    """Logits whose largest entries are at these classes; in row r that entry is r modulo the number of classes."""
    rows = torch.arange(len(classes))
    logits = -1.0 - torch.arange(len(classes) * of).reshape(len(classes), of) % 7
    logits[rows, torch.tensor(classes)] = (rows % of).float()
    return logits


@exercise.probe
def scores_with_fractions():
    return torch.tensor([[0.1, 2.0], [1.5, 0.3], [0.2, 0.9], [0.6, 1.4]]), torch.tensor([1, 1, 1, 1])


@exercise.probe
def scores_of_20_and_30():
    return torch.tensor([[20.0, 30.0], [30.0, 20.0], [-110.0, -105.0]]), torch.tensor([1, 0, 1])


@exercise.probe
def scores_of_100_and_200():
    return torch.tensor([[-5.0, 100.0, 200.0], [100.0, -200.0, 300.0]]), torch.tensor([2, 2])


@exercise.probe
def scores_of_2048_and_2049():
    return torch.tensor([[2048.0, 2049.0, 0.0], [1.0, 4096.0, 4097.0]]), torch.tensor([[1], [2]])


@exercise.probe
def flat_targets():
    return scores_for(2, 0, 1, 2, of=3), torch.tensor([2, 1, 1, 2])


@exercise.probe
def targets_in_a_column():
    return scores_for(2, 0, 1, 2, of=3), torch.tensor([[2], [1], [1], [2]])


@exercise.probe
def predictions_above_and_below():
    return scores_for(3, 0, 2, 1, 3, 0, 2, 1, of=4), torch.tensor([1, 2, 0, 3, 3, 3, 1, 1])


@exercise.probe
def as_many_rows_as_classes():
    return scores_for(1, 1, 0, of=3), torch.tensor([2, 1, 0])


@exercise.probe
def column_of_a_table():
    table = torch.tensor([[9, 1], [9, 0], [9, 4], [9, 3], [9, 3]])
    return scores_for(1, 0, 4, 2, 1, of=5), table[:, 1:]


@exercise.probe
def one_row():
    return scores_for(1, of=3), torch.tensor([[1]])


@exercise.probe
def nothing_right():
    return scores_for(1, 0, of=2), torch.tensor([0, 1])

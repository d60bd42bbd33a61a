"""Lesson 05: which class is taken for which."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise, no_python_loop

exercise = Exercise(
    "training.confusion_matrix",
    title="The confusion matrix",
    task="""
        `count_confusions(predicted, targets, classes)` takes predicted and right classes, int64, shape `(N,)`, and the
        number of classes C. It returns a tensor of counts, int64, shape `(C, C)`: row i, column j says how often a
        sample of class i was predicted as class j. Classes that do not occur have zeros; N may be 0. No Python loop.

        Example: `predicted = [1, 1, 0]`, `targets = [0, 1, 0]`, `classes = 2` give `[[1, 1], [0, 1]]`.
        """,
    hints=(
        "matrix[targets, predicted] += 1 counts a pair that occurs twice only once (lesson 01). What counts numbers "
        "that occur several times?",
        "Turn each pair into one number, targets * classes + predicted, count with bincount(minlength=...), and shape "
        "the counts into rows.",
    ),
    requires=(no_python_loop,),
)


@exercise.stub
def count_confusions(predicted: Tensor, targets: Tensor, classes: int) -> Tensor:
    """Return counts (classes, classes), int64: rows are right classes, columns predicted ones."""
    raise NotImplementedError


@exercise.reference
def by_bincount(predicted, targets, classes):
    pairs = targets * classes + predicted
    return pairs.bincount(minlength=classes * classes).unflatten(0, (classes, classes))


@exercise.alternative
def by_accumulating(predicted, targets, classes):
    matrix = torch.zeros(classes, classes, dtype=torch.int64)
    return matrix.index_put((targets, predicted), torch.ones_like(targets), accumulate=True)


@exercise.alternative
def by_one_hot_product(predicted, targets, classes):
    rows = torch.nn.functional.one_hot(targets, classes)
    columns = torch.nn.functional.one_hot(predicted, classes)
    return rows.T @ columns


@exercise.wrong(
    "Rows and columns are exchanged: here the row is the prediction. The task wants the right class as row."
)
def transposed(predicted, targets, classes):
    return (predicted * classes + targets).bincount(minlength=classes**2).reshape(classes, classes)


@exercise.wrong(
    "An index that occurs several times is read once, and 1 is written back as often as it occurs: every pair counts "
    "once at most. Counting needs accumulation.",
    fault="write-into-index-copy",
)
def each_pair_once(predicted, targets, classes):
    matrix = torch.zeros(classes, classes, dtype=torch.int64)
    matrix[targets, predicted] += 1
    return matrix


@exercise.wrong(
    "bincount is only as long as the largest number it meets. If the last pairs do not occur the counts are too few "
    "for C rows: give it a minimal length."
)
def too_few_counts(predicted, targets, classes):
    return (targets * classes + predicted).bincount().reshape(classes, classes)


@exercise.wrong("These are shares of each row. The task asks for counts, which are integers, and can be added up.")
def shares_of_the_row(predicted, targets, classes):
    matrix = (targets * classes + predicted).bincount(minlength=classes**2).reshape(classes, classes)
    return matrix / matrix.sum(1, keepdim=True).clamp(min=1)


@exercise.wrong(
    "The number of classes is taken from the data here. If the last class does not occur, the matrix is too small, and "
    "matrices of different batches cannot be added."
)
def classes_of_the_data(predicted, targets, classes):
    found = int(torch.cat([predicted, targets]).max()) + 1 if targets.numel() else 0
    return (targets * found + predicted).bincount(minlength=found**2).reshape(found, found)


@exercise.wrong(
    "Only the right predictions are counted here, the diagonal. What is confused with what stands beside it."
)
def only_the_diagonal(predicted, targets, classes):
    return targets[predicted == targets].bincount(minlength=classes).diag()


@exercise.wrong(
    "A loop in Python takes microseconds for each sample: seconds for a data set. bincount takes them at once."
)
def counted_one_by_one(predicted, targets, classes):
    matrix = torch.zeros(classes, classes, dtype=torch.int64)
    for i, j in zip(targets, predicted):
        matrix[i, j] += 1
    return matrix


@exercise.wrong(
    "The counts are kept in uint8, which wraps at 256: what occurs 300 times is counted as 44. Count in int64 from the "
    "start; converting at the end comes too late.",
    fault="uint8-overflow",
)
def counted_in_bytes(predicted, targets, classes):
    counts = torch.zeros(classes * classes, dtype=torch.uint8)
    ones = torch.ones(len(targets), dtype=torch.uint8)
    return counts.scatter_add(0, targets * classes + predicted, ones).reshape(classes, classes).long()


@exercise.probe
def three_classes():
    return torch.tensor([0, 2, 1, 1, 2, 0, 2]), torch.tensor([0, 1, 1, 2, 2, 1, 1]), 3


@exercise.probe
def last_class_missing():
    return torch.tensor([0, 1, 0, 2]), torch.tensor([1, 1, 0, 0]), 5


@exercise.probe
def no_samples():
    return torch.arange(0), torch.arange(0), 3


@exercise.probe
def the_same_pair_often():
    return torch.tensor([3, 3, 3, 0, 3]), torch.tensor([1, 1, 1, 3, 3]), 4


@exercise.probe
def two_classes():
    return torch.tensor([1, 1, 0]), torch.tensor([0, 1, 0]), 2


@exercise.probe
def one_class():
    return torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64), 1


@exercise.probe
def many_samples():
    targets = torch.tensor([1]).repeat(700)
    return (torch.arange(700) < 300).long(), targets, 2

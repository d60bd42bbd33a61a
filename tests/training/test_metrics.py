from __future__ import annotations

import math

import pytest
import torch

from course.training.metrics import WeightedMean, accuracy, confusion_matrix, per_class_accuracy


def test_accuracy_by_hand():
    logits = torch.tensor([[5.0, 1.0, 0.0], [4.0, 0.0, 1.0], [6.0, 1.0, 2.0]])
    assert accuracy(logits, torch.tensor([0, 0, 0])) == 1
    assert accuracy(logits, torch.tensor([0, 1, 2])).item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (2,)])
def test_accuracy_refuses_what_would_broadcast(shape):
    with pytest.raises(ValueError, match=r"shape \(3,\) were expected"):
        accuracy(torch.zeros(3, 4), torch.zeros(shape, dtype=torch.int64))


def test_weighted_mean_counts_every_sample_once():
    mean = WeightedMean()
    assert math.isnan(mean.value)
    mean.add(torch.tensor(1.0), 64)
    mean.add(0.0, 1)
    assert mean.value == pytest.approx(64 / 65)
    assert mean.count == 65


def test_weighted_mean_keeps_no_graph():
    mean = WeightedMean()
    mean.add(torch.ones((), requires_grad=True) * 2, 3)
    assert not mean.total.requires_grad


def test_confusion_matrix_by_hand():
    matrix = confusion_matrix(torch.tensor([1, 1, 0, 2]), torch.tensor([0, 1, 0, 2]), 4)
    assert matrix.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert matrix.dtype == torch.int64
    shares = per_class_accuracy(matrix)
    assert shares[:3].tolist() == [0.5, 1.0, 1.0]
    assert shares[3].isnan()


def test_confusion_matrix_of_nothing():
    nothing = torch.zeros(0, dtype=torch.int64)
    assert confusion_matrix(nothing, nothing, 2).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("predicted", "targets", "message"),
    [
        ([3], [0], "predicted holds"),
        ([0], [-1], "targets holds"),
        ([0, 1], [0], "two shapes"),
        ([[0]], [[0]], "two shapes"),
    ],
)
def test_confusion_matrix_refuses(predicted, targets, message):
    with pytest.raises(ValueError, match=message):
        confusion_matrix(torch.tensor(predicted), torch.tensor(targets), 3)

"""Metrics: share of right predictions, means over unequal batches, the confusion matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    """Share of rows whose largest score is at the target, as a tensor without axes.

    logits: (N, C). targets: int64, (N,); another shape is refused, because broadcasting would compare all with all.
    """
    predicted = logits.argmax(dim=1)
    if predicted.shape != targets.shape:
        raise ValueError(f"targets of shape {tuple(predicted.shape)} were expected, not {tuple(targets.shape)}")
    return (predicted == targets).float().mean()


class WeightedMean:
    """A mean over samples from means over batches, each weighted by its number of samples.

    Sums stay on the device until :attr:`value` is read, so adding does not make an accelerator wait.
    """

    def __init__(self) -> None:
        self.total: Tensor | float = 0.0
        self.count = 0

    def add(self, mean: Tensor | float, samples: int) -> None:
        """Add the mean of a batch of this many samples."""
        self.total = self.total + (mean.detach() if hasattr(mean, "detach") else mean) * samples
        self.count += samples

    @property
    def value(self) -> float:
        """The mean over all samples so far; NaN before the first."""
        return float(self.total) / self.count if self.count else float("nan")


def confusion_matrix(predicted: Tensor, targets: Tensor, classes: int) -> Tensor:
    """How often class i (row) was taken for class j (column): int64, (classes, classes), on the CPU.

    predicted, targets: int64, (N,), values in 0 .. classes - 1; others raise ValueError.
    """
    predicted, targets = predicted.cpu(), targets.cpu()
    if predicted.shape != targets.shape or predicted.ndim != 1:
        raise ValueError(f"two shapes (N,) were expected, not {tuple(predicted.shape)} and {tuple(targets.shape)}")
    for name, values in (("predicted", predicted), ("targets", targets)):
        if values.numel() and not (values.min() >= 0 and values.max() < classes):
            raise ValueError(f"{name} holds classes outside 0 to {classes - 1}")
    return (targets * classes + predicted).bincount(minlength=classes**2).reshape(classes, classes)


def per_class_accuracy(matrix: Tensor) -> Tensor:
    """Share of each class that was recognised, (C,), from a confusion matrix; NaN for a class without samples."""
    return matrix.diagonal() / matrix.sum(dim=1)

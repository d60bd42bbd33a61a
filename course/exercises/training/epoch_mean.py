"""Lesson 05: the mean over an epoch from the means of its batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "training.epoch_mean",
    title="The mean of an epoch",
    task="""
        `epoch_mean(means, sizes)` takes the mean loss of each batch (Python floats, or tensors without axes of any
        floating dtype) and the number of samples in each batch (integers), lists of equal length with at least one
        sample in all. It returns the mean over all samples as a Python `float`.

        A batch without samples counts for nothing, even if its mean is NaN, which is what PyTorch says of no samples.
        A NaN of a batch with samples must not get lost.

        Example: means `[1.0, 4.0]` with sizes `[3, 1]` give 1.75.
        """,
    hints=(
        "What is the sum of the losses in a batch, if you know their mean and their number?",
        "Add up mean times size, and divide once by the sum of the sizes. float(t) makes a Python number of a tensor.",
    ),
)


@exercise.stub
def epoch_mean(means: Sequence[float | Tensor], sizes: Sequence[int]) -> float:
    """Return the mean over all samples from the means and sizes of the batches."""
    raise NotImplementedError


@exercise.reference
def by_weighted_sum(means, sizes):
    total = sum(float(mean) * size for mean, size in zip(means, sizes) if size)
    return total / sum(sizes)


@exercise.alternative
def by_tensors(means, sizes):
    weights = torch.tensor(sizes, dtype=torch.float64)
    values = torch.tensor([float(mean) for mean in means], dtype=torch.float64)
    return (torch.where(weights > 0, weights * values, 0.0).sum() / weights.sum()).item()


@exercise.alternative
def by_running_mean(means, sizes):
    mean, seen = 0.0, 0
    for value, size in zip(means, sizes):
        if size:
            seen += size
            mean += (float(value) - mean) * size / seen
    return mean


@exercise.wrong(
    "This is the mean of the batch means. A short last batch gets the weight of a full one.",
    fault="mean-of-batch-means",
)
def plain_mean(means, sizes):
    return sum(float(mean) for mean in means) / len(means)


@exercise.wrong(
    "Each batch is weighted by the size of the first. Only the last batch differs, and that one is what it is about.",
    fault="mean-of-batch-means",
)
def size_of_the_first_batch(means, sizes):
    return sum(float(mean) * sizes[0] for mean in means) / sum(sizes)


@exercise.wrong("This is the sum of all losses. Their mean is that sum divided by the number of samples.")
def sum_over_all(means, sizes):
    return sum(float(mean) * size for mean, size in zip(means, sizes))


@exercise.wrong("The weighted sum is divided by the number of batches; it holds one loss for each sample.")
def divided_by_the_number_of_batches(means, sizes):
    return sum(float(mean) * size for mean, size in zip(means, sizes)) / len(sizes)


@exercise.wrong(
    "The last batch is left out, as drop_last does in training. In a metric every sample counts, and counts once."
)
def without_the_last_batch(means, sizes):
    total = sum(float(mean) * size for mean, size in zip(means[:-1], sizes[:-1]))
    return total / max(1, sum(sizes[:-1]))


@exercise.wrong(
    "If the means are tensors, so is the result, with the graph of every batch behind it. The task asks for a Python "
    "float.",
    fault="graph-retained-in-log",
)
def tensors_added_up(means, sizes):
    return sum(mean * size for mean, size in zip(means, sizes)) / sum(sizes)


@exercise.wrong(
    "A batch without samples has the mean NaN, and NaN * 0 is NaN. Leave such batches out before you multiply.",
    fault="division-by-zero",
)
def nan_of_an_empty_batch(means, sizes):
    return sum(float(mean) * size for mean, size in zip(means, sizes)) / sum(sizes)


@exercise.wrong(
    "Every mean that is NaN is left out, also where the batch had samples. The epoch then looks sound although the "
    "model broke in it. Only the size says whether a batch counts."
)
def every_nan_left_out(means, sizes):
    pairs = [(float(mean), size) for mean, size in zip(means, sizes)]
    return sum(mean * size for mean, size in pairs if mean == mean) / sum(sizes)


@exercise.wrong(
    "Mean times size is computed in the dtype of the mean. In float16 it overflows at 65504, which is a loss of 300 "
    "times 300 samples. Make Python floats of the means first.",
    fault="half-overflow",
)
def products_in_the_dtype_of_the_means(means, sizes):
    return float(sum(mean * size for mean, size in zip(means, sizes) if size) / sum(sizes))


@exercise.wrong(
    "The running mean divides by the samples seen so far, and there are none as long as only empty batches came. Skip "
    "batches without samples.",
    fault="division-by-zero",
)
def nothing_seen_yet(means, sizes):
    mean, seen = 0.0, 0
    for value, size in zip(means, sizes):
        seen += size
        mean += (float(value) - mean) * size / seen
    return mean


@exercise.probe
def short_last_batch():
    return [1.0, 2.0, 6.0], [4, 4, 1]


@exercise.probe
def tensors_with_a_graph():
    weight = torch.tensor(2.0, requires_grad=True)
    return [weight * 1.5, weight * 0.25], [2, 6]


@exercise.probe
def equal_sizes():
    return [0.5, 1.5, 4.0], [2, 2, 2]


@exercise.probe
def one_batch():
    return [3.25], [7]


@exercise.probe
def an_empty_batch():
    return [2.0, 9.0, 1.0], [3, 0, 2]


@exercise.probe
def negative_means():
    return [-1.0, 2.5], [5, 1]


@exercise.probe
def an_empty_batch_of_mean_nan():
    return [2.0, math.nan, 5.0], [3, 0, 1]


@exercise.probe
def a_batch_that_broke():
    return [2.0, math.nan, 5.0], [3, 2, 1]


@exercise.probe
def an_empty_batch_first():
    return [0.0, 1.5, 2.5], [0, 2, 1]


@exercise.probe
def means_in_half_precision():
    return [torch.tensor(300.0).half(), torch.tensor(20.0).half()], [400, 100]

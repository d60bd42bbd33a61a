"""Lesson 04: the mean of each sequence in a padded batch."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise, no_python_loop

exercise = Exercise(
    "data.mean_over_time",
    title="Mean over time without the padding",
    task="""
        `mean_over_time(x, lengths)` takes a padded batch of embeddings `x`, floating, shape `(B, T, D)`, and the true
        `lengths`, int64, shape `(B,)`. It returns for each sequence the mean of its embeddings: shape `(B, D)`, the
        dtype of `x`.

        - What stands behind the end of a sequence counts for nothing, whatever it is: also NaN, and it gets gradient 0.
        - A NaN inside a sequence stays visible: the mean is NaN. A sequence of length 0 has the mean 0.
        - `x` and `lengths` stay as they are. No Python loop.

        Example: for `x = [[[1, 10], [3, 20], [9, 9]]]` and `lengths = [2]` the result is `[[2, 15]]`.
        """,
    hints=(
        "First a mask of shape (B, T) from the lengths. x has one axis more. What must the mask's shape be, so that it "
        "broadcasts against (B, T, D) the way you mean?",
        "Fill what does not count with 0, sum over axis 1, and divide by the lengths as a column, with a lower bound "
        "of 1. Multiplying by the mask would keep NaN alive.",
    ),
    compare=("value", "shape", "dtype", "gradients"),
    requires=(no_python_loop,),
)


@exercise.stub
def mean_over_time(x: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean of the first lengths[b] embeddings of each x[b], x (B, T, D), lengths (B,): shape (B, D)."""
    raise NotImplementedError


@exercise.reference
def by_filling_and_counting(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return x.masked_fill(~real[..., None], 0).sum(1) / lengths.clamp(min=1)[:, None]


@exercise.alternative
def by_where(x, lengths):
    positions = torch.arange(x.size(1), device=x.device).unsqueeze(0)
    mask = (positions < lengths.unsqueeze(1)).unsqueeze(-1)
    total = torch.where(mask, x, torch.zeros_like(x)).sum(dim=1)
    return total / mask.sum(dim=1).clamp(min=1)


@exercise.alternative
def by_mending_empty_ones(x, lengths):
    mask = torch.arange(x.shape[1])[None, :, None] < lengths[:, None, None]
    mean = x.where(mask, 0.0).sum(1) / torch.maximum(lengths, torch.tensor(1))[:, None]
    return mean


@exercise.wrong(
    "Padding is part of the mean: all T positions are summed and counted. The same sentence gets another embedding "
    "when it shares its batch with a longer one.",
    fault="padding-leaks",
)
def over_everything(x, lengths):
    return x.mean(1)


@exercise.wrong(
    "The padding is set to 0, but the sum is still divided by T. The shorter the sequence, the smaller its mean.",
    fault="padding-leaks",
)
def divided_by_the_padded_length(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return x.masked_fill(~real[..., None], 0).mean(1)


@exercise.wrong(
    "The sum takes in the padding, and only the division knows the lengths. That is right as long as the padding "
    "happens to be 0; after an embedding or a bias it is not.",
    fault="padding-leaks",
)
def sum_of_everything(x, lengths):
    return x.sum(1) / lengths.clamp(min=1)[:, None]


@exercise.wrong(
    "Multiplying by the mask was meant to remove the padding, but NaN * 0 is NaN. Choose between two values instead.",
    fault="padding-leaks",
)
def multiplied_by_the_mask(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return (x * real[..., None]).sum(1) / lengths.clamp(min=1)[:, None]


@exercise.wrong(
    "One padded element counts in every sequence: positions start at 0, so the position equal to the length is already "
    "padding.",
    fault="padding-leaks",
)
def one_position_too_many(x, lengths):
    real = torch.arange(x.shape[1]) <= lengths[:, None]
    return x.masked_fill(~real[..., None], 0).sum(1) / lengths.clamp(min=1)[:, None]


@exercise.wrong(
    "A sequence of length 0 gives 0 / 0, which is NaN, and one such row makes the loss of the batch NaN. The divisor "
    "needs a lower bound.",
    fault="division-by-zero",
)
def zero_divided_by_zero(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return x.masked_fill(~real[..., None], 0).sum(1) / lengths[:, None]


@exercise.wrong(
    "A mask of shape (B, T) meets x of shape (B, T, D). Shapes are aligned at the right, so the mask's rows are laid "
    "along T and its columns along D: it fails, or it silently masks the wrong axis where the sizes agree. Give the "
    "mask an axis of size 1 at the end."
)
def mask_without_an_axis(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return x.masked_fill(~real, 0).sum(1) / lengths.clamp(min=1)[:, None]


@exercise.wrong(
    "The means are right, but the caller's x has changed: masked_fill_ and assignments write into the tensor that was "
    "passed in (and fail on a leaf that requires gradients)."
)
def written_into_x(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    x.masked_fill_(~real[..., None], 0)
    return x.sum(1) / lengths.clamp(min=1)[:, None]


@exercise.wrong(
    "The numbers may be right, but every sequence is a step in Python. One mask does the whole batch at once."
)
def one_by_one(x, lengths):
    rows = [row[:n].mean(0) if n else row.new_zeros(row.shape[1]) for row, n in zip(x, lengths.tolist())]
    return torch.stack(rows)


@exercise.wrong(
    "nan_to_num turns every NaN into 0, also one inside a sequence. What was broken before then looks like a number, "
    "and nobody finds out. Only what stands behind the end is to be left out.",
    fault="padding-leaks",
)
def every_nan_hidden(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return (x.nan_to_num(posinf=0.0, neginf=0.0) * real[..., None]).sum(1) / lengths.clamp(min=1)[:, None]


@exercise.wrong(
    "The NaN of an empty sequence, 0 / 0, is replaced at the end, and with it every NaN that comes from inside a "
    "sequence. Keep the divisor above 0 instead."
)
def nan_replaced_at_the_end(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return (x.masked_fill(~real[..., None], 0).sum(1) / lengths[:, None]).nan_to_num(posinf=torch.inf)


@exercise.probe
def two_sequences():
    x = torch.tensor([[[1.0, 10.0], [3.0, 20.0], [9.0, 9.0]], [[2.0, 4.0], [6.0, 8.0], [1.0, 3.0]]])
    return x, torch.tensor([2, 3])


@exercise.probe
def one_is_empty():
    x = torch.arange(1.0, 19.0).reshape(3, 3, 2)
    return x, torch.tensor([1, 0, 3])


@exercise.probe
def padding_that_is_not_a_number():
    x = torch.tensor([[[1.0, -2.0], [torch.nan, torch.inf]], [[4.0, 8.0], [6.0, 1.0]]])
    return x, torch.tensor([1, 2])


@exercise.probe
def gradients_of_the_padding():
    x = torch.tensor([[[1.0, 5.0], [2.0, -3.0], [4.0, 7.0]], [[0.5, 1.0], [3.0, 2.0], [8.0, -6.0]]], requires_grad=True)
    return x, torch.tensor([2, 1])


@exercise.probe
def all_sizes_agree():
    x = torch.arange(27.0).reshape(3, 3, 3).square()
    return x, torch.tensor([2, 3, 1])


@exercise.probe
def double_precision():
    x = torch.tensor([[[0.5], [1.0], [2.5], [7.0]]], dtype=torch.float64)
    return x, torch.tensor([3])


@exercise.probe
def nothing_is_padding():
    return torch.tensor([[[2.0, 3.0, 5.0]], [[7.0, 11.0, 13.0]]]), torch.tensor([1, 1])


@exercise.probe
def nan_inside_a_sequence():
    x = torch.tensor([[[1.0, torch.nan], [3.0, 5.0], [9.0, 9.0]], [[2.0, 4.0], [torch.inf, 8.0], [1.0, 3.0]]])
    return x, torch.tensor([2, 3])

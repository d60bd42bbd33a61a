"""Lesson 01: the mean of the elements that a mask selects, row by row."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.masked_mean",
    title="Masked mean over one axis",
    task="""
        `masked_mean(x, mask)` takes `x`, floating, shape `(N, T)`, and `mask`, bool, of the same shape. It returns
        for each row the mean of the elements where `mask` is True: shape `(N,)`, the dtype of `x`.

        - Elements where `mask` is False count for nothing, even if they are NaN or infinite. A NaN or an infinity
          that does count shows in the mean of its row, as in any mean, so that bad data is seen.
        - A row without any True has the mean 0.
        - `x` and `mask` stay as they are. There may be no rows at all.

        Example: for `x = [[1, 2, 9], [4, 5, 6]]` and `mask = [[True, True, False], [False, False, False]]` the result
        is `[1.5, 0]`.
        """,
    hints=(
        "A mean is a sum divided by a count, and both may be different for each row. mask.sum() counts the True "
        "elements.",
        "Replace the elements that do not count by 0 (where or masked_fill: multiplying would keep NaN alive), sum "
        "over axis 1, and divide by a count that is never below 1.",
    ),
)


@exercise.stub
def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over axis 1 of the elements of x (N, T) where mask (N, T) is True, shape (N,).

    A row without any True has the mean 0."""
    raise NotImplementedError


@exercise.reference
def by_sum_and_count(x, mask):
    return x.where(mask, 0).sum(1) / mask.sum(1).clamp(min=1)


@exercise.alternative
def by_masked_fill(x, mask):
    total = x.masked_fill(~mask, 0.0).sum(dim=-1)
    count = mask.sum(dim=-1)
    return torch.where(count > 0, total / count, 0.0)


@exercise.alternative
def by_mending_empty_rows(x, mask):
    mean = torch.where(mask, x, 0.0).sum(1) / mask.sum(1)
    return mean.masked_fill(~mask.any(1), 0.0)


@exercise.wrong(
    "One mean was taken over the selected elements of all rows. A selection such as x[mask] is flat, and which row an "
    "element came from is lost. The axis of the rows has to stay: put something harmless where the mask is False."
)
def over_all_rows(x, mask):
    return x[mask].mean()


@exercise.wrong(
    "The sum is divided by T, so elements that do not count still make the mean smaller, as if they were zeros. "
    "Divide by the number of True elements of the row.",
    fault="padding-leaks",
)
def divided_by_the_length(x, mask):
    return x.where(mask, 0).mean(1)


@exercise.wrong(
    "A row without any True is 0 / 0 here, and that is NaN. One such row makes a whole loss NaN. The count needs a "
    "lower bound before it divides.",
    fault="division-by-zero",
)
def zero_divided_by_zero(x, mask):
    return x.where(mask, 0).sum(1) / mask.sum(1)


@exercise.wrong(
    "A NaN or an infinity that does not count still spoils its row. Multiplying by the mask does not remove it: "
    "NaN * 0 is NaN, and so is inf * 0. Choose between two values instead of multiplying.",
    fault="padding-leaks",
)
def multiplied_by_the_mask(x, mask):
    return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


@exercise.wrong(
    "NaN and infinities became ordinary numbers everywhere, also where the mask is True. Then a mean looks sound "
    "although one of its elements is not, and bad data goes unnoticed. Only what does not count may be replaced."
)
def nan_replaced_everywhere(x, mask):
    return (x.nan_to_num() * mask).sum(1) / mask.sum(1).clamp(min=1)


@exercise.wrong(
    "Every NaN became 0, also one where the mask is True. Then the mean of its row looks sound, and bad data goes "
    "unnoticed. After a multiplication by the mask nobody can tell any more which NaN counted."
)
def nan_replaced_after_multiplying(x, mask):
    selected = x * mask
    selected[selected.isnan()] = 0
    return selected.sum(1) / mask.sum(1).clamp(min=1)


@exercise.wrong(
    "What does not count was marked with NaN, and then every NaN was left out: also one that does count, from the sum "
    "and from the count. Bad data goes unnoticed. The mask alone says what counts."
)
def nan_left_out(x, mask):
    return torch.where(mask, x, torch.nan).nanmean(1).masked_fill(~mask.any(1), 0)


@exercise.wrong(
    "What does not count was marked with NaN, and then every NaN was left out, also one that does count. Infinite "
    "means were replaced as well. Bad data goes unnoticed. The mask alone says what counts."
)
def nan_left_out_and_the_rest_replaced(x, mask):
    return torch.where(mask, x, torch.nan).nanmean(1).nan_to_num()


@exercise.wrong(
    "Every mean that came out as NaN was set to 0. That is right for a row without any True, where 0 / 0 is NaN. It "
    "also hides a NaN that counts. Ask the mask which rows have nothing that counts."
)
def nan_means_replaced(x, mask):
    mean = x.where(mask, 0).sum(1) / mask.sum(1)
    return mean.masked_fill(mean.isnan(), 0)


@exercise.wrong(
    "NaN and infinities were taken out of the sum even where the mask is True. Then a mean looks sound although one "
    "of its elements is not, and bad data goes unnoticed. The mask alone says what counts."
)
def only_what_is_finite(x, mask):
    return x.where(mask & x.isfinite(), 0).sum(1) / mask.sum(1).clamp(min=1)


@exercise.wrong(
    "The means are float32 whatever x was. The task asks for the dtype of x: a float64 loses digits, and a float16 "
    "does not fit to its neighbours any more. A sum has the dtype of what is summed."
)
def always_float32(x, mask):
    return x.float().where(mask, 0).sum(1) / mask.sum(1).clamp(min=1)


@exercise.wrong(
    "Adding to the count avoids the division by zero and makes all the other means too small. Only a row without any "
    "True needs another divisor."
)
def one_more_than_the_count(x, mask):
    return x.where(mask, 0).sum(1) / (mask.sum(1) + 1)


@exercise.wrong(
    "The mask is read the other way round. Some layers (key_padding_mask) mark with True what is to be ignored; here "
    "True means that the element counts."
)
def true_means_ignored(x, mask):
    return x.where(~mask, 0).sum(1) / (~mask).sum(1).clamp(min=1)


@exercise.wrong(
    "There is one mean for each column: axis 0 was reduced. The axis that you name is the one that disappears; to get "
    "one number for each row, name the axis that runs along the row."
)
def over_the_columns(x, mask):
    return x.where(mask, 0).sum(0) / mask.sum(0).clamp(min=1)


@exercise.wrong(
    "The means are right, but the caller's x has changed: zeros were written into the tensor that was passed in. Make "
    "a new tensor instead."
)
def writing_into_x(x, mask):
    x[~mask] = 0
    return x.sum(1) / mask.sum(1).clamp(min=1)


@exercise.probe
def rows_of_different_length():
    x = torch.tensor([[1.0, 2.0, 9.0, 9.0], [4.0, 8.0, -3.0, 1.0]])
    return x, torch.tensor([[True, True, False, False], [True, True, True, False]])


@exercise.probe
def row_without_any():
    x = torch.tensor([[4.0, 5.0], [-1.0, -4.0], [0.5, 7.0]])
    return x, torch.tensor([[False, False], [True, True], [False, True]])


@exercise.probe
def nan_where_it_does_not_count():
    x = torch.tensor([[2.0, torch.nan, 5.0], [torch.inf, -6.0, -torch.inf]])
    return x, torch.tensor([[True, False, True], [False, True, False]])


@exercise.probe
def nan_that_counts():
    x = torch.tensor([[2.0, torch.nan, 5.0], [1.0, -6.0, 4.0]])
    return x, torch.tensor([[True, True, False], [False, True, True]])


@exercise.probe
def infinities_that_count():
    x = torch.tensor([[torch.inf, 1.0, 2.0], [4.0, -torch.inf, 3.0], [torch.inf, -torch.inf, 5.0]])
    return x, torch.tensor([[True, True, False], [False, True, True], [True, True, True]])


@exercise.probe
def half_precision():
    x = torch.tensor([[0.5, 1.5, -8.0], [4.0, 2.0, 6.0]], dtype=torch.float16)
    return x, torch.tensor([[True, True, False], [True, True, True]])


@exercise.probe
def everything_counts():
    x = torch.tensor([[1.0, -2.0, 4.0, 0.0, 7.0], [3.0, 3.5, -8.0, 2.0, 1.0]])
    return x, torch.ones(2, 5, dtype=torch.bool)


@exercise.probe
def as_many_rows_as_columns():
    x = torch.tensor([[1.0, 2.0, 3.0], [40.0, 50.0, 60.0], [7.0, 8.0, 9.0]])
    return x, torch.tensor([[True, False, True], [True, True, False], [False, False, True]])


@exercise.probe
def double_precision():
    return torch.tensor([[0.25, 0.5, 3.0]], dtype=torch.float64), torch.tensor([[True, True, False]])


@exercise.probe
def no_rows():
    return torch.arange(0.0).reshape(0, 3), torch.arange(0).reshape(0, 3).bool()

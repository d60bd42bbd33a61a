"""Lesson 12: control flow that can be exported."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.export import Dim

from course.checking import Exercise
from course.exercises.export._exporting import Function, outcome

exercise = Exercise(
    "export.control_flow",
    seconds=60,
    title="Two branches inside the graph",
    task="""
        ```python
        def to_peak(x):
            peak = x.abs().max()
            if peak == 0:
                return x
            if x.sum() < 0:
                peak = -peak
            return x / peak
        ```

        Write `to_peak(x)` so that `torch.export.export` takes it (as the forward of a module), and so that the program
        gives the same values as this function for every float tensor `x` with at least one element, of the dtype of
        `x`. One peak and one sum decide for all of `x`. NaN and infinite numbers give what this function gives.
        """,
    hints=(
        "Both decisions only choose a number: the divisor. Dividing by 1 leaves x as it is.",
        "torch.where(condition, a, b) chooses between -peak and peak, and a second one replaces 0 by 1. With "
        "torch.cond a branch must not return its argument itself: return a clone.",
    ),
)


@exercise.stub
def to_peak(x: Tensor) -> Tensor:
    """Return x divided by its largest magnitude, with the sign turned if its sum is negative; zeros stay zeros."""
    raise NotImplementedError


@exercise.reference
def chosen_divisor(x):
    peak = x.abs().max()
    peak = torch.where(x.sum() < 0, -peak, peak)
    return x / torch.where(peak == 0, 1.0, peak)


@exercise.alternative
def cond(x):
    peak = x.abs().max()
    signed = torch.cond(x.sum() < 0, lambda p: -p, lambda p: p.clone(), (peak,))
    return torch.cond(peak == 0, lambda x, p: x.clone(), lambda x, p: x / p, (x, signed))


@exercise.alternative
def masked(x):
    peak = x.abs().amax()
    peak = peak.masked_fill(peak == 0, 1)
    return torch.where(x.sum() < 0, -x / peak, x / peak)


@exercise.wrong(
    "A Python `if` needs a number, and while torch.export captures the graph tensors have none. It refuses, and names "
    "this line.",
    fault="data-dependent-branch",
)
def python_branches(x):
    peak = x.abs().max()
    if peak == 0:
        return x
    if x.sum() < 0:
        peak = -peak
    return x / peak


@exercise.wrong(
    "`.item()` takes the number out of the graph. It is as unknown there as the tensor was: the branch is refused. "
    "torch.where keeps it inside.",
    fault="data-dependent-branch",
)
def item(x):
    peak = x.abs().max().item()
    return x / peak if peak else x


@exercise.wrong("Zeros give 0 / 0, which is nan. The first branch is missing.")
def no_zero_branch(x):
    peak = x.abs().max()
    return x / torch.where(x.sum() < 0, -peak, peak)


@exercise.wrong("The second branch is missing: a negative sum turns the sign.")
def no_sign(x):
    peak = x.abs().max()
    return x / torch.where(peak == 0, 1.0, peak)


@exercise.wrong("The branches of the second decision are swapped: the sign turns where the sum is negative.")
def swapped(x):
    peak = x.abs().max()
    peak = torch.where(x.sum() < 0, peak, -peak)
    return x / torch.where(peak == 0, 1.0, peak)


@exercise.wrong("A sum of exactly 0 turns the sign here; the comparison is `<`.")
def zero_sum_turns(x):
    peak = x.abs().max()
    peak = torch.where(x.sum() <= 0, -peak, peak)
    return x / torch.where(peak == 0, 1.0, peak)


@exercise.wrong(
    "sign() of a sum of 0 is 0. The divisor is then 0 and gets replaced by 1, so that x stays as it is. The function "
    "of the task divides by the peak there."
)
def by_sign(x):
    divisor = x.abs().max() * x.sum().sign()
    return x / torch.where(divisor == 0, 1.0, divisor)


@exercise.wrong("Each row has a peak and a sum of its own here. In the task one peak and one sum decide for all of x.")
def row_by_row(x):
    peak = x.abs().amax(dim=-1, keepdim=True)
    peak = torch.where(x.sum(dim=-1, keepdim=True) < 0, -peak, peak)
    return x / torch.where(peak == 0, 1.0, peak)


@exercise.wrong(
    "A small number added to the divisor avoids 0 / 0. It also changes every other result, and most where the numbers "
    "are small themselves."
)
def small_number_added(x):
    peak = x.abs().max() + 1e-6
    return x / torch.where(x.sum() < 0, -peak, peak)


@exercise.wrong("nan_to_num turns 0 / 0 into 0, and with it every nan that came from the input.")
def nan_to_num(x):
    peak = x.abs().max()
    return (x / torch.where(x.sum() < 0, -peak, peak)).nan_to_num()


@exercise.wrong("The largest number is not the largest magnitude: of -3 and 1 the peak is 3.")
def largest_number(x):
    peak = x.max()
    peak = torch.where(x.sum() < 0, -peak, peak)
    return x / torch.where(peak == 0, 1.0, peak)


def exported(answer, *calls, dtype=torch.float32):
    """The results of the program that comes of it, made with an example that no call repeats; x is (batch, 2)."""
    example = torch.tensor([[1.0, 2.0], [0.5, 0.25], [3.0, 1.0]], dtype=dtype)
    answer(example)
    try:
        program = torch.export.export(Function(answer), (example,), dynamic_shapes=({0: Dim("batch")},))
    except (RuntimeError, ValueError, TypeError, AssertionError, NotImplementedError) as error:
        return f"not exported: {type(error).__name__}"
    return [outcome(program, torch.tensor(call, dtype=dtype)) for call in calls]


@exercise.probe
def both_signs(answer):
    return exported(answer, [[1.0, 4.0]], [[1.0, -4.0], [0.5, 1.0]])


@exercise.probe
def zeros(answer):
    return exported(answer, [[0.0, 0.0], [0.0, 0.0]])


@exercise.probe
def sum_of_zero(answer):
    return exported(answer, [[4.0, -4.0], [2.0, -2.0]])


@exercise.probe
def tiny_numbers(answer):
    return exported(answer, [[1e-7, -3e-7], [0.0, 1e-7]])


@exercise.probe
def not_finite(answer):
    return exported(answer, [[1.0, float("nan")]], [[float("inf"), 2.0]], [[float("-inf"), 2.0]])


@exercise.probe
def doubles(answer):
    return exported(answer, [[1.0, -3.0], [1.0, 0.5]], [[0.0, 0.0]], dtype=torch.float64)


@exercise.probe
def half_precision():
    return torch.tensor([-3.0, 1.0, 0.5], dtype=torch.float16)


@exercise.probe
def called_as_it_is():
    return torch.tensor([-3.0, 1.0, 0.5])

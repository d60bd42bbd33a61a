"""Lesson 09: a function without graph breaks."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise
from course.exercises.compilation._compiling import captured

exercise = Exercise(
    "compilation.remove_breaks",
    seconds=60,
    title="Remove the graph breaks",
    task="""
        This function breaks the graph twice.

        ```python
        def scale_by_largest(x):
            largest = x.abs().max()
            print(f"largest: {largest:.3f}")
            if largest == 0:
                return x
            return x / largest
        ```

        Write it anew so that `torch.compile(scale_by_largest, fullgraph=True)` captures it as one graph. It returns a
        tuple `(scaled, largest)`: `scaled` is what the old function returns, and `largest`, a tensor without axes, is
        there for the caller to print.

        `x` is float, of any shape with at least one element, and finite. Its numbers may all be 0, and may be as small
        as 1e-30. Leave `x` as it is.
        """,
    hints=(
        "A returned tensor can be printed by whoever called. What is left is the branch: both results have to be "
        "written as one expression of tensors.",
        "A division by 1 changes nothing. Choose the divisor, not the result: `torch.where` takes a condition without "
        "axes, too.",
    ),
)


@exercise.stub
def scale_by_largest(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x divided by its largest absolute value (x itself where that is 0), and that value, shape ()."""
    raise NotImplementedError


@exercise.reference
def safe_divisor(x):
    largest = x.abs().max()
    return x / torch.where(largest == 0, 1.0, largest), largest


@exercise.alternative
def chosen_result(x):
    largest = x.abs().amax()
    return torch.where(largest > 0, x / largest, x), largest


@exercise.alternative
def divisor_filled(x):
    largest = torch.linalg.vector_norm(x, float("inf"))
    return x / largest.masked_fill(largest == 0, 1.0), largest


@exercise.wrong(
    "The `print` is still inside. It is a side effect that has to happen at its place at each call, so the graph ends "
    "before it and another begins after it. Return the number and print it outside.",
    fault="graph-break",
)
def still_prints(x):
    largest = x.abs().max()
    print(f"largest: {largest:.3f}")
    return x / torch.where(largest == 0, 1.0, largest), largest


@exercise.wrong(
    "A Python `if` still asks a tensor for its value. While the graph is captured, there are no values: it would have "
    "to know them to choose a line.",
    fault="data-dependent-branch",
)
def still_branches(x):
    largest = x.abs().max()
    if largest == 0:
        return x, largest
    return x / largest, largest


@exercise.wrong(
    "`torch.compiler.disable` makes the break official: what it marks runs eagerly, between two graphs. With "
    "fullgraph=True that is an error.",
    fault="graph-break",
)
def disabled_part(x):
    @torch.compiler.disable
    def divide(x, largest):
        return x if largest == 0 else x / largest

    largest = x.abs().max()
    return divide(x, largest), largest


@exercise.wrong(
    "One graph, but the case of the `if` is gone: 0 divided by 0 is nan. The old function returned the zeros."
)
def branch_dropped(x):
    largest = x.abs().max()
    return x / largest, largest


@exercise.wrong(
    "A small number in the divisor, added or as a lower bound, gives 0 for zeros. Tensors of numbers near 1e-30 are no "
    "longer scaled to 1."
)
def epsilon_added(x):
    largest = x.abs().max()
    return x / (largest + 1e-8), largest


@exercise.wrong("This is the largest number, not the largest absolute value: with -4 and 2 it finds 2.")
def signed_largest(x):
    largest = x.max()
    return x / torch.where(largest == 0, 1.0, largest), largest


@exercise.wrong(
    "`item()` hands a Python number over. The task asks for a tensor: it can stay on its device until someone reads it."
)
def python_number(x):
    largest = x.abs().max()
    return x / torch.where(largest == 0, 1.0, largest), largest.item()


@exercise.wrong("The division is in place, so the caller's `x` changes too.")
def in_place(x):
    largest = x.abs().max()
    return x.div_(torch.where(largest == 0, 1.0, largest)), largest.clone()


@exercise.probe
def two_signs(answer):
    return captured(answer, torch.tensor([1.0, -4.0, 2.0]))


@exercise.probe
def all_zero(answer):
    return captured(answer, torch.zeros(2, 2))


@exercise.probe
def tiny_numbers():
    return torch.tensor([[1e-30, -2e-30], [0.0, 5e-31]])


@exercise.probe
def a_positive_largest():
    return torch.tensor([[5.0, -2.0], [0.5, 1.0]])


@exercise.probe
def a_single_number():
    return torch.tensor(-3.0, dtype=torch.float64)


@exercise.probe
def the_input_afterwards(answer):
    x = torch.tensor([2.0, -8.0])
    answer(x)
    return x

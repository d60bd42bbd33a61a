"""Lesson 09: a branch on a tensor's value that stays in the graph."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise
from course.exercises.compilation._compiling import captured

exercise = Exercise(
    "compilation.branch",
    seconds=60,
    title="A branch without Python",
    task="""
        ```python
        def squash(x):
            if x.mean() < 0:
                return x.exp()
            return 1 + x
        ```

        Write `squash(x)` so that `torch.compile(squash, fullgraph=True)` captures it. For every float tensor `x` it
        gives the same values as this one, **and the same gradients**. One mean decides for all of `x`.

        - Numbers of `x` may be as large as 200: where `exp` is not the branch taken, its overflow must not show,
          neither in the values nor in the gradients.
        - A mean of exactly 0 takes the second branch.
        """,
    hints=(
        "torch.where computes both branches and chooses. Gradients flow through both as well: through the branch not "
        "taken comes 0 times its derivative, and 0 times infinity is nan (lesson 02).",
        "Either let the untaken branch compute on harmless numbers, by a first torch.where on its input; or use "
        "torch.cond(condition, function, function, (x,)), which runs one branch only.",
    ),
)


@exercise.stub
def squash(x: Tensor) -> Tensor:
    """Return exp(x) if the mean of x is below 0, else 1 + x; same shape and dtype as x."""
    raise NotImplementedError


@exercise.reference
def safe_input(x):
    negative = x.mean() < 0
    return torch.where(negative, torch.where(negative, x, 0.0).exp(), 1 + x)


@exercise.alternative
def cond(x):
    return torch.cond(x.mean() < 0, lambda x: x.exp(), lambda x: 1 + x, (x,))


@exercise.alternative
def masked_input(x):
    kept = x.mean() >= 0
    return torch.where(kept, x + 1, x.masked_fill(kept, 0).exp())


@exercise.wrong(
    "A Python `if` needs the value of a tensor. While torch.compile captures the graph there is none, so with "
    "fullgraph=True it stops; without, the graph breaks here.",
    fault="data-dependent-branch",
)
def python_branch(x):
    if x.mean() < 0:
        return x.exp()
    return 1 + x


@exercise.wrong(
    "The values are right. The gradients are not: where exp overflows, the branch not taken sends back 0 times "
    "infinity, which is nan. torch.where chooses results; it does not keep the other branch from being computed."
)
def one_where(x):
    return torch.where(x.mean() < 0, x.exp(), 1 + x)


@exercise.wrong(
    "Multiplying by 0 does not remove a number that overflowed: 0 times infinity is nan. Choose with torch.where, or "
    "run one branch only."
)
def weighted_sum(x):
    negative = (x.mean() < 0).to(x.dtype)
    return negative * x.exp() + (1 - negative) * (1 + x)


@exercise.wrong("Each number decides for itself here. In the task one mean decides for all of them.")
def each_for_itself(x):
    return torch.where(x < 0, x.clamp(max=0).exp(), 1 + x)


@exercise.wrong("The branches are swapped: exp belongs to a mean below 0.")
def swapped(x):
    negative = x.mean() < 0
    return torch.where(negative, 1 + x, torch.where(negative, 0.0, x).exp())


@exercise.wrong("A mean of exactly 0 takes the first branch here; the comparison is `<`.")
def zero_included(x):
    negative = x.mean() <= 0
    return torch.where(negative, torch.where(negative, x, 0.0).exp(), 1 + x)


@exercise.wrong("exp of a detached copy keeps nan out of the gradient, and with it the gradient of exp itself.")
def detached(x):
    return torch.where(x.mean() < 0, x.detach().exp(), 1 + x)


@exercise.wrong(
    "Clamping at 80 keeps exp finite where it is not taken, but it also changes the values and gradients of larger "
    "numbers where it is: a mean below 0 may hold some."
)
def clamped(x):
    return torch.where(x.mean() < 0, x.clamp(max=80).exp(), 1 + x)


def with_gradient(answer, *numbers):
    x = torch.tensor(numbers, requires_grad=True)
    value = answer(x)
    value.sum().backward()
    return value, x.grad


@exercise.probe
def below_zero(answer):
    return captured(answer, torch.tensor([-2.0, 1.0, -0.5]))


@exercise.probe
def above_zero_with_gradients(answer):
    x = torch.tensor([200.0, -1.0, 0.5], requires_grad=True)
    value, how = captured(answer, x)
    if value is not None:
        value.sum().backward()
    return value, x.grad, how


@exercise.probe
def gradient_below_zero(answer):
    return with_gradient(answer, -2.0, 1.0, -0.5)


@exercise.probe
def exactly_zero(answer):
    return with_gradient(answer, 1.0, -1.0)


@exercise.probe
def large_numbers_below_zero(answer):
    return with_gradient(answer, 120.0, -300.0)


@exercise.probe
def doubles_in_rows():
    return torch.tensor([[-1.0, 1.5], [-3.0, 2.0]], dtype=torch.float64)


@exercise.probe
def half_precision():
    return torch.tensor([-1.0, 0.5, -3.0], dtype=torch.float16)

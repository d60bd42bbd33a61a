"""Lesson 02: a step function with a useful gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise
from course.exercises.autograd._graphs import numbers

exercise = Exercise(
    "autograd.quantise",
    title="Round, and let the gradient through",
    task="""
        Rounding has the derivative 0 almost everywhere, so nothing behind it learns. A *straight-through* gradient
        pretends that rounding did nothing.

        `quantise(x, levels)` takes a floating tensor `x` of any shape and a whole number `levels`, at least 2. The
        value of the result is `x` rounded to the nearest of the numbers 0, 1, ..., `levels - 1`; numbers below 0
        become 0, numbers above become `levels - 1`. Shape and dtype are those of `x`, and `x` stays as it is.

        The gradient is 1 where `0 < x < levels - 1`, and 0 outside of that range.

        Example: for `x = [-0.7, 0.4, 1.6, 9.0]` and `levels = 4` the value is `[0, 0, 2, 3]`, and the gradient of its
        sum is `[0, 1, 1, 0]`.
        """,
    hints=(
        "clamp has exactly the gradient that is asked for. How can you change its value and not its gradient?",
        "A detached difference adds its value and no gradient. Which difference takes the clamped number to the "
        "rounded one?",
    ),
    compare=("value", "shape", "dtype", "gradients"),
)


@exercise.stub
def quantise(x: Tensor, levels: int) -> Tensor:
    """Return x, any shape, rounded to the nearest of 0, 1, ..., levels - 1.

    The gradient is that of clamping x to this range."""
    raise NotImplementedError


@exercise.reference
def by_detached_difference(x, levels):
    clamped = x.clamp(0, levels - 1)
    return clamped + (clamped.round() - clamped).detach()


@exercise.alternative
def by_function(x, levels):
    class Quantise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward((x > 0) & (x < levels - 1))
            return x.round().clamp(0, levels - 1)

        @staticmethod
        def backward(ctx, gradient):
            (inside,) = ctx.saved_tensors
            return gradient * inside

    return Quantise.apply(x)


@exercise.alternative
def by_mask(x, levels):
    inside = ((x > 0) & (x < levels - 1)).to(x.dtype)
    value = x.detach().round().clamp(0, levels - 1)
    return value + inside * (x - x.detach())


@exercise.wrong(
    "The value is right, and the gradient is 0 everywhere: that is the derivative of round.",
    fault="nondifferentiable-loss",
)
def plain_rounding(x, levels):
    return x.clamp(0, levels - 1).round()


@exercise.wrong(
    "The value is right, but it is cut off: no gradient comes back at all. Only the difference that rounding makes is "
    "to be detached.",
    fault="graph-cut",
)
def all_detached(x, levels):
    return x.clamp(0, levels - 1).round().detach()


@exercise.wrong(
    "The value is right, but the gradient is 1 everywhere, also where the value no longer follows x. Numbers far "
    "outside would be pushed further out and nothing would show."
)
def gradient_everywhere(x, levels):
    return x + (x.round().clamp(0, levels - 1) - x).detach()


@exercise.wrong("The range is forgotten: numbers below 0 or above levels - 1 are rounded, but not bounded.")
def unbounded(x, levels):
    return x + (x.round() - x).detach()


@exercise.wrong("The numbers 0, 1, ..., levels are levels + 1 levels. The largest is levels - 1.")
def one_level_too_many(x, levels):
    clamped = x.clamp(0, levels)
    return clamped + (clamped.round() - clamped).detach()


@exercise.wrong("This always rounds down. The nearest level of 1.6 is 2.")
def rounded_down(x, levels):
    clamped = x.clamp(0, levels - 1)
    return clamped + (clamped.floor() - clamped).detach()


@exercise.wrong(
    "The difference has the wrong sign: rounding down is added as rounding up. Check with one number what you add to "
    "the clamped value."
)
def difference_reversed(x, levels):
    clamped = x.clamp(0, levels - 1)
    return clamped + (clamped - clamped.round()).detach()


@exercise.wrong(
    "The gradient of the result is thrown away: 1 is handed back whatever arrives. What comes after the rounding "
    "multiplies the gradient, and that has to go on."
)
def arriving_gradient_ignored(x, levels):
    class Quantise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward((x > 0) & (x < levels - 1))
            return x.round().clamp(0, levels - 1)

        @staticmethod
        def backward(ctx, gradient):
            (inside,) = ctx.saved_tensors
            return inside.to(gradient.dtype)

    return Quantise.apply(x)


@exercise.wrong(
    "The range is checked after the rounding: a number between -0.5 and 0 has become 0, which clamp lets through with "
    "gradient 1, and just above levels - 1 it is the same. Bound x first, then round."
)
def bounded_after_rounding(x, levels):
    return (x + (x.round() - x).detach()).clamp(0, levels - 1)


class _LastMask:
    """What the wrong answer below keeps in one place for all its calls."""

    inside: Tensor


class _RemembersTheLastCall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        _LastMask.inside = (x > 0) & (x < levels - 1)
        return x.round().clamp(0, levels - 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * _LastMask.inside, None


@exercise.wrong(
    "What backward needs lies in one place for all calls. A second call overwrites it before the first has gone "
    "backward, and the first gets the second's range. Each call keeps its own: that is what ctx is for."
)
def remembered_for_one_call(x, levels):
    return _RemembersTheLastCall.apply(x, levels)


@exercise.probe
def two_calls_before_backward(answer):
    x = torch.tensor([-0.4, 0.8, 2.3, 3.9], requires_grad=True)
    y = torch.tensor([0.6, -2.0, 5.5, 1.1], requires_grad=True)
    first, second = answer(x, 4), answer(y, 3)
    (first * torch.arange(1.0, 5.0)).sum().backward()
    (second * torch.arange(2.0, 6.0)).sum().backward()
    return {"values": (first.detach(), second.detach()), "gradients": (x.grad, y.grad)}


@exercise.probe
def example():
    return torch.tensor([-0.7, 0.4, 1.6, 9.0], requires_grad=True), 4


@exercise.probe
def two_levels():
    return (1.5 * numbers(2, 3) + 0.6).requires_grad_(), 2


@exercise.probe
def many_levels():
    return (6 * numbers(12, start=3.0) + 4.2).float().requires_grad_(), 8


@exercise.probe
def without_axes():
    return torch.tensor(1.3, requires_grad=True), 3


@exercise.probe
def without_gradients():
    return torch.tensor([[0.2, 2.7], [5.1, -3.0]]), 5

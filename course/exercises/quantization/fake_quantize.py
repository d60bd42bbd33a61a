"""Lesson 13, build it: fake quantization with a straight-through gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "quantization.fake_quantize",
    title="Build it: fake quantization",
    task="""
        `fake_quantize(x, scale, zero_point, low, high)` does what quantization-aware training puts behind each tensor:
        the value of quantizing and dequantizing, and a gradient that trains. Write it as a `torch.autograd.Function`,
        or in another way; `torch.fake_quantize_per_tensor_affine` computes the same and is what yours is compared with,
        not to be called.

        - `x`: float32, any shape. `scale`: positive float. Whole numbers `low <= zero_point <= high`: the codes.
        - Value: the code is `torch.round(x / scale) + zero_point`, bounded to `low` and `high`; the value is
          `(code - zero_point) * scale`.
        - Gradient: what arrives goes on unchanged to the elements whose code, **before it was bounded**, lies in `low`
          to `high`, both included. The others get 0.

        Several calls may be made before the first `backward`. `x` stays as it is.
        """,
    hints=(
        "The derivative of round is 0 nearly everywhere. Which gradient do you pretend, and for which elements would "
        "it push a number that cannot move its code any more?",
        "In forward keep the mask (code >= low) & (code <= high) with ctx.save_for_backward; in backward return "
        "gradient * mask, and None for each argument that is no tensor.",
    ),
    compare=("value", "shape", "dtype", "gradients"),
)


@exercise.stub
def fake_quantize(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    """Return x quantized to codes low to high and dequantized; the gradient passes where the code was inside."""
    raise NotImplementedError


@exercise.reference
def by_function(x, scale, zero_point, low, high):
    class FakeQuantize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            codes = torch.round(x / scale) + zero_point
            ctx.save_for_backward((codes >= low) & (codes <= high))
            return (codes.clamp(low, high) - zero_point) * scale

        @staticmethod
        def backward(ctx, gradient):
            (inside,) = ctx.saved_tensors
            return gradient * inside

    return FakeQuantize.apply(x)


@exercise.alternative
def by_detached_difference(x, scale, zero_point, low, high):
    codes = torch.round(x.detach() / scale) + zero_point
    inside = (low <= codes) & (codes <= high)
    value = (codes.clamp(low, high) - zero_point) * scale
    return torch.where(inside, x, x.detach()) + (value - x.detach())


@exercise.alternative
def by_hook(x, scale, zero_point, low, high):
    codes = torch.round(x.detach() / scale) + zero_point
    value = (codes.clamp(low, high) - zero_point) * scale
    inside = ((codes >= low) & (codes <= high)).to(x.dtype)
    result = x * 0 + value
    passed = (x - x.detach()) * inside
    return result.detach() + passed


def _through(x, value, inside):
    """The value, with the gradient of x where inside."""
    return value.detach() + (x - x.detach()) * inside


@exercise.wrong(
    "The value is right and the gradient 0 everywhere: that of round. Nothing before it would learn.",
    fault="nondifferentiable-loss",
)
def gradient_of_round(x, scale, zero_point, low, high):
    return ((torch.round(x / scale) + zero_point).clamp(low, high) - zero_point) * scale


@exercise.wrong("The value is right, but it is detached: no gradient comes back at all.", fault="graph-cut")
def detached(x, scale, zero_point, low, high):
    return gradient_of_round(x.detach(), scale, zero_point, low, high)


@exercise.wrong(
    "The gradient passes everywhere. A number far outside is pushed on, although its code cannot change any more."
)
def gradient_everywhere(x, scale, zero_point, low, high):
    return _through(x, gradient_of_round(x, scale, zero_point, low, high), torch.ones_like(x))


@exercise.wrong(
    "The mask compares x with the ends of the range. A number less than half a step outside is still rounded to the "
    "last code: its code was inside before it was bounded, so its gradient passes."
)
def mask_by_value(x, scale, zero_point, low, high):
    inside = (x >= (low - zero_point) * scale) & (x <= (high - zero_point) * scale)
    return _through(x, gradient_of_round(x, scale, zero_point, low, high), inside)


@exercise.wrong("The first and the last code are shut out. They belong to the range: `low` to `high`, both included.")
def ends_shut_out(x, scale, zero_point, low, high):
    codes = torch.round(x / scale) + zero_point
    return _through(x, gradient_of_round(x, scale, zero_point, low, high), (codes > low) & (codes < high))


@exercise.wrong(
    "The mask is taken after the codes were bounded, when all of them are inside. So every gradient passes, "
    "also from above `high`, but for what is below `low`."
)
def mask_after_upper_bound(x, scale, zero_point, low, high):
    codes = (torch.round(x / scale) + zero_point).clamp(max=high)
    return _through(x, gradient_of_round(x, scale, zero_point, low, high), (codes >= low) & (codes <= high))


@exercise.wrong(
    "The gradient is divided by the scale. Quantize divides and dequantize multiplies: together they leave it as it is."
)
def gradient_over_scale(x, scale, zero_point, low, high):
    codes = torch.round(x / scale) + zero_point
    inside = ((codes >= low) & (codes <= high)) / scale
    return _through(x, gradient_of_round(x, scale, zero_point, low, high), inside)


@exercise.wrong("1 is handed back whatever arrives. What comes after multiplies the gradient, and that has to go on.")
def arriving_gradient_ignored(x, scale, zero_point, low, high):
    class FakeQuantize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            codes = torch.round(x / scale) + zero_point
            ctx.save_for_backward((codes >= low) & (codes <= high))
            return (codes.clamp(low, high) - zero_point) * scale

        @staticmethod
        def backward(ctx, gradient):
            return ctx.saved_tensors[0].to(gradient.dtype)

    return FakeQuantize.apply(x)


@exercise.wrong(
    "The codes are rounded after the zero point was added. With an odd zero point, halves go to the other neighbour."
)
def rounded_with_zero_point(x, scale, zero_point, low, high):
    codes = torch.round(x / scale + zero_point)
    value = (codes.clamp(low, high) - zero_point) * scale
    return _through(x, value, (codes >= low) & (codes <= high))


@exercise.wrong("The zero point is left out of the bounds: the range is shifted by it.")
def bounds_without_zero_point(x, scale, zero_point, low, high):
    codes = torch.round(x / scale)
    return _through(x, codes.clamp(low, high) * scale, (codes >= low) & (codes <= high))


@exercise.wrong("The bounds 0 to 255 are built in. Weights use -127 to 127, and four bits have 16 codes.")
def always_eight_bits(x, scale, zero_point, low, high):
    codes = torch.round(x / scale) + zero_point
    value = (codes.clamp(0, 255) - zero_point) * scale
    return _through(x, value, (codes >= 0) & (codes <= 255))


@exercise.wrong(
    "The codes are returned. Fake quantization goes back to floats: the layers after it compute in float32."
)
def codes_returned(x, scale, zero_point, low, high):
    codes = torch.round(x / scale) + zero_point
    return _through(x, codes.clamp(low, high), (codes >= low) & (codes <= high))


class _Last:
    inside: Tensor


class _OneMaskForAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, zero_point, low, high):
        codes = torch.round(x / scale) + zero_point
        _Last.inside = (codes >= low) & (codes <= high)
        return (codes.clamp(low, high) - zero_point) * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * _Last.inside, None, None, None, None


@exercise.wrong(
    "The mask lies in one place for all calls: the second call overwrites it before the first has gone "
    "backward. Each call has a ctx of its own."
)
def one_mask_for_all_calls(x, scale, zero_point, low, high):
    return _OneMaskForAll.apply(x, scale, zero_point, low, high)


def numbers(*values):
    return torch.tensor(values, requires_grad=True)


@exercise.probe
def inside_and_outside():
    return numbers(-9.0, -0.6, 0.2, 1.4, 60.0), 0.5, 4, 0, 15


@exercise.probe
def at_the_ends():
    return numbers(-1.6, -1.5, -1.4, -1.0, 3.0, 3.4, 3.5, 3.6), 1.0, 1, 0, 4


@exercise.probe
def halves():
    return numbers(-1.5, -0.5, 0.5, 1.5, 2.5), 1.0, 3, 0, 255


@exercise.probe
def symmetric():
    return numbers(-40.0, -31.9, -0.3, 7.1, 31.8, 40.0), 0.25, 0, -127, 127


@exercise.probe
def beyond_eight_bits():
    return numbers(-300.0, -20.0, 290.0, 400.0), 1.0, 0, -512, 511


@exercise.probe
def two_axes():
    x = (torch.arange(12.0).reshape(3, 4) - 5.3).mul(1.7)
    return x.requires_grad_(), 2.0, 2, 0, 7


@exercise.probe
def gradient_that_arrives(answer):
    x = numbers(-3.0, 0.4, 1.9, 9.0)
    (answer(x, 0.5, 2, 0, 15) * torch.tensor([5.0, -2.0, 0.5, 3.0])).sum().backward()
    return x.grad


@exercise.probe
def two_calls_before_backward(answer):
    x, y = numbers(-4.0, 0.8, 2.3, 9.9), numbers(0.6, -9.0, 5.5, 1.1)
    first, second = answer(x, 0.5, 2, 0, 15), answer(y, 1.0, 0, -4, 3)
    (first.sum() + 0 * second.sum()).backward(retain_graph=True)
    x.grad = None
    y.grad = None
    (first.square().sum() + 3 * second.sum()).backward()
    return x.grad, y.grad


@exercise.probe
def empty():
    return torch.zeros(0, 2, requires_grad=True), 0.5, 0, -8, 7

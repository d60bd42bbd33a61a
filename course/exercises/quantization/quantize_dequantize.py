"""Lesson 13: to codes and back, with a bounded error."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "quantization.quantize_dequantize",
    title="Quantize and dequantize",
    task="""
        `quantize_dequantize(x, scale, zero_point)` returns the tuple `(codes, values)` for a float32 tensor `x` of any
        shape; `scale` is a positive float, `zero_point` an integer from 0 to 255.

        - `codes`, uint8, the shape of `x`: `x / scale` rounded to the nearest whole number, plus the zero point,
          bounded to 0 to 255. Halves are rounded as `torch.round` does it, to the even neighbour.
        - `values`, float32: what the codes stand for, `(code - zero_point) * scale`.

        Inside of the range each value is at most `scale / 2` away from `x`; outside, it is the nearest end of the
        range. `x` stays as it is; it may be empty.

        Example: `x = [-1.0, 0.26, 99.0]`, scale 0.5 and zero point 1 give the codes `[0, 2, 255]` and the values
        `[-0.5, 0.5, 127.0]`.
        """,
    hints=(
        "Three steps in this order: divide and round, add the zero point, bound. When may you change to uint8? A uint8 "
        "below 0 or above 255 wraps around (lesson 01).",
        "Bound with clamp before .to(torch.uint8); go back to float32 before you subtract the zero point.",
    ),
)


@exercise.stub
def quantize_dequantize(x: Tensor, scale: float, zero_point: int) -> tuple[Tensor, Tensor]:
    """Return (codes uint8, values float32) of x, float32 of any shape, for codes 0 to 255."""
    raise NotImplementedError


@exercise.reference
def step_by_step(x, scale, zero_point):
    codes = (torch.round(x / scale) + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.alternative
def bounded_first(x, scale, zero_point):
    steps = (x / scale).clamp(-zero_point, 255 - zero_point).round().int()
    return (steps + zero_point).to(torch.uint8), steps.float() * scale


@exercise.alternative
def by_fake_quantize(x, scale, zero_point):
    values = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 255)
    return ((values / scale).round() + zero_point).to(torch.uint8), values


@exercise.wrong(
    "The codes are not bounded before they become uint8, and wrap around: a number just above the range turns "
    "into one of the smallest."
)
def not_bounded(x, scale, zero_point):
    codes = (torch.round(x / scale) + zero_point).to(torch.int64).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.wrong(
    "The fraction is cut off instead of rounded. The error reaches a whole step, and all values shrink towards "
    "the zero point."
)
def cut_off(x, scale, zero_point):
    codes = ((x / scale).trunc() + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.wrong(
    "Halves are rounded up. `torch.round` and the kernels round them to the even neighbour, so that many of "
    "them do not drift upwards."
)
def halves_up(x, scale, zero_point):
    codes = (torch.floor(x / scale + 0.5) + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.wrong(
    "The zero point is added before rounding. With an odd zero point a half then goes to the other neighbour than in "
    "torch's kernels."
)
def zero_point_before_rounding(x, scale, zero_point):
    codes = torch.round(x / scale + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.wrong(
    "The zero point is subtracted in uint8, which wraps around: every value below 0 becomes a large one.",
    fault="uint8-overflow",
)
def subtracted_in_uint8(x, scale, zero_point):
    codes = (torch.round(x / scale) + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, (codes - zero_point).float() * scale


@exercise.wrong(
    "The bounds are applied before the zero point is added: all numbers below 0 are lost, and the largest codes wrap."
)
def bounded_without_zero_point(x, scale, zero_point):
    codes = (torch.round(x / scale).clamp(0, 255) + zero_point).to(torch.int64).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.wrong("The range -128 to 127 is that of int8. The codes here are 0 to 255.")
def bounds_of_int8(x, scale, zero_point):
    codes = (torch.round(x / scale) + zero_point).clamp(0, 127).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.wrong("The values still have the zero point in them. It has to be subtracted on the way back.")
def zero_point_not_subtracted(x, scale, zero_point):
    codes = (torch.round(x / scale) + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, codes.float() * scale


@exercise.wrong(
    "The codes are a float tensor. What makes the file and the traffic four times smaller is that they take one "
    "byte each."
)
def codes_stay_float(x, scale, zero_point):
    codes = (torch.round(x / scale) + zero_point).clamp(0, 255)
    return codes, (codes - zero_point) * scale


@exercise.wrong("The input is divided in place. The caller's numbers are gone.")
def in_place(x, scale, zero_point):
    codes = (x.div_(scale).round() + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.wrong(
    "The values are the unbounded ones: they were rounded but do not come from the codes, so that nothing is clipped."
)
def values_not_from_codes(x, scale, zero_point):
    codes = (torch.round(x / scale) + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, torch.round(x / scale) * scale


@exercise.wrong(
    "The rounded numbers become integers before they are bounded. What is too large for an integer turns negative, and "
    "gets the smallest code instead of the largest."
)
def integers_too_early(x, scale, zero_point):
    codes = (torch.round(x / scale).to(torch.int32) + zero_point).clamp(0, 255).to(torch.uint8)
    return codes, (codes.float() - zero_point) * scale


@exercise.probe
def example():
    return torch.tensor([-1.0, 0.26, 99.0, 400.0]), 0.5, 1


@exercise.probe
def halves():
    return torch.tensor([-1.5, -0.5, 0.5, 1.5, 2.5, 3.5]) * 0.25, 0.25, 11


@exercise.probe
def halves_with_even_zero_point():
    return torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]) * 2, 2.0, 100


@exercise.probe
def fractions():
    return torch.tensor([[-0.9, -0.6, -0.1], [0.4, 0.6, 0.9]]), 1.0, 128


@exercise.probe
def zero_point_at_the_ends():
    return torch.tensor([-3.0, 0.0, 3.0, 90.0]), 0.125, 0


@exercise.probe
def zero_point_255():
    return torch.tensor([-40.0, -3.0, 0.0, 3.0]), 0.125, 255


@exercise.probe
def just_outside():
    return torch.tensor([-1.3, -1.2, 254.4, 254.6]), 1.0, 1


@exercise.probe
def far_outside():
    return torch.tensor([1e12, -1e12, 3e38, -3e38, 3.0]), 0.5, 9


@exercise.probe
def whole_range():
    return torch.arange(-8.0, 72.0, 2.0).reshape(2, 4, 5), 0.25, 16


@exercise.probe
def empty():
    return torch.zeros(0, 3), 0.5, 7

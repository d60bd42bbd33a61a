"""Lesson 13: scale and zero point from a range."""

from __future__ import annotations

from course.checking import Exercise

exercise = Exercise(
    "quantization.affine_parameters",
    title="Scale and zero point from a range",
    task="""
        `affine_parameters(low, high, symmetric)` returns the tuple `(scale, zero_point)`, a `float` and an `int`, that
        maps the range `low` to `high` (`low <= high`) to 8-bit codes by `value = (code - zero_point) * scale`.

        - The number 0 must have a code of its own, without any error: padding and ReLU make many zeros. So a range
          that does not contain 0 is first widened until it does.
        - `symmetric=False`: codes 0 to 255. The scale is the width of the range over the number of steps between the
          smallest and the largest code. The zero point is the code of 0: where `low` falls on code 0, rounded to the
          nearest whole number.
        - `symmetric=True`: codes -127 to 127 and zero point 0. The largest magnitude falls on code 127.
        - A range of 0 to 0 has the scale 1.0 and the zero point 0.

        Example: for -1 to 3, not symmetric, the scale is 4/255 and the zero point 64 (63.75, rounded).
        """,
    hints=(
        "256 codes have 255 steps between them. On which code does the number 0 fall, if low falls on code 0?",
        "low = min(low, 0) and high = max(high, 0) widen the range. The zero point is round(-low / scale). With a "
        "symmetric mapping only the larger of -low and high counts.",
    ),
)


@exercise.stub
def affine_parameters(low: float, high: float, symmetric: bool) -> tuple[float, int]:
    """Return (scale, zero_point) for codes 0 to 255, or -127 to 127 if symmetric; 0 has a code of its own."""
    raise NotImplementedError


@exercise.reference
def by_width(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return max(-low, high) / 127, 0
    scale = (high - low) / 255
    return scale, round(abs(low) / scale)


@exercise.alternative
def by_share_below_zero(low, high, symmetric):
    below, above = abs(min(low, 0.0)), max(high, 0.0)
    if not (below or above):
        return 1.0, 0
    if symmetric:
        return (below if below > above else above) / 127, 0
    width = below + above
    return width / 255, int(255 * below / width + 0.5)


@exercise.wrong(
    "The range is not widened to contain 0. From 2 to 6, say, the code of 0 lies outside of 0 to 255: no code means 0, "
    "and every padded zero is clipped to 2."
)
def range_as_it_is(low, high, symmetric):
    if low == high == 0:
        return 1.0, 0
    if symmetric:
        return max(abs(low), abs(high)) / 127, 0
    scale = (high - low) / 255 or 1.0
    return scale, round(-low / scale)


@exercise.wrong(
    "The width is divided by 256. 256 codes have 255 steps between them: `high` falls on a code that is not there."
)
def divided_by_256(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return max(-low, high) / 127, 0
    scale = (high - low) / 256
    return scale, round(-low / scale)


@exercise.wrong(
    "The symmetric scale comes from the width of the range. With zero point 0 the larger side alone decides: half of "
    "the width clips it when the sides differ."
)
def symmetric_from_width(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return (high - low) / 254, 0
    scale = (high - low) / 255
    return scale, round(-low / scale)


@exercise.wrong(
    "The symmetric scale divides by 128. Code 128 does not exist, so the largest magnitude would be clipped."
)
def symmetric_by_128(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return max(-low, high) / 128, 0
    scale = (high - low) / 255
    return scale, round(-low / scale)


@exercise.wrong(
    "The zero point has the wrong sign: 0 falls on the code -low / scale, which is positive for a negative `low`."
)
def sign_of_the_zero_point(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return max(-low, high) / 127, 0
    scale = (high - low) / 255
    return scale, round(low / scale)


@exercise.wrong(
    "The zero point is cut off, not rounded. The whole grid moves by up to one step, twice as far as need be."
)
def zero_point_cut_off(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return max(-low, high) / 127, 0
    scale = (high - low) / 255
    return scale, int(-low / scale)


@exercise.wrong(
    "The zero point is a float with a fraction. Then no whole code means 0, and kernels take whole zero points only."
)
def zero_point_not_whole(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return max(-low, high) / 127, 0
    scale = (high - low) / 255
    return scale, -low / scale


@exercise.wrong("A range of 0 to 0 is divided by its width of 0. An input that is all zeros occurs: dead channels.")
def zero_range_forgotten(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        return max(-low, high) / 127, 0
    scale = (high - low) / 255
    return scale, round(-low / scale)


@exercise.wrong("`symmetric` is ignored: weights would get a zero point, and every product an extra sum.")
def always_affine(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    scale = (high - low) / 255
    return scale, round(-low / scale)


@exercise.wrong("The symmetric scale looks at `high` alone. When `low` is farther from 0, all of that side is clipped.")
def symmetric_from_high(low, high, symmetric):
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    if symmetric:
        return (high or -low) / 127, 0
    scale = (high - low) / 255
    return scale, round(-low / scale)


@exercise.probe
def example():
    return -1.0, 3.0, False


@exercise.probe
def example_symmetric():
    return -1.0, 3.0, True


@exercise.probe
def low_is_farther():
    return -6.0, 2.0, True


@exercise.probe
def low_is_farther_affine():
    return -6.0, 2.0, False


@exercise.probe
def positive_range():
    return 2.0, 6.0, False


@exercise.probe
def negative_range():
    return -5.0, -2.0, False


@exercise.probe
def negative_range_symmetric():
    return -5.0, -2.0, True


@exercise.probe
def one_positive_number():
    return 4.0, 4.0, False


@exercise.probe
def nothing_but_zero():
    return 0.0, 0.0, False


@exercise.probe
def nothing_but_zero_symmetric():
    return 0.0, 0.0, True


@exercise.probe
def tiny_numbers(answer):
    (scale, zero), (even, _) = answer(-1e-12, 3e-12, False), answer(-1e-12, 3e-12, True)
    return 4e-12 / scale, zero, 3e-12 / even


@exercise.probe
def small_numbers():
    return -1e-4, 3e-3, False

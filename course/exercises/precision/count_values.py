"""Lesson 08: how many numbers a format has in an interval."""

from __future__ import annotations

import math

import torch

from course.checking import Exercise

exercise = Exercise(
    "precision.count_values",
    title="Count the numbers of a format",
    task="""
        `count_values(low, high, dtype)` returns how many different numbers of `dtype` lie in `low <= value < high`, as
        an `int`.

        - `dtype` is `torch.float16`, `torch.bfloat16` or `torch.float32`.
        - `low` and `high` are Python floats, `0 <= low <= high`, both finite and representable in `dtype`.
        - Subnormal numbers count like all others.

        Example: from 1 to 2 there are 1024 numbers of float16, from 2 to 4 there are 1024 again, and from 2048 to
        2052 there are two. Answer for float32 without a loop over the numbers: from 0 to 1 there are a billion.
        """,
    hints=(
        "Write down the bits of 1.0 and of the next larger number: sign, exponent, mantissa. Read as an integer, what "
        "happens to the bits from one number to the next?",
        "The bits of non-negative floats, read as an integer, count the numbers from 0 upwards. `view(dtype)` reads "
        "the same bytes as another dtype of the same size: torch.int16 for two bytes, torch.int32 for four.",
    ),
)


@exercise.stub
def count_values(low: float, high: float, dtype: torch.dtype) -> int:
    """Return how many numbers of dtype lie in low <= value < high; both bounds are non-negative numbers of dtype."""
    raise NotImplementedError


@exercise.reference
def by_bits(low, high, dtype):
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    first, last = torch.tensor([low, high], dtype=dtype).view(integer).tolist()
    return last - first


@exercise.alternative
def by_exponents(low, high, dtype):
    info = torch.finfo(dtype)

    def below(x):
        """Numbers of dtype in 0 <= value < x."""
        if x < info.tiny:
            return round(x / (info.tiny * info.eps))
        mantissa, exponent = math.frexp(x)
        _, first = math.frexp(info.tiny)
        return round((exponent - first + 2 * mantissa) / info.eps)

    return below(high) - below(low)


@exercise.wrong(
    "eps is the distance between numbers just above 1. This divides by it everywhere. The distance doubles with each "
    "power of two, and below 1 it halves."
)
def eps_everywhere(low, high, dtype):
    return round((high - low) / torch.finfo(dtype).eps)


@exercise.wrong(
    "The distance at `low` is taken for the whole interval. It doubles at each power of two on the way to `high`."
)
def spacing_at_low(low, high, dtype):
    x = torch.tensor(low, dtype=dtype)
    step = torch.nextafter(x, torch.tensor(torch.inf, dtype=dtype)) - x
    return round((high - low) / step.item())


@exercise.wrong("This counts `high` as well. The interval is open at the upper end: `value < high`.")
def both_ends(low, high, dtype):
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    first, last = torch.tensor([low, high], dtype=dtype).view(integer).tolist()
    return last - first + 1


@exercise.wrong(
    "The bits were read as float32 whatever the dtype. float32 has thousands of numbers between two of a half format."
)
def always_float32(low, high, dtype):
    first, last = torch.tensor([low, high]).view(torch.int32).tolist()
    return last - first


@exercise.wrong(
    "The bits were read as float16 whatever 16-bit dtype was asked for. bfloat16 has the same number of bits, but it "
    "spends eight of them on the exponent."
)
def always_float16(low, high, dtype):
    if dtype == torch.bfloat16:
        dtype = torch.float16
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    first, last = torch.tensor([low, high], dtype=dtype).view(integer).tolist()
    return last - first


@exercise.wrong(
    "Every power of two has the same count, and that is what this uses. It holds from one power of two to a higher "
    "one; between them, and below the smallest normal number, it does not."
)
def powers_of_two_only(low, high, dtype):
    info = torch.finfo(dtype)
    octaves = math.log2(max(high, info.tiny)) - math.log2(max(low, info.tiny))
    return round(octaves / info.eps)


@exercise.probe
def one_to_two():
    return 1.0, 2.0, torch.float16


@exercise.probe
def one_to_two_bfloat16():
    return 1.0, 2.0, torch.bfloat16


@exercise.probe
def two_to_four():
    return 2.0, 4.0, torch.float16


@exercise.probe
def a_quarter_to_three():
    return 0.25, 3.0, torch.bfloat16


@exercise.probe
def two_numbers():
    return 2048.0, 2052.0, torch.float16


@exercise.probe
def empty():
    return 3.0, 3.0, torch.float16


@exercise.probe
def within_the_subnormals():
    return 2.0**-24, 5 * 2.0**-24, torch.float16


@exercise.probe
def from_zero_half():
    return 0.0, 1.5, torch.float16


@exercise.probe
def from_zero_bfloat16():
    return 0.0, 1.0, torch.bfloat16


@exercise.probe
def up_to_the_largest():
    return 1.0, 65504.0, torch.float16


@exercise.probe
def float32_from_zero():
    return 0.0, 1.0, torch.float32


@exercise.probe
def float32_large():
    return 2.0**24, 2.0**24 + 8, torch.float32

"""Lesson 08: from bits to a number."""

from __future__ import annotations

import math

import torch

from course.checking import Exercise

exercise = Exercise(
    "precision.decode",
    title="Read a number from its bits",
    task="""
        `decode(bits, exponent_bits)` returns the number that a string of bits stands for, as a Python `float`.

        `bits` holds the sign (1 character), then `exponent_bits` characters of exponent, then the mantissa, all the
        rest; the highest bit of each comes first. With `bias = 2 ** (exponent_bits - 1) - 1` and the mantissa `m` as a
        fraction from 0 to almost 1:

        - exponent all ones: infinity if the mantissa is 0, otherwise `nan`;
        - exponent all zeros (zero and subnormal numbers): `m * 2 ** (1 - bias)`;
        - otherwise: `(1 + m) * 2 ** (exponent - bias)`.

        A sign of `1` makes it negative, zero too.

        Example: `decode("0100000000000001", 5)`, a float16, has exponent 16, bias 15 and mantissa 1/1024, so it is
        `(1 + 1/1024) * 2 = 2.001953125`. With 8 exponent bits the same string is a bfloat16, and with 19 characters and
        8 exponent bits it would be a tf32: compute with the lengths that come in.
        """,
    hints=(
        "`int(text, 2)` reads a string of bits. How long is the mantissa, and what has its integer to be divided by, "
        "to lie between 0 and 1?",
        "Cut `bits` at 1 and at 1 + exponent_bits. The fraction is int(mantissa, 2) / 2 ** len(mantissa). Treat the "
        "two special exponents first; the leading 1 is there only in the last case.",
    ),
    rtol=0.0,
    atol=0.0,
)


@exercise.stub
def decode(bits: str, exponent_bits: int) -> float:
    """Return the number whose sign, exponent and mantissa are the characters of bits."""
    raise NotImplementedError


@exercise.reference
def by_cases(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 2**exponent_bits - 1:
        value = math.nan if fraction else math.inf
    elif exponent == 0:
        value = fraction * 2.0 ** (1 - bias)
    else:
        value = (1 + fraction) * 2.0 ** (exponent - bias)
    return -value if bits[0] == "1" else value


@exercise.alternative
def as_float64(bits, exponent_bits):
    exponent, mantissa = bits[1 : 1 + exponent_bits], bits[1 + exponent_bits :]
    sign = -1.0 if bits.startswith("1") else 1.0
    bias = (1 << (exponent_bits - 1)) - 1
    if "0" not in exponent:
        return sign * math.inf if "1" not in mantissa else math.nan
    if "1" not in exponent:
        return sign * math.ldexp(int(mantissa, 2), 1 - bias - len(mantissa))
    wide = (int(exponent, 2) - bias + 1023) << 52 | int(mantissa, 2) << (52 - len(mantissa))
    return sign * torch.tensor(wide).view(torch.float64).item()


@exercise.wrong(
    "There is no case for the exponent of all zeros. Such numbers have no leading 1: they are the subnormals and zero, "
    "and zero came out as a small number."
)
def no_subnormals(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (exponent_bits - 1) - 1
    sign = -1.0 if bits[0] == "1" else 1.0
    if exponent == 2**exponent_bits - 1:
        return sign * (math.nan if fraction else math.inf)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


@exercise.wrong(
    "An exponent of all ones was read like any other. It is reserved: infinity where the mantissa is 0, nan elsewhere."
)
def no_infinity(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (exponent_bits - 1) - 1
    sign = -1.0 if bits[0] == "1" else 1.0
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


@exercise.wrong("Every exponent of all ones gave infinity. That is so only for a mantissa of 0; otherwise it is nan.")
def no_nan(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (exponent_bits - 1) - 1
    sign = -1.0 if bits[0] == "1" else 1.0
    if exponent == 2**exponent_bits - 1:
        return sign * math.inf
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


@exercise.wrong(
    "The leading 1 is missing. A normal number is 1 and a fraction: the 1 costs no bit, because it is always there."
)
def no_leading_one(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (exponent_bits - 1) - 1
    sign = -1.0 if bits[0] == "1" else 1.0
    if exponent == 2**exponent_bits - 1:
        return sign * (math.nan if fraction else math.inf)
    return sign * fraction * 2.0 ** (max(exponent, 1) - bias)


@exercise.wrong(
    "The subnormals use `2 ** (0 - bias)`. Their exponent counts as 1, so that they go on evenly below the smallest "
    "normal number."
)
def subnormals_half_as_large(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (exponent_bits - 1) - 1
    sign = -1.0 if bits[0] == "1" else 1.0
    if exponent == 2**exponent_bits - 1:
        return sign * (math.nan if fraction else math.inf)
    return sign * ((exponent > 0) + fraction) * 2.0 ** (exponent - bias)


@exercise.wrong("The bias is that of float16 whatever `exponent_bits` says. With 8 exponent bits it is 127.")
def bias_of_float16(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    sign = -1.0 if bits[0] == "1" else 1.0
    if exponent == 2**exponent_bits - 1:
        return sign * (math.nan if fraction else math.inf)
    return sign * ((exponent > 0) + fraction) * 2.0 ** (max(exponent, 1) - 15)


@exercise.wrong("The sign is not used: negative numbers came out positive. The first character decides.")
def no_sign(bits, exponent_bits):
    mantissa = bits[1 + exponent_bits :]
    exponent = int(bits[1 : 1 + exponent_bits], 2)
    fraction = int(mantissa, 2) / 2 ** len(mantissa)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 2**exponent_bits - 1:
        return math.nan if fraction else math.inf
    return ((exponent > 0) + fraction) * 2.0 ** (max(exponent, 1) - bias)


@exercise.probe
def one():
    return "0011110000000000", 5


@exercise.probe
def a_little_more_than_two():
    return "0100000000000001", 5


@exercise.probe
def negative():
    return "1011101000000000", 5


@exercise.probe
def largest_half():
    return "0111101111111111", 5


@exercise.probe
def zero():
    return "0000000000000000", 5


@exercise.probe
def sign_of_negative_zero(answer):
    value = answer("1000000000000000", 5)
    return value, math.copysign(1.0, value)


@exercise.probe
def smallest_subnormal():
    return "0000000000000001", 5


@exercise.probe
def large_subnormal():
    return "1000001100000000", 5


@exercise.probe
def infinity():
    return "0111110000000000", 5


@exercise.probe
def minus_infinity():
    return "1111111110000000", 8


@exercise.probe
def not_a_number():
    return "0111111000000000", 5


@exercise.probe
def bfloat16():
    return "0100000101000001", 8


@exercise.probe
def tf32():
    return "0011111110000000001", 8


@exercise.probe
def float32_subnormal():
    return "00000000011" + "0" * 20 + "1", 8


@exercise.probe
def other_16_bits():
    return "0101010100000001", 6


@exercise.probe
def float64():
    return "01111110111" + "0" * 11 + "1" * 42, 11


@exercise.probe
def an_8_bit_float():
    return "10101110", 4

"""Lesson 08: sums that do not fit."""

from __future__ import annotations

import torch

from course.checking import ValueExercise

exercise = ValueExercise(
    "precision.absorbed",
    title="Five results in half precision",
    name="results",
    expects="a tuple of five Python floats: what each line gives; `float('inf')` for infinity",
    task="""
        What does each line give? Work it out from the number of mantissa bits and the largest finite number, then set
        `results` to a tuple of five floats, for example `results = (4096.0, 1.5, 0.0, 7.0, float("inf"))`.

        ```python
        half, brain = torch.float16, torch.bfloat16
        torch.tensor(4096.0, dtype=half) + 3       # a
        torch.tensor(512.0, dtype=brain) + 1       # b
        torch.tensor(300.0, dtype=half) * 300      # c
        torch.tensor(2.0**-20, dtype=half) ** 2    # d
        torch.tensor(512.0, dtype=brain) + 3       # e
        ```

        A result is rounded to the nearest number of the format; halfway between two, to the one whose last bit is 0.
        """,
    hints=(
        "float16 stores 10 mantissa bits, bfloat16 stores 7. From 2^k to 2^(k+1) neighbours lie 2^(k-10) or 2^(k-7) "
        "apart. Which neighbours does each exact result have?",
        "In float16, neighbours from 4096 on lie 4 apart; in bfloat16, neighbours from 512 on lie 4 apart. The largest "
        "finite float16 is 65504, the smallest positive one is 2^-24.",
    ),
    rtol=0.0,
    atol=0.0,
)


@exercise.reference
def rounded_by_hand():
    return (4100.0, 512.0, torch.inf, 0.0, 516.0)


@exercise.alternative
def by_running_it():
    return (
        (torch.tensor(4096.0, dtype=torch.float16) + 3).item(),
        (torch.tensor(512.0, dtype=torch.bfloat16) + 1).item(),
        (torch.tensor(300.0, dtype=torch.float16) * 300).item(),
        (torch.tensor(2.0**-20, dtype=torch.float16) ** 2).item(),
        (torch.tensor(512.0, dtype=torch.bfloat16) + 3).item(),
    )


@exercise.wrong(
    "These are the exact results, as float32 gives them. None of the five is a number of its format, so each is "
    "rounded to a neighbour, and two of them lie outside of the range."
)
def exact():
    return (4099.0, 513.0, 90000.0, 2.0**-40, 515.0)


@exercise.wrong(
    "Here small numbers always vanish in large ones. They do so only when they are less than half of the distance "
    "between neighbours: 3 is more than half of 4, so it rounds up."
)
def always_absorbed():
    return (4096.0, 512.0, float("inf"), 0.0, 512.0)


@exercise.wrong("The third does not stop at the largest number. A result beyond the range becomes infinite.")
def saturates():
    return (4100.0, 512.0, 65504.0, 0.0, 516.0)


@exercise.wrong(
    "The fourth is not the smallest number of the format. A result nearer to 0 than to 2^-24 becomes 0: underflow."
)
def smallest_instead_of_zero():
    return (4100.0, 512.0, float("inf"), 2.0**-24, 516.0)


@exercise.wrong(
    "The sums were rounded as if bfloat16 had the 10 mantissa bits of float16. It has 7, and from 512 on its "
    "neighbours lie 4 apart."
)
def bfloat16_as_precise():
    return (4100.0, 513.0, float("inf"), 0.0, 515.0)

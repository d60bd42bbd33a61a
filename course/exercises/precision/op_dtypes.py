"""Lesson 08: which dtype comes out of which operation."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from course.checking import ValueExercise

exercise = ValueExercise(
    "precision.op_dtypes",
    title="Which dtype comes out?",
    name="dtypes",
    expects="a tuple of seven dtypes, for a to g, such as torch.float32",
    task="""
        ```python
        x = torch.ones(4, 8)
        layer = nn.Linear(8, 8)

        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = layer(x)
            b = F.relu(a)
            c = b + x
            d = layer.weight.square()
            e = F.mse_loss(a, b)
            f = layer.weight
            g = x.double() @ torch.ones(8, 8, dtype=torch.float64)
        ```

        Set `dtypes` to a tuple of the seven dtypes of `a` to `g`, for example
        `dtypes = (torch.float16, torch.float32, ...)`. Decide before you run it.
        """,
    hints=(
        "Three questions for each line: is the operation on the list of the lower precision? on the list of float32? "
        "If on neither, which dtypes come in? Parameters keep their own dtype.",
        "matmul, linear and convolutions go down; losses go up; all else takes what comes, and the wider dtype wins. "
        "float64 is not cast at all.",
    ),
)


@exercise.reference
def by_the_lists():
    return (
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
        torch.float32,
        torch.float32,
        torch.float32,
        torch.float64,
    )


@exercise.alternative
def by_running_it():
    return torch.autocast("cpu", dtype=torch.bfloat16)(
        lambda x, layer: (
            layer(x).dtype,
            F.relu(layer(x)).dtype,
            (F.relu(layer(x)) + x).dtype,
            layer.weight.square().dtype,
            F.mse_loss(layer(x), F.relu(layer(x))).dtype,
            layer.weight.dtype,
            (x.double() @ torch.ones(8, 8, dtype=torch.float64)).dtype,
        )
    )(torch.ones(4, 8), nn.Linear(8, 8))


@exercise.wrong(
    "autocast does not make everything bfloat16. It casts the inputs of the operations on its lists; additions take "
    "the wider dtype, losses run in float32, parameters stay, and float64 is left alone."
)
def everything_down():
    return (torch.bfloat16,) * 7


@exercise.wrong(
    "Nothing has changed here but the float64. `layer(x)` runs in bfloat16 although weights and inputs are float32: "
    "that is what autocast is for."
)
def nothing_cast():
    return (*(torch.float32,) * 6, torch.float64)


@exercise.wrong(
    "Only `a` is bfloat16 here. ReLU is on neither list, so it takes what comes, and what comes is bfloat16."
)
def back_to_float32_at_once():
    return (torch.bfloat16, *(torch.float32,) * 5, torch.float64)


@exercise.wrong(
    "`c` adds a bfloat16 and a float32 tensor. Addition is on no list, and type promotion (lesson 01) takes the wider "
    "of the two: a residual path in float32 stays float32."
)
def sums_go_down():
    return (torch.bfloat16, torch.bfloat16, torch.bfloat16, *(torch.float32,) * 3, torch.float64)


@exercise.wrong(
    "The weights are not bfloat16: autocast casts a copy for the matrix product. The parameter, its square and its "
    "gradient stay float32, and the optimizer works on those."
)
def weights_are_cast():
    return (*(torch.bfloat16,) * 2, torch.float32, torch.bfloat16, torch.float32, torch.bfloat16, torch.float64)


@exercise.wrong("`e` is a loss. Losses are on the float32 list: their inputs are cast up first.")
def loss_stays_down():
    return (*(torch.bfloat16,) * 2, torch.float32, torch.float32, torch.bfloat16, torch.float32, torch.float64)


@exercise.wrong("`g` is a matrix product of float64. autocast leaves float64 alone: it runs as it would without.")
def float64_goes_down():
    return (*(torch.bfloat16,) * 2, *(torch.float32,) * 4, torch.bfloat16)

"""Lesson 06: a report of a regression that predicts the mean."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, curve, network

exercise = Exercise(
    "clinic.column_and_row",
    title="Report 8: it predicts the mean",
    task="""
A smooth function of three numbers, with hardly any noise. *"The loss goes to the variance of the target and stays:
the network says 0 for everything."*

`predicts_the_mean()` returns the setup as it was sent in. The loss stays the mean squared error, over the batch.
"""
    + _ward.RULES,
    hints=(
        "Print the shapes of `prediction`, `target` and their difference for one batch.",
        "(32, 1) minus (32,) is (32, 32): every prediction against every target. Bring both to one shape first.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def predicts_the_mean() -> dict[str, Any]:
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return ((prediction - target) ** 2).mean()

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.reference
def one_axis_each():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return ((prediction.squeeze(1) - target) ** 2).mean()

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.alternative
def a_column_of_targets():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return ((prediction - target[:, None]) ** 2).mean()

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.alternative
def by_the_function():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return F.mse_loss(prediction.flatten(), target)

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.alternative
def like_the_prediction():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return F.mse_loss(prediction, target.view_as(prediction))

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "`mse_loss` broadcasts just as the minus does. It warns, at least: the warning was the message.",
    fault="broadcast-outer-product",
)
def function_of_torch():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return F.mse_loss(prediction, target)

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "(1, 32) in place of (32,): broadcasting adds that axis anyway, and the difference is (32, 32) as before.",
    fault="broadcast-outer-product",
)
def a_row_of_targets():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return ((prediction - target[None]) ** 2).mean()

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "Both are averaged before they are compared. The loss falls to 0, and asks only that the mean of the batch is "
    "right.",
)
def mean_first():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return (prediction.mean() - target.mean()) ** 2

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The shapes fit now, and the loss is the absolute error. The task keeps the squared one.",
)
def absolute_error():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return (prediction.squeeze(1) - target).abs().mean()

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The shapes fit now, and the loss is a sum: 32 times as large, and with it the gradient. The task keeps the mean.",
)
def summed():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return ((prediction.squeeze(1) - target) ** 2).sum()

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The shapes fit now, and the loss is the root of the mean. It has its minimum at the same place and other "
    "gradients on the way. The task keeps the mean itself.",
)
def root_of_the_mean():
    x, y = curve()
    model = network(3, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(prediction, target):
        return ((prediction.squeeze(1) - target) ** 2).mean().sqrt()

    return {"model": model, "loader": batches(x, y), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.2)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)


@exercise.probe
def the_first_loss(answer):
    return _ward.first_loss(answer)

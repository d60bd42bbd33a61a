"""Lesson 06: a report of first layers that stay as they were."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, network, rings

exercise = Exercise(
    "clinic.deep_sigmoid",
    title="Report 6: deep, and worse than shallow",
    task="""
Ten layers, sigmoid between them, as in the book from 1995. *"With two layers it learnt the rings. With ten it learns
nothing."*

`first_layers_rest()` returns the setup as it was sent in. The ten layers and their widths stay.
"""
    + _ward.RULES,
    hints=(
        "Compare the norm of each layer's gradient with the norm of its weight, from the last layer to the first.",
        "The slope of a sigmoid is at most 1/4, and the gradient passes nine of them. Which activation has slope 1 "
        "where it is on?",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def first_layers_rest() -> dict[str, Any]:
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.Sigmoid)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def rectified():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.ReLU)
    for layer in model[::2]:
        nn.init.kaiming_normal_(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def leaking():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.LeakyReLU)
    for layer in model[::2]:
        nn.init.kaiming_normal_(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def rectified_alone():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.ReLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def hyperbolic():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.Tanh)
    for layer in model[::2]:
        nn.init.xavier_normal_(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The rate is higher. It multiplies all gradients alike: those of the last layers become too large, those of "
    "the first are still nothing.",
    fault="vanishing-gradient",
)
def higher_rate():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.Sigmoid)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The gradient still passes nine slopes of at most 1/4. An initialisation that keeps the scale of a linear layer "
    "does not make up for them.",
    fault="vanishing-gradient",
)
def only_another_start():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.Sigmoid)
    for layer in model[::2]:
        nn.init.xavier_normal_(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "Two layers learn it, but the report is about ten: the layers were to stay.",
)
def two_layers():
    points, numbers = rings()
    model = network(2, 24, 2, activation=nn.ReLU)
    for layer in model[::2]:
        nn.init.kaiming_normal_(layer.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "ReLU has slope 1, but the weights are so small that the signal shrinks with each layer all the same. An "
    "initialisation has to keep the scale.",
    fault="vanishing-gradient",
)
def rectified_small_start():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.ReLU)
    for layer in model[::2]:
        nn.init.normal_(layer.weight, std=0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "Without an activation nothing shrinks, and ten linear layers are one: no straight line parts two rings.",
)
def no_activation():
    points, numbers = rings()
    model = network(2, *[24] * 9, 2, activation=nn.Identity)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.6)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)


@exercise.probe
def the_weights_have_a_scale(answer):
    return _ward.admitted(answer)["model"][2].weight.std().item() > 0.05


@exercise.probe
def it_is_more_than_one_linear_layer(answer):
    model = _ward.admitted(answer)["model"].double().eval()
    generator = torch.Generator().manual_seed(0)
    one, two = 3 * torch.randn(2, 64, 2, generator=generator, dtype=torch.double)
    with torch.no_grad():
        zero = model(torch.zeros_like(one))
        bend = model(one + two) - model(one) - model(two) + zero
        return bool(bend.norm() > 1e-6 * (model(one) - zero).norm())

"""Lesson 06: a report of 32 units that work as one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, network, rings

exercise = Exercise(
    "clinic.equal_weights",
    title="Report 5: 32 units that work as one",
    task="""
The two rings again, one hidden layer of 32 units. *"I made it 320 units wide, then 3200. It is as if the width did
not matter."*

`units_alike()` returns the setup as it was sent in.
"""
    + _ward.RULES,
    hints=(
        "Look at the rows of the first weight, before training and after a few steps.",
        "Equal units get equal gradients, and stay equal. What makes units different at the start?",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def units_alike() -> dict[str, Any]:
    points, numbers = rings()
    model = network(2, 32, 2)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def random_weights():
    points, numbers = rings()
    model = network(2, 32, 2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def as_torch_does():
    points, numbers = rings()
    model = network(2, 32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def matrices_by_kaiming():
    points, numbers = rings()
    model = network(2, 32, 2)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.kaiming_normal_(parameter)
        else:
            nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "Zeros are equal too, and worse: with both weights 0 no gradient passes from the last layer to the first.",
    fault="symmetric-init",
)
def all_zero():
    points, numbers = rings()
    model = network(2, 32, 2)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "Another constant. Whatever it is, all units start alike, get the same gradient and stay alike.",
    fault="symmetric-init",
)
def another_constant():
    points, numbers = rings()
    model = network(2, 32, 2)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def random_biases():
    points, numbers = rings()
    model = network(2, 32, 2)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, std=0.5)
        else:
            nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The layer is wider, and all units are alike as before: 256 copies of one unit can do what one can.",
    fault="symmetric-init",
)
def more_units():
    points, numbers = rings()
    model = network(2, 256, 2)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The units differ, and the weights are a hundred times too large: the first loss is in the thousands. Random "
    "is not enough, the scale counts too.",
)
def huge_weights():
    points, numbers = rings()
    model = network(2, 32, 2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=50.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.35)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)


@exercise.probe
def the_first_loss_is_near_chance(answer):
    return _ward.first_loss(answer) < 2


@exercise.probe
def after_twenty_steps(answer):
    setup = _ward.admitted(answer)
    weight = next(setup["model"].parameters())
    before = weight.detach().clone()
    _ward.losses(setup, 20)
    different = len(torch.unique(weight.detach(), dim=0))
    return {"the first layer moved": not torch.equal(before, weight), "most units differ": different > 16}

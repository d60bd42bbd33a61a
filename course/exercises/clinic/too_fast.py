"""Lesson 06: a report of a loss that grows."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, network, three_groups

exercise = Exercise(
    "clinic.too_fast",
    title="Report 12: the loss grows",
    task="""
*"I took the learning rate from a paper: 30. They used it for a language model, with clipping. My loss starts at 1.1
and goes to thousands."*

`loss_grows()` returns the setup as it was sent in. Keep SGD with its momentum; the rate is yours to choose. In 60
steps the loss has to be clearly smaller.
"""
    + _ward.RULES,
    hints=(
        "Try the rate divided by ten, again and again, on one batch. When does the loss fall?",
        "Between what explodes and what does not move lie several powers of ten. The fastest rate that is still "
        "calm is the one you want.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def loss_grows() -> dict[str, Any]:
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0, momentum=0.9)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def a_tenth():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def a_bit_less():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def a_bit_more():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The loss is calm because nothing moves: at this rate 60 steps change the sixth digit.",
    fault="learning-rate-too-low",
)
def far_too_small():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7, momentum=0.9)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "A third of the rate is still hundreds of times too high. Rates are searched in powers of ten.",
    fault="learning-rate-too-high",
)
def still_too_high():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0, momentum=0.9)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The momentum is gone. That makes the effective rate ten times smaller, and it was to stay.",
)
def without_momentum():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "Another optimizer hides the question: its rate means something else. Keep SGD and choose the rate.",
)
def adam():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The loss is divided, and the rate is as it was. With SGD that is the same step, but every printed loss is "
    "now wrong by that factor.",
)
def loss_divided():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0, momentum=0.9)

    def loss_fn(logits, targets):
        return F.cross_entropy(logits, targets) / 600

    return {"model": model, "loader": batches(points, groups), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    parts = _ward.described(answer)
    parts["settings"].pop("lr")
    return parts


@exercise.probe
def the_first_loss(answer):
    return _ward.first_loss(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.4)


@exercise.probe
def the_loss_grows(answer):
    return max(_ward.losses(_ward.admitted(answer), 60)) > 20


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)

"""Lesson 06: a report of a new head that does not learn."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, network, three_groups

exercise = Exercise(
    "clinic.new_head",
    title="Report 10: the new head does not learn",
    task="""
A network for five classes gets a head for three; its first layer is frozen. *"The loss is the same in every epoch, to
the last digit."*

`head_rests()` returns the setup as it was sent in. The first layer stays frozen.
"""
    + _ward.RULES,
    hints=(
        "Optimisation last: which tensors does the optimizer hold, and which has the model now?",
        "The optimizer was given the parameters that existed then. Look at the order of two lines.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def head_rests() -> dict[str, Any]:
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(32, 3)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def optimizer_last():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    model[2] = nn.Linear(32, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def head_alone():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    model[2] = nn.Linear(32, 3)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def what_is_trainable():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[2] = nn.Linear(32, 3)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def another_group():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(32, 3)
    optimizer.add_param_group({"params": list(model[2].parameters())})
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The first layer is thawed and learns, which was not asked for; the head is still unknown to the optimizer "
    "and stays random.",
    fault="optimizer-misses-parameters",
)
def thawed():
    points, groups = three_groups()
    model = network(4, 32, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(32, 3)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The head learns now, and so does the first layer: the line that freezes it is gone.",
)
def thawed_with_the_head():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[2] = nn.Linear(32, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The rate is a hundred times higher. It multiplies the step of parameters that the optimizer holds, and the "
    "head is not one of them.",
    fault="optimizer-misses-parameters",
)
def higher_rate():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    model[2] = nn.Linear(32, 3)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "`requires_grad` and the mode of the head were right already. It gets its gradient; nobody uses it.",
    fault="optimizer-misses-parameters",
)
def set_to_train_again():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(32, 3)
    model[2].requires_grad_(True)
    model[2].train()
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The optimizer holds the weight of the head and not its bias.",
    fault="optimizer-misses-parameters",
)
def weight_alone():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    model[2] = nn.Linear(32, 3)
    optimizer = torch.optim.SGD([model[2].weight], lr=0.1)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The order is right, and now the head is frozen as well: backward has nothing to reach.",
)
def everything_frozen():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[2] = nn.Linear(32, 3)
    model.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The head has a rate of its own, five times as high. The settings of the optimizer were sound: they hold for each "
    "of its groups.",
)
def two_rates():
    points, groups = three_groups()
    model = network(4, 32, 5)
    model[0].requires_grad_(False)
    model[2] = nn.Linear(32, 3)
    parts = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.5}]
    optimizer = torch.optim.SGD(parts, lr=0.1)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.4)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)

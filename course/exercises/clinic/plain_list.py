"""Lesson 06: a report of layers that never change."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, rings

exercise = Exercise(
    "clinic.plain_list",
    title="Report 4: the hidden layers never change",
    task="""
Two rings, one inside the other: a linear layer alone cannot part them. *"The network has four layers, and it behaves
as if it had one."*

`hidden_layers_rest()` returns the setup as it was sent in.
"""
    + _ward.RULES,
    hints=(
        "Model next: how many parameters should it have, and how many does `model.parameters()` give?",
        "A module looks for layers among its attributes, not inside a Python list. torch.nn has a list that it "
        "looks into.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def hidden_layers_rest() -> dict[str, Any]:
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24)]
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def module_list():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.ModuleList([nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24)])
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def in_sequence():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Sequential(nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24))
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def registered_by_name():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24)]
            for number, layer in enumerate(self.hidden):
                self.add_module(f"hidden_{number}", layer)
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def last_layer_first():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(24, 2)
            self.hidden = nn.ModuleList([nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24)])

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "A tuple is no better than a list: neither is a module, so nothing in it is registered.",
    fault="unregistered-submodule",
)
def in_a_tuple():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = (nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24))
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "One of the three layers is registered by a name of its own. The others are still in the list alone, and rest.",
    fault="unregistered-submodule",
)
def only_the_first():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24)]
            self.first = self.hidden[0]
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The optimizer gets the hidden layers, the model still does not know them. They train, and then `to`, "
    "`state_dict` and `zero_grad` of the model pass them by: a saved model loses them.",
    fault="unregistered-submodule",
)
def given_to_the_optimizer_alone():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(2, 24), nn.Linear(24, 24), nn.Linear(24, 24)]
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    known = [*model.parameters(), *(p for layer in model.hidden for p in layer.parameters())]
    optimizer = torch.optim.Adam(known, lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The list is a module now, and holds one layer twice: `* 2` repeats the object. Two stages share one weight.",
    fault="shared-by-list-multiplication",
)
def one_layer_twice():
    points, numbers = rings()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.ModuleList([nn.Linear(2, 24)] + [nn.Linear(24, 24)] * 2)
            self.last = nn.Linear(24, 2)

        def forward(self, x):
            for layer in self.hidden:
                x = torch.tanh(layer(x))
            return self.last(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, numbers), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.25)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)

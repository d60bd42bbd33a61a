"""Lesson 06: a report of a loss with a floor."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, three_groups

exercise = Exercise(
    "clinic.softmax_twice",
    title="Report 7: the loss stops at 0.55",
    task="""
Three classes, far apart. *"The accuracy is near 100 %, the loss goes down to 0.6 and not one bit further. More
epochs, more layers: 0.55 is the end."*

`loss_has_a_floor()` returns the setup as it was sent in. The loss has to be that of `cross_entropy` on logits.
"""
    + _ward.RULES,
    hints=(
        "What does the loss expect of its first argument, and what does the network return?",
        "`cross_entropy` takes logits: it has a softmax in it. The network brings another one.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def loss_has_a_floor() -> dict[str, Any]:
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def logits():
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def log_probabilities():
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.LogSoftmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.nll_loss, "optimizer": optimizer}


@exercise.wrong(
    "`nll_loss` takes log-probabilities and computes no logarithm itself. Given probabilities it is negative, and "
    "pushes least where the network is most wrong.",
    fault="nll-without-log",
)
def likelihood_without_logarithm():
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.nll_loss, "optimizer": optimizer}


@exercise.wrong(
    "The squared error of probabilities has no floor, and hardly a slope either where the network is sure and "
    "wrong. It is another loss than the report asks for.",
    fault="mse-on-probabilities",
)
def squared_error():
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(probabilities, targets):
        return F.mse_loss(probabilities, F.one_hot(targets, 3).float())

    return {"model": model, "loader": batches(points, groups), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "Sigmoid in place of softmax: logits between 0 and 1 again. Any squashing before `cross_entropy` gives the "
    "loss a floor.",
    fault="double-softmax",
)
def sigmoid_at_the_end():
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The softmax runs over the batch now, so each answer depends on what else is in the batch, and "
    "`cross_entropy` still gets probabilities.",
    fault="argmax-wrong-axis",
)
def softmax_over_the_batch():
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The floor is subtracted. The curve now ends near 0, and the gradients are the same to the last bit.",
    fault="double-softmax",
)
def loss_shifted():
    points, groups = three_groups()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(probabilities, targets):
        return F.cross_entropy(probabilities, targets) - 0.55

    return {"model": model, "loader": batches(points, groups), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "Logits in training, and in eval the softmax is back: every loss that is measured in eval has two of them, and "
    "the floor. Return logits in both modes.",
    fault="double-softmax",
)
def softmax_in_eval():
    points, groups = three_groups()

    class Net(nn.Sequential):
        def forward(self, x):
            logits = super().forward(x)
            return logits if self.training else logits.softmax(1)

    model = Net(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.3)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)


@exercise.probe
def the_first_loss(answer):
    return _ward.first_loss(answer)

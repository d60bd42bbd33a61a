"""Lesson 06: a report of a loss that becomes NaN when the network is sure."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, three_groups

exercise = Exercise(
    "clinic.own_logarithm",
    title="Report 9: NaN as soon as it is sure",
    task="""
Group 0 or not: a loss written by hand from the formula, and inputs that make the network sure early. *"It is `nan`
after the first steps. With inputs a hundred times smaller it runs, for a while."*

`nan_when_sure()` returns the setup as it was sent in. The loss stays the mean binary cross-entropy.
"""
    + _ward.RULES,
    hints=(
        "Which of the two logarithms is of 0 when p is exactly 1? What is 0 times that?",
        "Leave the logarithm to a function of torch that takes logits. A safe logarithm of p is not enough: the "
        "sigmoid is saturated where p is near 0 or 1, and a p of exactly 1 has no slope to learn from.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def nan_when_sure() -> dict[str, Any]:
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(p, mark):
        return -(mark * torch.log(p) + (1 - mark) * torch.log(1 - p)).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.reference
def from_logits():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(z, mark):
        return F.binary_cross_entropy_with_logits(z, mark)

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.alternative
def two_softplus():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(z, mark):
        return (F.softplus(z) - mark * z).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.alternative
def log_sigmoid():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(z, mark):
        return -(mark * F.logsigmoid(z) + (1 - mark) * F.logsigmoid(-z)).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "`nan_to_num` mends the value of the loss. The gradient of `log` at 0 is infinite as before, and infinity "
    "times 0 is NaN: the weights are lost, and the mended loss shows 0.",
    fault="log-of-zero",
)
def nan_replaced():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(p, mark):
        return -torch.nan_to_num(mark * torch.log(p) + (1 - mark) * torch.log(1 - p)).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The sigmoid is gone, and the formula takes the logarithm of logits, half of which are negative: NaN from the "
    "first step.",
    fault="log-of-zero",
)
def logits_in_the_formula():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(z, mark):
        return -(mark * torch.log(z) + (1 - mark) * torch.log(1 - z)).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The right function, and the sigmoid is still in the network: it is applied twice, and no answer can be sure.",
    fault="double-sigmoid",
)
def sigmoid_and_logits():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(p, mark):
        return F.binary_cross_entropy_with_logits(p, mark)

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "One of the two logarithms is safe. The other is of 0 when p is exactly 1.",
    fault="log-of-zero",
)
def one_side_only():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(p, mark):
        return -(mark * torch.log(p.clamp(min=1e-6)) + (1 - mark) * torch.log(1 - p)).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "A smaller rate, and the logarithm of 0 is there before the first step: some inputs already give exactly 0 or 1.",
    fault="log-of-zero",
)
def smaller_rate():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def loss_fn(p, mark):
        return -(mark * torch.log(p) + (1 - mark) * torch.log(1 - p)).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The NaN is gone: this function stops its logarithm at -100. The sigmoid before it is saturated all the same, and "
    "a p of exactly 1 that should be 0 gets no gradient. Logits are not rounded to 0 or 1.",
    fault="dead-activation",
)
def function_of_probabilities():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(p, mark):
        return F.binary_cross_entropy(p, mark)

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The NaN is gone. `clamp` gives no gradient to the p that it moves: many of the samples that are wrong, and the "
    "worst of them, teach nothing. From logits each of them does.",
    fault="dead-activation",
)
def kept_from_the_ends():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(p, mark):
        p = p.clamp(1e-7, 1 - 1e-7)
        return -(mark * torch.log(p) + (1 - mark) * torch.log(1 - p)).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "`clamp` after the logarithm bounds the loss and not the gradient: its own is 0 there, that of `log` at 0 is "
    "infinite, and 0 times infinity is NaN.",
    fault="log-of-zero",
)
def clamped_after_the_logarithm():
    points, groups = three_groups()
    points, marks = 10 * points, (groups == 0).float()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    nn.init.normal_(model[2].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(p, mark):
        log_p, log_rest = torch.log(p).clamp(min=-100), torch.log(1 - p).clamp(min=-100)
        return -(mark * log_p + (1 - mark) * log_rest).mean()

    return {"model": model, "loader": batches(points, marks), "loss_fn": loss_fn, "optimizer": optimizer}


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


@exercise.probe
def wrong_samples_with_a_gradient(answer):
    setup = _ward.admitted(answer)
    wrong = taught = 0
    for point, mark in zip(*_ward.samples(setup), strict=True):
        pair = torch.stack([point, point]).requires_grad_()  # a pair, as some repairs squeeze
        loss = setup["loss_fn"](setup["model"](pair), torch.stack([mark, mark]))
        if loss > 0.7:  # the logarithm of 2: the wrong side of one half
            wrong += 1
            taught += bool(torch.autograd.grad(loss, pair)[0].abs().max() > 0.01)
    return "all" if taught == wrong else "nearly all" if taught > 0.9 * wrong else "not all"

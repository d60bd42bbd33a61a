"""Lesson 06: a report of a model that stays equal to the last bit."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, network, three_groups

exercise = Exercise(
    "clinic.never_steps",
    title="Report 11: nothing moves",
    task="""
The gradients of four batches are added before each step: the memory does not suffice for one large batch. *"The
gradients are fine, I have printed them. The weights do not move."*

`nothing_moves()` returns the setup as it was sent in: `step(batch)`, which returns the loss as a number, in place of
a loss function. The weights are to move after every fourth batch.
"""
    + _ward.RULES,
    hints=(
        "Count how often the optimizer steps in 20 batches.",
        "The condition asks for a number that never changes. Who counts the batches?",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def nothing_moves() -> dict[str, Any]:
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    done = 0

    def step(batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        if done % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.reference
def counted():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    done = 0

    def step(batch):
        nonlocal done
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        if done % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        done += 1
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.alternative
def counted_before():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    done = 0

    def step(batch):
        nonlocal done
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        done += 1
        if done % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.alternative
def set_back():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    done = 0

    def step(batch):
        nonlocal done
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        done += 1
        if done == 4:
            optimizer.step()
            optimizer.zero_grad()
            done = 0
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.wrong(
    "The condition is gone: a step after every batch, with a quarter of its gradient. The memory was saved by "
    "adding four.",
)
def every_batch():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step(batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.wrong(
    "The gradients are never cleared, so each step follows the sum of all batches since the start.",
    fault="missing-zero-grad",
)
def never_cleared():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    done = 0

    def step(batch):
        nonlocal done
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        if done % 4 == 3:
            optimizer.step()
        done += 1
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.wrong(
    "The loss is no longer divided by four, so the gradient is the sum over four batches: the rate is four times "
    "what it says.",
    fault="accumulation-not-scaled",
)
def not_divided():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    done = 0

    def step(batch):
        nonlocal done
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss).backward()
        if done % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        done += 1
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.wrong(
    "Counting from 0, this steps after the first batch, the fifth, the ninth: the first step has one batch, with "
    "a quarter of its weight.",
)
def first_batch_too():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    done = 0

    def step(batch):
        nonlocal done
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        if done % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        done += 1
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.wrong(
    "The rate is a hundred times higher. A step that is never called does not care.",
    fault="step-missing",
)
def larger_rate():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=50.0)
    done = 0

    def step(batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        if done % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return {"model": model, "loader": batches(points, groups, 16), "optimizer": optimizer, "step": step}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def after_which_batches_the_weights_move(answer):
    setup = _ward.admitted(answer)
    weight, moved = setup["model"][0].weight, []
    for number, batch in zip(range(1, 13), _ward.stream(setup["loader"]), strict=False):
        before = weight.detach().clone()
        setup["step"](batch)
        if not torch.equal(before, weight):
            moved.append(number)
    return moved


@exercise.probe
def the_losses_of_twenty_batches(answer):
    return _ward.losses(_ward.admitted(answer), 20)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.4, steps=120)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)

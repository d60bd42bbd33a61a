"""Lesson 06: a report of a loss that is NaN from the first step on."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, gauges, network

exercise = Exercise(
    "clinic.dead_gauge",
    title="Report 1: NaN from the first step",
    task="""
Five gauges of a machine, three states to tell apart. *"The loss is `nan`, and I have tried three learning rates."*

`loss_is_nan()` returns the setup as it was sent in. The fourth gauge is broken and always shows 20. It stays an
input, with the value 0 after standardising: next month it works again.
"""
    + _ward.RULES,
    hints=(
        "Data first: ask `torch.isfinite` of what the loader gives. Which column is to blame, and which line made it?",
        "The deviation of a constant column is 0, and so is what it divides. Keep the divisor away from 0.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def loss_is_nan() -> dict[str, Any]:
    readings, states = gauges()
    readings = (readings - readings.mean(0)) / readings.std(0)
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def least_divisor():
    readings, states = gauges()
    readings = (readings - readings.mean(0)) / readings.std(0).clamp(min=1e-6)
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def small_addend():
    readings, states = gauges()
    readings = (readings - readings.mean(0)) / (readings.std(0) + 1e-7)
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def quotient_mended():
    readings, states = gauges()
    readings = torch.nan_to_num((readings - readings.mean(0)) / readings.std(0))
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The readings are searched for NaN before they are standardised. They have none: the division makes them.",
    fault="nonfinite-data",
)
def mended_too_early():
    readings, states = gauges()
    readings = torch.nan_to_num(readings)
    readings = (readings - readings.mean(0)) / readings.std(0)
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The learning rate is smaller, and the loss is NaN all the same: it is so before the first step. A rate can only "
    "be at fault for what comes after a step."
)
def smaller_rate():
    readings, states = gauges()
    readings = (readings - readings.mean(0)) / readings.std(0)
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The loss is mended instead of the data. It shows 0 now, and its gradient is 0 or NaN: the symptom is gone, and "
    "nothing is learnt."
)
def loss_mended():
    readings, states = gauges()
    readings = (readings - readings.mean(0)) / readings.std(0)
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss_fn(logits, targets):
        return torch.nan_to_num(F.cross_entropy(logits, targets))

    return {"model": model, "loader": batches(readings, states), "loss_fn": loss_fn, "optimizer": optimizer}


@exercise.wrong(
    "The addend is as large as the deviations themselves, so every gauge has another scale than 1. It has to be small "
    "beside them: it is there for the divisor 0 alone.",
    fault="unnormalised-inputs",
)
def large_addend():
    readings, states = gauges()
    readings = (readings - readings.mean(0)) / (readings.std(0) + 1)
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The readings are not standardised any more. There is no NaN, and there are gauges from -50 to 20 beside one from "
    "0 to 2: no rate suits all of them.",
    fault="unnormalised-inputs",
)
def not_standardised():
    readings, states = gauges()
    model = network(5, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The broken gauge is dropped, and the network has four inputs. That trains; the task wants all five, for the gauge "
    "will be repaired and the network with it."
)
def gauge_dropped():
    readings, states = gauges()
    readings = readings[:, [0, 1, 2, 4]]
    readings = (readings - readings.mean(0)) / readings.std(0)
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(readings, states), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.probe
def what_was_sound(answer):
    return _ward.described(answer)


@exercise.probe
def the_loss_falls(answer):
    return _ward.falls(answer, to=0.3)


@exercise.probe
def the_first_loss(answer):
    return _ward.first_loss(answer)


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)

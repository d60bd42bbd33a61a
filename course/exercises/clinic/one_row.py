"""Lesson 06: a report of a network that gives the same answer to everything."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, network, three_groups

exercise = Exercise(
    "clinic.one_row",
    title="Report 3: the same answer to everything",
    task="""
A reader fills a buffer with one row after the other and collects the rows. *"The loss goes to about 1.1 and stays
there. Whatever I show it, the network gives the same three numbers."*

`same_answer_for_all()` returns the setup as it was sent in. The loop stands for a real reader, which decodes each row
into a buffer.
"""
    + _ward.RULES,
    hints=(
        "Print two samples of the dataset, the first and the last.",
        "A list holds references. `rows` holds one tensor many times, and `copy_` writes into that one. Collect "
        "something of its own for each row.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def same_answer_for_all() -> dict[str, Any]:
    points, groups = three_groups()
    row, rows = torch.empty(4), []
    for point in points:
        row.copy_(point)
        rows.append(row)
    points = torch.stack(rows)
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def copy_of_the_row():
    points, groups = three_groups()
    row, rows = torch.empty(4), []
    for point in points:
        row.copy_(point)
        rows.append(row.clone())
    points = torch.stack(rows)
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def numbers_of_the_row():
    points, groups = three_groups()
    row, rows = torch.empty(4), []
    for point in points:
        row.copy_(point)
        rows.append(row.tolist())
    points = torch.tensor(rows)
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def new_buffer_each_time():
    points, groups = three_groups()
    rows = []
    for point in points:
        row = torch.empty(4)
        row.copy_(point)
        rows.append(row)
    points = torch.stack(rows)
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "`detach` cuts the graph and shares the memory: every entry is still a view of the one buffer.",
    fault="duplicate-samples",
)
def detached_rows():
    points, groups = three_groups()
    row, rows = torch.empty(4), []
    for point in points:
        row.copy_(point)
        rows.append(row.detach())
    points = torch.stack(rows)
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The network has one layer more. It gets the same row 192 times, as before, and no network can answer one "
    "question in three ways.",
    fault="duplicate-samples",
)
def deeper_network():
    points, groups = three_groups()
    row, rows = torch.empty(4), []
    for point in points:
        row.copy_(point)
        rows.append(row)
    points = torch.stack(rows)
    model = network(4, 16, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The rows are copies now, and then they are put into another order than their labels.",
    fault="label-misaligned",
)
def one_of_each_group():
    points, groups = three_groups()
    row, rows = torch.empty(4), []
    for point in points:
        row.copy_(point)
        rows.append(row.clone())
    points = torch.stack(rows)[groups.argsort()]
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "Every row is a tensor of its own, and has noise that was not in the data. The samples are to stay what was read.",
)
def some_noise():
    points, groups = three_groups()
    row, rows = torch.empty(4), []
    for point in points:
        row.copy_(point)
        rows.append(row + 0.5 * torch.randn(4))
    points = torch.stack(rows)
    model = network(4, 16, 3)
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

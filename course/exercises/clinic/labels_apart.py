"""Lesson 06: a report of a classifier that stays at chance."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from course.checking import Exercise
from course.exercises.clinic import _ward
from course.training.patients import batches, network, three_groups

exercise = Exercise(
    "clinic.labels_apart",
    title="Report 2: chance, epoch after epoch",
    task="""
Points around three centres, far apart. *"I shuffle, I have checked the loss and the network, and the accuracy stays
at a third."*

`stays_at_chance()` returns the setup as it was sent in. This one the doctor cannot see: wrong labels look like hard
data. The check also tries the trained network on new points.
"""
    + _ward.RULES,
    hints=(
        "Look at a few samples: at a point, and at its label. Compare with what `three_groups()` gives.",
        "Each line draws a permutation of its own. Point and label have to travel together.",
    ),
    compare=("value",),
    rtol=2e-3,
    atol=2e-3,
    seconds=30,
)


@exercise.stub
def stays_at_chance() -> dict[str, Any]:
    points, groups = three_groups()
    points = points[torch.randperm(len(points))]
    groups = groups[torch.randperm(len(groups))]
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.reference
def one_permutation():
    points, groups = three_groups()
    order = torch.randperm(len(points))
    points, groups = points[order], groups[order]
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def left_to_the_loader():
    points, groups = three_groups()
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.alternative
def records_together():
    records = list(zip(*three_groups(), strict=True))
    records = [records[i] for i in torch.randperm(len(records)).tolist()]
    points = torch.stack([point for point, _ in records])
    groups = torch.stack([group for _, group in records])
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "Only the labels are left in their order; the points are still permuted. One of the two is enough to part them.",
    fault="label-misaligned",
)
def points_alone():
    points, groups = three_groups()
    points = points[torch.randperm(len(points))]
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The network is larger. It learns some of the points by heart, and new points are still at chance: no network "
    "finds what is not in the data.",
    fault="label-misaligned",
)
def wider_network():
    points, groups = three_groups()
    points = points[torch.randperm(len(points))]
    groups = groups[torch.randperm(len(groups))]
    model = network(4, 128, 128, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The labels are sorted, without their points. Whatever moves one of the two without the other parts them.",
    fault="label-misaligned",
)
def sorted_labels():
    points, groups = three_groups()
    order = torch.randperm(len(points))
    points, groups = points[order], groups[order].sort().values
    model = network(4, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loader": batches(points, groups), "loss_fn": F.cross_entropy, "optimizer": optimizer}


@exercise.wrong(
    "The same permutation, but shifted by one for the labels: every point has the label of its neighbour.",
    fault="label-misaligned",
)
def one_point_late():
    points, groups = three_groups()
    order = torch.randperm(len(points))
    points, groups = points[order], groups[order.roll(1)]
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
def new_points_are_told_apart(answer):
    return _ward.accuracy(answer, *three_groups(300, seed=1), above=0.9)


@exercise.probe
def which_labels_the_points_have(answer):
    points, groups = _ward.samples(_ward.admitted(answer))
    return torch.stack([points[groups == group].mean(0) for group in range(3)])


@exercise.probe
def the_doctor_is_silent(answer):
    return _ward.diagnosis(answer)

"""Learning-rate schedules: faults and their sound neighbours."""

from __future__ import annotations

import pytest
import torch
from doctor.dynamic import loss_of, net, seen, setup
from doctor.made import blobs, loader
from torch.optim import lr_scheduler as lrs

from course.doctor.family_schedule import follow, judge


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def stepped(make, *, first=False, batch_size=4, metric=False):
    """A step that steps the schedule after (or before) the optimizer; 16 batches make an epoch."""
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    schedule = make(opt)

    def step(batch):
        opt.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if first:
            schedule.step()
        opt.step()
        if not first:
            schedule.step(loss.item()) if metric else schedule.step()
        return loss.item()

    data = loader(*blobs(), batch_size=batch_size)
    return setup(step, model, optimizer=opt, scheduler=schedule, loader=data)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lrs.StepLR(o, 3, 0.1),
        lambda o: lrs.MultiStepLR(o, [3, 6, 9], 0.1),
        lambda o: lrs.ExponentialLR(o, 0.8),
        lambda o: lrs.CosineAnnealingLR(o, 5),
        lambda o: lrs.LambdaLR(o, lambda epoch: 0.85**epoch),
        lambda o: lrs.PolynomialLR(o, 6),
        lambda o: lrs.LinearLR(o, 1.0, 0.0, 8),
    ],
)
def test_scheduler_per_batch(make):
    assert seen(stepped(make)) == ["scheduler-per-batch"]


def test_plateau_of_batches():
    assert seen(stepped(lambda o: lrs.ReduceLROnPlateau(o, patience=3), metric=True)) == ["scheduler-per-batch"]
    assert seen(stepped(lambda o: lrs.ReduceLROnPlateau(o, patience=64), metric=True)) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lrs.OneCycleLR(o, 0.1, total_steps=64),
        lambda o: lrs.CosineAnnealingLR(o, 16),
        lambda o: lrs.StepLR(o, 16, 0.1),
        lambda o: lrs.ExponentialLR(o, 0.999),
        lambda o: lrs.LambdaLR(o, lambda step: min(1.0, step / 10)),
        lambda o: lrs.LambdaLR(o, lambda step: min((step + 1) ** -0.5, (step + 1) * 8**-1.5)),
        lambda o: lrs.CyclicLR(o, 1e-3, 0.1, step_size_up=8),
        lambda o: lrs.SequentialLR(o, [lrs.LinearLR(o, 0.01, total_iters=4), lrs.CosineAnnealingLR(o, 60)], [4]),
        lambda o: lrs.ConstantLR(o, 0.3, 4),
    ],
)
def test_schedules_of_steps_are_sound(make):
    assert seen(stepped(make)) == []


@pytest.mark.parametrize("make", [lambda o: lrs.StepLR(o, 64, 0.1), lambda o: lrs.LambdaLR(o, lambda s: 1 / (1 + s))])
def test_scheduler_before_optimizer(make):
    assert seen(stepped(make, first=True)) == ["scheduler-before-optimizer"]
    assert seen(stepped(make)) == []


def test_once_an_epoch_is_sound():
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    schedule = lrs.StepLR(opt, 2, 0.1)
    count = 0

    def step(batch):
        nonlocal count
        opt.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        opt.step()
        count += 1
        if count % 4 == 0:
            schedule.step()
        return loss.item()

    assert seen(setup(step, model, optimizer=opt)) == []


def test_following_changes_nothing():
    opt = torch.optim.SGD(net().parameters(), lr=0.1)
    schedule = lrs.CosineAnnealingLR(opt, 10)
    before = schedule.state_dict(), opt.state_dict()["param_groups"]
    rates = follow(schedule, 12)
    assert rates[0] == 0.1
    assert rates[10] == pytest.approx(0, abs=1e-9)
    assert (schedule.state_dict(), opt.state_dict()["param_groups"]) == before


def test_judging_needs_the_end_within_an_epoch():
    falling = [0.1 * (1 - i / 20) for i in range(21)]
    assert judge(falling, 100, epochwise=False)
    assert judge(falling, 20, epochwise=False) is None

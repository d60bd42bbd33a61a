"""What the catalogue says of speed and measuring, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import importlib
import inspect
import statistics
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from course.data import random_crop_flip
from course.faults import FAULTS
from course.training.made_up import MadeUpDevice, made_up_steps
from course.training.profiling import operations

IMAGES = torch.arange(8 * 3 * 6 * 6, dtype=torch.float32).reshape(8, 3, 6, 6)
FETCH = "aten._local_scalar_dense"


def timed(*, waits: bool, warm: bool) -> list[int]:
    """The times of five launches of 800 on a made-up device."""
    device, times = MadeUpDevice(), []
    if warm:
        device.launch(0)
    for _ in range(5):
        device.synchronise()
        start = device.now
        device.launch(800)
        if waits:
            device.synchronise()
        times.append(device.now - start)
    return times


def all_alike(augment: Callable) -> bool:
    torch.manual_seed(0)
    batch = augment(IMAGES[:1].expand(64, -1, -1, -1))
    return bool((batch == batch[:1]).all())


def by_torchvision(batch):
    from torchvision import transforms

    return transforms.Compose([transforms.RandomCrop(6, padding=2), transforms.RandomHorizontalFlip()])(batch)


def one_draw_an_image(batch):
    return torch.where((torch.rand(len(batch)) < 0.5)[:, None, None, None], batch.flip(-1), batch)


def grows(call: Callable) -> bool:
    return operations(lambda: call(IMAGES)).total() > operations(lambda: call(IMAGES[:4])).total()


def fetched(call: Callable) -> int:
    loss = torch.tensor(2.0, requires_grad=True) * 3
    return operations(lambda: call(loss))[FETCH]


def gradient(*, checkpointed: bool, **options) -> torch.Tensor:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5))
    x = torch.ones(4, 32)
    torch.manual_seed(1)
    y = checkpoint(block, x, use_reentrant=False, **options) if checkpointed else block(x)
    y.square().sum().backward()
    return block[0].weight.grad


def loss_after_an_epoch(batch_size: int, rate: float, *, adam: bool = False) -> float:
    points = torch.randn(256, 2, generator=torch.Generator().manual_seed(0))
    goal, weights = torch.tensor([2.0, -1.0]), torch.zeros(2, requires_grad=True)
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)([weights], lr=rate)
    for part in points.split(batch_size):
        optimizer.zero_grad()
        F.mse_loss(part @ weights, part @ goal).backward()
        optimizer.step()
    return F.mse_loss(points @ weights, points @ goal).item()


FACTS: dict[str, list[Callable[[], bool]]] = {
    "clock-without-synchronise": [
        lambda: statistics.median(timed(waits=False, warm=True)) == 10,
        lambda: statistics.median(timed(waits=True, warm=True)) == 810,
        lambda: callable(torch.accelerator.synchronize) and callable(torch.cuda.synchronize),
        lambda: "synchronize" in inspect.getsource(importlib.import_module("torch.utils.benchmark.utils.timer")),
    ],
    "warm-up-timed": [
        lambda: statistics.mean(timed(waits=True, warm=False)) == 1810,
        lambda: statistics.median(timed(waits=True, warm=False)) == 810,
        lambda: set(timed(waits=True, warm=True)) == {810},
    ],
    "one-draw-for-the-batch": [
        lambda: all_alike(by_torchvision),
        lambda: not all_alike(random_crop_flip),
        lambda: not all_alike(one_draw_an_image),
    ],
    "python-loop-over-images": [
        lambda: grows(lambda images: torch.stack([image.flip(-1) for image in images])),
        lambda: not grows(lambda images: images.flip(-1)),
        lambda: not grows(torch.vmap(lambda image: image.flip(-1))),
        lambda: not grows(random_crop_flip),
    ],
    "item-in-the-loop": [
        lambda: fetched(lambda loss: loss.item()) == 1,
        lambda: fetched(lambda loss: loss.detach().cpu().item()) == 1,
        lambda: fetched(lambda loss: bool(loss.detach() > 1)) == 1,
        lambda: fetched(lambda loss: f"{loss.detach()}") >= 1,
        lambda: fetched(lambda loss: torch.zeros(()) + loss.detach() * 64) == 0,
        lambda: made_up_steps(9, python=30, work=50, waits=True)[0] > made_up_steps(9, python=30, work=50)[0],
        lambda: callable(torch.cuda.set_sync_debug_mode),
    ],
    "checkpointed-dropout-redrawn": [
        lambda: torch.equal(gradient(checkpointed=True), gradient(checkpointed=False)),
        lambda: not torch.equal(gradient(checkpointed=True, preserve_rng_state=False), gradient(checkpointed=False)),
    ],
    "learning-rate-not-scaled": [
        lambda: loss_after_an_epoch(64, 0.1) > 10 * loss_after_an_epoch(16, 0.1),
        lambda: loss_after_an_epoch(64, 0.4) < 2 * loss_after_an_epoch(16, 0.1),
        lambda: (
            loss_after_an_epoch(64, 0.4, adam=True)
            < loss_after_an_epoch(64, 0.2, adam=True)
            < loss_after_an_epoch(64, 0.1, adam=True)
        ),
    ],
}


def test_every_fault_of_speed_has_facts():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if entry.topic == "speed"}


@pytest.mark.parametrize("fault_id", FACTS)
def test_the_facts_behind_a_fault_hold(fault_id):
    for number, fact in enumerate(FACTS[fault_id]):
        entry = FAULTS[fault_id]
        assert fact(), f"fact {number} of {entry.id} no longer holds: {entry.title}"

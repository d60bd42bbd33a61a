"""The answer of checkpoints.what_to_save, tried: the program of the task with one thing left out after the other."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course.exercises import load_exercise

NEEDED = load_exercise("checkpoints.what_to_save").answer_reference.obj()


def run(epochs: int, saved: dict | None = None, restored: frozenset[str] = frozenset()) -> tuple[list, dict]:
    """The program of the task up to an epoch: its weights, and all that could be saved."""
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(7))
    y = torch.arange(40) % 2
    random.seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = saved["epoch"] if "epoch" in restored else 0
    if "model" in restored:
        model.load_state_dict(saved["model"])
    if "optimizer" in restored:
        optimizer.load_state_dict(saved["optimizer"])
    if "torch generator" in restored:
        torch.set_rng_state(saved["torch generator"])
    if "python generator" in restored:
        random.setstate(saved["python generator"])
    for epoch in range(start, epochs):
        optimizer.param_groups[0]["lr"] = 0.1 * 0.9**epoch
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(16):
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    state = {
        "model": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "epoch": epochs,
        "torch generator": torch.get_rng_state(),
        "python generator": random.getstate(),
    }
    return [parameter.tolist() for parameter in model.parameters()], state


@pytest.fixture(scope="module")
def whole_and_saved():
    return run(4)[0], run(2)[1]


def test_what_is_named_is_enough(whole_and_saved):
    whole, saved = whole_and_saved
    assert run(4, saved, frozenset(NEEDED))[0] == whole


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_nothing_that_is_named_can_be_left_out(whole_and_saved, name):
    whole, saved = whole_and_saved
    assert run(4, saved, frozenset(NEEDED - {name}))[0] != whole

"""The optimizers that learners build are torch's own, step by step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course.exercises import load_exercise


def trajectories(make_ours, make_torchs):
    """The parameters of two equal models after each of 20 steps."""
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    optimizers = [make_ours(models[0].parameters()), make_torchs(models[1].parameters())]
    inputs = torch.randn(5, 3)
    for step in range(20):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            (model(inputs) - step % 3).square().mean().backward()
            optimizer.step()
        yield [torch.cat([p.detach().flatten() for p in model.parameters()]) for model in models]


def candidates(name):
    exercise = load_exercise(name)
    return [pytest.param(c.obj, id=f"{name}-{c.name}") for c in (exercise.answer_reference, *exercise.alternatives)]


@pytest.mark.parametrize("optimizer", candidates("training.sgd_momentum"))
def test_sgd_with_momentum(optimizer):
    for ours, torchs in trajectories(
        lambda p: optimizer(p, 0.05, 0.9), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)
    ):
        torch.testing.assert_close(ours, torchs)


@pytest.mark.parametrize("optimizer", candidates("training.adam"))
def test_adam(optimizer):
    for ours, torchs in trajectories(
        lambda p: optimizer(p, 0.01, (0.9, 0.99), 1e-6),
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.99), eps=1e-6),
    ):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)

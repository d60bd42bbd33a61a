from __future__ import annotations

import torch
from torch import nn

from course.training.kept import kept_bytes


def test_activations_count_and_parameters_do_not():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    size, out = kept_bytes(lambda: model(torch.ones(16, 4)))
    assert size == 16 * (4 + 8) * 4
    out.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_graph_that_is_gone_keeps_nothing():
    model = nn.Linear(4, 2)
    assert kept_bytes(lambda: model(torch.ones(16, 4)).sum().item())[0] == 0

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch.optim import lr_scheduler

from course.training.schedule import learning_rates, triangular, warmup_cosine


def test_warmup_cosine_at_its_corners():
    factors = [warmup_cosine(step, total=6, warmup=2) for step in range(8)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[4] == pytest.approx(0.5)
    assert factors[6:] == pytest.approx([0.0, 0.0])


def test_without_warmup_it_is_torch_s_cosine():
    ours = learning_rates(lambda o: lr_scheduler.LambdaLR(o, partial(warmup_cosine, total=20, floor=0.1)), 20)
    torchs = learning_rates(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=20, eta_min=0.01), 20)
    assert ours == pytest.approx(torchs)


def test_triangular_rises_and_falls_to_its_floor():
    factors = [triangular(step, total=100, peak=0.25, floor=0.05) for step in range(120)]
    assert factors[0] == 0.2
    assert factors[25] == 1.0
    assert factors.index(max(factors)) == 25
    assert factors[100:] == pytest.approx([0.05] * 20)
    assert all(a < b for a, b in pairwise(factors[:26]))
    assert all(a > b for a, b in pairwise(factors[25:101]))


def test_learning_rates_are_those_that_the_optimizer_used():
    rates = learning_rates(lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.5), 5, lr=1.0)
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.25]
    assert learning_rates(lambda o: lr_scheduler.OneCycleLR(o, max_lr=2.0, total_steps=9), 9)[2] == pytest.approx(
        2.0, rel=0.3
    )


def test_no_warning_about_the_order(recwarn):
    learning_rates(lambda o: torch.optim.lr_scheduler.StepLR(o, 1), 3)
    assert not recwarn.list

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from course.training.best import BestWeights


def values(model):
    return [tensor.tolist() for tensor in model.state_dict().values()]


def shake(model):
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.add_(1)


def test_it_keeps_the_best_and_not_the_live_weights():
    model, best = nn.BatchNorm1d(2), BestWeights()
    assert best.update(model, 0.5, epoch=1)
    wanted = values(model)
    shake(model)
    assert not best.update(model, 0.4, epoch=2)
    assert not best.update(model, 0.5, epoch=3)
    assert not best.update(model, math.nan, epoch=4)
    best.restore(model)
    assert values(model) == wanted
    assert (best.score, best.epoch) == (0.5, 1)
    shake(model)
    best.restore(model)
    assert values(model) == wanted


def test_lower_may_be_better():
    model, best = nn.Linear(1, 1), BestWeights(higher_is_better=False)
    assert best.update(model, -1.0)
    assert not best.update(model, 0.0)
    assert best.update(model, -2.0)


def test_parameters_stay_the_same_objects():
    model, best = nn.Linear(1, 1), BestWeights()
    before = list(map(id, model.parameters()))
    best.update(model, 1.0)
    best.restore(model)
    assert list(map(id, model.parameters())) == before


def test_nothing_to_restore():
    with pytest.raises(ValueError, match="call update"):
        BestWeights().restore(nn.Linear(1, 1))

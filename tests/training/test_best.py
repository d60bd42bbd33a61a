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


def test_the_best_weights_are_saved_with_the_run():
    model, best = nn.BatchNorm1d(2), BestWeights()
    best.update(model, 0.5, epoch=3)
    wanted = values(model)
    state = best.state_dict()
    other = BestWeights()
    other.load_state_dict(state)
    shake(model)
    best.update(model, 0.6)
    assert (other.score, other.epoch) == (0.5, 3)
    assert not other.update(model, 0.4)
    other.restore(model)
    assert values(model) == wanted
    with pytest.raises(ValueError, match="higher score as the better one"):
        BestWeights(higher_is_better=False).load_state_dict(state)


def test_nothing_kept_yet_can_be_saved_too():
    best = BestWeights()
    best.load_state_dict(BestWeights().state_dict())
    assert best.update(nn.Linear(1, 1), -5.0)


def test_a_loaded_state_is_not_shared():
    model, best = nn.Linear(1, 1), BestWeights()
    best.update(model, 0.5)
    state = best.state_dict()
    wanted = values(model)
    other = BestWeights()
    other.load_state_dict(state)
    for tensor in state["weights"].values():
        tensor.add_(1)
    other.restore(model)
    assert values(model) == wanted


def test_extra_state_that_is_no_tensor():
    class Counting(nn.Linear):
        calls = 1

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state):
            self.calls = state["calls"]

    model, best = Counting(1, 1), BestWeights()
    best.update(model, 0.5)
    model.calls = 7
    best.restore(model)
    assert model.calls == 1

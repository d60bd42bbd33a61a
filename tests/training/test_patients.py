from __future__ import annotations

import pytest
import torch
from torch import nn

from course.training import patients


@pytest.mark.parametrize("make", [patients.three_groups, patients.gauges, patients.rings, patients.curve])
def test_the_same_seed_gives_the_same_samples(make):
    (x, y), (same_x, same_y), (other_x, _) = make(40), make(40), make(40, seed=1)
    assert len(x) == len(y) == 40
    assert torch.equal(x, same_x)
    assert torch.equal(y, same_y)
    assert not torch.equal(x, other_x)


def test_one_gauge_is_broken():
    readings, _ = patients.gauges()
    assert (readings.std(0) == 0).tolist() == [False, False, False, True, False]


def test_a_network_has_activations_between_its_layers():
    kinds = [type(layer) for layer in patients.network(4, 8, 8, 2, activation=nn.Tanh)]
    assert kinds == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]


def test_a_history_has_a_row_for_each_epoch():
    history = patients.fit_rings(2, 0.05, columns_of_noise=3, dropout=0.2, width=8)
    assert {len(column) for column in history.values()} == {2}

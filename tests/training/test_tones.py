from __future__ import annotations

import pytest
import torch

from course.training.tones import LENGTH, sound_network, sounds


def loudest(sound: torch.Tensor, count: int) -> list[int]:
    """The frequencies with the most energy, the constant part left out."""
    return sorted((torch.fft.rfft(sound).abs()[1:].topk(count).indices + 1).tolist())


@pytest.mark.parametrize("classes", [[[3], [5], [12]], [[3, 8], [5, 12], [3, 12]]])
def test_sounds_hold_the_tones_of_their_class(classes):
    x, y = sounds(classes, 200, seed=0)
    assert x.shape == (200, 1, LENGTH)
    assert x.dtype == torch.float32
    assert set(y.tolist()) == {0, 1, 2}
    right = [loudest(sound[0], len(classes[0])) == classes[label] for sound, label in zip(x, y.tolist(), strict=True)]
    assert sum(right) >= 190


def test_values_are_far_from_standardised():
    x, _ = sounds([[3], [5]], 500, seed=1)
    assert x.mean() == pytest.approx(0.5, abs=0.01)
    assert x.std() < 0.1


def test_seeds_decide_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    first, again, other = (sounds([[3], [5]], 10, seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_network_has_stages_and_a_head():
    network = sound_network(4)
    x, _ = sounds([[3], [5]], 6, seed=0)
    assert network(x).shape == (6, 4)
    assert network[:2](x).shape == (6, 32)
    assert network[2].out_features == 4

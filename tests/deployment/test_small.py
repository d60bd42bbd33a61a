"""The network to ship: made once, kept by digest, made again when damaged or when what it follows from changes."""

from __future__ import annotations

import pytest
import torch

from course.deployment import small


@pytest.fixture
def cache(tmp_path, monkeypatch, cached_images):
    monkeypatch.setattr(small, "cache", lambda: tmp_path)
    return tmp_path / "networks"


@pytest.fixture
def cached_images(monkeypatch):
    """Ten images of noise a split instead of the stand-in."""

    class Noise:
        classes = tuple("abcdefghij")

        def __init__(self, split):
            generator = torch.Generator().manual_seed(len(split))
            self.data = torch.randint(0, 256, (128, 32, 32, 3), generator=generator).byte().numpy()
            self.targets = [n % 10 for n in range(128)]

    monkeypatch.setattr(small, "cifar10", lambda split, root=None: Noise(split))


def weights(shipment):
    return torch.cat([tensor.flatten().double() for tensor in shipment.network.state_dict().values()])


def test_second_call_reads_what_the_first_kept(cache, monkeypatch):
    first = small.trained_network(epochs=1)
    trained = []
    monkeypatch.setattr(
        small, "_kept", lambda file, key, kept=small._kept: trained.append(kept(file, key)) or trained[0]
    )
    second = small.trained_network(epochs=1)
    assert trained[0] is not None
    assert torch.equal(weights(first), weights(second))
    assert len(list(cache.iterdir())) == 1


def test_training_is_the_same_whatever_the_global_generator_holds(cache):
    torch.manual_seed(1)
    first = small.trained_network(epochs=1)
    next(cache.iterdir()).unlink()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert torch.equal(weights(small.trained_network(epochs=1)), weights(first))
    assert torch.equal(torch.get_rng_state(), state)


def test_another_recipe_or_other_images_are_another_file(cache):
    keys = {small.trained_network(epochs=1, **options).key for options in ({}, {"seed": 1}, {"train": 64})}
    assert len(keys) == 3
    assert len(list(cache.iterdir())) == 3


def test_a_damaged_file_is_made_again_and_said(cache, capsys):
    first = small.trained_network(epochs=1)
    file = next(cache.iterdir())
    file.write_bytes(file.read_bytes()[:-100])
    assert torch.equal(weights(small.trained_network(epochs=1)), weights(first))
    assert "being trained again" in capsys.readouterr().out
    assert small._kept(file, first.key) is not None


def test_network_is_ready_to_ship(cache):
    shipment = small.trained_network(epochs=1)
    assert not any(module.training for module in shipment.network.modules())
    assert not any(parameter.requires_grad for parameter in shipment.network.parameters())
    assert len(shipment.test) == 128
    x = shipment.normalised(shipment.train.images)
    assert x.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(x.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std(dim=(0, 2, 3)), torch.ones(3), atol=1e-3, rtol=0)
    assert shipment.network(x[:2]).shape == (2, 10)

from __future__ import annotations

import torch
from torch import nn

from course.training.networks import fast_network, fast_recipe, reference_network, whitening_convolution


def images(n=64):
    """Correlated channels and neighbours, as photographs have them."""
    torch.manual_seed(0)
    coarse = torch.randn(n, 3, 8, 8)
    smooth = nn.functional.interpolate(coarse, size=32, mode="bilinear", align_corners=False)
    return smooth + 0.5 * smooth.mean(1, keepdim=True) + 0.2 * torch.randn(n, 3, 32, 32)


def test_reference_network_is_the_one_described():
    network = reference_network()
    assert sum(p.numel() for p in network.parameters()) == 60_362
    usual = nn.Sequential(*(network[i] for i in (0, 2, 1, 3, 5, 4, 6, 7)))  # ReLU before pooling
    batch = images(4)
    assert torch.equal(network(batch), usual(batch))
    assert network(batch).shape == (4, 10)
    assert reference_network(classes=3)(batch).shape == (4, 3)


def test_whitened_outputs_are_uncorrelated_and_of_unit_variance():
    batch = images()
    layer = whitening_convolution(batch)
    assert layer.out_channels == 24
    assert not any(p.requires_grad for p in layer.parameters())
    outputs = layer(batch)
    flat = outputs[:, :12].movedim(1, 0).flatten(1)
    assert (flat.corrcoef() - torch.eye(12)).abs().max() < 0.05
    assert torch.allclose(flat.var(1), torch.ones(12), atol=0.1)
    assert torch.allclose(outputs[:, :12], -outputs[:, 12:], atol=1e-4)


def test_fast_network_starts_fair_and_learns_one_batch():
    batch, targets = images(32), torch.arange(32) % 10
    torch.manual_seed(1)
    network = fast_network(batch, widths=(32, 32, 32))
    optimizer, scheduler, loss_fn = fast_recipe(network, steps=12)
    first = network[0].weight.clone()
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = loss_fn(network(batch), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    assert abs(losses[0] - torch.tensor(10.0).log().item()) < 0.3
    assert losses[-1] < losses[0] - 0.5
    assert torch.equal(network[0].weight, first)
    assert optimizer.param_groups[0]["lr"] == 0

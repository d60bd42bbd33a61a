"""Small data and networks for the broken setups of lesson 06. The same arguments give the same numbers."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def network(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them: ``network(4, 16, 3)`` takes (N, 4) and returns (N, 3)."""
    layers: list[nn.Module] = []
    for ins, outs in itertools.pairwise(widths):
        layers += [nn.Linear(ins, outs), activation()]
    return nn.Sequential(*layers[:-1])


def batches(inputs: Tensor, targets: Tensor, size: int = 32) -> DataLoader[tuple[Tensor, ...]]:
    """A loader of (inputs, targets), shuffled by a generator of its own."""
    order = torch.Generator().manual_seed(0)
    return DataLoader(TensorDataset(inputs, targets), size, shuffle=True, generator=order)


def three_groups(count: int = 192, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points (count, 4) around three centres, float32, in random order, and the number of their centre, int64."""
    generator = torch.Generator().manual_seed(seed)
    groups = torch.randint(3, (count,), generator=generator)
    centres = torch.tensor([[2.0, 0.0, -1.0, 0.5], [-1.0, 2.0, 0.5, -1.0], [-1.0, -2.0, 1.0, 1.0]])
    return centres[groups] + 0.7 * torch.randn(count, 4, generator=generator), groups


def gauges(count: int = 192, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Readings (count, 5) of five gauges in units of their own, and the state of a machine, 0 to 2, int64.

    The fourth gauge is broken: it always shows 20.
    """
    points, states = three_groups(count, seed)
    readings = points[:, [0, 1, 2, 0, 3]] * torch.tensor([3.0, 0.2, 8.0, 0.0, 1.5])
    return readings + torch.tensor([15.0, 1.0, -30.0, 20.0, 4.0]), states


def rings(count: int = 256, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points (count, 2) on two rings, one inside the other, and the number of their ring, int64."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(2, (count,), generator=generator)
    angle = 6.2832 * torch.rand(count, generator=generator)
    radius = 0.6 + 1.2 * numbers + 0.1 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), numbers


def curve(count: int = 192, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Numbers x (count, 3) and a smooth function of them with little noise, (count,), of mean 0 and deviation 1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator)
    y = x[:, 0] + torch.sin(2 * x[:, 1]) - 0.5 * x[:, 2] + 0.05 * torch.randn(count, generator=generator)
    return x, (y - y.mean()) / y.std()


def fit_rings(
    epochs: int, lr: float, *, columns_of_noise: int = 0, dropout: float = 0.0, width: int = 64
) -> dict[str, list[float]]:
    """Train on 96 points of two rings, and return what a loop prints after each epoch.

    columns_of_noise: that many inputs are random numbers that tell nothing. The columns are ``loss`` and ``accuracy``,
    means over the epoch in training mode, and ``other loss`` and ``other accuracy`` of 256 new points.
    """
    torch.manual_seed(0)
    (x, y), (other_x, other_y) = rings(96), rings(256, seed=1)
    x = torch.cat([x, torch.randn(96, columns_of_noise)], 1)
    other_x = torch.cat([other_x, torch.randn(256, columns_of_noise)], 1)
    model = nn.Sequential(nn.Linear(x.shape[1], width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    loader = batches(x, y, 16)
    history: dict[str, list[float]] = {name: [] for name in ("loss", "accuracy", "other loss", "other accuracy")}
    for _ in range(epochs):
        total, right = 0.0, 0
        model.train()
        for points, numbers in loader:
            logits = model(points)
            loss = F.cross_entropy(logits, numbers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(numbers)
            right += int((logits.argmax(1) == numbers).sum())
        model.eval()
        with torch.no_grad():
            logits = model(other_x)
        history["loss"].append(total / 96)
        history["accuracy"].append(right / 96)
        history["other loss"].append(F.cross_entropy(logits, other_y).item())
        history["other accuracy"].append((logits.argmax(1) == other_y).float().mean().item())
    return history

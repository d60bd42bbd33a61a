"""Small data sets that can be learnt, and loaders over them, for the setups that the doctor is tried on."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

SIZE = 64


def generator(seed: int = 0) -> torch.Generator:
    """A generator of its own, so that building data leaves the global one alone."""
    return torch.Generator().manual_seed(seed)


def blobs(n: int = SIZE, features: int = 8, classes: int = 4, *, spread: float = 0.6) -> tuple[Tensor, Tensor]:
    """Standardised features (n, features) in clusters, one a class, and class indices (n,)."""
    g = generator()
    centres = torch.randn(classes, features, generator=g)
    y = torch.arange(n).remainder(classes)[torch.randperm(n, generator=g)]
    x = centres[y] + spread * torch.randn(n, features, generator=g)
    return (x - x.mean(0)) / x.std(0), y


def curve(n: int = SIZE, features: int = 4) -> tuple[Tensor, Tensor]:
    """Standardised features (n, features) and a noisy target of unit scale (n, 1)."""
    g = generator(1)
    x = torch.randn(n, features, generator=g)
    y = x[:, :1] - 0.5 * x[:, 1:2] + 0.3 * torch.sin(2 * x[:, 2:3]) + 0.05 * torch.randn(n, 1, generator=g)
    return x, (y - y.mean()) / y.std()


def images(n: int = SIZE, size: int = 8, classes: int = 4, channels: int = 3) -> tuple[Tensor, Tensor]:
    """Standardised images (n, channels, size, size), one pattern a class plus noise, and class indices (n,)."""
    g = generator(2)
    patterns = torch.randn(classes, channels, size, size, generator=g)
    y = torch.arange(n).remainder(classes)[torch.randperm(n, generator=g)]
    x = patterns[y] + 0.8 * torch.randn(n, channels, size, size, generator=g)
    return (x - x.mean()) / x.std(), y


def masks(n: int = 32, size: int = 8, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Images (n, 3, size, size) and the class of each pixel (n, size, size)."""
    x, _ = images(n, size)
    return x, (x[:, 0] > 0.5).long() + (x[:, 1] > 0.5).long() * (classes > 2)


def tokens(n: int = 48, length: int = 10, vocabulary: int = 12) -> Tensor:
    """Token ids (n, length) of a simple language: each word follows from the one before, mostly."""
    g = generator(3)
    follow = torch.randperm(vocabulary, generator=g)
    rows = [torch.randint(0, vocabulary, (n,), generator=g)]
    for _ in range(length - 1):
        noise = torch.randint(0, vocabulary, (n,), generator=g)
        rows.append(torch.where(torch.rand(n, generator=g) < 0.1, noise, follow[rows[-1]]))
    return torch.stack(rows, 1)


def padded(n: int = 48, longest: int = 9, features: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences padded with zeros (n, longest, features), lengths (n,) and a class (n,) that the real part tells."""
    g = generator(4)
    lengths = torch.randint(3, longest + 1, (n,), generator=g)
    y = torch.randint(0, 2, (n,), generator=g)
    x = torch.randn(n, longest, features, generator=g)
    x[:, :, 0] += (2.0 * y - 1)[:, None]
    return x * (torch.arange(longest) < lengths[:, None])[..., None], lengths, y


def loader(*tensors: Tensor, batch_size: int = 16, shuffle: bool = True, **options: object) -> DataLoader:
    """A loader over the rows of tensors, shuffled from a generator of its own."""
    if shuffle:
        options.setdefault("generator", generator(5))
    return DataLoader(TensorDataset(*tensors), batch_size=batch_size, shuffle=shuffle, **options)

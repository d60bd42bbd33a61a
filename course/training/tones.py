"""Short sounds and a small network for them: something to pretrain and fine-tune in a second, without a download."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 48


def sounds(classes: Sequence[Sequence[int]], number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noisy sounds (number, 1, 48), float32, and their classes, int64, shape (number,); the same for the same seed.

    classes: for each class its tones, by the number of waves that fit into a sound; equally many in each class.
        ``[[3], [5]]`` are two single tones, ``[[3, 5], [5, 8]]`` two chords. The phase of each tone is random.
    The mean of the sounds is 0.5 and each wave and the noise are small beside it, so standardising matters.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(len(classes), (number,), generator=generator)
    tones = torch.tensor(classes)[labels]
    turns = tones[..., None] * torch.arange(LENGTH) / LENGTH + torch.rand(*tones.shape, 1, generator=generator)
    waves = torch.sin(2 * math.pi * turns).sum(1, keepdim=True)
    return 0.5 + 0.05 * waves + 0.05 * torch.randn(number, 1, LENGTH, generator=generator), labels


def sound_network(classes: int) -> nn.Sequential:
    """Two convolutional stages with BatchNorm, 0 and 1, and a linear head, 2: (N, 1, 48) -> (N, classes).

    The stages make 32 features of a sound: ``network[:2](sounds)`` has shape (N, 32).
    """
    first = nn.Sequential(nn.Conv1d(1, 16, 9), nn.BatchNorm1d(16), nn.ReLU())
    second = nn.Sequential(nn.Conv1d(16, 32, 9), nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())
    return nn.Sequential(first, second, nn.Linear(32, classes))

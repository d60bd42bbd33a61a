"""One seed for every random generator that a training run uses."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def seed_everything(seed: int) -> torch.Generator:
    """Seed Python's, NumPy's and torch's global generators, on every device, and return a generator of its own.

    The returned generator (CPU, same seed) is for the order of the data: give it to the loader, and the order no
    longer depends on how many random numbers the model drew. Equal seeds give equal runs on the same machine with the
    same torch; kernels that are not deterministic on a GPU are another matter (lesson 07).
    """
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed)

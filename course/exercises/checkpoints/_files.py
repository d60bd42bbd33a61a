"""What the probes of this lesson share: folders that vanish, files from a GPU, files that are cut short."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn


@contextmanager
def folder() -> Iterator[Path]:
    """A new empty folder that is removed on leaving."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def saved_as_if_on(device: str, state: Any, path: Path) -> Path:
    """Write `state` with storages that are tagged `device`, such as "cuda:0", whatever this machine has.

    A file on disk differs from one of a GPU machine in nothing else: the bytes of a tensor carry no device."""
    with mock.patch.object(torch.serialization, "location_tag", return_value=device):
        torch.save(state, path)
    return path


def cut_short(path: Path) -> Path:
    """Keep the first half of a file, as a full disk or a kill would."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


class Breaks:
    """Cannot be pickled: a write that meets it ends in the middle, with the error that it was given."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error


class Standardise(nn.Module):
    """A layer with two parameters and two buffers, of which nothing is handled in a way of its own on loading.

    (BatchNorm forgives a missing counter in a state that is a plain dict, as it would in a file of an old torch.)"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.running_mean) / self.running_var.sqrt() * self.weight + self.bias

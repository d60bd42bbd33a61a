from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch


def _differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """The places where two nested states are not equal bit for bit."""
    if type(ours) is not type(theirs):
        return [f"{where}: {type(ours)} and {type(theirs)}"]
    if isinstance(ours, dict):
        if list(ours) != list(theirs):
            return [f"{where}: keys {list(ours)} and {list(theirs)}"]
        return [line for key in ours for line in _differences(ours[key], theirs[key], f"{where}/{key}")]
    if isinstance(ours, (list, tuple)):
        if len(ours) != len(theirs):
            return [f"{where}: {len(ours)} and {len(theirs)} items"]
        return [
            line
            for i, pair in enumerate(zip(ours, theirs, strict=True))
            for line in _differences(*pair, f"{where}/{i}")
        ]
    if isinstance(ours, torch.Tensor):
        equal = ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    else:
        equal = ours == theirs
    return [] if equal else [f"{where}: {ours} and {theirs}"]


@pytest.fixture(scope="session")
def differences() -> Callable[[Any, Any], list[str]]:
    """A function of two nested states: the places where they are not equal bit for bit."""
    return _differences

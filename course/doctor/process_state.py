"""State of the process that training code may change: random generators, default dtype, gradient and autocast modes."""

from __future__ import annotations

import contextlib
import functools
import os
import random
from collections.abc import Callable

import numpy as np
import torch

_FLAGS = (
    (torch.backends.cudnn, "benchmark"),
    (torch.backends.cudnn, "deterministic"),
    (torch.backends.cudnn, "enabled"),
    (torch.backends.cudnn, "allow_tf32"),
    (torch.backends.cuda.matmul, "allow_tf32"),
)


class ProcessState:
    """What is global to the process, as it was when this was made."""

    def __init__(self) -> None:
        self._back: list[Callable[[], object]] = []
        self._keep(random.setstate, random.getstate())
        self._keep(np.random.set_state, np.random.get_state())
        self._keep(torch.set_rng_state, torch.get_rng_state())
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._keep(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
            self._keep(torch.cuda.set_device, torch.cuda.current_device())
        if torch.backends.mps.is_available():
            self._keep(torch.mps.set_rng_state, torch.mps.get_rng_state())
        self._keep(torch.set_default_dtype, torch.get_default_dtype())
        self._keep(torch.set_grad_enabled, torch.is_grad_enabled())
        self._keep(torch.set_anomaly_enabled, torch.is_anomaly_enabled())
        self._keep(torch.set_num_threads, torch.get_num_threads())
        self._keep(os.chdir, os.getcwd())
        self._keep(_set_deterministic, _deterministic())
        for device in ("cpu", "cuda"):
            self._keep(functools.partial(torch.set_autocast_enabled, device), torch.is_autocast_enabled(device))
            self._keep(functools.partial(torch.set_autocast_dtype, device), torch.get_autocast_dtype(device))
        for owner, name in _FLAGS:
            # Where old and new settings of the precision were mixed, reading one of them raises.
            with contextlib.suppress(Exception):
                self._keep(functools.partial(_set, owner, name), getattr(owner, name))

    def restore(self) -> None:
        """Put all of it back; raises the first error after the rest is back."""
        errors = []
        for back in self._back:
            try:
                back()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _keep(self, function: Callable, state: object) -> None:
        self._back.append(lambda: function(state))


def _set(owner: object, name: str, value: object) -> None:
    if getattr(owner, name) != value:
        setattr(owner, name, value)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(state: tuple[bool, bool]) -> None:
    # Only where it was changed: setting it imports the compiler, which takes seconds.
    if _deterministic() != state:
        enabled, warn_only = state
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)

"""Process-wide state that a check must leave as it found it."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def global_state() -> dict[str, Any]:
    """The state that :func:`preserved_state` restores, as a dictionary whose entries can be compared by a test."""
    state: dict[str, Any] = {
        "python random": random.getstate(),
        "torch random": torch.get_rng_state(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "grad mode": torch.is_grad_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic": _determinism(),
        "recursion limit": sys.getrecursionlimit(),
        "stdout": (sys.stdout, sys.stderr),
        "warning filters": list(warnings.filters),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy random"] = numpy.random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda random"] = torch.cuda.get_rng_state_all()
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        state["open figures"] = pyplot.get_fignums()
        state["matplotlib settings"] = dict(pyplot.rcParams)
    return state


def _determinism() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def restore(state: dict[str, Any]) -> None:
    random.setstate(state["python random"])
    torch.set_rng_state(state["torch random"])
    torch.set_default_dtype(state["default dtype"])
    if torch.get_default_device() != (device := state["default device"]):
        torch.set_default_device(None if device.type == "cpu" else device)
    if torch.get_num_threads() != state["threads"]:
        torch.set_num_threads(state["threads"])
    torch.set_grad_enabled(state["grad mode"])
    # These setters import large parts of torch, so they are called only where something changed.
    if torch.is_anomaly_enabled() != state["anomaly mode"]:
        torch.autograd.set_detect_anomaly(state["anomaly mode"])
    if _determinism() != state["deterministic"]:
        on, warn_only = state["deterministic"]
        torch.use_deterministic_algorithms(on, warn_only=warn_only)
    sys.setrecursionlimit(state["recursion limit"])
    sys.stdout, sys.stderr = state["stdout"]
    warnings.filters[:] = state["warning filters"]
    if "numpy random" in state:
        sys.modules["numpy"].random.set_state(state["numpy random"])
    if "cuda random" in state:
        torch.cuda.set_rng_state_all(state["cuda random"])
    if "open figures" in state:
        pyplot = sys.modules["matplotlib.pyplot"]
        for number in set(pyplot.get_fignums()) - set(state["open figures"]):
            pyplot.close(number)
        if dict(pyplot.rcParams) != state["matplotlib settings"]:
            dict.update(pyplot.rcParams, state["matplotlib settings"])


@contextmanager
def preserved_state() -> Iterator[None]:
    """Restore random states, defaults, threads, grad mode, warning filters and matplotlib's state on leaving."""
    state = global_state()
    try:
        yield
    finally:
        restore(state)

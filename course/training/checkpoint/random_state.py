"""The states of random generators as plain values and tensors, so that a file with them loads with weights_only."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch

from course.training.checkpoint.files import CheckpointError, warn


def global_state() -> dict[str, Any]:
    """The states of Python's, NumPy's and torch's global generators: the CPU's and those of every accelerator."""
    version, words, gauss = random.getstate()
    kind, states = _accelerators()
    return {
        "python": {"version": version, "words": list(words), "gauss": gauss},
        "numpy": _plain(numpy.random.get_state(legacy=False)),
        "torch": torch.get_rng_state(),
        "accelerator": kind,
        "accelerators": states,
    }


def set_global_state(state: dict[str, Any]) -> None:
    """Set back what :func:`global_state` returned; warns when the accelerators are others."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"]), python["gauss"]))
    numpy.random.set_state(_arrays(state["numpy"]))
    torch.set_rng_state(state["torch"].cpu())
    kind, here = _accelerators()
    saved_kind, saved = state["accelerator"], state["accelerators"]
    if (saved_kind, len(saved)) != (kind, len(here)):
        warn(
            f"the run was saved with {_devices(saved_kind, saved)} and goes on with {_devices(kind, here)}: random "
            "numbers drawn on these, such as dropout masks, will differ"
        )
    if kind is not None and kind == saved_kind:
        module = torch.get_device_module(kind)
        for number, value in enumerate(saved[: len(here)]):
            if hasattr(module, "set_rng_state_all"):
                module.set_rng_state(value.cpu(), number)
            else:
                module.set_rng_state(value.cpu())


def generator_state(generator: Any) -> Any:
    """The state of a torch.Generator (a uint8 tensor) or of a numpy.random.Generator (plain values)."""
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, numpy.random.Generator):
        return _plain(generator.bit_generator.state)
    raise TypeError(f"a generator should be a torch or NumPy Generator, not {type(generator).__name__}")


def set_generator_state(generator: Any, state: Any) -> None:
    """Set back what :func:`generator_state` returned."""
    if isinstance(generator, torch.Generator) != isinstance(state, torch.Tensor):
        raise CheckpointError(f"the file holds the state of another kind of generator than {type(generator).__name__}")
    if isinstance(generator, torch.Generator):
        generator.set_state(state.cpu())
    else:
        generator.bit_generator.state = _arrays(state)


def _accelerators() -> tuple[str | None, list[torch.Tensor]]:
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None:
        return None, []
    module = torch.get_device_module(device.type)
    if hasattr(module, "get_rng_state_all"):
        return device.type, list(module.get_rng_state_all())
    return device.type, [module.get_rng_state()]


def _devices(kind: str | None, states: list[torch.Tensor]) -> str:
    return "no accelerator" if kind is None else f"{len(states)} {kind} device{'s' * (len(states) != 1)}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, numpy.ndarray):
        return {"dtype": value.dtype.name, "bytes": value.tobytes()}
    return value.item() if isinstance(value, numpy.generic) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"dtype", "bytes"}:
        return numpy.frombuffer(value["bytes"], dtype=value["dtype"]).copy()
    return {key: _arrays(inner) for key, inner in value.items()} if isinstance(value, dict) else value

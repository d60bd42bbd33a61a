"""A digest of all that a setup refers to, by a walk of its own, to see that an examination leaves it as it was."""

from __future__ import annotations

import hashlib
import random
import types
from typing import Any

import numpy as np
import torch
from torch import nn

PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size, type(Ellipsis))
# What the walk does not go into: the code of others, and bookkeeping of torch that no user sees.
OPAQUE = (type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, torch.fx.GraphModule)
PASSED_OVER = {"_iterator", "get_compiler_config", "_compiled_call_impl"}


def digest(tensor: torch.Tensor) -> str:
    """Bytes of a dense or sparse tensor, NaN included."""
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    plain = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(plain.numpy().tobytes(), digest_size=8).hexdigest()


def fingerprint(root: Any) -> dict[str, object]:
    """Path to content of every tensor, array, number, flag, generator and container that `root` refers to."""
    seen: dict[int, str] = {}
    found: dict[str, object] = {}
    kept: list[object] = []  # so that no id is used twice
    todo: list[tuple[str, Any]] = [("", root)]
    while todo:
        path, thing = todo.pop()
        if isinstance(thing, PLAIN):
            found[path] = repr(thing)
            continue
        if id(thing) in seen:
            found[path] = f"see {seen[id(thing)]}"
            continue
        seen[id(thing)] = path
        kept.append(thing)
        if isinstance(thing, torch.Tensor):
            found[path] = (digest(thing), thing.dtype, tuple(thing.shape), thing.requires_grad, thing.grad_fn is None)
            if thing.is_leaf:
                todo.append((f"{path}.grad", thing.grad))
        elif isinstance(thing, np.ndarray):
            found[path] = (thing.dtype.str, thing.shape, thing.tobytes())
        elif isinstance(thing, torch.Generator):
            found[path] = digest(thing.get_state())
        elif isinstance(thing, random.Random):
            found[path] = hash(thing.getstate())
        elif isinstance(thing, np.random.Generator):
            found[path] = repr(thing.bit_generator.state)
        elif isinstance(thing, OPAQUE) or type(thing).__module__.startswith(("torch._dynamo", "torch._C")):
            if not isinstance(thing, nn.Module):  # a compiled model is looked into, what compiled it is not
                continue
            todo.append((f"{path}._orig_mod", thing._modules))
        elif isinstance(thing, types.FunctionType):
            for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
                todo.append((f"{path}<{name}>", cell.cell_contents))
            todo.append((f"{path}.__dict__", dict(thing.__dict__)))
        elif isinstance(thing, types.MethodType):
            todo.append((f"{path}.__self__", thing.__self__))
        elif isinstance(thing, dict):
            found[path] = [repr(key) if isinstance(key, PLAIN) else type(key).__name__ for key in thing]
            for number, (key, value) in enumerate(thing.items()):
                if not isinstance(key, PLAIN) or key not in PASSED_OVER:
                    todo.append((f"{path}[{key if isinstance(key, PLAIN) else number}]", value))
        elif isinstance(thing, (list, tuple)):
            found[path] = len(thing)
            todo += [(f"{path}[{number}]", value) for number, value in enumerate(thing)]
        elif hasattr(thing, "__dict__"):
            found[path] = type(thing).__name__
            todo.append((f"{path}.__dict__", vars(thing)))
    found["random"] = hash(random.getstate())
    state = np.random.get_state()
    found["numpy.random"] = (state[0], state[1].tobytes(), *state[2:])
    found["torch.random"] = digest(torch.get_rng_state())
    found["grad mode"] = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
    found["autocast"] = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
    found["threads"] = torch.get_num_threads()
    found["anomaly"] = torch.is_anomaly_enabled()
    return found


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Paths whose content is not the same, with both contents, cut short."""
    return [
        f"{path}: {str(before.get(path, 'not there'))[:80]} -> {str(after.get(path, 'not there'))[:80]}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path, "not there") != after.get(path, "not there")
    ]

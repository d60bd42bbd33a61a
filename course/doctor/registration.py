"""What modules hold without registering it: pure functions of modules."""

from __future__ import annotations

import collections
import difflib
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course.doctor import reach

# What nn.Module keeps about itself.
_OWN = frozenset(vars(nn.Module()))
_MOST_ITEMS = 1000


def hidden(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """(path, thing) of modules, parameters and tensors that plain attributes of a module hold, in containers too.

    The path is from the module: "layers[2]", "scales['a']". What is registered or inside a registered module is left
    out; what is inside a found module, too.
    """
    seen = {id(child) for child in module.modules()} | {id(tensor) for tensor in _registered(module)}
    queue = collections.deque((name, value, 0) for name, value in list(vars(module).items()) if name not in _OWN)
    while queue:
        path, thing, depth = queue.popleft()
        if id(thing) in seen or reach.is_atom(thing):
            continue
        seen.add(id(thing))
        if isinstance(thing, (nn.Module, Tensor)):
            yield path, thing
        elif depth < 4 and isinstance(thing, (list, tuple, set, frozenset, collections.deque)):
            if len(thing) <= _MOST_ITEMS:
                queue.extend((f"{path}[{number}]", item, depth + 1) for number, item in enumerate(thing))
        elif depth < 4 and isinstance(thing, (dict, types.MappingProxyType)):
            if len(thing) <= _MOST_ITEMS:
                queue.extend((f"{path}[{key!r}]", item, depth + 1) for key, item in list(thing.items()))
        elif depth < 2 and _plain_object(thing):
            queue.extend((f"{path}.{name}", item, depth + 2) for name, item in list(vars(thing).items()))


def _registered(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _plain_object(thing: Any) -> bool:
    """An instance of a class of the user's, whose attributes may hold layers."""
    if isinstance(thing, (type, types.FunctionType, types.MethodType, types.ModuleType, torch.optim.Optimizer)):
        return False
    first = (type(thing).__module__ or "").partition(".")[0]
    return isinstance(getattr(thing, "__dict__", None), dict) and first not in {
        "torch", "numpy", "builtins", "collections", "functools", "torchvision", "lightning", "pytorch_lightning",
    }  # fmt: skip


def unregistered(root: nn.Module, known: Iterable[nn.Module] = ()) -> list[tuple[str, nn.Module | nn.Parameter]]:
    """Layers with trainable parameters, and parameters, that modules under a root hold unregistered, with their paths.

    known: other roots, whose modules count as registered. A reference back to an owner is left out.
    """
    inside = {id(module) for top in (root, *known) for module in top.modules()}
    held = {id(parameter) for top in (root, *known) for parameter in top.parameters()}
    found = []
    for name, module in root.named_modules():
        for path, thing in hidden(module):
            if isinstance(thing, nn.Module):
                if id(thing) in inside or any(id(child) in inside for child in thing.modules()):
                    continue
                if not any(parameter.requires_grad and id(parameter) not in held for parameter in thing.parameters()):
                    continue
            elif not (isinstance(thing, nn.Parameter) and thing.requires_grad and id(thing) not in held):
                continue
            found.append((f"{name}.{path}" if name else path, thing))
    return found


def plain_tensors(root: nn.Module) -> list[tuple[str, nn.Module, Tensor]]:
    """(path, module, tensor) of tensors that are neither parameter nor buffer, in modules of the user's own classes."""
    found = []
    for name, module in root.named_modules():
        if not users(module):
            continue
        for path, thing in hidden(module):
            if isinstance(thing, Tensor) and not isinstance(thing, nn.Parameter):
                found.append((f"{name}.{path}" if name else path, module, thing))
    return found


def users(module: nn.Module) -> bool:
    """Whether a module's forward is the user's own code, and not a library's."""
    forward = getattr(type(module), "forward", None)
    return isinstance(forward, types.FunctionType) and reach.is_users(forward)


def repeated(root: nn.Module) -> list[tuple[str, list[str], Any]]:
    """Layers that one container or module holds under several names: (path, names, layer), as `[layer] * n` makes "
    "them."""
    found = []
    for path, module in root.named_modules():
        entries: list[tuple[str, Any]] = list(module._modules.items())
        if isinstance(module, nn.ParameterList):
            entries += [(str(number), entry) for number, entry in enumerate(module)]
        names: dict[int, list[str]] = {}
        things = {id(entry): entry for _, entry in entries if entry is not None}
        for name, entry in entries:
            names.setdefault(id(entry), []).append(name)
        found += [
            (path, n, things[i]) for i, n in names.items() if len(n) > 1 and i in things and _trainable(things[i])
        ]
    return found


def _trainable(entry: Any) -> bool:
    if isinstance(entry, nn.Module):
        return any(parameter.requires_grad for parameter in entry.parameters())
    return isinstance(entry, Tensor) and entry.requires_grad


def freeze_typos(root: nn.Module) -> list[tuple[str, str, Any]]:
    """(path, attribute, holder) where `requires_grad`, or a word close to it, was set to False without freezing."""
    found: list[tuple[str, str, Any]] = []
    for name, module in root.named_modules():
        names = [key for key, value in vars(module).items() if value is False and _means_freezing(key, module)]
        trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if names and trainable:
            found.append((name, names[0], module))
    for name, parameter in root.named_parameters():
        names = [key for key, value in vars(parameter).items() if value is False and _like_requires_grad(key)]
        if names and parameter.requires_grad:
            found.append((name, names[0], parameter))
    return found


def _like_requires_grad(key: str) -> bool:
    return bool(difflib.get_close_matches(key, ["requires_grad", "requires_grad_"], n=1, cutoff=0.85))


def _means_freezing(key: str, module: nn.Module) -> bool:
    if _like_requires_grad(key):
        return True
    # As in Keras. A class of the user's own may read such an attribute; torch's do not.
    return key == "trainable" and not users(module) and (type(module).__module__ or "").startswith("torch.nn")


def plain_tensors_of(module: nn.Module) -> list[tuple[nn.Module, Tensor]]:
    """(module, tensor) of the plain tensors that a module of the user's own class holds itself."""
    if not users(module):
        return []
    return [(module, t) for _, t in hidden(module) if isinstance(t, Tensor) and not isinstance(t, nn.Parameter)]


def users_frame(frame: types.FrameType) -> bool:
    """Whether a frame runs code of the user's, not of a library."""
    return not reach._from_library(frame.f_code.co_filename)

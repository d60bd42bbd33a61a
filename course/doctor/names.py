"""Names of the modules, parameters and buffers of a setup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

# Parts of paths that only an optimizer gives: no names that a person would know.
_NO_NAMES = ("param_groups", ".state", "[...]")


def unwrapped(model: Any) -> Any:
    """The module inside torch.compile, DistributedDataParallel and DataParallel."""
    while True:
        if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            model = model._orig_mod
        else:
            return model


class Names:
    """Modules, parameters and buffers by name, each under one name.

    The model is "" and what is in it "layer.0.weight", without the prefixes of wrappers; what else was reached has the
    name of its variable in front.
    """

    def __init__(self, model: nn.Module | None, reached: Iterable[tuple[str, Any]]) -> None:
        self._things: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        if model is not None:
            self.add("", unwrapped(model))
            self.add("", model)
        reached = list(reached)
        for path, thing in reached:
            if isinstance(thing, nn.Module):
                self.add(path, thing)
        for path, thing in reached:
            if isinstance(thing, nn.Parameter) and not any(word in path for word in _NO_NAMES):
                self._one(path, thing)

    def add(self, prefix: str, root: nn.Module) -> None:
        """Name a module and everything in it that has no name yet."""
        if id(root) in self._names:
            return
        dot = f"{prefix}." if prefix else ""
        for name, module in root.named_modules():
            self._one(f"{dot}{name}" if name else prefix, module)
        for named in (root.named_parameters(), root.named_buffers()):
            for name, tensor in named:
                self._one(f"{dot}{name}", tensor)

    def of(self, thing: Any) -> str:
        """The name, "?" where there is none."""
        return self._names.get(id(thing), "?")

    def all(self, kind: type) -> dict[str, Any]:
        """Everything of a type by name; buffers are the tensors that are no parameters."""
        return {
            name: thing
            for name, thing in self._things.items()
            if isinstance(thing, kind) and not (kind is Tensor and isinstance(thing, nn.Parameter))
        }

    def _one(self, name: str, thing: Any) -> None:
        if id(thing) in self._names:
            return
        while name in self._things:
            name += "'"
        self._things[name] = thing
        self._names[id(thing)] = name

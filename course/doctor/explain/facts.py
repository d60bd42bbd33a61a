"""Tensors and modules as objects of a frame: found without running code of anyone's, described by `TensorFact`."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

from course.doctor.explain.errors import TensorFact

_MOST_TENSORS = 24
_STORES = ("_parameters", "_buffers", "_modules")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+|\[(?:\d+|'[^']*'|\"[^\"]*\")\])*")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class Scope(Mapping):
    def __init__(self, *scopes: Mapping[str, object]) -> None:
        self.scopes = scopes

    def __getitem__(self, name: str) -> object:
        for scope in self.scopes:
            if name in scope:
                return scope[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({name for scope in self.scopes for name in scope})

    def __len__(self) -> int:
        return len(set(iter(self)))


def named(code: str, scope: Mapping[str, object]) -> Iterator[TensorFact]:
    """The tensors, and the modules' parameters, that `code` names, such as ``x``, ``self.w`` or ``batch["x"]``."""
    told: set[str] = set()
    for match in list(_DOTTED.finditer(code))[:40]:
        for name, value in _resolved(match[0], scope):
            fact = describe(name, value)
            facts = [fact] if fact else of_module(name, value) if is_module(value) else ()
            for each in facts:
                if each.name not in told:
                    told.add(each.name)
                    yield each


def _resolved(path: str, scope: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The longest part of a dotted name that can be looked up without running code of anyone's."""
    root = re.match(r"\w+", path)[0]
    if root not in scope:
        return
    name, value = root, scope[root]
    for part in _PART.finditer(path, len(root)):
        following = _member(value, part)
        if following is None:
            break
        name, value = path[: part.end()], following
    yield name, value


def _member(value: object, part: re.Match[str]) -> object | None:
    attribute, index, *keys = part.groups()
    try:
        if attribute is not None:
            if is_module(value):
                for store in _STORES:
                    if attribute in value.__dict__.get(store, {}):
                        return value.__dict__[store][attribute]
            if type(value).__module__.partition(".")[0] in ("torch", "numpy"):
                return None  # x.T, x.grad: the tensor itself is what is looked at
            return getattr(value, "__dict__", {}).get(attribute)
        if index is not None and (type(value) in (list, tuple) or is_module(value)):
            return value[int(index)]
        key = next((each for each in keys if each is not None), None)
        return value.get(key) if type(value) is dict and key is not None else None
    except Exception:
        return None


def is_module(value: object) -> bool:
    torch = sys.modules.get("torch")
    module = getattr(getattr(torch, "nn", None), "Module", None)
    return module is not None and isinstance(value, module)


def parts(module: object) -> list[tuple[str, object]]:
    """The module and its submodules by name; the module alone where its __init__ has not run to the end."""
    try:
        return list(itertools.islice(module.named_modules(), 60))
    except Exception:
        return [("", module)]


def registered(module: object) -> list[tuple[str, object]]:
    try:
        return [
            *itertools.islice(module.named_parameters(), _MOST_TENSORS),
            *itertools.islice(module.named_buffers(), 8),
        ]
    except Exception:
        return []


def of_module(name: str, module: object) -> Iterator[TensorFact]:
    owner = type(module).__name__
    for key, value in registered(module):
        if fact := describe(f"{name}.{key}", value, owner):
            yield fact
    for path, part in parts(module):
        prefix = f"{name}.{path}" if path else name
        if type(part).__module__.startswith("torch."):
            continue
        for key, value in list(vars(part).items()):
            if key in _STORES:
                continue
            if fact := describe(f"{prefix}.{key}", value, type(part).__name__):
                yield replace(fact, role="plain")
            for layer in layers_in(value):
                for parameter, tensor in registered(layer)[:2]:
                    if fact := describe(f"{prefix}.{key}[...].{parameter}", tensor, type(part).__name__):
                        yield replace(fact, role="unregistered")


def layers_in(value: object) -> list:
    """Modules in a plain list, tuple or dict, as attributes of a module hold them unregistered."""
    held = list(value.values()) if type(value) is dict else value if type(value) in (list, tuple) else ()
    return [each for each in held[:8] if is_module(each)]


def describe(name: str, value: object, owner: str | None = None) -> TensorFact | None:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            role = "tensor"
            if owner is not None or isinstance(value, torch.nn.Parameter):
                role = "parameter" if isinstance(value, torch.nn.Parameter) else "buffer"
            return TensorFact(
                name,
                tuple(int(size) for size in value.shape),
                str(value.dtype).removeprefix("torch."),
                str(value.device),
                bool(value.requires_grad),
                bool(value.is_leaf),
                role,
                owner,
                value.grad_fn.name() if value.grad_fn is not None else "",
                0 if value.is_inference() else int(value._version),
            )
        if numpy is not None and isinstance(value, numpy.ndarray):
            return TensorFact(name, tuple(value.shape), str(value.dtype), "numpy", role="array")
    except Exception:
        return None
    return None

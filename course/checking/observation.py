"""What an answer did, as plain immutable data that can cross a process boundary and be compared."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

MAX_DEPTH = 12
MAX_ITEMS = 2_000
MAX_BYTES = 4 * 2**20  # of all tensors and arrays of one value together
MAX_TEXT = 2**20  # characters and bytes, likewise
HASHED_APART = 2**61 - 1  # CPython's hash of an int is its remainder by this: larger keys can all have the same

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


@dataclass(frozen=True)
class TensorSeen:
    """A tensor (or NumPy array). ``data`` holds its elements in row-major order, None where they are not kept."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes | None
    stride: tuple[int, ...] | None = None
    shares: tuple[int, ...] = ()  # positions of the inputs whose memory it uses
    device: str = "cpu"
    requires_grad: bool = False
    array: bool = False

    def tensor(self) -> torch.Tensor:
        """The elements as a contiguous CPU tensor; only where ``data`` was kept."""
        dtype = getattr(torch, self.dtype)
        if not self.data:
            return torch.empty(self.shape, dtype=dtype)
        return torch.frombuffer(bytearray(self.data), dtype=dtype).reshape(self.shape)


@dataclass(frozen=True)
class ModuleSeen:
    """An nn.Module: its mode and state."""

    type: str
    training: bool
    state: dict[str, Any]


@dataclass(frozen=True)
class ObjectSeen:
    """Any other object: its type, and a text for the few types whose text is safe and stable."""

    type: str
    text: str | None = None


@dataclass(frozen=True)
class ErrorSeen:
    """An exception. ``line`` is the line of the answer that raised it, None when no frame of the answer was left."""

    type: str
    bases: tuple[str, ...]
    message: str
    line: str | None = None


@dataclass(frozen=True)
class Observation:
    """Everything one call of one probe showed.

    value: the encoded result, or an ErrorSeen.
    inputs: the encoded arguments before the call (empty for a probe that calls the answer itself).
    mutated: position (among the leaves of the arguments) and encoded value of each that the call changed.
    gradients: encoded gradients of a fixed weighted sum of the results, one for each leaf that requires grad.
    note: for a requirement on the source, the place that breaks it.
    """

    value: Any
    inputs: tuple[Any, ...] = ()
    mutated: tuple[tuple[int, Any], ...] = ()
    gradients: tuple[Any, ...] | None = None
    note: str | None = None

    @property
    def error(self) -> ErrorSeen | None:
        return self.value if type(self.value) is ErrorSeen else None


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors, arrays, modules and other leaves of nested lists, tuples and dicts."""
    if depth < MAX_DEPTH and issubclass(type(value), (list, tuple)):
        for item in value:
            yield from leaves(item, depth + 1)
    elif depth < MAX_DEPTH and type(value) is dict:
        for item in value.values():
            yield from leaves(item, depth + 1)
    else:
        yield value


def memory_range(value: Any) -> tuple[int, int] | None:
    """First and last address of the whole buffer behind a tensor or NumPy array; None where there is none."""
    if issubclass(type(value), torch.Tensor):
        if value.layout is not torch.strided or value.device.type == "meta":
            return None
        storage = value.untyped_storage()
        return (storage.data_ptr(), storage.data_ptr() + storage.nbytes()) if storage.nbytes() else None
    if type(value).__name__ == "ndarray" and type(value).__module__ == "numpy":
        while type(value.base) is type(value):
            value = value.base
        import numpy

        low, high = numpy.lib.array_utils.byte_bounds(value)
        return (low, high) if high > low else None
    return None


class Encoder:
    """Turns values into plain data. It looks at exact types only, so objects with hostile methods cannot interfere."""

    def __init__(self, inputs: tuple[Any, ...] = (), own_class: type | None = None) -> None:
        self.buffers = [memory_range(leaf) for leaf in leaves(inputs)]
        self.own_class = own_class
        self.items = self.data = self.text = 0

    def __call__(self, value: Any, depth: int = 0) -> Any:
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            return ObjectSeen("too many or too deeply nested values")
        kind = type(value)
        if kind in PLAIN:
            if kind in (str, bytes) and not self._fits(value):
                return ObjectSeen(f"a {kind.__name__} of {len(value)} characters")
            return value
        if issubclass(kind, torch.Tensor):
            return self._tensor(value)
        if kind.__module__ == "numpy":
            return self._array(value)
        if issubclass(kind, nn.Module):
            entries = list(nn.Module.state_dict(value).items())[:MAX_ITEMS]
            state = {self._key(name): self._tensor(tensor) for name, tensor in entries}
            return ModuleSeen(self._type_name(kind), bool(value.training), state)
        if issubclass(kind, tuple):
            return tuple(self(item, depth + 1) for item in tuple.__iter__(value))
        if kind is list:
            return [self(item, depth + 1) for item in value[:MAX_ITEMS]]
        if kind is dict:
            return {self._key(key): self(item, depth + 1) for key, item in list(value.items())[:MAX_ITEMS]}
        if kind in (set, frozenset):
            if len(value) > MAX_ITEMS:
                return ObjectSeen(f"a set of {len(value)} items")
            return ("set", sorted(str(self._key(item)) for item in value))
        if kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
            return ObjectSeen(self._type_name(kind), str(value))
        return ObjectSeen(self._type_name(kind))

    def _type_name(self, kind: type) -> str:
        return "the answer's class" if kind is self.own_class else type.__getattribute__(kind, "__name__")

    def _key(self, key: Any) -> Any:
        kind = type(key)
        if kind not in PLAIN or (kind in (str, bytes) and not self._fits(key)):
            return self._type_name(kind)
        if kind is int and abs(key) >= HASHED_APART:
            return f"the int {key:#x}" if key.bit_length() < 1_000 else "an int of many digits"
        return f"the complex {key!r}" if kind is complex else key

    def _fits(self, text: str | bytes) -> bool:
        if self.text + len(text) > MAX_TEXT:
            return False
        self.text += len(text)
        return True

    def _keeps(self, size: int) -> bool:
        if self.data + size > MAX_BYTES:
            return False
        self.data += size
        return True

    def _shares(self, value: Any) -> tuple[int, ...]:
        mine = memory_range(value)
        if mine is None:
            return ()
        return tuple(i for i, other in enumerate(self.buffers) if other and mine[0] < other[1] and other[0] < mine[1])

    def _tensor(self, value: torch.Tensor) -> TensorSeen | ObjectSeen:
        name = str(value.dtype).removeprefix("torch.")
        if value.layout is not torch.strided or value.is_quantized or value.is_nested:
            return ObjectSeen(f"a {value.layout} tensor of dtype {name}")
        keep = value.device.type != "meta" and self._keeps(value.numel() * value.element_size())
        data = None
        if keep:
            plain = value.detach().resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
            data = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
        return TensorSeen(
            shape=tuple(value.shape),
            dtype=name,
            data=data,
            stride=tuple(value.stride()),
            shares=self._shares(value),
            device=value.device.type,
            requires_grad=value.requires_grad,
        )

    def _array(self, value: Any) -> TensorSeen | ObjectSeen:
        import numpy

        array = numpy.asarray(value)
        name = "bool" if array.dtype == bool else array.dtype.name
        if not isinstance(getattr(torch, name, None), torch.dtype) or not self._keeps(array.nbytes):
            return ObjectSeen(f"a NumPy array of dtype {name}")
        stride = tuple(step // array.itemsize for step in array.strides)
        return TensorSeen(tuple(array.shape), name, array.tobytes(), stride, self._shares(value), array=True)


SEEN_CLASSES = {cls.__name__: cls for cls in (TensorSeen, ModuleSeen, ObjectSeen, ErrorSeen, Observation)}


class _PlainUnpickler(pickle.Unpickler):
    """Loads plain containers and the classes above; anything else is refused, so a message cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in SEEN_CLASSES:
            return SEEN_CLASSES[name]
        if module == "builtins" and name in ("Ellipsis", "complex"):
            return {"Ellipsis": ..., "complex": complex}[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not part of an observation")


def dump_message(message: Any) -> bytes:
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def load_message(data: bytes) -> Any:
    """Inverse of :func:`dump_message`; raises pickle.UnpicklingError for anything but observations and plain data."""
    return _PlainUnpickler(io.BytesIO(data)).load()

"""Tensor arithmetic in steps and datasets that runs and gives other numbers than were meant."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from course.doctor import axis_looks, datasets
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup


def examine(setup: Setup) -> Iterator[Finding]:
    """Bytes that wrap, and axes that were moved with view."""
    sources = [
        (place, recording.events)
        for place, recording in (("a step", setup.training), ("the evaluation", setup.evaluation))
        if recording is not None
    ]
    dataset = datasets.dataset_of(setup.loader)
    if dataset is not None and len(dataset):
        with setup.scratch():
            sources.insert(0, ("a sample of the dataset", _reading(dataset)))
    found: set[str] = set()
    for place, events in sources:
        for event in events:
            if event.kind == "wrap" and "wrap" not in found:
                found.add("wrap")
                yield Finding(
                    "uint8-overflow",
                    f"In {place} `{event.name}` works on bytes of shape {event.shape}: {event.number} results lie "
                    "outside 0 "
                    "to 255 and were taken modulo 256.",
                )
            elif event.kind == "poured" and "poured" not in found:
                found.add("poured")
                yield Finding(
                    "reshape-instead-of-permute",
                    f"In {place} `{event.name}` makes {event.after} out of {event.before}: the sizes are the same in "
                    "another "
                    "order, and view and reshape keep the order of the elements, so they end up in other places than "
                    "by "
                    "permute or transpose.",
                )


_IN_PLACE = {"add_": "add", "__iadd__": "add", "sub_": "sub", "__isub__": "sub", "mul_": "mul", "__imul__": "mul"}


class _Bytes(np.ndarray):
    """An array of bytes that notes where NumPy's arithmetic on it wraps."""

    events: ClassVar[list[Any]] = []

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [i.view(np.ndarray) if isinstance(i, _Bytes) else i for i in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(o.view(np.ndarray) if isinstance(o, _Bytes) else o for o in out)
        watched = method == "__call__" and ufunc in (np.add, np.subtract, np.multiply)
        wide = ufunc(*(np.asarray(i, dtype=np.int64) for i in plain)) if watched and _whole(plain) else None
        result = getattr(ufunc, method)(*plain, **kwargs)
        if wide is not None and isinstance(result, np.ndarray) and result.dtype == np.uint8 and (wide != result).any():
            event = {"name": ufunc.__name__, "number": int((wide != result).sum()), "shape": result.shape}
            self.events.append(SimpleNamespace(kind="wrap", **event))
        if isinstance(result, np.ndarray) and result.dtype == np.uint8 and out is None:
            return result.view(_Bytes)
        return result if out is None else out[0]


def _whole(values: list[Any]) -> bool:
    return all(np.asarray(value).dtype.kind in "iub" for value in values)


class _Reader(TorchFunctionMode):
    """Notes what the code of a dataset does with tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []
        self.phase = "data"
        self._within: list[str] = []

    def record(self, kind: str, **data: Any) -> None:
        if len(self.events) < 1000:
            self.events.append(SimpleNamespace(kind=kind, **data))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = None
        name = getattr(func, "__name__", "")
        if name in _IN_PLACE and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.uint8:
            with torch._C.DisableTorchFunction():
                before = args[0].int()
        result = func(*args, **(kwargs or {}))
        if before is not None:
            with torch._C.DisableTorchFunction():
                wide = [a.int() if isinstance(a, torch.Tensor) else a for a in args[1:]]
                number = int((getattr(before, _IN_PLACE[name])(*wide).int() != result.int()).sum())
            if number:
                self.record("wrap", name=name, number=number, shape=tuple(result.shape))
        look = axis_looks.LOOKS.get(func)
        if look is not None:
            with torch._C.DisableTorchFunction():
                look(self, func, args, kwargs or {}, result)
        return result


def _reading(dataset: Any) -> list[Any]:
    _Bytes.events.clear()
    kept = [(owner.__dict__, dict(owner.__dict__)) for owner in _owners(dataset)]
    try:
        for members, _ in kept:
            for name, value in list(members.items()):
                if type(value) is np.ndarray and value.dtype == np.uint8:
                    members[name] = value.view(_Bytes)
                elif (
                    type(value) is list and value and all(type(v) is np.ndarray and v.dtype == np.uint8 for v in value)
                ):
                    members[name] = [item.view(_Bytes) for item in value]
        with _Reader() as reader:
            datasets.read(dataset, datasets.spread(len(dataset), 4), lambda: True)
    finally:
        for members, before in kept:
            members.update(before)
    return [*reader.events, *_Bytes.events]


def _owners(dataset: Any) -> list[Any]:
    found = {id(owner): owner for owner in (dataset, datasets.base_of(dataset))}
    return [owner for owner in found.values() if isinstance(getattr(owner, "__dict__", None), dict)]

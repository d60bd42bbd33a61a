"""Observations in words."""

from __future__ import annotations

from typing import Any

from course.checking.observation import ErrorSeen, ModuleSeen, ObjectSeen, TensorSeen

MAX_VALUES = 12
MAX_TEXT = 160


def describe(value: Any) -> str:
    """An encoded value in a phrase: "a tensor of shape (2, 3), float32, values [[...]]"."""
    match value:
        case TensorSeen():
            return f"a {_kind(value)} of shape {shape_text(value.shape)}, dtype {value.dtype}{_values(value)}"
        case ErrorSeen():
            where = f" at `{value.line}`" if value.line else ""
            return f"{value.type}{where}" + (f": {first_line(value.message)}" if value.message else "")
        case ModuleSeen():
            return f"a module of class {value.type}"
        case ObjectSeen(text=None):
            return _of_class(value.type)
        case ObjectSeen():
            return str(value.text)
        case None:
            return "None"
        case dict():
            return "a dict with the keys " + ", ".join(repr(key) for key in list(value)[:MAX_VALUES])
        case tuple() | list():
            return _sequence(value)
    return shorten(repr(value))


def with_type(value: Any) -> str:
    """A value with its type, for where the types are what differs."""
    if value is None:
        return "None (nothing was returned)"
    if isinstance(value, (bool, int, float, complex, str, bytes)):
        return f"the Python {type(value).__name__} {describe(value)}"
    return describe(value)


def count(items: int) -> str:
    return f"{items} item" if items == 1 else f"{items} items"


def brief(value: Any) -> str:
    """An input in a phrase, with strides where they are not those of a contiguous tensor."""
    if isinstance(value, TensorSeen) and 0 not in value.shape and value.stride not in (None, _row_major(value.shape)):
        return f"{describe(value)}, strides {value.stride}"
    return describe(value)


def shape_text(shape: tuple[int, ...]) -> str:
    return str(tuple(shape))


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return shorten(lines[0], 220) if lines else ""


def _kind(value: TensorSeen) -> str:
    place = "" if value.device == "cpu" else f" on {value.device}"
    return ("NumPy array" if value.array else "tensor") + place


def _values(value: TensorSeen) -> str:
    count = 1
    for size in value.shape:
        count *= size
    if value.data is None or not 0 < count <= MAX_VALUES:
        return ""
    return ", values " + str(_rounded(value.tensor().tolist()))


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _sequence(value: tuple[Any, ...] | list[Any]) -> str:
    if all(isinstance(item, (int, float, bool, str, type(None))) for item in value) and len(value) <= MAX_VALUES:
        return shorten(repr(value))
    name = type(value).__name__
    return f"a {name} of {len(value)}: " + shorten(", ".join(describe(item) for item in value[:3]))


def _of_class(name: str) -> str:
    return name if name.startswith(("a ", "an ", "the ", "too ")) else f"an object of class {name}"


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))

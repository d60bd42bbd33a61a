"""Lesson 07: make a checkpoint of plain values, so that it loads without trust."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import io
import pickle
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from course.checking import Exercise

exercise = Exercise(
    "checkpoints.plain_values",
    title="A file that loads without trust",
    task="""
        `plain(value)` turns what a run wants to save into values that `torch.load(..., weights_only=True)` accepts.
        Nothing that it is given changes.

        | given | returned |
        | --- | --- |
        | a tensor, `None`, `bool`, `int`, `float`, `str` | the same object |
        | a NumPy scalar, such as `np.float64(0.5)`, `np.bool_(True)` or `np.str_("a")` | a Python number or `str` |
        | a NumPy array | a tensor of the same dtype, with memory of its own |
        | a `Path` | a `str` |
        | an object of a dataclass, an `argparse.Namespace` | a `dict` of its fields |
        | a dict of any kind | a `dict`, keys and values made plain |
        | a list | a `list` of plain items |
        | a tuple | a `tuple` of plain items |
        | anything else | `TypeError`, with the name of its type in the message |

        They nest: a dataclass may hold a dict that holds a NumPy scalar.
        """,
    hints=(
        "Begin with the most special cases. Is `np.float64(0.5)` an instance of `float`? And is a dataclass itself "
        "(the class) an object of it?",
        "Check `isinstance(value, np.generic)` before float and use `.item()`. `dataclasses.is_dataclass(value) and "
        "not isinstance(value, type)`; its fields are in vars(value). Dicts, lists and tuples call plain for what they "
        "hold.",
    ),
)


@exercise.stub
def plain(value: Any) -> Any:
    """Return value as tensors, numbers, strings, lists, tuples and dicts; TypeError for what has no such form."""
    raise NotImplementedError


@exercise.reference
def case_by_case(value):
    def made(value):
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
            return value
        if isinstance(value, np.ndarray):
            return torch.tensor(value)
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, dict):
            return {made(key): made(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [made(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            return made(vars(value))
        raise TypeError(f"a {type(value).__name__} has no plain form; give a tensor, a number, a string or a container")

    return made(value)


@exercise.alternative
def by_matching(value):
    def made(value):
        match value:
            case np.generic():
                return value.item()
            case None | torch.Tensor() | bool() | int() | float() | str():
                return value
            case np.ndarray():
                return torch.from_numpy(value.copy())
            case Path():
                return value.as_posix() if value.as_posix() == str(value) else str(value)
            case argparse.Namespace():
                return made(vars(value))
            case dict():
                return dict(zip(map(made, value.keys()), map(made, value.values())))
            case list():
                return list(map(made, value))
            case tuple():
                return tuple(map(made, value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: made(getattr(value, field.name)) for field in dataclasses.fields(value)}
        raise TypeError(type(value).__name__)

    return made(value)


@exercise.wrong(
    "np.float64 is a subclass of float, so it passes as a plain number, and weights_only=True refuses it. NumPy "
    "scalars have to be asked for before Python's numbers.",
    fault="weights-only-refused",
)
def numpy_after_float(value):
    def made(value):
        if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return torch.tensor(value)
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, dict):
            return {made(key): made(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [made(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            return made(vars(value))
        raise TypeError(f"a {type(value).__name__} has no plain form")

    return made(value)


@exercise.wrong(
    "Only the top is made plain. One NumPy scalar deep inside a dict is enough for the whole file to be refused: "
    "dicts, lists, tuples and dataclasses have to be gone through.",
    fault="weights-only-refused",
)
def only_the_top(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return dict(vars(value))
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, str, list, tuple)):
        return value
    if isinstance(value, dict):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no plain form")


@exercise.wrong(
    "What has no plain form becomes a text. The file loads, and nobody can make the object of it again: a set, a "
    "function or a date comes back as its description. Say so while the run can still be mended.",
    fault="weights-only-refused",
)
def everything_else_as_text(value):
    def made(value):
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
            return value
        if isinstance(value, np.ndarray):
            return torch.tensor(value)
        if isinstance(value, dict):
            return {made(key): made(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [made(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            return made(vars(value))
        return str(value)

    return made(value)


@exercise.wrong(
    "Keys are left as they are. A dict whose keys are NumPy integers, say of class numbers, is refused as well.",
    fault="weights-only-refused",
)
def keys_left(value):
    def made(value):
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
            return value
        if isinstance(value, np.ndarray):
            return torch.tensor(value)
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, dict):
            return {key: made(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [made(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            return made(vars(value))
        raise TypeError(f"a {type(value).__name__} has no plain form")

    return made(value)


@exercise.wrong(
    "Arrays become lists of numbers. They load, but the dtype is gone, and a million numbers one by one take many "
    "times the bytes of a tensor."
)
def arrays_as_lists(value):
    def made(value):
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
            return value
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, dict):
            return {made(key): made(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [made(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            return made(vars(value))
        raise TypeError(f"a {type(value).__name__} has no plain form")

    return made(value)


@exercise.wrong(
    "torch.from_numpy shares the array's memory: when the run goes on to write into the array, what was to be saved "
    "changes too.",
    fault="numpy-shared-memory",
)
def arrays_shared(value):
    def made(value):
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
            return value
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, dict):
            return {made(key): made(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [made(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            return made(vars(value))
        raise TypeError(f"a {type(value).__name__} has no plain form")

    return made(value)


@exercise.wrong("Tuples come back as lists. random.setstate, for one, takes a tuple and refuses a list.")
def tuples_as_lists(value):
    def made(value):
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
            return value
        if isinstance(value, np.ndarray):
            return torch.tensor(value)
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, dict):
            plain_dict = {}
            for key, item in value.items():
                plain_dict[made(key)] = made(item)
            return plain_dict
        if isinstance(value, (list, tuple)):
            return [made(item) for item in value]
        if isinstance(value, argparse.Namespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            return made(vars(value))
        raise TypeError(f"a {type(value).__name__} has no plain form")

    return made(value)


@dataclasses.dataclass
class Settings:
    rate: Any
    folder: Any
    extra: Any = None


class Pair(NamedTuple):
    first: Any
    second: Any


class Colour(enum.Enum):
    RED = 1


def typed(value):
    """Types as well as values: a comparison of values alone takes np.float64 for float, and a list for a tuple."""
    if isinstance(value, torch.Tensor):
        return type(value).__name__, str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [typed(item) for item in value]
    return type(value).__name__, str(value)


def made_plain(answer, value):
    """Types and values of what the answer returns, and whether a file with it can be read."""
    result = answer(value)
    torch.save(result, file := io.BytesIO())
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
    except pickle.UnpicklingError:
        return typed(result), "weights_only=True refuses the file"
    return typed(result), "the file loads"


@exercise.probe
def plain_values(answer):
    return [made_plain(answer, value) for value in (None, True, 3, 0.5, "text", torch.arange(3))]


@exercise.probe
def a_numpy_float(answer):
    return made_plain(answer, np.float64(0.5))


@exercise.probe
def other_numpy_scalars(answer):
    return [made_plain(answer, value) for value in (np.float32(0.5), np.int64(3), np.bool_(True), np.str_("a"))]


@exercise.probe
def arrays(answer):
    given = [np.arange(4, dtype=np.int16).reshape(2, 2), np.zeros(0), np.array(1.5, dtype=np.float32)]
    return [made_plain(answer, array) for array in given]


@exercise.probe
def an_array_that_changes_later(answer):
    array = np.zeros(3)
    result = answer(array)
    array[0] = 7
    return result


@exercise.probe
def a_path(answer):
    return made_plain(answer, Path("runs") / "best.pt")


@exercise.probe
def a_dict_in_a_dict(answer):
    return made_plain(answer, {"best": {"accuracy": np.float64(0.9), "epoch": np.int64(3)}, "w": torch.ones(2)})


@exercise.probe
def keys_of_numpy(answer):
    return made_plain(answer, {np.int64(3): "three", "a": OrderedDict(b=1), (np.int64(1), 2): 0})


@exercise.probe
def lists_and_tuples(answer):
    return made_plain(answer, [np.float32(1), (np.int64(2), [3, np.bool_(False)]), (), []])


@exercise.probe
def a_named_tuple(answer):
    return made_plain(answer, {"pair": Pair(np.float64(1), 2)})


@exercise.probe
def a_dataclass(answer):
    return made_plain(answer, Settings(rate=np.float64(0.1), folder=Path("runs"), extra={"seeds": [np.int64(1)]}))


@exercise.probe
def a_dataclass_in_a_list(answer):
    return made_plain(answer, [Settings(0.1, "runs", Settings(np.float64(1), None))])


@exercise.probe
def a_namespace(answer):
    return made_plain(answer, argparse.Namespace(lr=np.float64(0.1), out=Path("runs"), layers=(1, 2)))


def unfit(answer, value):
    try:
        result = answer(value)
    except TypeError as error:
        return "TypeError", (value.__name__ if isinstance(value, type) else type(value).__name__) in str(error)
    return "no error", type(result).__name__


@exercise.probe
def no_plain_form(answer):
    return [unfit(answer, value) for value in ({1, 2}, range(3), Colour.RED, object(), torch.nn.ReLU())]


@exercise.probe
def no_plain_form_deep_inside(answer):
    return unfit(lambda value: answer({"a": [value]}), frozenset({1}))


@exercise.probe
def a_dataclass_itself(answer):
    try:
        return "no error", type(answer(Settings)).__name__
    except TypeError as error:
        return "TypeError", re.search(r"\btype\b|Settings", str(error)) is not None


@exercise.probe
def tensors_stay_the_same_objects(answer):
    tensor, weight = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    result = answer({"a": tensor, "b": [weight]})
    return result["a"] is tensor, result["b"][0] is weight


@exercise.probe
def what_was_given_stays(answer):
    inner, settings = [np.float64(1)], Settings(np.float64(1), {"a": np.int64(1)})
    given = {"inner": inner, "settings": settings}
    answer(given)
    return [
        list(given) == ["inner", "settings"],
        given["inner"] is inner,
        given["settings"] is settings,
        type(inner[0]).__name__,
        type(settings.rate).__name__,
        type(settings.folder["a"]).__name__,
    ]

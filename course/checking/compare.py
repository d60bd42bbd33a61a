"""Where two observations differ, looking only at the aspects that a task asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from course.checking.describe import count, describe, shape_text, with_type
from course.checking.exercise import Exercise
from course.checking.observation import ErrorSeen, ModuleSeen, Observation, TensorSeen


@dataclass(frozen=True)
class Difference:
    """One difference in words. ``path`` says where in a nested result, such as ``[0]``."""

    aspect: str
    seen: str
    expected: str
    path: str = ""


def first_difference(exercise: Exercise, seen: Observation, expected: Observation) -> Difference | None:
    """The first difference in the exercise's aspects; None when the observations agree."""
    return next(differences(exercise, seen, expected), None)


def behaves_like(exercise: Exercise, seen: Observation, other: Observation) -> bool:
    """True when two answers cannot be told apart on a probe; exceptions must agree in type and number-free message."""
    if seen.error and other.error:
        same = seen.error.type == other.error.type and numberless(seen.error.message) == numberless(other.error.message)
        return same and not list(_mutations(exercise, seen, other))
    return not seen.error and not other.error and first_difference(exercise, seen, other) is None


def numberless(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def differences(exercise: Exercise, seen: Observation, expected: Observation) -> Iterator[Difference]:
    if seen.error or expected.error:
        yield from _errors(seen.error, expected.error, seen, expected)
    yield from _mutations(exercise, seen, expected)
    if not seen.error and not expected.error:
        yield from _values(exercise, seen.value, expected.value, "")
    if "gradients" in exercise.compare and seen.gradients != expected.gradients:
        for i, (got, want) in enumerate(zip(seen.gradients or (), expected.gradients or (), strict=False)):
            for difference in _values(exercise, got, want, ""):
                text = f"gradient of input {i + 1}: "
                yield Difference("gradients", text + difference.seen, text + difference.expected)


def _errors(
    error: ErrorSeen | None, wanted: ErrorSeen | None, seen: Observation, expected: Observation
) -> Iterator[Difference]:
    if error and wanted:
        if wanted.type not in error.bases:
            yield Difference("exception", describe(error), f"{wanted.type} raised")
    elif error:
        yield Difference("exception", describe(error), describe(expected.value))
    elif wanted:
        yield Difference("exception", describe(seen.value), f"{wanted.type} raised")


def _mutations(exercise: Exercise, seen: Observation, expected: Observation) -> Iterator[Difference]:
    got, wanted = dict(seen.mutated), dict(expected.mutated)
    for position in sorted(got.keys() | wanted.keys()):
        if position not in wanted:
            yield Difference("mutation", f"input {position + 1} was changed by the call", "inputs left as they were")
        elif position not in got:
            yield Difference(
                "mutation", f"input {position + 1} was left as it was", f"input {position + 1} changed in place"
            )
        else:
            for difference in _values(exercise, got[position], wanted[position], ""):
                where = f"input {position + 1} after the call: "
                yield Difference("mutation", where + difference.seen, where + difference.expected)


def _values(exercise: Exercise, seen: Any, expected: Any, path: str) -> Iterator[Difference]:
    if isinstance(seen, TensorSeen) and isinstance(expected, TensorSeen):
        yield from _tensors(exercise, seen, expected, path)
    elif isinstance(seen, ModuleSeen) and isinstance(expected, ModuleSeen):
        if seen.training != expected.training:
            yield Difference("mode", f"training={seen.training}", f"training={expected.training}", path)
        yield from _values(exercise, seen.state, expected.state, path + ".state_dict()")
    elif isinstance(seen, dict) and isinstance(expected, dict):
        yield from _dicts(exercise, seen, expected, path)
    elif isinstance(seen, (tuple, list)) and isinstance(expected, (tuple, list)):
        if len(seen) != len(expected):
            yield Difference("value", f"{count(len(seen))}: {describe(seen)}", count(len(expected)), path)
            return
        for i, (got, want) in enumerate(zip(seen, expected, strict=True)):
            yield from _values(exercise, got, want, f"{path}[{i}]")
    elif _is_number(seen) and _is_number(expected):
        yield from _numbers(exercise, seen, expected, path)
    elif type(seen) is not type(expected):
        yield Difference("type", with_type(seen), with_type(expected), path)
    elif seen != expected:
        yield Difference("value", describe(seen), describe(expected), path)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, complex)


def _numbers(exercise: Exercise, seen: Any, expected: Any, path: str) -> Iterator[Difference]:
    if type(expected) is int and type(seen) is not int and "dtype" in exercise.compare:
        yield Difference("dtype", f"{describe(seen)} ({type(seen).__name__})", "an int", path)
    elif type(seen) is type(expected) is int:
        if seen != expected:
            yield Difference("value", describe(seen), describe(expected), path)
    elif not torch.isclose(
        torch.tensor(seen, dtype=torch.complex128),
        torch.tensor(expected, dtype=torch.complex128),
        rtol=1e-5 if exercise.rtol is None else exercise.rtol,
        atol=1e-7 if exercise.atol is None else exercise.atol,
        equal_nan=True,
    ):
        yield Difference("value", describe(seen), describe(expected), path)


def _dicts(exercise: Exercise, seen: dict[Any, Any], expected: dict[Any, Any], path: str) -> Iterator[Difference]:
    if seen.keys() != expected.keys():
        yield Difference("value", describe(seen), describe(expected), path)
        return
    for key in expected:
        yield from _values(exercise, seen[key], expected[key], f"{path}[{key!r}]")


def _tensors(exercise: Exercise, seen: TensorSeen, expected: TensorSeen, path: str) -> Iterator[Difference]:
    aspects = exercise.compare
    if seen.array != expected.array or seen.device != expected.device:
        yield Difference("type", describe(seen), describe(expected), path)
        return
    if "shape" in aspects and seen.shape != expected.shape:
        yield Difference("shape", f"shape {shape_text(seen.shape)}", f"shape {shape_text(expected.shape)}", path)
        return
    if "dtype" in aspects and seen.dtype != expected.dtype:
        yield Difference("dtype", f"dtype {seen.dtype}", f"dtype {expected.dtype}", path)
    if "value" in aspects and not _same_values(exercise, seen, expected):
        yield Difference("value", *_first_element(exercise, seen, expected), path)
    if "sharing" in aspects and seen.shares != expected.shares:
        yield Difference("sharing", _sharing(seen), _sharing(expected), path)
    if "strides" in aspects and _strides(seen) != _strides(expected):
        yield Difference("strides", f"strides {seen.stride}", f"strides {expected.stride}", path)
    if "gradients" in aspects and seen.requires_grad != expected.requires_grad:
        yield Difference("gradients", _connection(seen), _connection(expected), path)


def _same_values(exercise: Exercise, seen: TensorSeen, expected: TensorSeen) -> bool:
    if seen.data is None or expected.data is None:
        return seen.data is expected.data
    if seen.dtype == expected.dtype and seen.data == expected.data:
        return True  # bit for bit, NaN included
    got, want = seen.tensor(), expected.tensor()
    if got.numel() != want.numel():
        return False
    try:
        torch.testing.assert_close(
            got.reshape(-1), want.reshape(-1), rtol=exercise.rtol, atol=exercise.atol, equal_nan=True, check_dtype=False
        )
    except AssertionError:
        return False
    return True


def _first_element(exercise: Exercise, seen: TensorSeen, expected: TensorSeen) -> tuple[str, str]:
    """Both values in words; of large tensors the first element that differs."""
    words = describe(seen), describe(expected)
    if words[0] != words[1] or seen.data is None or seen.shape != expected.shape:
        return words
    got, want = seen.tensor().reshape(-1), expected.tensor().reshape(-1)
    options = {"rtol": exercise.rtol, "atol": exercise.atol} if exercise.rtol is not None else {}
    close = torch.isclose(got.to(want.dtype), want, equal_nan=want.is_floating_point() or want.is_complex(), **options)
    place = int((~close).int().argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(place), seen.shape)]
    return f"element {index} is {got[place].item()}", f"element {index} is {want[place].item()}"


def same_form(seen: Any, expected: Any) -> bool:
    """True when two values have the same type and, for containers, the same length and types of items."""
    if isinstance(seen, (tuple, list)) and isinstance(expected, (tuple, list)):
        return len(seen) == len(expected) and all(map(same_form, seen, expected))
    return type(seen) is type(expected)


def _sharing(value: TensorSeen) -> str:
    if not value.shares:
        return "memory of its own"
    return "memory shared with input " + ", ".join(str(i + 1) for i in value.shares)


def _strides(value: TensorSeen) -> tuple[int, ...]:
    """Strides along axes of more than one element; the others have no effect."""
    if value.stride is None or 0 in value.shape:
        return ()
    return tuple(step for size, step in zip(value.shape, value.stride, strict=True) if size > 1)


def _connection(value: TensorSeen) -> str:
    return "a result that carries gradients" if value.requires_grad else "a result without requires_grad"

"""The objects in the frames of a live exception, for what shapes and dtypes alone do not tell."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.facts import is_module

_MOST = 200


def local(error: ParsedError, function: str, name: str, *, outermost: bool = False) -> Any:
    """The object of that name in the innermost (or outermost) frame of `function`; None where there is none."""
    found = [frame for frame in _frames(error) if frame.f_code.co_name == function]
    return found[0 if outermost else -1].f_locals.get(name) if found else None


def named(error: ParsedError, name: str) -> Any:
    """The object that the user's innermost frame calls `name`, a plain name; None where there is none."""
    frames = user_frames(error)
    return frames[-1].f_locals.get(name, frames[-1].f_globals.get(name)) if frames else None


def modules(error: ParsedError) -> Iterator[tuple[str, Any]]:
    """(name, module) of those that the user's frames hold, by themselves or as an attribute of what they hold."""
    told: set[int] = set()
    for frame in user_frames(error):
        for name, value in list(frame.f_locals.items())[:_MOST]:
            attributes = getattr(value, "__dict__", None)
            inner = attributes.items() if type(attributes) is dict and not is_module(value) else ()
            for path, each in [(name, value), *((f"{name}.{key}", each) for key, each in list(inner)[:_MOST])]:
                if is_module(each) and id(each) not in told:
                    told.add(id(each))
                    yield path, each


def parameters(error: ParsedError) -> Iterator[tuple[str, Any]]:
    """(name, parameter) of `modules`."""
    for name, module in modules(error):
        yield from ((f"{name}.{key}", parameter) for key, parameter in module.named_parameters())


def user_frames(error: ParsedError) -> list[FrameType]:
    """The user's own frames, outermost first; none for a text."""
    pairs = zip(reversed(_frames(error)), reversed(error.frames), strict=False)
    return [frame for frame, parsed in pairs if parsed.is_user][::-1]


def _frames(error: ParsedError) -> list[FrameType]:
    walked = traceback.walk_tb(error.error.__traceback__) if error.error is not None else ()
    return [frame for frame, _ in walked]

"""Parameters of a run: names and types checked against the manifest, as papermill does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from course.curriculum import DEVICES, PROFILES, Lesson
from course.publishing import UsageError

CHOICES = {"device": DEVICES, "profile": PROFILES}


def parse(assignments: Iterable[str]) -> dict[str, str]:
    """Turn `name=value` strings into a dict. Raises UsageError for one without a name or `=`."""
    pairs = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (equals and name.strip()):
            raise UsageError(f"--param {assignment!r} should look like name=value.")
        pairs[name.strip()] = value.strip()
    return pairs


def choose(
    lessons: Sequence[Lesson], given: Mapping[str, str], *, device: str | None, profile: str | None
) -> dict[str, dict[str, object]]:
    """Return the parameters of each lesson, by its number: the manifest's, replaced by what was given.

    `given` must be known to every lesson; `device` and `profile` (None: not asked for) go to the lessons that have
    such a parameter. Raises UsageError, which lists the valid names or values.
    """
    for name, value in (("device", device), ("profile", profile)):
        if value is not None and given.get(name, value) != value:
            raise UsageError(f"The {name} is asked for twice: {value!r} and {given[name]!r}. Keep one.")
    chosen = {}
    for lesson in lessons:
        values = dict(lesson.parameters)
        for name, text in given.items():
            if name not in values:
                valid = ", ".join(values) or "none"
                raise UsageError(f"Lesson {lesson.name} has no parameter {name!r}. Its parameters are: {valid}.")
            values[name] = convert(name, text, values[name])
        for name, value in (("device", device), ("profile", profile)):
            if value is not None and name in values:
                values[name] = convert(name, value, values[name])
        chosen[lesson.number] = values
    return chosen


def convert(name: str, text: str, default: object) -> object:
    """Return `text` as a value of the default's type. Raises UsageError, which says what is valid."""
    choices = CHOICES.get(name)
    if choices and text not in choices:
        raise UsageError(f"The parameter {name!r} cannot be {text!r}. It can be: {', '.join(choices)}.")
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise UsageError(f"The parameter {name!r} cannot be {text!r}. It can be: true, false.")
        return text.lower() == "true"
    try:
        return type(default)(text)
    except ValueError:
        kind = {int: "an integer", float: "a number"}.get(type(default), type(default).__name__)
        raise UsageError(f"The parameter {name!r} cannot be {text!r}. It is {kind}, by default {default!r}.") from None

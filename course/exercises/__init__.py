"""The exercises: a folder a lesson, a file an exercise; ``tensors.flatten`` is ``exercises/tensors/flatten.py``."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course.checking import Exercise


class UnknownExercise(LookupError):
    """No exercise has this id."""

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def exercise_ids() -> tuple[str, ...]:
    """All ids, sorted."""
    here = Path(__file__).parent
    return tuple(
        sorted(
            f"{room.name}.{item.name}"
            for room in pkgutil.iter_modules([str(here)])
            if room.ispkg
            for item in pkgutil.iter_modules([str(here / room.name)])
            if not item.name.startswith("_")
        )
    )


def exercise_path(exercise_id: str) -> Path:
    """The file that defines an exercise."""
    _require(exercise_id)
    return Path(__file__).parent.joinpath(*exercise_id.split(".")).with_suffix(".py")


def load_exercise(exercise_id: str) -> Exercise:
    """Import the file of an exercise and return it. Raises UnknownExercise, which names close ids."""
    from course.checking import Exercise

    _require(exercise_id)
    module = importlib.import_module(f"course.exercises.{exercise_id}")
    for value in vars(module).values():
        if isinstance(value, Exercise) and value.id == exercise_id:
            return value
    raise UnknownExercise(
        f"{module.__file__} defines no exercise with the id {exercise_id!r}; its id must be room.file"
    )


def all_exercises() -> Iterator[Exercise]:
    """Every exercise, in the order of ids."""
    return map(load_exercise, exercise_ids())


def _require(exercise_id: str) -> None:
    if exercise_id in exercise_ids():
        return
    close = difflib.get_close_matches(str(exercise_id), exercise_ids(), n=3, cutoff=0.5)
    advice = f"Did you mean {', '.join(close)}?" if close else "`course exercises` lists all ids."
    raise UnknownExercise(f"There is no exercise {exercise_id!r}. {advice}")

"""``hint`` and ``solution``: help in steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from course.exercises import UnknownExercise, load_exercise
from course.notebook import display
from course.notebook.progress import keep

if TYPE_CHECKING:
    from course.checking import Exercise

_given: dict[str, int] = {}
_solved: set[str] = set()


def hint(exercise_id: str) -> None:
    """Show the next hint of an exercise; after the last, the last one again.

    An unknown id raises UnknownExercise, which names close ids.
    """
    with display.without_traceback(UnknownExercise):
        exercise = load_exercise(exercise_id)
    give_hint(exercise, display.show)


def solution(exercise_id: str) -> None:
    """Show our answer to an exercise, and other right ones, under the learner's name.

    An unknown id raises UnknownExercise, which names close ids.
    """
    with display.without_traceback(UnknownExercise):
        exercise = load_exercise(exercise_id)
    give_solution(exercise, display.show)


def next_hint_number(exercise: Exercise) -> int:
    """Which hint comes next, from 1; after the last, the last one again; 0 where there are none."""
    return min(_given.get(exercise.id, 0) + 1, len(exercise.hints))


def solution_was_shown(exercise: Exercise) -> bool:
    """Whether this kernel has shown the exercise's solution."""
    return exercise.id in _solved


def give_hint(exercise: Exercise, show: Callable[[display.Shown], None]) -> None:
    """Hand the next hint to `show`; from now on it counts as given."""
    number = next_hint_number(exercise)
    show(_hint(exercise, number))
    if number and _given.get(exercise.id) != number:
        _given[exercise.id] = number
        keep("hint", exercise.id)


def give_solution(exercise: Exercise, show: Callable[[display.Shown], None]) -> None:
    """Hand the reference and its alternatives to `show`; from now on they count as shown."""
    show(_solutions(exercise))
    _solved.add(exercise.id)
    keep("solution", exercise.id)


def _hint(exercise: Exercise, number: int) -> display.Shown:
    count = len(exercise.hints)
    if not number:
        text = f'{exercise.id} has no hints. `solution("{exercise.id}")` shows how it can be done.'
        return display.Shown(text, display.box(text, tone="note", kind="hint", role="status"))
    heading = f"{exercise.id}: hint {number} of {count}"
    body = re.sub(r"\s*\n(?!\n)\s*", " ", exercise.hints[number - 1].strip())
    after = (
        f'This was the last hint. `solution("{exercise.id}")` shows how it can be done.'
        if number == count
        else f'`hint("{exercise.id}")` gives the next one.'
    )
    parts = (display.paragraph(body), display.paragraph(after))
    page = display.box(heading, *parts, tone="note", kind="hint", role="status")
    return display.Shown(f"{heading}\n  {body}\n  {after}", page)


def _solutions(exercise: Exercise) -> display.Shown:
    sources = [("one way", exercise.solution_source())]
    sources += [("another way", source) for source in exercise.alternative_sources()]
    heading = f"{exercise.id}: {exercise.title}"
    text = "\n\n".join([heading, *(f"# {label}\n{source.strip()}" for label, source in sources)])
    page = display.box(
        heading,
        display.labelled((label, display.preformatted(source.strip())) for label, source in sources),
        tone="note",
        kind="solution",
    )
    return display.Shown(text, page)

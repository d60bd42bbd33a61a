"""``hint`` and ``solution``: help in steps."""

from __future__ import annotations

import re

from course.exercises import UnknownExercise, load_exercise
from course.notebook import display

_given: dict[str, int] = {}


def hint(exercise_id: str) -> None:
    """Show the next hint of an exercise; after the last, the last one again.

    An unknown id raises UnknownExercise, which names close ids.
    """
    with display.without_traceback(UnknownExercise):
        exercise = load_exercise(exercise_id)
    hints = exercise.hints
    if not hints:
        text = f'{exercise_id} has no hints. `solution("{exercise_id}")` shows how it can be done.'
        display.show(display.Shown(text, display.box(text, tone="note", kind="hint", role="status")))
        return
    number = min(_given.get(exercise_id, 0) + 1, len(hints))
    _given[exercise_id] = number
    heading = f"{exercise_id}: hint {number} of {len(hints)}"
    body = re.sub(r"\s*\n(?!\n)\s*", " ", hints[number - 1].strip())
    after = (
        f'This was the last hint. `solution("{exercise_id}")` shows how it can be done.'
        if number == len(hints)
        else f'`hint("{exercise_id}")` gives the next one.'
    )
    display.show(
        display.Shown(
            f"{heading}\n  {body}\n  {after}",
            display.box(
                heading,
                display.paragraph(body),
                display.paragraph(after),
                tone="note",
                kind="hint",
                role="status",
            ),
        )
    )


def solution(exercise_id: str) -> None:
    """Show our answer to an exercise, and other right ones, under the learner's name.

    An unknown id raises UnknownExercise, which names close ids.
    """
    with display.without_traceback(UnknownExercise):
        exercise = load_exercise(exercise_id)
    sources = [("one way", exercise.solution_source())]
    sources += [("another way", source) for source in exercise.alternative_sources()]
    heading = f"{exercise_id}: {exercise.title}"
    text = "\n\n".join([heading, *(f"# {label}\n{source.strip()}" for label, source in sources)])
    page = display.box(
        heading,
        display.labelled((label, display.preformatted(source.strip())) for label, source in sources),
        tone="note",
        kind="solution",
    )
    display.show(display.Shown(text, page))

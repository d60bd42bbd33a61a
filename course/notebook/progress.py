"""``progress``: how far the learner is in a lesson; and keeping what cells and buttons do."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

from course import curriculum
from course.curriculum import Lesson
from course.exercises import load_exercise
from course.figures.live import has_front_end
from course.notebook import display
from course.notebook.session import current_lesson
from course.workspace import progress as kept

_DISPLAY = "course-progress-{}"
_tellers: list[Callable[[str], None]] = []
_watchers: list[Callable[[str], None]] = []
_shown_lessons: set[str] = set()


def progress() -> None:
    """Show how many exercises of this lesson are passed, and which are open; of all lessons before ``begin``.

    Where somebody is in front of the notebook, the line follows what is passed from then on.
    """
    lesson = current_lesson()
    if lesson is None:
        from course.workspace import status

        text = status.table(kept.read())
        display.show(display.Shown(text, display.preformatted(text)))
    elif has_front_end():
        _shown_lessons.add(lesson.number)
        display.show(lesson_progress(lesson, kept.read()), display_id=_DISPLAY.format(lesson.number))
    else:
        display.show(lesson_progress(lesson, kept.read() if kept.recording() else None))


def keep(event: str, exercise_id: str, outcome: str | None = None) -> None:
    """Record an event, see :func:`course.workspace.progress.record`, and bring what is shown up to date."""
    kept.on_problem(_tell)
    kept.record(event, exercise_id, outcome=outcome)
    if event == "check" and has_front_end():
        _refresh(exercise_id)


def line(exercise_id: str) -> str:
    """How far the learner is in the lesson of an exercise, in one line; "" where it belongs to none."""
    lesson = _lesson_of(exercise_id)
    return _line(lesson, kept.read()) if lesson else ""


def watch(tell: Callable[[str], None]) -> None:
    """Have `tell(exercise_id)` called after every check in this kernel."""
    _watchers.append(tell)


@contextlib.contextmanager
def problems_told_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Hand problems with recording to `tell` instead of displaying them: a button has no cell to write in."""
    _tellers.append(tell)
    try:
        yield
    finally:
        _tellers.remove(tell)


def lesson_progress(lesson: Lesson, progress: kept.Progress | None) -> display.Shown:
    """A lesson's progress as text and HTML; None where nothing is kept."""
    ids = _in_order(lesson)
    rows: list[tuple[str, str]] = []
    if progress is None:
        heading = f"Lesson {lesson.number}: {len(ids)} exercises"
        rows.append(("", "In your own copy of this notebook this says how many you have passed, and which are open."))
        tone = "note"
    else:
        heading = _line(lesson, progress)
        left = [each for each in ids if not progress.exercise(each).passed]
        if left:
            rows.append(("still open", "; ".join(load_exercise(each).title for each in left)))
        else:
            following = kept.next_lesson(progress)
            after = f"lesson {following.number}, {following.title}" if following else "all lessons are finished"
            rows.append(("next", after))
        rows += [("", problem) for problem in progress.problems]
        tone = "note" if left else "good"
    text = "\n".join([heading, *(f"  {label}: {content}" if label else f"  {content}" for label, content in rows)])
    parts = [
        display.labelled([(label, display.prose(content))]) if label else display.paragraph(content)
        for label, content in rows
    ]
    return display.Shown(text, display.box(heading, *parts, tone=tone, kind="progress", role="status"))


def _refresh(exercise_id: str) -> None:
    for tell in list(_watchers):
        tell(exercise_id)
    lesson = _lesson_of(exercise_id)
    if lesson and lesson.number in _shown_lessons:
        display.update(lesson_progress(lesson, kept.read()), _DISPLAY.format(lesson.number))


def _tell(sentence: str) -> None:
    if _tellers:
        _tellers[-1](sentence)
    else:
        display.show(display.Shown(sentence, display.box(sentence, tone="warn", kind="recording", role="status")))


def _line(lesson: Lesson, progress: kept.Progress) -> str:
    row = progress.lesson(lesson)
    return f"Lesson {lesson.number}: {row.passed} of {row.total} exercises passed"


def _lesson_of(exercise_id: str) -> Lesson | None:
    room = exercise_id.split(".")[0]
    return next((lesson for lesson in curriculum.LESSONS if lesson.exercises == room), None)


def _in_order(lesson: Lesson) -> list[str]:
    """The ids of a lesson's exercises, as they come in its notebook where that can be read."""
    ids = kept.lesson_exercises(lesson)
    try:
        cells = json.loads(curriculum.notebook_path(lesson).read_text(encoding="utf-8"))["cells"]
        order = [cell["metadata"].get("course", {}).get("exercise") for cell in cells]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        order = []
    return sorted(ids, key=lambda each: order.index(each) if each in order else len(order))

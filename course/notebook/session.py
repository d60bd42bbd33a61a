"""``begin``: the first cell of a lesson."""

from __future__ import annotations

import json
import sys

from course import curriculum
from course.notebook import display

_lesson: curriculum.Lesson | None = None


def begin(lesson: str, digest: str | None = None) -> None:
    """Start a lesson; says nothing unless this notebook belongs to another version of the course.

    lesson: its number, such as ``"01"``; an unknown one raises UnknownLesson, which lists the lessons.
    digest: what the build wrote into this notebook; compared with the installed notebook's.
    """
    global _lesson
    with display.without_traceback(curriculum.UnknownLesson):
        _lesson = curriculum.lesson(lesson)
    if "torch" in sys.modules:
        # Before the lesson traces anything; after it, answers could no longer be checked in a process of their own.
        from course.checking.forking import settle_autograd

        settle_autograd()
    installed = _installed_digest(_lesson)
    if digest is None or installed is None or digest == installed:
        return
    text = (
        f"This notebook is of another version of the course than the installed one (notebook {digest}, "
        f"installed {installed}): its exercises may differ. Open a fresh copy of {_lesson.name}.ipynb, "
        "then restart the kernel."
    )
    display.show(display.Shown(text, display.box(text, tone="warn", kind="version", role="status")))


def current_lesson() -> curriculum.Lesson | None:
    """The lesson that ``begin`` started in this kernel."""
    return _lesson


def _installed_digest(lesson: curriculum.Lesson) -> str | None:
    path = curriculum.notebook_path(lesson)
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
        return metadata["course"]["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        return None

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from course import curriculum
from course.notebook import display, progress, session
from course.notebook.progress import keep, lesson_progress
from course.workspace import progress as kept
from course.workspace.progress import ExerciseProgress, Progress

LESSON = curriculum.lesson("13")
IDS = kept.lesson_exercises(LESSON)
PASSED = ExerciseProgress(passed=True, attempts=1)


@pytest.fixture(autouse=True)
def state(monkeypatch):
    """Lesson 13 begun; nobody in front; what is kept is `state.progress`."""
    state = SimpleNamespace(progress=Progress(), updates=[], recording=True)
    monkeypatch.setattr(session, "_lesson", LESSON)
    monkeypatch.setattr(kept, "read", lambda: state.progress)
    monkeypatch.setattr(kept, "recording", lambda: state.recording)
    monkeypatch.setattr(progress, "has_front_end", lambda: False)
    monkeypatch.setattr(progress, "_shown_lessons", set())
    monkeypatch.setattr(display, "update", lambda shown, place: state.updates.append((place, shown)))
    return state


def test_where_nothing_is_kept_it_says_what_it_is_for(shown, state):
    state.recording = False
    progress.progress()
    assert shown[0].text == (
        f"Lesson 13: {len(IDS)} exercises\n"
        "  In your own copy of this notebook this says how many you have passed, and which are open."
    )


def test_passed_and_open_exercises(shown, state):
    state.progress = Progress({IDS[0]: PASSED, "elsewhere.other": PASSED})
    progress.progress()
    first, second = shown[0].text.split("\n")
    assert first == f"Lesson 13: 1 of {len(IDS)} exercises passed"
    assert second.startswith("  still open: ")
    assert second.count("; ") == len(IDS) - 2
    assert progress.line(IDS[0]) == first
    assert progress.line("elsewhere.other") == ""


def test_open_exercises_come_in_the_order_of_the_notebook(monkeypatch, tmp_path):
    path = tmp_path / "13.ipynb"
    cells = [{"metadata": {"course": {"exercise": each}}} for each in reversed(IDS[:3])]
    path.write_text(json.dumps({"cells": [{"metadata": {}}, *cells]}), encoding="utf-8")
    monkeypatch.setattr(curriculum, "notebook_path", lambda lesson: path)
    assert progress._in_order(LESSON) == [*reversed(IDS[:3]), *IDS[3:]]
    for content in ("", "[]", '{"cells": [3]}'):
        path.write_text(content, encoding="utf-8")
        assert progress._in_order(LESSON) == IDS


def test_a_finished_lesson_names_the_next(state):
    finished = Progress(dict.fromkeys(IDS, PASSED))
    text = lesson_progress(LESSON, finished).text
    first = curriculum.LESSONS[0]
    assert text.endswith(f"\n  next: lesson {first.number}, {first.title}")
    everything = Progress({each: PASSED for lesson in curriculum.LESSONS for each in kept.lesson_exercises(lesson)})
    assert lesson_progress(LESSON, everything).text.endswith("\n  next: all lessons are finished")


def test_problems_with_reading_are_said(state):
    page = lesson_progress(LESSON, Progress(problems=("A file <x> is newer.",)))
    assert "  A file <x> is newer." in page.text
    assert "A file &lt;x&gt; is newer." in page.html


def test_before_begin_all_lessons_are_shown(shown, monkeypatch):
    monkeypatch.setattr(session, "_lesson", None)
    progress.progress()
    assert "13" in shown[0].text


def test_in_a_live_front_end_the_line_follows_checks(state, monkeypatch):
    places = []
    monkeypatch.setattr(progress, "has_front_end", lambda: True)
    monkeypatch.setattr(display, "show", lambda shown, display_id=None: places.append(display_id))
    monkeypatch.setattr(kept, "record", lambda *_, **__: None)
    keep("check", IDS[0], outcome="PASSED")
    assert state.updates == []
    progress.progress()
    state.progress = Progress({IDS[0]: PASSED})
    keep("hint", IDS[0])
    keep("check", "tensors.flatten", outcome="PASSED")
    assert state.updates == []
    keep("check", IDS[0], outcome="PASSED")
    ((place, shown),) = state.updates
    assert [place] == places
    assert shown.text.startswith("Lesson 13: 1 of ")


def test_what_is_kept(monkeypatch):
    events = []
    monkeypatch.setattr(kept, "record", lambda event, exercise, *, outcome: events.append((event, exercise, outcome)))
    keep("check", "tensors.flatten", outcome="WRONG")
    keep("hint", "tensors.flatten")
    assert events == [("check", "tensors.flatten", "WRONG"), ("hint", "tensors.flatten", None)]

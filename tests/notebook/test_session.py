from __future__ import annotations

import json

import pytest

from course import curriculum
from course.notebook import session
from course.notebook.session import begin, current_lesson


@pytest.fixture(autouse=True)
def installed(monkeypatch, tmp_path):
    """The installed notebook of every lesson, with digest 0123456789abcdef."""
    path = tmp_path / "01.ipynb"
    path.write_text(json.dumps({"metadata": {"course": {"digest": "0123456789abcdef"}}}), encoding="utf-8")
    monkeypatch.setattr(curriculum, "notebook_path", lambda lesson: path)
    monkeypatch.setattr(session, "_lesson", None)
    return path


def test_remembers_the_lesson_and_says_nothing(shown):
    assert current_lesson() is None
    assert begin("01", digest="0123456789abcdef") is None
    assert current_lesson() == curriculum.lesson("01")
    begin("01")
    assert shown == []


def test_other_digest_is_said_in_one_line(shown):
    begin("01", digest="fedcba9876543210")
    (output,) = shown
    assert "\n" not in output.text
    for part in ("fedcba9876543210", "0123456789abcdef", "01_tensors_and_strides.ipynb"):
        assert part in output.text
        assert part in output.html


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"metadata": {"course": {}}}'])
def test_nothing_to_compare_with(shown, installed, content):
    installed.write_text(content, encoding="utf-8")
    begin("01", digest="fedcba9876543210")
    installed.unlink()
    begin("01", digest="fedcba9876543210")
    assert shown == []


def test_unknown_lesson_is_one_line():
    with pytest.raises(curriculum.UnknownLesson, match="01_tensors_and_strides") as caught:
        begin("77")
    assert caught.value._render_traceback_() == [f"UnknownLesson: {caught.value}"]

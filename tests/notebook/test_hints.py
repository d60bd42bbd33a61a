from __future__ import annotations

from types import SimpleNamespace

import pytest

from course.exercises import UnknownExercise
from course.notebook import hints
from course.notebook.hints import hint, solution


@pytest.fixture(autouse=True)
def demo(monkeypatch):
    """An exercise in place of every real one, and no hint given yet."""
    exercise = SimpleNamespace(
        id="tensors.demo",
        title="A demonstration",
        hints=("Look at `x < y`\nonce more.", "Use `<`."),
        solution_source=lambda: "def answer(x):\n    return x < 1\n",
        alternative_sources=lambda: ["def answer(x):\n    return ~(x >= 1)\n"],
    )
    monkeypatch.setattr(
        hints, "load_exercise", lambda exercise_id: SimpleNamespace(**vars(exercise) | {"id": exercise_id})
    )
    monkeypatch.setattr(hints, "_given", {})
    return exercise


def test_hints_are_graded_and_the_last_says_so(shown):
    for _ in range(3):
        hint("tensors.demo")
    first, second, third = (output.text for output in shown)
    assert first.startswith("tensors.demo: hint 1 of 2\n  Look at `x < y` once more.\n")
    assert 'hint("tensors.demo")' in first
    assert second.startswith("tensors.demo: hint 2 of 2\n  Use `<`.\n")
    assert "last hint" in second
    assert 'solution("tensors.demo")' in second
    assert third == second


def test_hints_count_for_each_exercise(shown):
    hint("tensors.demo")
    hint("tensors.other")
    assert "hint 1 of 2" in shown[1].text


def test_html_is_escaped_and_complete(shown):
    hint("tensors.demo")
    assert ">x &lt; y</code> once more." in shown[0].html
    assert "hint 1 of 2" in shown[0].html


def test_exercise_without_hints(shown, demo):
    demo.hints = ()
    hint("tensors.demo")
    assert "has no hints" in shown[0].text


def test_solution_shows_all_ways_under_the_learners_name(shown):
    solution("tensors.demo")
    (output,) = shown
    assert output.text == (
        "tensors.demo: A demonstration\n\n# one way\ndef answer(x):\n    return x < 1\n\n"
        "# another way\ndef answer(x):\n    return ~(x >= 1)"
    )
    assert "return x &lt; 1" in output.html
    assert "return ~(x &gt;= 1)" in output.html


@pytest.mark.parametrize("call", [hint, solution])
def test_unknown_exercise_is_one_line(monkeypatch, call):
    monkeypatch.undo()
    with pytest.raises(UnknownExercise, match=r"tensors\.flatten") as caught:
        call("tensors.flaten")
    assert caught.value._render_traceback_() == [f"UnknownExercise: {caught.value}"]

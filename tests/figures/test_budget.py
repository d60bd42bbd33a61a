from __future__ import annotations

import matplotlib as mpl
import pytest

from course.figures import budget
from course.figures.budget import (
    Point,
    budget_figure,
    budget_words,
    calls_in_order_figure,
    calls_in_order_words,
    draw_budget,
    draw_calls_in_order,
)
from course.figures.show import png

CALLS = [0.001] * 19 + [0.021]
MARKS = {"p50": 0.001, "mean": 0.002, "p99": 0.021}
POINTS = [Point("eager", 0.002, 0.88, 400_000), Point("int8", 0.001, 0.87, 100_000)]
LIMITS = {"max_latency": 0.0015, "min_accuracy": 0.8}


def test_a_mark_for_each_call_and_a_line_for_each_percentile():
    (axes,) = calls_in_order_figure(CALLS, MARKS).axes
    dots, *lines = axes.lines
    assert list(dots.get_xdata()) == list(range(1, 21))
    assert list(dots.get_ydata()) == [1000 * second for second in CALLS]
    assert [line.get_label() for line in lines] == ["p99: 21 ms", "mean: 2 ms", "p50: 1 ms"]
    assert [line.get_ydata()[0] for line in lines] == [21, 2, 1]
    assert axes.get_yscale() == "log"


def test_calls_in_words():
    words = calls_in_order_words(CALLS, MARKS, title="One model")
    assert words.startswith("One model: 20 calls in their order, from 1 to 21 ms")
    assert "mean: 2 ms; 1 calls took longer" in words
    assert "p99: 21 ms; 0 calls took longer" in words


@pytest.mark.parametrize("seconds", [[], [0.0], [float("nan")]])
def test_times_that_cannot_be_drawn(seconds):
    with pytest.raises(ValueError, match="positive seconds"):
        draw_calls_in_order(seconds, {})


def test_too_many_marks():
    with pytest.raises(ValueError, match="at most 4"):
        calls_in_order_words(CALLS, dict.fromkeys("abcde", 1.0))


def test_points_stand_where_they_should():
    (axes,) = budget_figure(POINTS, "int8", **LIMITS).axes
    places = [(line.get_xdata()[0], line.get_ydata()[0], line.get_marker()) for line in axes.lines]
    assert places == [(2, 88, "o"), (1, 87, "s"), (1, 87, "*")]
    areas = [collection.get_sizes()[0] for collection in axes.collections]
    assert areas == [900, 225]
    assert axes.lines[1].get_label() == "int8, 100 kB (chosen)"
    grey = [patch.get_xy() for patch in axes.patches]
    assert len(grey) == 2
    assert {text.get_text() for text in axes.texts} == {"too slow", "not accurate enough"}


def test_without_limits_nothing_is_grey():
    (axes,) = budget_figure(POINTS, "eager").axes
    assert not list(axes.patches)
    assert not list(axes.texts)


def test_a_budget_in_words():
    words = budget_words(POINTS, "int8", **LIMITS)
    assert words.splitlines() == [
        "Latency, accuracy and size; limits: at most 1.5 ms and at least 80 %.",
        "  eager: 2 ms a call, 88 %, 400 kB",
        "  int8: 1 ms a call, 87 %, 100 kB; chosen",
    ]
    assert "limits: none" in budget_words(POINTS, "int8")


def test_bad_requests():
    with pytest.raises(ValueError, match="no variant to draw"):
        draw_budget([], "int8")
    with pytest.raises(ValueError, match="no variant is called 'none'; there are eager, int8"):
        draw_budget(POINTS, "none")


def test_the_style_of_the_notebook_changes_nothing():
    def drawn():
        return [png(calls_in_order_figure(CALLS, MARKS)), png(budget_figure(POINTS, "int8", **LIMITS))]

    plain = drawn()
    with mpl.rc_context({"lines.linewidth": 9, "axes.facecolor": "black", "font.size": 30}):
        assert drawn() == plain


def test_plain_python_prints_words(capsys):
    draw_calls_in_order(CALLS, MARKS, title="One model")
    draw_budget(POINTS, "int8", **LIMITS)
    printed = capsys.readouterr().out
    assert "[picture] One model: 20 calls" in printed
    assert "[picture] Latency, accuracy and size" in printed


def test_every_drawing_has_words():
    drawings = {name.removeprefix("draw_") for name in vars(budget) if name.startswith("draw_")}
    assert drawings == {"calls_in_order", "budget"}
    assert all(hasattr(budget, f"{name}_words") for name in drawings)

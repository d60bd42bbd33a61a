from __future__ import annotations

import sys
import types

import matplotlib as mpl
import pytest
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures import curves
from course.figures.curves import LiveCurves, curves_figure, curves_words, draw_curves, draw_lines, lines_figure
from course.figures.show import png

RUN = {
    "loss": [2.0, 1.0, 0.5],
    "accuracy": [0.25, 0.5, 0.9],
    "held_out_loss": [1.9, 1.5, 1.7],
    "held_out_accuracy": [0.3, 0.45, 0.4],
}


def labels(axes):
    return [line.get_label() for line in axes.lines]


def test_two_panels_with_training_dashed():
    left, right = curves_figure({"plain": RUN, "other": RUN}).axes
    assert [left.get_ylabel(), right.get_ylabel()] == ["cross-entropy", "accuracy in %"]
    assert labels(left) == ["plain: held out", "plain: training", "other: held out", "other: training"]
    assert [line.get_linestyle() for line in left.lines] == ["-", "--", "-", "--"]
    assert list(right.lines[0].get_ydata()) == pytest.approx([30, 45, 40])
    assert left.lines[0].get_marker() != left.lines[2].get_marker()


def test_chance_is_a_line_that_can_be_left_out():
    with_line = curves_figure({"": RUN}).axes[1]
    without = curves_figure({"": RUN}, chance=None).axes[1]
    assert len(with_line.lines) == len(without.lines) + 1
    assert list(with_line.lines[-1].get_ydata()) == [10, 10]


def test_words_say_where_curves_begin_and_end():
    words = curves_words({"plain": RUN}, "A run")
    assert words.startswith("A run: loss and accuracy by epoch.")
    assert "held-out accuracy from 30 to 40 %, between 30 and 45 %" in words
    assert "training loss from 2 to 0.5, between 0.5 and 2" in words


def test_a_loss_that_is_not_finite_is_no_error():
    run = {**RUN, "loss": [2.0, float("inf"), float("nan")]}
    assert "training loss from 2 to nan, between 2 and 2" in curves_words({"": run})
    png(curves_figure({"": run}))


def test_plain_python_prints_words(capsys):
    draw_curves({"plain": RUN}, title="A run")
    draw_lines({"rate": [0.1, 0.05]}, x="step", y="learning rate")
    printed = capsys.readouterr().out
    assert "[picture] A run: loss and accuracy by epoch." in printed
    assert "[picture] learning rate against step." in printed


def test_lines_and_legend_do_not_cover_each_other():
    figure = lines_figure({"a": [0.1] * 50, "b": [0.05] * 50}, x="step", y="rate", log=True)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    assert not figure.legends[0].get_window_extent(renderer).overlaps(figure.axes[0].get_window_extent(renderer))


def test_state_of_matplotlib_is_left_alone():
    plain = png(curves_figure({"": RUN}))
    with mpl.rc_context({"font.size": 30, "axes.edgecolor": "red"}):
        assert png(curves_figure({"": RUN})) == plain
    assert pyplot.get_fignums() == []


@pytest.fixture
def displays(monkeypatch):
    """A pretended notebook; the list gets ("display" | "update", bundle)."""
    seen = []

    class Handle:
        def update(self, bundle, **_):
            seen.append(("update", bundle))

    def display(bundle, **_):
        seen.append(("display", bundle))
        return Handle()

    pretended = types.SimpleNamespace(get_ipython=lambda: object(), display=types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", pretended)
    return seen


def test_live_curves_update_one_picture_and_its_words(displays):
    live = LiveCurves("plain", title="A run")
    live({name: values[:1] for name, values in RUN.items()})
    live(RUN)
    assert [kind for kind, _ in displays] == ["display", "display", "update", "update"]
    assert [sorted(bundle) for _, bundle in displays[:2]] == [["image/png", "text/plain"], ["text/html", "text/plain"]]
    assert "1 epoch:" in displays[0][1]["text/plain"]
    assert "3 epochs:" in displays[2][1]["text/plain"]


def test_live_curves_are_silent_outside_a_notebook(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    LiveCurves("plain")(RUN)
    assert capsys.readouterr().out == ""


def test_colours_are_enough_for_marks():
    assert len(curves.COLOURS) == len(curves.MARKS)

from __future__ import annotations

import math

import matplotlib as mpl
import pytest
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures import divergence
from course.figures.divergence import (
    EQUAL,
    EQUAL_INK,
    TONES,
    _tone,
    checked,
    describe_divergence,
    divergence_figure,
    draw_divergence,
    first_difference,
)
from course.figures.layout import TooLargeToDraw
from course.figures.show import png

ROWS = {
    "everything restored": [0.0, 0.0, 0.0],
    "without the optimizer": [0.0, 0.02, 0.3],
    "without the weights": [0.7, 1e-9, math.nan],
}


@pytest.fixture(scope="module")
def figure():
    return divergence_figure(ROWS, first_step=9, title="Left out", against="the uninterrupted run")


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_words_tell_when_each_run_leaves():
    words = describe_divergence(ROWS, first_step=9, title="Left out", against="the uninterrupted run").splitlines()
    assert words == [
        "Left out: 3 runs beside the uninterrupted run, from step 9 to step 11.",
        "everything restored: every bit equal at every step.",
        "without the optimizer: differs from step 10 on; at the last step the largest difference is about 1e-1.",
        "without the weights: differs from step 9 on; at the last step the largest difference is about nan.",
    ]
    assert "equal again" in describe_divergence({"a": [1.0, 0.0]}, first_step=0)


def test_picture_tells_the_same_without_colour(figure):
    written = texts(figure)
    assert written[0] == "Left out"
    assert [text for text in written if text.isdigit()] == ["9", "10", "11"]
    assert written.count("=") == 4 + 1  # one in the legend
    assert [text for text in written if text.startswith("1e") or text == "nan"] == [
        "1e-2",
        "1e-1",
        "1e0",
        "1e-9",
        "nan",
        "1e-3",
    ]
    assert set(ROWS) <= set(written)


def test_tones_are_ordered_and_readable():
    def luminance(colour):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in mpl.colors.to_rgb(colour)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    def contrast(one, other):
        light, dark = sorted((luminance(one), luminance(other)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    values = [1e-9, 1e-6, 1e-5, 1e-4, 1e-2, 1.0, 50.0, math.inf]
    assert [TONES.index(_tone(value)[0]) for value in values] == sorted(TONES.index(_tone(v)[0]) for v in values)
    assert {_tone(value)[0] for value in values} == set(TONES)
    assert all(contrast(*_tone(value)) >= 4.5 for value in values)
    assert contrast(EQUAL, EQUAL_INK) >= 4.5


@pytest.mark.parametrize("steps", [1, 3, 12])
@pytest.mark.parametrize("name", ["a", "without the generator of a worker process"])
def test_texts_stay_inside_and_do_not_touch(steps, name):
    figure = divergence_figure({name: [1e-12] * steps, "b": [0.0] * steps}, first_step=95, title="A title of words")
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1 for box in boxes)
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


def test_draws_with_words(monkeypatch):
    shown = []
    monkeypatch.setattr(divergence, "show_figure", lambda figure, alt: shown.append(alt))
    draw_divergence(ROWS, first_step=9)
    assert shown[0].startswith("Difference of the weights: 3 runs beside the other run")


def test_state_of_matplotlib_is_left_alone_and_does_not_show():
    plain = png(divergence_figure(ROWS, first_step=0))
    with mpl.rc_context({"font.size": 30, "savefig.facecolor": "black", "lines.linewidth": 9}):
        before = dict(mpl.rcParams)
        assert png(divergence_figure(ROWS, first_step=0)) == plain
        assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == []


def test_first_difference():
    assert [first_difference(values) for values in ([0, 0], [0, 1e-9], [math.nan, 0])] == [None, 1, 0]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"a": [0.0], "b": [0.0, 1.0]}, r"same number of steps, at least 1; they have \[1, 2\]"),
        ({"a": []}, r"they have \[0\]"),
        ({}, r"they have \[\]"),
        ({"a": [0.0], "b": [-1.0]}, "'b' has a negative one"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, words):
    with pytest.raises(ValueError, match=words):
        checked(rows)


@pytest.mark.parametrize("rows", [{"a": [0.0] * 41}, {str(i): [0.0] for i in range(41)}])
def test_large_pictures_are_refused(rows):
    with pytest.raises(TooLargeToDraw, match="at most 40 of each can be drawn"):
        checked(rows)

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures import roofline
from course.figures.roofline import draw_roofline, roofline_figure
from course.figures.show import png

BANDWIDTH, PEAK = 10e9, 40e9
POINTS = {"ReLU": (0.125, 0.5e9), "convolution": (80.0, 30e9)}


def test_the_roof_rises_to_the_ridge_and_is_flat_from_there_on():
    (axes,) = roofline_figure(BANDWIDTH, PEAK, POINTS).axes
    (low, ridge, high), (rise, top, end) = axes.lines[0].get_data()
    assert ridge == pytest.approx(4.0)
    assert rise == pytest.approx(low * BANDWIDTH / 1e9)
    assert top == end == pytest.approx(PEAK / 1e9)
    assert low < 0.125
    assert high > 80
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_points_stand_at_their_numbers_and_name_their_share_of_the_roof():
    (axes,) = roofline_figure(BANDWIDTH, PEAK, POINTS).axes
    marks = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
    assert [tuple(map(float, (*line.get_xdata(), *line.get_ydata()))) for line in marks] == [(0.125, 0.5), (80.0, 30.0)]
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["ReLU: 40 % of the roof", "convolution: 75 % of the roof"]


def test_a_point_above_the_roof_is_within_the_picture():
    (axes,) = roofline_figure(BANDWIDTH, PEAK, {"cached": (1.0, 90e9)}).axes
    assert axes.get_ylim()[1] > 90
    figure = roofline_figure(BANDWIDTH, PEAK, POINTS)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    box = figure.axes[0].get_tightbbox(renderer)
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= figure.bbox.y1


def test_the_picture_in_words(monkeypatch):
    shown = []
    monkeypatch.setattr(roofline, "show_figure", lambda figure, alt: shown.append(alt))
    draw_roofline(BANDWIDTH, PEAK, POINTS, title="a roof")
    (alt,) = shown
    assert alt.startswith("a roof, intensity to the right")
    assert "rises with 10 GB/s up to 4 FLOP a byte, and is flat from there on at 40 GFLOP/s." in alt
    assert "ReLU: 0.125 FLOP a byte, 0.5 GFLOP/s, 40 % of the roof; memory limits." in alt
    assert "convolution: 80 FLOP a byte, 30 GFLOP/s, 75 % of the roof; arithmetic limits." in alt


@pytest.mark.parametrize(
    ("bandwidth", "points", "words"),
    [(BANDWIDTH, {}, "at least one operation"), (0.0, POINTS, "above 0"), (BANDWIDTH, {"x": (1.0, 0.0)}, "above 0")],
)
def test_what_cannot_be_drawn(bandwidth, points, words):
    with pytest.raises(ValueError, match=words):
        roofline_figure(bandwidth, PEAK, points)


def test_the_same_bytes_again():
    assert png(roofline_figure(BANDWIDTH, PEAK, POINTS)) == png(roofline_figure(BANDWIDTH, PEAK, POINTS))

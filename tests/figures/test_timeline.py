from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures import timeline
from course.figures.show import png
from course.figures.timeline import draw_timeline, timeline_figure

PARTS = {"load": [(0.0, 1.0), (5.0, 1.0)], "forward": [(1.0, 4.0), (6.0, 2.0)]}


def test_a_row_for_each_part_with_its_share():
    (axes,) = timeline_figure(PARTS, title="two steps").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["load  25 %", "forward  75 %"]
    assert axes.get_title(loc="left") == "two steps"
    assert axes.yaxis_inverted()


def test_bars_lie_where_the_parts_ran():
    (axes,) = timeline_figure(PARTS).axes
    for bars, spans in zip(axes.collections, PARTS.values(), strict=True):
        extents = [path.get_extents() for path in bars.get_paths()]
        assert [box.x0 for box in extents] == pytest.approx([start for start, _ in spans])
        assert [box.width for box in extents] == pytest.approx([length for _, length in spans])


def test_a_very_short_part_can_be_seen():
    (axes,) = timeline_figure({"load": [(0.0, 1e-9)], "forward": [(0.0, 100.0)]}).axes
    assert axes.collections[0].get_paths()[0].get_extents().width == pytest.approx(0.1)


def test_everything_lies_within_the_picture():
    figure = timeline_figure(PARTS)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    box = figure.axes[0].get_tightbbox(renderer)
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= figure.bbox.y1


def test_the_picture_in_words(monkeypatch):
    shown = []
    monkeypatch.setattr(timeline, "show_figure", lambda figure, alt: shown.append(alt))
    draw_timeline(PARTS, title="two steps")
    assert shown == [
        "two steps: a row for each part, time from left to right.\n"
        "load: 25 % of the time; 2 times, 1 to 1 ms.\n"
        "forward: 75 % of the time; 2 times, 2 to 4 ms."
    ]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "needs parts"),
        ({"load": []}, "needs spans"),
        ({"load": [(0.0, -1.0)]}, "below 0"),
        ({"load": [(1.0, 0.0)]}, "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn(parts, words):
    with pytest.raises(ValueError, match=words):
        timeline_figure(parts)


def test_the_same_bytes_again():
    assert png(timeline_figure(PARTS)) == png(timeline_figure(PARTS))

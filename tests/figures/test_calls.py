from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures import calls
from course.figures.calls import calls_figure, draw_calls
from course.figures.show import png

LENGTHS = [3, 5, 3]
POLICIES = {
    "each length": [(1.5, True), (2.0, True), (0.001, False)],
    "padded": [(1.0, True), (0.002, False), (0.001, False)],
}


@pytest.fixture
def drawn(monkeypatch):
    everything = []
    monkeypatch.setattr(calls, "show_figure", lambda figure, alt: everything.append((figure, alt)))
    return everything


def test_a_panel_for_each_policy_with_its_count():
    figure = calls_figure(LENGTHS, POLICIES)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "each length: 2 compilations",
        "padded: 1 compilation",
    ]
    assert [label.get_text() for label in figure.axes[-1].get_xticklabels()] == ["3", "5", "3"]


def test_bars_end_at_the_times_and_compiling_is_hatched():
    for axes, expected in zip(calls_figure(LENGTHS, POLICIES).axes, POLICIES.values(), strict=True):
        assert axes.get_yscale() == "log"
        for bar, (seconds, compiled) in zip(axes.patches, expected, strict=True):
            assert bar.get_y() + bar.get_height() == pytest.approx(seconds)
            assert bool(bar.get_hatch()) == compiled


def test_the_marks_are_explained():
    (legend,) = calls_figure(LENGTHS, POLICIES).legends
    assert [text.get_text() for text in legend.get_texts()] == ["compiles, then runs", "runs"]


def test_everything_lies_within_the_picture():
    figure = calls_figure(list(range(1, 13)), {name: row * 4 for name, row in POLICIES.items()}, title="twelve calls")
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= figure.bbox.x0
        assert box.x1 <= figure.bbox.x1
        assert box.y0 >= figure.bbox.y0
        assert box.y1 <= figure.bbox.y1


def test_the_picture_in_words(drawn):
    draw_calls(LENGTHS, POLICIES, title="three calls")
    ((_, alt),) = drawn
    assert alt.startswith("three calls: one panel for each way to compile")
    assert "Lengths of the calls: 3, 5, 3." in alt
    assert "each length: 2 compilations, at calls 1, 2; calls with compiling take 1.5 to 2 s" in alt
    assert "padded: 1 compilation, at call 1;" in alt
    assert "calls without take 0.001 to 0.002 s." in alt


@pytest.mark.parametrize(
    ("lengths", "policies", "words"),
    [
        ([], POLICIES, "nothing to draw"),
        (LENGTHS, {}, "nothing to draw"),
        ([3, 5], POLICIES, "3 calls; 2 lengths"),
        ([1], {"none": [(0.0, False)]}, "above 0"),
        (list(range(41)), POLICIES, "at most 40"),
    ],
)
def test_what_cannot_be_drawn(lengths, policies, words):
    with pytest.raises(ValueError, match=words):
        calls_figure(lengths, policies)


def test_the_same_bytes_again():
    assert png(calls_figure(LENGTHS, POLICIES)) == png(calls_figure(LENGTHS, POLICIES))

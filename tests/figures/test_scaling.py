from __future__ import annotations

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures.scaling import draw_scaling, scaling_figure, scaling_words
from course.figures.show import png

LINES = {
    "ring": [(1024, 0.4), (1, 0.02), (2, 0.0215), (8, 0.025), (64, 0.048)],
    "tree": [(1, 0.02), (2, 0.0227), (8, 0.028), (64, 0.036), (1024, 0.0468)],
}
OPTIONS = {"compute": 0.02, "assumptions": ["Every message takes α + β · bytes.", "All workers are equally fast."]}
MEASURED = (2, 0.0216)


def figure(**changes):
    return scaling_figure(LINES, MEASURED, **{**OPTIONS, **changes})


def test_the_measured_part_is_solid_and_the_rest_dashed():
    (axes,) = figure().axes
    styles = [(line.get_linestyle(), list(line.get_xdata())) for line in axes.lines if len(line.get_xdata()) > 2]
    assert styles == [("--", [2, 8, 64, 1024]), ("--", [2, 8, 64, 1024])]
    solid = [line for line in axes.lines if list(line.get_xdata()) == [1, 2]]
    assert [line.get_linestyle() for line in solid] == ["-", "-"]
    assert solid[0].get_marker() != solid[1].get_marker()
    assert any("extrapolated" in text.get_text() for text in axes.texts)


def test_the_star_is_the_measurement():
    (axes,) = figure().axes
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert (list(star.get_xdata()), list(star.get_ydata())) == ([2], [0.0216])


def test_names_stand_at_the_lines_and_apart():
    picture = figure(compute=0.0199)
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    names = [
        text for text in picture.axes[0].texts if text.get_text().split("\n")[0] in ("ring", "tree", "compute alone")
    ]
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert len(boxes) == 3
    assert all(below.y1 <= above.y0 for below, above in itertools.pairwise(boxes))
    assert all(box.x1 <= picture.bbox.x1 for box in boxes)


def test_assumptions_are_written_below_and_the_picture_grows_with_them():
    many = figure(assumptions=["A sentence that is long enough to be broken into lines of its own. " * 3] * 5)
    assert many.get_figheight() > figure().get_figheight()
    (written,) = [text for text in figure().texts if "Assumed" in text.get_text()]
    assert "• All workers are equally fast." in written.get_text()
    canvas = FigureCanvasAgg(many)
    canvas.draw()
    (below,) = [text.get_window_extent() for text in many.texts if "Assumed" in text.get_text()]
    assert below.y0 >= 0
    assert below.y1 < many.axes[0].get_tightbbox().y0
    assert below.x1 <= many.bbox.x1


def test_without_assumptions_or_extrapolation():
    lines = {"ring": [(1, 0.02), (2, 0.03)]}
    alone = scaling_figure(lines, MEASURED, compute=0.02, assumptions=[])
    assert not any("extrapolated" in text.get_text() for text in alone.axes[0].texts)
    assert not any("Assumed" in text.get_text() for text in alone.texts)


def test_ticks_are_times_that_people_write():
    ticks = [label.get_text() for label in figure().axes[0].get_yticklabels()]
    assert ticks == ["20 ms", "50 ms", "100 ms", "200 ms", "500 ms"]
    wide = scaling_figure({"ring": [(1, 1e-6), (64, 100.0)]}, (1, 1e-6), compute=1e-6, assumptions=[])
    assert [label.get_text() for label in wide.axes[0].get_yticklabels()][:4] == ["1 µs", "10 µs", "100 µs", "1 ms"]


def test_words_say_what_is_measured_and_what_is_not():
    words = scaling_words(LINES, MEASURED, **OPTIONS)
    assert "Measured: 21.6 ms with 2 workers. Compute alone: 20 ms." in words
    assert "ring: model 20 ms with 1, 21.5 ms with 2; extrapolated 25 ms with 8" in words
    assert "Assumed: Every message takes" in words


def test_plain_python_prints_the_words(capsys):
    draw_scaling(LINES, MEASURED, **OPTIONS)
    assert "[picture] Time per step" in capsys.readouterr().out


def test_the_same_picture_each_time():
    assert png(figure()) == png(figure())


@pytest.mark.parametrize("lines", [{}, {"ring": []}, {"ring": [(0, 1.0)]}, {"ring": [(2, 0.0)]}])
def test_nonsense_is_refused(lines):
    with pytest.raises(ValueError, match=r"lines|workers >= 1"):
        scaling_figure(lines, MEASURED, **OPTIONS)

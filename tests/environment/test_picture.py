from __future__ import annotations

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.environment.picture import draw_driver_and_runtime, driver_figure, driver_words


def texts(figure) -> str:
    return "\n".join(text.get_text() for axes in figure.axes for text in axes.texts)


@pytest.mark.parametrize(
    ("driver", "runtime", "sign", "words"),
    [
        ("13.1", "13.0", "13.1 ≥ 13.0", "they fit"),
        ("12.8", "13.0", "12.8 < 13.0", "too old"),
        ("12.10", "12.9", "12.10 ≥ 12.9", "they fit"),
    ],
)
def test_picture_and_words_give_one_verdict(driver, runtime, sign, words):
    shown = texts(driver_figure((driver, runtime)))
    assert sign in shown
    assert words in shown
    assert f"Runtime {runtime} on a driver that supports CUDA up to {driver}" in driver_words((driver, runtime))
    assert ("they fit" in driver_words((driver, runtime))) == (words == "they fit")


def test_one_stack_a_pair():
    assert len(driver_figure(("13.1", "13.0"), ("12.8", "13.0")).axes) == 2


def test_all_text_lies_inside_the_picture():
    figure = driver_figure(("12.8", "13.0"))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in figure.axes:
        outer = axes.get_window_extent(renderer)
        for text in axes.texts:
            inner = text.get_window_extent(renderer)
            assert outer.x0 - 1 <= inner.x0
            assert inner.x1 <= outer.x1 + 1


def test_the_style_of_the_notebook_stays(capsys):
    before = dict(matplotlib.rcParams)
    draw_driver_and_runtime(("13.1", "13.0"))
    assert dict(matplotlib.rcParams) == before
    assert capsys.readouterr().out.startswith("[picture] From top to bottom")

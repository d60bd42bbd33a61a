from __future__ import annotations

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from course.figures.show import DPI, in_words, png, show_figure


def test_plain_python_prints_the_words(capsys):
    show_figure(Figure(), alt="a rising line")
    assert capsys.readouterr().out == "[picture] a rising line\n"


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_words_are_required(alt):
    with pytest.raises(ValueError, match="needs alt="):
        show_figure(Figure(), alt=alt)


def test_figures_of_pyplot_are_closed():
    figure, _ = pyplot.subplots()
    show_figure(figure, alt="empty axes")
    assert not pyplot.fignum_exists(figure.number)


def test_size_is_fixed_and_bytes_repeat():
    figure = Figure(figsize=(2, 1))
    figure.set_dpi(33)
    picture = png(figure)
    assert int.from_bytes(picture[16:20], "big") == 2 * DPI
    assert png(figure) == picture
    assert b"Software" not in picture


def test_words_are_escaped():
    assert "<br>" in in_words("a\nb")
    assert "&lt;i&gt;" in in_words("<i>")

from __future__ import annotations

import matplotlib as mpl
import pytest
import torch

from course.figures.number_line import draw_number_line, grid_of, number_line_figure, number_line_words
from course.figures.show import png

NUMBERS = [-0.9, -0.3, 0.1, 0.4, 1.2, 6.0]


def grids():
    return {"all": grid_of(NUMBERS, -1.0, 6.5), "clipped": grid_of(NUMBERS, -1.0, 1.5)}


@pytest.mark.parametrize(("low", "high", "bits"), [(-1.0, 6.5, 4), (-1.0, 1.5, 4), (0.0, 3.0, 2), (-2.0, 0.0, 8)])
def test_values_are_those_of_torch(low, high, bits):
    grid = grid_of(NUMBERS, low, high, bits)
    scale = (high - low) / (2**bits - 1)
    wanted = torch.fake_quantize_per_tensor_affine(torch.tensor(NUMBERS), scale, round(-low / scale), 0, 2**bits - 1)
    torch.testing.assert_close(torch.tensor([value for _, value in grid.pairs]), wanted)
    assert len(grid.points) == 2**bits
    assert 0.0 in grid.points


def test_inside_the_error_is_at_most_half_a_step():
    for grid in grids().values():
        inside = [pair for pair in grid.pairs if not grid.clipped(pair)]
        assert inside
        assert all(abs(a - b) <= grid.step / 2 + 1e-12 for a, b in inside)


def test_what_is_clipped_is_drawn_otherwise():
    (axes,) = number_line_figure(grids()).axes
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [tuple(line.get_xdata()) for line in dashed] == [(6.0, grids()["clipped"].points[-1])]
    assert sum(line.get_marker() == "s" for line in axes.lines) == 1
    assert sum(line.get_marker() == "|" for line in axes.lines) == 2


def test_words_tell_the_trade():
    first, whole, cut = number_line_words(grids()).splitlines()
    assert first == "6 numbers on a line, and 16 codes in each of 2 ranges."
    assert "step 0.5" in whole
    assert "none clipped" in whole
    assert "step 0.17" in cut
    assert "1 clipped, by up to 4.5" in cut


def test_a_range_needs_zero_and_a_width():
    for low, high in ((0.5, 1.0), (0.0, 0.0), (-2.0, -1.0)):
        with pytest.raises(ValueError, match="contains 0"):
            grid_of(NUMBERS, low, high)


def test_too_many_numbers():
    with pytest.raises(ValueError, match="at most 40"):
        draw_number_line(range(41), {"all": (0, 41)})


def test_style_of_the_notebook_changes_nothing(capsys):
    plain = png(number_line_figure(grids()))
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30}):
        styled = number_line_figure(grids())
    assert png(styled) == plain
    draw_number_line(NUMBERS, {"all": (-1.0, 6.5)})
    assert capsys.readouterr().out.startswith("[picture] 6 numbers")

from __future__ import annotations

import matplotlib as mpl
import pytest
import torch

from course.figures import number_formats
from course.figures.number_formats import (
    FORMATS,
    Format,
    bits_figure,
    bits_words,
    draw_bits,
    draw_scale,
    draw_spacing,
    scale_figure,
    scale_words,
    spacing_figure,
    spacing_words,
)
from course.figures.show import png

OF_TORCH = [(each, getattr(torch, each.name)) for each in FORMATS if each.name != "tf32"]


@pytest.mark.parametrize(("each", "dtype"), OF_TORCH, ids=lambda value: getattr(value, "name", ""))
def test_formats_are_those_of_torch(each, dtype):
    info = torch.finfo(dtype)
    assert (each.bits, each.largest) == (info.bits, info.max)
    assert (each.smallest_normal, each.spacing(0)) == (info.smallest_normal, info.eps)
    zero = torch.zeros((), dtype=dtype)
    assert torch.nextafter(zero, torch.ones((), dtype=dtype)).item() == each.smallest


@pytest.mark.parametrize(("each", "dtype"), OF_TORCH, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.parametrize("exponent", [-24, -20, -14, -1, 0, 10, 15])
def test_spacing_is_the_step_to_the_next_number(each, dtype, exponent):
    number = torch.tensor(2.0**exponent, dtype=dtype)
    upward = torch.nextafter(number, torch.tensor(torch.inf, dtype=dtype))
    if exponent == each.bias:  # the step after the largest power of two is finite still
        assert upward.isfinite()
    assert upward.double().item() - number.double().item() == each.spacing(exponent)


def test_beyond_the_range_there_is_no_spacing():
    with pytest.raises(ValueError, match=r"float16 ends at 2\*\*16"):
        FORMATS[3].spacing(16)


def test_one_box_for_each_bit():
    (axes,) = bits_figure().axes
    assert len(axes.patches) == 32 + 19 + 16 + 16
    letters = "".join(text.get_text() for text in axes.texts if len(text.get_text()) == 1)
    assert letters[-16:] == "s" + 5 * "e" + 10 * "m"
    assert "tf32: 1 sign bit, 8 exponent bits, 10 mantissa bits, 19 in all" in bits_words()


def test_a_curve_ends_with_its_format():
    (axes,) = spacing_figure(lowest=-30, highest=20).axes
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == ["float32", "tf32", "bfloat16", "float16"]
    assert lines["float32"].get_xdata()[[0, -1]].tolist() == [2.0**-30, 2.0**20]
    assert lines["float16"].get_xdata()[[0, -1]].tolist() == [2.0**-24, 2.0**15]
    assert lines["float16"].get_ydata()[:12].tolist() == [2.0**-24] * 11 + [2.0**-23]
    notes = " ".join(text.get_text() for text in axes.texts)
    assert "float16 ends at 65504" in notes
    assert "subnormal" in notes


def test_words_of_the_spacing():
    words = spacing_words()
    assert "bfloat16: numbers from 1 to 2 lie 2^-7 apart" in words
    assert "float16: numbers from 1 to 2 lie 2^-10 apart; below 6.1e-05 the line is flat, at a step of 6e-08" in words
    assert "the line ends at 65504" in words


def test_the_scale_and_its_skipped_steps():
    scales, skipped = [8.0, 4.0, 4.0, 8.0], [1]
    (axes,) = scale_figure(scales, skipped).axes
    assert list(axes.lines[0].get_ydata()) == scales
    assert (list(axes.lines[1].get_xdata()), list(axes.lines[1].get_ydata())) == ([1], [4.0])
    assert len(scale_figure(scales, []).axes[0].lines) == 1
    words = scale_words(scales, skipped, title="A run")
    assert words.startswith("A run, by step, 4 steps, from 8 to 8.")
    assert "step 1: skipped, the scale is 4 afterwards" in words
    assert "step 3: the scale grows to 8" in words
    assert "step 2" not in words


def test_the_style_of_the_notebook_changes_nothing():
    plain = [png(bits_figure()), png(spacing_figure()), png(scale_figure([2.0, 1.0], [1]))]
    with mpl.rc_context({"lines.linewidth": 9, "axes.facecolor": "black", "font.size": 30}):
        styled = [png(bits_figure()), png(spacing_figure()), png(scale_figure([2.0, 1.0], [1]))]
    assert styled == plain


def test_plain_python_prints_words(capsys):
    draw_bits([Format("half", 5, 10)])
    draw_spacing()
    draw_scale([2.0, 1.0], [1])
    printed = capsys.readouterr().out
    assert "[picture] The bits of each format" in printed
    assert "[picture] Distance between neighbouring numbers" in printed
    assert "[picture] The loss scale, by step" in printed


def test_every_drawing_has_words():
    drawings = {name.removeprefix("draw_") for name in vars(number_formats) if name.startswith("draw_")}
    assert drawings == {"bits", "spacing", "scale"}
    assert all(hasattr(number_formats, f"{name}_words") for name in drawings)

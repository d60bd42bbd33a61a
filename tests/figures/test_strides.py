from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from course.figures import strides
from course.figures.layout import layout_of
from course.figures.show import png
from course.figures.strides import TINTS, draw_strides, strides_figure

X = torch.arange(10, 22).reshape(3, 4)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.fixture
def drawn(monkeypatch):
    """Figure and text alternative of every picture shown."""
    everything = []
    monkeypatch.setattr(strides, "show_figure", lambda figure, alt: everything.append((figure, alt)))
    return everything


def test_picture_carries_values_cells_and_arithmetic():
    written = texts(strides_figure(layout_of(X.t()), (2, 1), title="x.t()"))
    assert "x.t()    shape (4, 3)    stride (1, 4)    offset 0" in written
    assert written.count("16") == 2  # in the grid and in memory
    assert "cell 6" in written
    assert any("offset + 2 × stride[0] + 1 × stride[1]  =  0 + 2 × 1 + 1 × 4  =  6" in text for text in written)


def test_picture_without_labels_gives_no_strides_away():
    written = " ".join(texts(strides_figure(layout_of(X.t()), labels=False)))
    assert "shape (4, 3)" in written
    assert "stride" not in written
    assert "offset" not in written


def test_shared_and_unused_cells_are_told_apart_without_colour():
    figure = strides_figure(layout_of(X[1].expand(3, 4)))
    assert texts(figure).count("3 uses") == 4
    assert sum(bool(patch.get_hatch()) for patch in figure.axes[0].patches) == 8


def test_cut_storage_is_marked():
    assert texts(strides_figure(layout_of(torch.arange(1000)[500:504]))).count("…") == 2
    assert texts(strides_figure(layout_of(X))).count("…") == 0


@pytest.mark.parametrize(
    ("tensor", "highlight"),
    [
        (X, None),
        (X.t(), (3, 2)),
        (torch.arange(5), (4,)),
        (torch.arange(24).reshape(2, 3, 4), (1, 2, 3)),
        (torch.arange(48).reshape(2, 2, 12), (1, 1, 11)),
        (torch.arange(8).as_strided((5, 4), (1, 1)), (2, 1)),
        (torch.arange(1000.0)[500:508:2], (2,)),
        (torch.linspace(-1, 1, 40).reshape(5, 8), (4, 7)),
        (torch.arange(48).reshape(1, 48), None),
        (torch.arange(48).reshape(48, 1), None),
    ],
)
@pytest.mark.parametrize("title", ["", "a title that is rather long, as expressions are"], ids=["untitled", "titled"])
def test_everything_lies_within_the_picture(tensor, highlight, title):
    figure = strides_figure(layout_of(tensor), highlight, title=title)
    renderer = FigureCanvasAgg(figure).get_renderer()
    frame = figure.bbox
    for artist in (*figure.axes[0].texts, *figure.axes[0].patches):
        box = artist.get_window_extent(renderer)
        assert box.x0 >= frame.x0, artist
        assert box.x1 <= frame.x1, artist
        assert box.y0 >= frame.y0, artist
        assert box.y1 <= frame.y1, artist


def test_texts_do_not_cover_each_other():
    figure = strides_figure(layout_of(torch.arange(900.0, 1000)[20:60].reshape(5, 8)), (2, 3), title="x")
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    clashes = [
        (number, other)
        for number, box in enumerate(boxes)
        for other in range(number)
        if min(box.x1, boxes[other].x1) - max(box.x0, boxes[other].x0) > 1
        and min(box.y1, boxes[other].y1) - max(box.y0, boxes[other].y0) > 1
    ]
    assert clashes == []


def luminance(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("tint", TINTS)
def test_text_is_readable_on_every_tint(tint):
    contrast = (luminance(tint) + 0.05) / (luminance(strides.INK) + 0.05)
    assert contrast >= 7


def test_draws_with_words(drawn):
    draw_strides(X.t(), highlight=[2, 1], title="x.t()")
    ((_, alt),) = drawn
    assert alt.startswith("x.t(): A tensor of shape (4, 3), strides (1, 4), offset 0")
    assert "Marked: element [2, 1] in memory cell 6" in alt


@pytest.mark.parametrize("highlight", [(3, 0), (0,), (0, 0, 0), (-1, 0)])
def test_highlight_outside_is_refused(drawn, highlight):
    with pytest.raises(IndexError, match=r"not an element of a tensor of shape \(3, 4\)"):
        draw_strides(X, highlight=highlight)
    assert drawn == []


def test_state_of_matplotlib_is_left_alone_and_does_not_show():
    plain = png(strides_figure(layout_of(X[:, 1]), (1,)))
    with mpl.rc_context({"font.family": "monospace", "hatch.linewidth": 5, "savefig.facecolor": "black"}):
        before = dict(mpl.rcParams)
        assert png(strides_figure(layout_of(X[:, 1]), (1,))) == plain
        assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == []


def test_tensor_is_left_alone():
    x = torch.ones(2, 2, requires_grad=True)
    version = x._version
    strides_figure(layout_of(x), (0, 0))
    assert (x._version, x.grad, x.requires_grad) == (version, None, True)


def test_png_has_a_light_background():
    picture = Image.open(io.BytesIO(png(strides_figure(layout_of(X))))).convert("RGBA")
    assert picture.getpixel((1, 1)) == (255, 255, 255, 255)

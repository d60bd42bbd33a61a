from __future__ import annotations

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures import padding
from course.figures.padding import draw_padded_batch, draw_padding_waste, padded_batch_figure, padding_waste_figure
from course.figures.show import png

PADDED = torch.tensor([[7, 8, 0], [9, 0, 0]])
MASK = torch.tensor([[True, True, False], [True, False, False]])
LENGTHS = [2, 9, 3, 8, 10, 1]
EPOCHS = {"as they come": [[0, 1], [2, 3], [4, 5]], "sorted": [[5, 0], [2, 3], [1, 4]]}


@pytest.fixture
def drawn(monkeypatch):
    """Figure and text alternative of every picture shown."""
    everything = []
    monkeypatch.setattr(padding, "show_figure", lambda figure, alt: everything.append((figure, alt)))
    return everything


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_batch_and_mask_are_written_out():
    figure = padded_batch_figure(PADDED, MASK, title="a batch")
    written = texts(figure)
    assert "a batch" in written
    assert "padded  (2, 3)" in written
    assert "mask  (2, 3)" in written
    assert [written.count(text) for text in ("7", "8", "9", "0", "T", "F")] == [1, 1, 1, 3, 3, 3]
    assert [text for text in written if text.startswith("length")] == ["length 2", "length 1"]


def test_padding_is_told_apart_without_colour():
    figure = padded_batch_figure(PADDED, MASK)
    assert sum(bool(patch.get_hatch()) for patch in figure.axes[0].patches) == 6  # three in each half


@pytest.mark.parametrize(
    ("padded", "mask", "title"),
    [
        (PADDED, MASK, "a rather long title, as expressions are, that is wider than the batch"),
        (torch.rand(12, 16) * 1000, torch.rand(12, 16) < 0.5, ""),
        (torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool), "one"),
    ],
)
def test_everything_lies_within_the_picture(padded, mask, title):
    figure = padded_batch_figure(padded, mask, title=title)
    renderer = FigureCanvasAgg(figure).get_renderer()
    for artist in (*figure.axes[0].texts, *figure.axes[0].patches):
        box = artist.get_window_extent(renderer)
        assert box.x0 >= figure.bbox.x0, artist
        assert box.x1 <= figure.bbox.x1, artist
        assert box.y0 >= figure.bbox.y0, artist
        assert box.y1 <= figure.bbox.y1, artist


def test_the_batch_in_words(drawn):
    draw_padded_batch(PADDED, MASK, title="two sequences")
    ((_, alt),) = drawn
    assert alt.startswith("two sequences: 2 sequences, padded to 3 columns.")
    assert "in each row: 2, 1." in alt
    assert "3 of 6 cells are padding" in alt


@pytest.mark.parametrize(
    ("padded", "mask"),
    [(PADDED, MASK[:1]), (PADDED[0], MASK[0]), (torch.ones(13, 2), torch.ones(13, 2)), (torch.ones(0, 2),) * 2],
)
def test_what_cannot_be_drawn(padded, mask):
    with pytest.raises(ValueError, match=r"were given|was given"):
        padded_batch_figure(padded, mask)


def test_waste_before_and_after():
    figure = padding_waste_figure(LENGTHS, EPOCHS)
    assert [axes.get_title() for axes in figure.axes] == ["as they come: 39% padding", "sorted: 18% padding"]
    for axes, batches in zip(figure.axes, EPOCHS.values(), strict=True):
        real, padded = axes.containers
        order = [i for batch in batches for i in batch]
        assert [bar.get_width() for bar in real] == [LENGTHS[i] for i in order]
        ends = [max(LENGTHS[i] for i in batch) for batch in batches for _ in batch]
        assert [bar.get_x() + bar.get_width() for bar in padded] == ends


def test_the_waste_in_words(drawn):
    draw_padding_waste(LENGTHS, EPOCHS)
    ((_, alt),) = drawn
    assert "as they come: 39% of the cells are padding. sorted: 18% of the cells are padding." in alt


@pytest.mark.parametrize("epochs", [{}, {"nothing": []}, {"many": [list(range(401))]}])
def test_epochs_that_cannot_be_drawn(epochs):
    with pytest.raises(ValueError, match=r"give at least one|at most 400"):
        padding_waste_figure(list(range(1, 500)), epochs)


def test_the_same_bytes_again():
    assert png(padding_waste_figure(LENGTHS, EPOCHS)) == png(padding_waste_figure(LENGTHS, EPOCHS))
    assert png(padded_batch_figure(PADDED, MASK)) == png(padded_batch_figure(PADDED, MASK))

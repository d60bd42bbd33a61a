from __future__ import annotations

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures.confusion import confusion_figure, confusion_words, draw_confusion

MATRIX = torch.tensor([[8, 2, 0], [1, 0, 3], [0, 0, 0]])
NAMES = ["ship", "cat", "dog"]


def test_every_cell_carries_its_count():
    axes = confusion_figure(MATRIX, NAMES).axes[0]
    assert [text.get_text() for text in axes.texts] == ["8", "2", "·", "1", "·", "3", "·", "·", "·"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true class")


def test_counts_are_readable_on_every_shade():
    figure = confusion_figure(torch.tensor([[100, 0], [45, 55]]), ["a", "b"])
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    shades = axes.images[0].to_rgba(axes.images[0].get_array())
    for text, shade in zip(axes.texts, shades.reshape(-1, 4), strict=True):
        dark = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] < 0.55
        assert (text.get_color() == "white") == dark


def test_words_name_what_is_recognised_and_what_is_not():
    words = confusion_words(MATRIX, NAMES, "Test images")
    assert words.splitlines() == [
        "Test images: true classes against predictions.",
        "Recognised: ship 80 %, cat 0 %, dog 0 %.",
        "Most frequent confusions: cat taken for dog 3 times; ship taken for cat 2 times; cat taken for ship 1 times.",
    ]
    assert confusion_words(torch.eye(2), ["a", "b"]).endswith("No confusions.")


def test_plain_python_prints_words(capsys):
    draw_confusion(MATRIX, NAMES)
    assert capsys.readouterr().out.startswith("[picture] True classes against predictions.")


def test_names_must_fit_the_matrix():
    with pytest.raises(ValueError, match=r"shape \(2, 2\) was expected, not \(3, 3\)"):
        confusion_figure(MATRIX, ["a", "b"])

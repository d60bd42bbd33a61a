from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.figures.artefacts import TONES, artefacts_figure, artefacts_words, draw_artefacts
from course.figures.show import png

COLUMNS = ["Python code of the network", "weights"]
ROWS = {
    "a checkpoint": ["-needed", "+inside"],
    "an ONNX file, with a long name": ["+not needed", " inside or beside it"],
}


def test_every_cell_has_its_text_mark_and_colour():
    (axes,) = artefacts_figure(ROWS, COLUMNS).axes
    texts = [text.get_text().replace("\n", " ") for text in axes.texts]
    for wanted in ("✗ needed", "✓ inside", "✓ not needed", "inside or beside it", *COLUMNS, *ROWS):
        assert wanted in texts
    assert len({patch.get_facecolor() for patch in axes.patches}) == len(TONES)


def test_texts_stay_in_their_cells():
    picture = artefacts_figure(ROWS, COLUMNS)
    FigureCanvasAgg(picture).draw()
    (axes,) = picture.axes
    cells = [patch.get_window_extent() for patch in axes.patches]
    inside = [
        text
        for text in axes.texts
        if text.get_text().replace("\n", " ").lstrip("✓✗ ")
        in {cell[1:].strip() for row in ROWS.values() for cell in row}
    ]
    assert len(inside) == len(cells) == 4
    for text in inside:
        box = text.get_window_extent()
        assert any(c.x0 <= box.x0 and box.x1 <= c.x1 and c.y0 <= box.y0 and box.y1 <= c.y1 for c in cells)


def test_words_hold_every_cell():
    words = artefacts_words(ROWS, COLUMNS, title="Files")
    assert words.startswith("Files.\n")
    assert "a checkpoint. Python code of the network: needed; weights: inside." in words


def test_plain_python_prints_the_words(capsys):
    draw_artefacts(ROWS, COLUMNS)
    assert "[picture] What each file carries" in capsys.readouterr().out


def test_the_same_picture_each_time():
    assert png(artefacts_figure(ROWS, COLUMNS)) == png(artefacts_figure(ROWS, COLUMNS))


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ({}, COLUMNS, "at least one row"),
        (ROWS, [], "at least one row"),
        ({"a": ["+x"]}, COLUMNS, "1 cells; there are 2"),
        ({"a": ["x", "+y"]}, COLUMNS, "starts with"),
        ({"a": ["", "+y"]}, COLUMNS, "starts with"),
    ],
)
def test_nonsense_is_refused(rows, columns, message):
    with pytest.raises(ValueError, match=message):
        artefacts_figure(rows, columns)

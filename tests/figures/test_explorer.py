from __future__ import annotations

import html
import re

import ipywidgets
import pytest
import torch
from matplotlib import pyplot

from course.figures.explorer import stride_explorer
from course.figures.explorer_widget import StrideExplorer
from course.figures.layout import TooLargeToDraw
from course.figures.views import layouts_of_views

X = torch.arange(10, 22).reshape(3, 4)


@pytest.fixture
def explorer():
    return StrideExplorer(layouts_of_views(X))


def words(widget):
    return html.unescape(re.sub(r"<[^>]+>", "", widget.value))


def test_starts_with_the_first_element(explorer):
    assert explorer.view.value == "x"
    assert explorer.index == (0, 0)
    assert words(explorer.sentence).startswith("x[0, 0] is 10, in memory cell 0: offset + ")


def test_choosing_a_view_and_an_element(explorer):
    explorer.view.value = "x.t()"
    explorer.indices[0].value = 2
    explorer.indices[1].value = 1
    assert words(explorer.sentence) == (
        "x.t()[2, 1] is 16, in memory cell 6: offset + 2 × stride[0] + 1 × stride[1]  =  0 + 2 × 1 + 1 × 4  =  6."
    )
    alt = html.unescape(re.search(r'<img alt="([^"]*)"', explorer.picture.value).group(1))
    assert "x.t(): A tensor of shape (4, 3)" in alt
    assert "Marked: element [2, 1] in memory cell 6" in alt


def test_shared_cells_are_named(explorer):
    explorer.view.value = "x[1].expand(3, -1)"
    assert "The same cell holds [1, 0], [2, 0]." in words(explorer.sentence)


def test_index_follows_the_shape_of_the_view(explorer):
    explorer.choose((2, 3))
    explorer.view.value = "x[:, ::2]"
    assert explorer.index == (2, 1)
    assert [box.max for box in explorer.indices] == [2, 1]
    explorer.view.value = "x.view(-1)"
    assert explorer.index == (2,)
    assert [box.layout.display for box in explorer.indices] == [None, "none"]
    explorer.view.value = "x"
    assert [box.layout.display for box in explorer.indices] == [None, None]


def test_buttons_step(explorer):
    explorer.next.click()
    assert explorer.index == (0, 1)
    explorer.previous.click()
    explorer.previous.click()
    assert explorer.index == (2, 3)


def test_one_step_draws_one_picture(explorer):
    pictures = []
    explorer.picture.observe(lambda change: pictures.append(change["new"]), names="value")
    explorer.choose((1, 3))
    explorer.next.click()
    assert explorer.index == (2, 0)
    assert len(pictures) == 2


def test_every_control_has_a_label_and_works_from_the_keyboard(explorer):
    def controls(widget):
        for child in getattr(widget, "children", ()):
            yield child
            yield from controls(child)

    found = [widget for widget in controls(explorer) if not isinstance(widget, (ipywidgets.Box, ipywidgets.HTML))]
    assert len(found) == 5
    for widget in found:
        assert widget.description
        assert isinstance(widget, (ipywidgets.Dropdown, ipywidgets.BoundedIntText, ipywidgets.Button))


def test_classes_for_browser_tests(explorer):
    assert "course-stride-explorer" in explorer._dom_classes
    for name in ("view", "previous", "next", "sentence", "picture"):
        assert f"course-{name}" in getattr(explorer, name)._dom_classes


def test_no_figure_is_left_open(explorer):
    for _ in range(25):
        explorer.next.click()
    assert pyplot.get_fignums() == []


def test_plain_text_form_is_a_sentence(explorer):
    assert explorer._repr_mimebundle_()["text/plain"].startswith("Stride explorer: run this cell")


def test_plain_python_prints_picture_and_table(capsys):
    stride_explorer()
    out = capsys.readouterr().out
    assert "[picture] x: A tensor of shape (3, 4)" in out
    assert re.search(r"^x\.t\(\) +\(4, 3\) +\(1, 4\) +0 +12 +12$", out, re.MULTILINE)


def test_too_large_is_refused():
    with pytest.raises(TooLargeToDraw, match="at most 48"):
        stride_explorer(torch.zeros(10, 10))

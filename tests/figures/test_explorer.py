from __future__ import annotations

import html
import re
from types import SimpleNamespace

import pytest
import torch
from matplotlib import pyplot

from course.figures import live
from course.figures.explorer import INVITATION, stride_explorer
from course.figures.explorer_widget import StrideExplorer
from course.figures.layout import TooLargeToDraw
from course.figures.views import layouts_of_views

X = torch.arange(10, 22).reshape(3, 4)


@pytest.fixture
def explorer():
    return StrideExplorer(layouts_of_views(X))


def test_starts_with_the_first_element(explorer):
    assert explorer.views[:2] == ["x", "x.t()"]
    assert (explorer.view, explorer.shape, explorer.index) == ("x", [3, 4], [0, 0])
    assert explorer.sentence.startswith("x[0, 0] is 10, in memory cell 0: offset + ")


def test_choosing_a_view_and_an_element(explorer):
    explorer.answer({"do": "view", "value": "x.t()", "number": 1})
    explorer.answer({"do": "index", "value": [2, 1], "number": 2})
    assert explorer.answered == 2
    assert explorer.sentence == (
        "x.t()[2, 1] is 16, in memory cell 6: offset + 2 × stride[0] + 1 × stride[1]  =  0 + 2 × 1 + 1 × 4  =  6."
    )
    alt = html.unescape(re.search(r'<img alt="([^"]*)"', explorer.picture).group(1))
    assert "x.t(): A tensor of shape (4, 3)" in alt
    assert "Marked: element [2, 1] in memory cell 6" in alt


def test_shared_cells_are_named(explorer):
    explorer.choose("x[1].expand(3, -1)")
    assert "The same cell holds [1, 0], [2, 0]." in explorer.sentence


def test_index_follows_the_shape_of_the_view(explorer):
    explorer.choose("x", (2, 3))
    explorer.choose("x[:, ::2]")
    assert (explorer.shape, explorer.index) == ([3, 2], [2, 1])
    explorer.choose("x.view(-1)")
    assert (explorer.shape, explorer.index) == ([12], [2])
    explorer.choose("x")
    assert (explorer.shape, explorer.index) == ([3, 4], [2, 0])


def test_buttons_step(explorer):
    explorer.answer({"do": "step", "value": 1, "number": 1})
    assert explorer.index == [0, 1]
    for number in (2, 3):
        explorer.answer({"do": "step", "value": -1, "number": number})
    assert explorer.index == [2, 3]


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "view", "value": "x.clone()"},
        {"do": "index", "value": "12"},
        {"do": "index", "value": []},
        {"do": "index", "value": [-5, 0, 7]},
        {"do": "step", "value": 100},
        {"do": "nothing"},
        {},
    ],
)
def test_strange_requests_change_nothing_and_are_answered(explorer, request_):
    explorer.answer({**request_, "number": 5})
    assert (explorer.view, explorer.index, explorer.answered) == ("x", [0, 0], 5)


def test_one_answer_draws_one_picture(explorer):
    pictures = []
    explorer.observe(lambda change: pictures.append(change["new"]), names="picture")
    explorer.answer({"do": "index", "value": [1, 3], "number": 1})
    explorer.answer({"do": "step", "value": 1, "number": 2})
    assert explorer.index == [2, 0]
    assert len(pictures) == 2


def test_no_figure_is_left_open(explorer):
    for _ in range(25):
        explorer.step(1)
    assert pyplot.get_fignums() == []


def test_controls_are_labelled_and_keep_their_keys():
    script = StrideExplorer._esm
    assert '"aria-label": name' in str(script)
    assert '"aria-valuetext"' in str(script)
    assert '"data-lm-suppress-shortcuts", "true"' in str(script)


@pytest.fixture
def published(monkeypatch):
    """What arrives in a kernel that has, or has not, somebody in front of it."""
    bundles = []
    shell = SimpleNamespace(kernel=SimpleNamespace())
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(
        "IPython.display.publish_display_data", lambda data, *rest, **more: bundles.append(data), raising=True
    )
    return bundles


@pytest.mark.parametrize(("value", "widgets"), [("off", 0), ("", 1)])
def test_the_same_words_with_and_without_controls(published, monkeypatch, value, widgets):
    monkeypatch.setenv(live.VARIABLE, value)
    stride_explorer(X)
    picture, _, table, *controls = published
    assert "image/png" in picture
    assert "<table>" in table["text/html"]
    assert INVITATION in table["text/html"]
    assert INVITATION in table["text/plain"]
    # Nothing but the view: what tools compare is the same in both.
    assert [list(data) for data in controls] == [[live.WIDGET_VIEW]] * widgets


def test_plain_python_prints_picture_and_table(capsys):
    stride_explorer()
    out = capsys.readouterr().out
    assert "[picture] x: A tensor of shape (3, 4)" in out
    assert re.search(r"^x\.t\(\) +\(4, 3\) +\(1, 4\) +0 +12 +12$", out, re.MULTILINE)


def test_too_large_is_refused():
    with pytest.raises(TooLargeToDraw, match="at most 48"):
        stride_explorer(torch.zeros(10, 10))

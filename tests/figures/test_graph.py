from __future__ import annotations

import itertools

import matplotlib as mpl
import pytest
import torch
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyArrowPatch
from torch import nn

from course.figures import graph
from course.figures.graph import LEGEND, draw_graph, graph_figure
from course.figures.graph_nodes import FREED, HELD, LEAF, OVERWRITTEN, graph_of
from course.figures.show import png


def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def overwritten():
    y = leaf().exp()
    result = (y * y + y).sum()
    y += 1
    return result


def freed():
    w = leaf()
    loss = ((w * torch.ones(2)).sum() - 1) ** 2
    loss.backward()
    return loss


def skipping():
    w = leaf()
    return (w.exp().sin() * w + w.tanh()).sum() + w.prod()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))(torch.ones(4, 2)).mean()


OUTPUTS = [leaf, overwritten, freed, skipping, network, lambda: leaf().detach(), lambda: leaf() * 2]


def written(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.fixture
def drawn(monkeypatch):
    """Figure and text alternative of every picture shown."""
    everything = []
    monkeypatch.setattr(graph, "show_figure", lambda figure, alt: everything.append((figure, alt)))
    return everything


@pytest.mark.parametrize("make", OUTPUTS)
@pytest.mark.parametrize("title", ["", "a title that is rather long, as expressions in lessons tend to be"])
def test_texts_lie_within_the_picture_and_apart(make, title):
    figure = graph_figure(graph_of(make()), title=title)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = {text: text.get_window_extent(renderer) for text in figure.axes[0].texts}
    for text, box in boxes.items():
        assert box.x0 >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y0 >= 0, text
        assert box.y1 <= figure.bbox.y1, text
    for (one, a), (two, b) in itertools.combinations(boxes.items(), 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, (one, two)


@pytest.mark.parametrize("make", OUTPUTS)
def test_every_line_of_a_box_fits_its_box(make):
    """Texts are measured in a font that may be wider than the estimate by which boxes are sized."""
    figure = graph_figure(graph_of(make()))
    renderer = FigureCanvasAgg(figure).get_renderer()
    patches = [patch.get_window_extent(renderer) for patch in figure.axes[0].patches]
    outside = [*LEGEND.values(), "backward() starts here"]
    for text in figure.axes[0].texts:
        if text.get_text() not in outside:
            box = text.get_window_extent(renderer)
            assert any(
                p.x0 <= box.x0 and box.x1 <= p.x1 and p.y0 <= box.y0 + 2 and box.y1 - 2 <= p.y1 for p in patches
            ), text


def test_legend_explains_what_occurs_and_no_more():
    texts = written(graph_figure(graph_of(freed())))
    assert LEGEND[FREED] in texts
    assert LEGEND[LEAF] in texts
    assert LEGEND[HELD] not in texts
    assert LEGEND[OVERWRITTEN] in written(graph_figure(graph_of(overwritten())))


def test_states_are_told_apart_without_colour():
    looks = graph.LOOKS
    told = {(look.get("hatch"), look.get("ls"), look["lw"], look["facecolor"] == "white") for look in looks.values()}
    assert len(told) == len(looks)


def test_draws_with_words(drawn):
    w = leaf()
    draw_graph((w * w).sum(), title="(w * w).sum()", w=w)
    ((figure, alt),) = drawn
    assert alt.startswith("(w * w).sum(), from the output backwards:\n1. SumBackward0 -> 2")
    assert "leaf w (shape (2,); grad None)" in alt
    assert "(w * w).sum()" in written(figure)


def test_arrows_of_two_uses_do_not_coincide():
    w = leaf()
    figure = graph_figure(graph_of(w * w))
    renderer = FigureCanvasAgg(figure).get_renderer()
    arrows = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]
    places = {tuple(arrow.get_window_extent(renderer).extents.round(1)) for arrow in arrows}
    assert len(places) == len(arrows) == 3  # two uses, and where backward starts


def test_state_of_matplotlib_is_left_alone_and_does_not_show():
    output = network()
    plain = png(graph_figure(graph_of(output)))
    with mpl.rc_context({"font.size": 30, "savefig.facecolor": "black", "hatch.linewidth": 9}):
        before = dict(mpl.rcParams)
        assert png(graph_figure(graph_of(output))) == plain
        assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == []

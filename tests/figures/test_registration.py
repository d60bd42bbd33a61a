from __future__ import annotations

import matplotlib as mpl
import pytest
import torch
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from torch import nn

from course.figures import registration
from course.figures.layout import TooLargeToDraw
from course.figures.registration import (
    MISSED,
    MISSED_TINT,
    Node,
    describe_registration,
    draw_registration,
    registration_figure,
    registration_of,
)
from course.figures.show import png


class Model(nn.Module):
    """Something of everything: all kinds of registration, and all kinds of hiding."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2), requires_grad=False)
        self.mean = nn.Buffer(torch.zeros(3))
        self.mask = nn.Buffer(torch.ones(4), persistent=False)
        self.absent = None
        self.norm = nn.BatchNorm1d(2)
        self.blocks = nn.ModuleList([nn.Linear(1, 2)])
        self.offset = torch.zeros(5)
        self.hidden = [nn.Linear(2, 1, bias=False), 3, "text"]
        self.heads = {"a": {"b": nn.Parameter(torch.ones(6))}}
        self.pair = (torch.zeros(7), None)
        self.index = [self.norm, self.blocks[0].weight]
        self.alias = self.blocks[0]
        self.size, self.names = 3, ["a", "b"]


def found(nodes, path):
    return next(node for node in nodes if node.path == path)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.fixture(scope="module")
def nodes():
    return registration_of(Model())


def test_columns_say_what_pytorch_reaches(nodes):
    model = Model()
    parameters = dict(model.named_parameters(remove_duplicate=False))
    moved = parameters | dict(model.named_buffers())
    for node in nodes:
        if node.found is not None:
            assert node.found == (node.path in parameters, node.path in moved, node.path in model.state_dict())
    reached = {node.path for node in nodes if node.found is not None and node.registered}
    assert reached == {name for name in moved if not name.startswith("alias.")}


def test_what_is_not_registered_is_found_in_containers(nodes):
    missed = {node.path: node.kind for node in nodes if not node.registered}
    assert missed == {
        "offset": "tensor",
        "hidden": "container",
        "hidden[0]": "module",
        "hidden[0].weight": "parameter",
        "heads": "container",
        "heads['a']": "container",
        "heads['a']['b']": "parameter",
        "pair": "container",
        "pair[0]": "tensor",
    }


def test_a_list_of_registered_modules_hides_nothing(nodes):
    assert not [node for node in nodes if node.path.startswith("index")]


def test_shared_modules_are_followed_once(nodes):
    assert found(nodes, "alias").same_as == "blocks.0"
    assert not [node for node in nodes if node.path.startswith("alias.")]
    tied = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 3, bias=False))
    tied[1].weight = tied[0].weight
    assert found(registration_of(tied), "1.weight").same_as == "0.weight"


def test_a_list_repeated_by_multiplication_shows_one_layer():
    model = nn.Module()
    model.layers = nn.ModuleList([nn.Linear(1, 1)] * 3)
    assert [node.same_as for node in registration_of(model) if node.kind == "module"][2:] == [
        None,
        "layers.0",
        "layers.0",
    ]


def test_modules_in_a_circle_end():
    model, other = nn.Module(), nn.Module()
    model.other, other.back = other, [model]
    things: list[object] = [torch.zeros(1)]
    things.append(things)
    model.things = things
    assert [node.path for node in registration_of(model)] == ["", "other", "things", "things[0]"]


def test_words_tell_everything(nodes):
    words = describe_registration(nodes).splitlines()
    assert words[0] == "The registration tree of a model of class Model: 14 tensors, 4 of them not registered."
    assert len(words) == len(nodes)
    assert "scale: parameter (2,) float32, frozen, reached by parameters(), .to(...), state_dict()." in words
    assert "mask: buffer (4,) float32, reached by .to(...)." in words
    assert "hidden: a plain list, NOT registered." in words
    assert "hidden[0].weight: parameter (1, 2) float32, NOT registered." in words
    assert "alias: module Linear, the same object as blocks.0." in words


def test_picture_tells_the_same_without_colour(nodes):
    figure = registration_figure(nodes, title="Model()")
    written = texts(figure)
    assert written[0] == "Model()"
    assert written.count("✓") == sum(sum(node.found) for node in nodes if node.found)
    assert written.count("–") == sum(3 - sum(node.found) for node in nodes if node.found)
    assert "= blocks.0" in written
    tinted = [
        patch for patch in figure.axes[0].patches if mpl.colors.to_hex(patch.get_facecolor()).upper() == MISSED_TINT
    ]
    diamonds = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    dashed = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    missed = sum(not node.registered for node in nodes)
    assert (len(tinted), len(diamonds), len(dashed)) == (missed, missed + 1, missed)  # one diamond in the legend


def test_without_anything_missed_the_legend_does_not_speak_of_it():
    written = texts(registration_figure(registration_of(nn.Linear(2, 3))))
    assert "not registered" not in written
    assert "buffer" not in written
    assert written[0] == "What Linear has registered"


def test_texts_stay_inside_and_do_not_touch(nodes):
    figure = registration_figure(nodes)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1 for box in boxes)
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


def test_text_is_readable_on_the_tint():
    def luminance(colour):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in mpl.colors.to_rgb(colour)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    assert (luminance(MISSED_TINT) + 0.05) / (luminance(MISSED) + 0.05) >= 4.5


def test_draws_with_words(monkeypatch):
    shown = []
    monkeypatch.setattr(registration, "show_figure", lambda figure, alt: shown.append(alt))
    draw_registration(nn.Linear(2, 3), title="a layer")
    (alt,) = shown
    assert alt.startswith("a layer: The registration tree of a model of class Linear: 2 tensors, 0 of them")


def test_state_of_matplotlib_is_left_alone_and_does_not_show(nodes):
    plain = png(registration_figure(nodes))
    with mpl.rc_context({"font.size": 30, "savefig.facecolor": "black", "lines.linewidth": 9}):
        before = dict(mpl.rcParams)
        assert png(registration_figure(nodes)) == plain
        assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == []


def test_model_is_left_alone():
    model = Model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    registration_figure(registration_of(model))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.training


def test_lazy_parameters_have_no_shape_yet():
    nodes = registration_of(nn.LazyLinear(2))
    assert found(nodes, "weight").detail == "no shape yet"


def test_large_models_are_refused():
    with pytest.raises(TooLargeToDraw, match="121 rows; at most 40 can be drawn, so draw a submodule"):
        registration_of(nn.Sequential(*(nn.Linear(1, 1) for _ in range(40))))


@pytest.mark.parametrize("nonsense", [None, torch.ones(2), nn.Linear])
def test_other_things_are_refused(nonsense):
    with pytest.raises(TypeError, match="a module is needed"):
        registration_of(nonsense)


def test_names_of_rows():
    names = {path: Node(path, 1, "module", "").name for path in ("", "a", "a.0", "a[0]", "a['x.y']", "a[0].b")}
    assert names == {"": "", "a": "a", "a.0": "0", "a[0]": "[0]", "a['x.y']": "['x.y']", "a[0].b": "b"}

from __future__ import annotations

import re

import pytest
import torch

from course.figures.graph_nodes import (
    FREED,
    HELD,
    LEAF,
    MAX_NODES,
    OPERATION,
    OVERWRITTEN,
    UNTRACKED,
    Saved,
    describe,
    graph_of,
)
from course.figures.layout import TooLargeToDraw


@pytest.fixture
def w():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def saved_by(graph):
    return {node.title: [str(saved) for saved in node.saved] for node in graph.nodes if node.saved}


def test_leaves_operations_and_untracked_inputs(w):
    x = torch.tensor([3.0, 4.0])
    h = w * x
    graph = graph_of(h.sum(), {"w": w, "x": x, "h": h})
    assert [(node.kind, node.title, node.name) for node in graph.nodes] == [
        (OPERATION, "SumBackward0", ""),
        (OPERATION, "MulBackward0", "h"),
        (LEAF, "w", ""),
        (UNTRACKED, "no gradient", ""),
    ]
    assert graph.edges == ((0, 1), (1, 2), (1, 3))
    assert saved_by(graph) == {"MulBackward0": ["keeps x"]}


def test_a_value_used_twice_is_one_box_with_two_edges(w):
    graph = graph_of(w * w, {"w": w})
    assert len(graph.nodes) == 2
    assert graph.edges == ((0, 1), (0, 1))


def test_what_is_saved_is_named_as_far_as_can_be_told(w):
    own = graph_of(w.exp())
    assert saved_by(own) == {"ExpBackward0": ["keeps its own result"]}
    assert saved_by(graph_of((w + 1) ** 2))["PowBackward0"] == ["keeps the result of Add"]
    assert saved_by(graph_of(w * torch.ones(2)))["MulBackward0"] == ["keeps a tensor of shape (2,)"]


def test_a_detached_twin_keeps_its_own_name(w):
    y = w.exp()
    z = y.detach()
    assert saved_by(graph_of(z * w, {"y": y, "z": z, "w": w})) == {"MulBackward0": ["keeps z"]}
    assert "keeps y" in saved_by(graph_of(y * w, {"z": z, "y": y, "w": w}))["MulBackward0"]


def test_backward_frees_and_fills_gradients(w):
    loss = (w * w).sum()
    loss.backward()
    graph = graph_of(loss, {"w": w})
    assert [node.notes for node in graph.nodes if node.kind == LEAF] == [("shape (2,)", "grad [2, 4]")]
    assert graph.states() == {LEAF, OPERATION, FREED}
    assert saved_by(graph)["MulBackward0"] == ["other: freed", "self: freed"]


def test_a_write_into_a_saved_tensor_shows(w):
    y = w.exp()
    assert HELD in graph_of(y).states()
    y += 1
    graph = graph_of(y)
    assert graph.nodes[1].saved == (Saved("result", "result", OVERWRITTEN),)


def test_functions_of_one_s_own(w):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    y = Double.apply(w)
    assert saved_by(graph_of(y, {"w": w})) == {"DoubleBackward": ["keeps w"]}
    y.sum().backward()
    assert saved_by(graph_of(y)) == {"DoubleBackward": ["saved: freed"]}


def test_a_leaf_alone_and_a_tensor_without_history(w):
    assert [node.kind for node in graph_of(w, {"w": w}).nodes] == [LEAF]
    (node,) = graph_of(w.detach()).nodes
    assert (node.kind, node.notes) == (UNTRACKED, ("no grad_fn: nothing was recorded",))


def test_large_gradients_are_told_by_shape():
    weight = torch.ones(3, 3, requires_grad=True)
    weight.sum().backward()
    assert graph_of(weight).nodes[0].notes == ("shape (3, 3)", "grad of shape (3, 3)")


def test_graph_of_a_gradient(w):
    (first,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    assert any(node.kind == LEAF and node.title == "w" for node in graph_of(first, {"w": w}).nodes)


def test_reading_changes_nothing(w):
    y = w.exp()
    loss = (y * w).sum()
    version = y._version
    graph_of(loss, {"y": y})
    assert (y._version, w.grad) == (version, None)
    loss.backward()
    assert torch.allclose(w.grad, (y * (1 + w)).detach())


def test_words_are_complete_and_stable(w):
    y = w * 2
    graph = graph_of(y.exp().sum(), {"w": w, "y": y})
    text = describe(graph)
    assert text == describe(graph_of(y.exp().sum(), {"w": w, "y": y}))
    assert "2. ExpBackward0 (keeps its own result) -> 3" in text
    assert "3. y = MulBackward0 (keeps a number) -> 4, 5" in text
    assert "4. leaf w (shape (2,); grad None)" in text
    assert not re.search(r"0x[0-9a-f]{4}", text)


def test_too_large(w):
    y = w
    for _ in range(MAX_NODES):
        y = y.exp()
    with pytest.raises(TooLargeToDraw, match=f"more than {MAX_NODES} boxes"):
        graph_of(y)


def test_not_a_tensor(w):
    with pytest.raises(TypeError, match="output must be a tensor, not int"):
        graph_of(3)
    with pytest.raises(TypeError, match="x must be a tensor, not list"):
        graph_of(w, {"x": [1.0]})

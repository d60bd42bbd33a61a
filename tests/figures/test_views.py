from __future__ import annotations

import pytest
import torch

from course.figures.views import layouts_of_views, next_index

X = torch.arange(10, 22).reshape(3, 4)


@pytest.mark.parametrize(
    "base",
    [X, X.t(), torch.arange(6), torch.arange(7), torch.arange(24).reshape(2, 3, 4), torch.ones(1), torch.ones(2, 1)],
)
def test_views_are_what_their_expressions_say(base):
    layouts = layouts_of_views(base)
    assert next(iter(layouts)) == "x"
    for expression, layout in layouts.items():
        view = eval(expression, {"x": base})
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr(), expression
        assert (layout.shape, layout.stride, layout.offset) == (view.shape, view.stride(), view.storage_offset())


def test_every_kind_of_view_is_offered():
    layouts = layouts_of_views(X)
    assert {"x", "x.t()", "x[:, ::2]", "x[1].expand(3, -1)", "x.view(-1).unfold(0, 4, 2)"} <= set(layouts)
    assert "x.view(-1)" not in layouts_of_views(X.t())


def test_steps_go_in_row_major_order_and_round():
    layout = layouts_of_views(X)["x"]
    assert next_index(layout, (0, 3), 1) == (1, 0)
    assert next_index(layout, (2, 3), 1) == (0, 0)
    assert next_index(layout, (0, 0), -1) == (2, 3)

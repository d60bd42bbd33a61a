"""Views of a small tensor, and what is said about one of their elements."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from typing import TYPE_CHECKING

from course.figures.layout import Index, Layout, arithmetic, describe, layout_of
from course.figures.show import in_words, png
from course.figures.strides import strides_figure

if TYPE_CHECKING:
    from torch import Tensor

# Expressions that give a view for a tensor of so many axes; those that do not fit a tensor are left out.
_VIEWS: dict[int, dict[str, Callable[[Tensor], Tensor]]] = {
    1: {
        "x": lambda x: x,
        "x[2:]": lambda x: x[2:],
        "x[::2]": lambda x: x[::2],
        "x.view(2, -1)": lambda x: x.view(2, -1),
        "x.expand(3, -1)": lambda x: x.expand(3, -1),
        "x.unfold(0, 3, 1)": lambda x: x.unfold(0, 3, 1),
    },
    2: {
        "x": lambda x: x,
        "x.t()": lambda x: x.t(),
        "x[1:]": lambda x: x[1:],
        "x[:, ::2]": lambda x: x[:, ::2],
        "x[:, 1]": lambda x: x[:, 1],
        "x[1:, 2:]": lambda x: x[1:, 2:],
        "x.view(-1)": lambda x: x.view(-1),
        "x[1].expand(3, -1)": lambda x: x[1].expand(3, -1),
        "x.view(-1).unfold(0, 4, 2)": lambda x: x.view(-1).unfold(0, 4, 2),
    },
    3: {
        "x": lambda x: x,
        "x.permute(2, 0, 1)": lambda x: x.permute(2, 0, 1),
        "x.transpose(0, 1)": lambda x: x.transpose(0, 1),
        "x[0]": lambda x: x[0],
        "x[:, 1]": lambda x: x[:, 1],
        "x[:, :, ::2]": lambda x: x[:, :, ::2],
        "x.view(x.shape[0], -1)": lambda x: x.view(x.shape[0], -1),
    },
}


def layouts_of_views(base: Tensor) -> dict[str, Layout]:
    """The views of a tensor that can be drawn, by the expression that makes them; the first is the tensor."""
    layouts = {"x": layout_of(base)}
    for expression, make in _VIEWS[base.ndim].items():
        try:
            layouts[expression] = layout_of(make(base))
        except (RuntimeError, IndexError, ValueError):  # not a view, or too large, for a tensor of this shape
            continue
    return layouts


def next_index(layout: Layout, index: Index, step: int) -> Index:
    """The element a number of steps further in row-major order; from the last on to the first."""
    order = list(layout.addresses)
    return order[(order.index(index) + step) % len(order)]


def picture_html(expression: str, layout: Layout, index: Index) -> str:
    """The picture of a view with one element marked, as an HTML image with a text alternative."""
    alt = f"{expression}: {describe(layout, index)}"
    data = base64.b64encode(png(strides_figure(layout, index, title=expression))).decode("ascii")
    image = (
        f'<img alt="{html.escape(" ".join(alt.split()))}" src="data:image/png;base64,{data}" style="max-width: 100%">'
    )
    return f"{image}\n{in_words(alt)}"


def sentence(expression: str, layout: Layout, index: Index) -> str:
    """What the explorer says about the chosen element."""
    users = layout.users(layout.addresses[index])
    others = [str(list(user)) for user in users if user != index]
    shared = f" The same cell holds {', '.join(others)}." if others else ""
    return (
        f"{expression}{list(index)} is {layout.value(index)}, in memory cell "
        f"{layout.addresses[index]}: {arithmetic(layout, index)}.{shared}"
    )

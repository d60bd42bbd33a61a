"""The stride explorer: views of one small tensor, element by element."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from course.figures.layout import Layout, describe
from course.figures.live import has_front_end, hide_dead_widget, show_widget
from course.figures.show import show_figure
from course.figures.strides import strides_figure
from course.figures.views import layouts_of_views

if TYPE_CHECKING:
    from torch import Tensor

INVITATION = "Stride explorer: run this cell to choose a view of x and one of its elements."
# The invitation is for where the controls are not.
STYLE = (
    "<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .course-stride-explorer) .course-invitation"
    "{display: none}</style>"
)


def stride_explorer(tensor: Tensor | None = None) -> None:
    """Explore views of a small tensor: choose a view and an element, and see its memory cell.

    tensor: one to three axes, at most 48 elements; 10 to 21 in a (3, 4) tensor when left out.

    A picture of the tensor and a table of its views come first, so that there is something to read without a
    live kernel; the controls follow where there is one. Raises TooLargeToDraw (a ValueError) for larger tensors.
    """
    import torch

    base = torch.arange(10, 22).reshape(3, 4) if tensor is None else tensor
    views = layouts_of_views(base)
    first = next(iter(views.values()))
    corner = tuple(size - 1 for size in first.shape)
    show_figure(strides_figure(first, corner, title="x"), alt=f"x: {describe(first, corner)}")
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        print(_table_text(views))
        return
    from IPython.display import publish_display_data

    text = f"{_table_text(views)}\n\n{INVITATION}"
    publish_display_data({"text/plain": text, "text/html": _table_html(views)})
    if has_front_end():
        from course.figures.explorer_widget import StrideExplorer

        show_widget(StrideExplorer(views))


def _rows(views: Mapping[str, Layout]) -> list[tuple[str, ...]]:
    rows = [("view", "shape", "stride", "offset", "elements", "memory cells used")]
    for expression, layout in views.items():
        cells = len(set(layout.addresses.values()))
        numbers = (str(layout.offset), str(len(layout.addresses)), str(cells))
        rows.append((expression, str(layout.shape), str(layout.stride), *numbers))
    return rows


def _table_text(views: Mapping[str, Layout]) -> str:
    rows = _rows(views)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _table_html(views: Mapping[str, Layout]) -> str:
    head, *body = _rows(views)
    style = 'style="text-align: left; padding: 0.1em 1.2em 0.1em 0"'
    heading = "".join(f'<th scope="col" {style}>{html.escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row" {style}><code>{html.escape(row[0])}</code></th>'
        + "".join(f"<td {style}>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>\n"
        for row in body
    )
    return (
        "<table><caption>Views of x, all over the same memory</caption>\n"
        f"<thead><tr>{heading}</tr></thead>\n<tbody>\n{lines}</tbody></table>\n"
        f'<p class="course-invitation">{INVITATION}</p>\n'
        f"{STYLE}{hide_dead_widget('course-invitation', 'course-stride-explorer')}"
    )

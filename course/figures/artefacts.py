"""What several kinds of file carry, and what they need: a table as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course.figures.curves import INK, _plain_style
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The first character of a cell says how it reads: good news, bad news, neither.
TONES = {"+": ("#DCEFE3", "✓ "), "-": ("#FBE3D6", "✗ "), " ": ("#F2F2F2", "")}


def draw_artefacts(
    rows: Mapping[str, Sequence[str]], columns: Sequence[str], *, title: str = "What each file carries and needs"
) -> None:
    """Show kinds of files as rows and questions as columns.

    rows: name -> one cell for each column. A cell starts with "+" (good), "-" (bad) or a blank (neither), which gives
    it a mark and a colour; the rest is its text. Raises ValueError for no rows, another number of cells, another start.
    """
    show_figure(artefacts_figure(rows, columns, title=title), alt=artefacts_words(rows, columns, title=title))


@_plain_style()
def artefacts_figure(
    rows: Mapping[str, Sequence[str]], columns: Sequence[str], *, title: str = "What each file carries and needs"
) -> Figure:
    """The picture of :func:`draw_artefacts` as a figure that pyplot does not know."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    _check(rows, columns)
    width, height, first = 1.75, 0.62, 2.1  # inches: a cell, and the column of the names
    figure = Figure(figsize=(first + width * len(columns) + 0.1, height * (len(rows) + 1) + 0.45))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, figure.get_figwidth()), ylim=(0, figure.get_figheight()))
    axes.axis("off")
    top = height * (len(rows) + 1) + 0.05
    axes.text(0.1, top + 0.2, title, fontsize=11, color=INK, va="center")
    for number, column in enumerate(columns):
        x = first + width * (number + 0.5)
        axes.text(x, top - height / 2, textwrap.fill(column, 22), fontsize=9, color=INK, ha="center", va="center")
    for line, (name, cells) in enumerate(rows.items()):
        y = top - height * (line + 2)
        axes.text(0.1, y + height / 2, textwrap.fill(name, 26), fontsize=10, color=INK, va="center")
        for number, cell in enumerate(cells):
            colour, mark = TONES[cell[0]]
            x = first + width * number
            axes.add_patch(Rectangle((x + 0.03, y + 0.03), width - 0.06, height - 0.06, fc=colour, ec="none"))
            text = textwrap.fill(mark + cell[1:].strip(), 22)
            axes.text(x + width / 2, y + height / 2, text, fontsize=9, color=INK, ha="center", va="center")
    return figure


def artefacts_words(
    rows: Mapping[str, Sequence[str]], columns: Sequence[str], *, title: str = "What each file carries and needs"
) -> str:
    """The picture of :func:`draw_artefacts` in words."""
    _check(rows, columns)
    lines = [f"{title}."]
    for name, cells in rows.items():
        parts = [f"{column}: {cell[1:].strip()}" for column, cell in zip(columns, cells, strict=True)]
        lines.append(f"{name}. {'; '.join(parts)}.")
    return "\n".join(lines)


def _check(rows: Mapping[str, Sequence[str]], columns: Sequence[str]) -> None:
    if not rows or not columns:
        raise ValueError("the table needs at least one row and one column")
    for name, cells in rows.items():
        if len(cells) != len(columns):
            raise ValueError(f"{name} has {len(cells)} cells; there are {len(columns)} columns")
        for cell in cells:
            if cell[:1] not in TONES:
                raise ValueError(f"a cell starts with '+', '-' or a blank; {cell!r} does not")

"""The stride picture: a tensor's logical grid beside the strip of memory it lies in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course.figures.layout import Index, Layout, arithmetic, describe, layout_of
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

# Light tints of the Okabe-Ito palette: told apart with every kind of colour vision, dark text readable on all.
TINTS = ("#A6D5F2", "#F7CE7E", "#8FD9BD", "#F4EE9A", "#EDBBD8", "#F3AE8B", "#93B7E3", "#D4D4D4")
INK = "#1A1A1A"
FAINT = "#6B6B6B"
INCHES = 0.56  # edge of a cell, the unit of all lengths below
LEFT = 2.2
STRIP = 16  # cells in one line of the strip
STRIP_LINE = 1.8


def draw_strides(
    tensor: Tensor, highlight: Sequence[int] | None = None, *, title: str = "", labels: bool = True
) -> None:
    """Show where the elements of a small tensor lie in memory.

    tensor: one to three axes, at most 48 elements within 48 memory cells.
    highlight: index of one element to mark in the grid and in memory, with the arithmetic of its address.
    title: what the tensor is, such as the expression that made it.
    labels: False leaves the numbers of strides and offset out, so that they can be read off the picture.

    Each row has a colour, and the memory cells have the colour of the row that uses them, so that a cell shared by
    several rows is striped; every cell also carries its value and its memory index in numbers.
    Raises TooLargeToDraw (a ValueError) for larger tensors, IndexError for a highlight outside the tensor.
    """
    layout = layout_of(tensor)
    mark = None if highlight is None else _checked(highlight, layout)
    words = describe(layout, mark, labels=labels)
    show_figure(strides_figure(layout, mark, title=title, labels=labels), alt=f"{title}: {words}" if title else words)


def strides_figure(layout: Layout, highlight: Index | None = None, *, title: str = "", labels: bool = True) -> Figure:
    """The picture as a matplotlib figure that pyplot does not know; see :func:`draw_strides`."""
    import matplotlib
    from matplotlib.figure import Figure

    # The picture is the same whatever style the notebook has set, and leaves that style as it is.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        origins = _grid_origins(layout)
        heading = _heading(layout, title, labels)
        formula = _formula(layout, highlight, labels) if highlight is not None else ""
        strip_top = (layout.shape[-2] if len(layout.shape) > 1 else 1) + (2.0 if origins[0][0] else 1.4)
        strip_end = strip_top + STRIP_LINE * -(-len(layout.memory) // STRIP)
        right = [LEFT + min(len(layout.memory), STRIP), origins[-1][1] + layout.shape[-1]]
        right += [0.19 * len(heading), *(0.17 * len(line) for line in formula.splitlines())]
        width, height = max(right) + 0.8, strip_end + (1.3 if formula else 0)
        figure = Figure(figsize=(width * INCHES, (height + 1.7) * INCHES))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, -1.7))
        axes.axis("off")
        _write(axes, 0.2, -1.15, heading, size=12, weight="bold", ha="left")
        places = _draw_grid(axes, layout, origins)
        cells = _draw_memory(axes, layout, strip_top)
        if highlight is not None:
            _mark(axes, places[highlight], cells[layout.addresses[highlight]])
            _write(axes, 0.2, strip_end + 0.5, formula, size=11, ha="left", linespacing=1.5)
        return figure


def _checked(highlight: Sequence[int], layout: Layout) -> Index:
    index = tuple(int(i) for i in highlight)
    if index not in layout.addresses:
        raise IndexError(f"highlight {list(index)} is not an element of a tensor of shape {layout.shape}")
    return index


def _heading(layout: Layout, title: str, labels: bool) -> str:
    facts = [f"shape {layout.shape}"]
    if labels:
        facts += [f"stride {layout.stride}", f"offset {layout.offset}"]
    return "    ".join([title, *facts] if title else facts)


def _formula(layout: Layout, highlight: Index, labels: bool) -> str:
    where = f"element {list(highlight)} lies in memory cell {layout.addresses[highlight]}:"
    return f"{where}\n{arithmetic(layout, highlight, labels=labels)}"


def _grid_origins(layout: Layout) -> list[tuple[Index, float]]:
    """Leading index and left edge of each matrix; the matrices of a 3-D tensor stand side by side."""
    if len(layout.shape) < 3:
        return [((), LEFT)]
    step = layout.shape[-1] + 1.5
    return [((plane,), LEFT + plane * step) for plane in range(layout.shape[0])]


def _tint(index: Index) -> str:
    """Colour of an element: by its first index, so that one row (or plane) is one colour."""
    return TINTS[(index[0] if len(index) > 1 else 0) % len(TINTS)]


def _draw_grid(axes: Axes, layout: Layout, origins: list[tuple[Index, float]]) -> dict[Index, tuple[float, float]]:
    """Draw the logical grid; returns the upper left corner of every element's cell."""
    _write(axes, 0.2, 0.5, "tensor", size=11, weight="bold", ha="left")
    places = {}
    columns = layout.shape[-1]
    rows = range(layout.shape[-2]) if len(layout.shape) > 1 else [None]
    for lead, left in origins:
        for column in range(columns):
            _write(axes, left + column + 0.5, -0.25, str(column), size=9, color=FAINT)
        if lead:
            _write(axes, left + columns / 2, len(rows) + 0.45, f"[{lead[0]}]", size=10, weight="bold")
        for number, row in enumerate(rows):
            if row is not None:
                _write(axes, left - 0.25, number + 0.5, str(row), size=9, color=FAINT)
            for column in range(columns):
                index = (*lead, column) if row is None else (*lead, row, column)
                places[index] = (left + column, float(number))
                _cell(axes, left + column, number, [_tint(index)])
                _value(axes, left + column + 0.5, number + 0.4, layout.value(index))
                _small(axes, left + column + 0.5, number + 0.78, f"cell {layout.addresses[index]}")
    return places


def _draw_memory(axes: Axes, layout: Layout, top: float) -> dict[int, tuple[float, float]]:
    """Draw the memory strip; returns the upper left corner of every memory cell."""
    _write(axes, 0.2, top + 0.5, "memory", size=11, weight="bold", ha="left")
    _write(axes, 0.2, top + 1.22, "memory cell", size=9, color=FAINT, ha="left")
    cells = {}
    for position, value in enumerate(layout.memory):
        address = layout.first + position
        line, column = divmod(position, STRIP)
        x, y = LEFT + column, top + STRIP_LINE * line
        cells[address] = (x, y)
        users = layout.users(address)
        tints = sorted({_tint(index) for index in users}, key=TINTS.index)
        _cell(axes, x, y, tints)
        _value(axes, x + 0.5, y + 0.5, value, color=INK if users else FAINT)
        _write(axes, x + 0.5, y + 1.22, str(address), size=9, color=FAINT)
        if len(users) > 1:
            _small(axes, x + 0.5, y + 1.52, f"{len(users)} uses")
    if layout.first > 0:
        _write(axes, LEFT - 0.1, top + 0.5, "…", size=12, ha="right")
    if layout.first + len(layout.memory) < layout.storage_cells:
        x, y = max(cells.items())[1]
        _write(axes, x + 1.15, y + 0.5, "…", size=12, ha="left")
    return cells


def _cell(axes: Axes, x: float, y: float, tints: Sequence[str]) -> None:
    """One cell: striped in its colours, hatched when nothing uses it."""
    from matplotlib.patches import Rectangle

    for number, tint in enumerate(tints):
        share = 1 / len(tints)
        axes.add_patch(Rectangle((x, y + number * share), 1, share, facecolor=tint, edgecolor="none"))
    hatch: dict[str, Any] = {} if tints else {"hatch": "////"}
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor="none", edgecolor="#C4C4C4" if hatch else INK, lw=0.8, **hatch))
    if hatch:
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor="none", edgecolor=FAINT, lw=0.8))


def _mark(axes: Axes, place: tuple[float, float], cell: tuple[float, float]) -> None:
    """Outline an element and its memory cell, and join them by an arrow."""
    from matplotlib.patches import FancyArrowPatch, Rectangle

    for x, y in (place, cell):
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor="none", edgecolor=INK, lw=3.2, zorder=5))
    start, end = (place[0] + 0.5, place[1] + 1.0), (cell[0] + 0.5, cell[1])
    # Below the text (zorder 3), which stays readable where the arrow crosses it.
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=16, lw=1.8, color=INK, alpha=0.6, zorder=2)
    )


def _small(axes: Axes, x: float, y: float, text: str) -> None:
    _write(axes, x, y, text, size=8 if len(text) <= 7 else 6.5)


def _value(axes: Axes, x: float, y: float, text: str, color: str = INK) -> None:
    size = 12 if len(text) <= 3 else 9 if len(text) <= 5 else 7
    _write(axes, x, y, text, size=size, weight="bold", color=color)


def _write(axes: Axes, x: float, y: float, text: str, *, ha: str = "center", color: str = INK, **font: Any) -> None:
    axes.text(x, y, text, ha=ha, va="center", color=color, parse_math=False, **font)

"""Values on a number line and the grid of codes they are rounded to: clipping against rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.figures.curves import COLOURS, INK, _plain_style
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDED, CLIPPED = COLOURS[0], COLOURS[1]


@dataclass(frozen=True)
class Grid:
    """What 2**bits codes from `low` to `high`, which contain 0, make of numbers.

    points: the values of the codes. pairs: (number, value of its code), in the order of the numbers.
    """

    low: float
    high: float
    points: tuple[float, ...]
    pairs: tuple[tuple[float, float], ...]

    @property
    def step(self) -> float:
        return self.points[1] - self.points[0]

    def clipped(self, pair: tuple[float, float]) -> bool:
        """Whether the number lies more than half a step outside of the grid."""
        return not self.points[0] - self.step / 2 <= pair[0] <= self.points[-1] + self.step / 2

    @property
    def mean_error(self) -> float:
        """Of the numbers that are not clipped."""
        errors = [abs(number - value) for number, value in self.pairs if not self.clipped((number, value))]
        return sum(errors) / len(errors) if errors else 0.0


def grid_of(numbers: Sequence[float], low: float, high: float, bits: int = 4) -> Grid:
    """Round numbers to 2**bits codes from low to high; ValueError for a range without 0 or without width."""
    if not low <= 0 <= high or low == high:
        raise ValueError(f"a range contains 0 and has a width; {low} to {high} does not")
    scale = (high - low) / (2**bits - 1)
    zero = round(-low / scale)
    points = tuple((code - zero) * scale for code in range(2**bits))
    pairs = tuple((x, points[min(max(round(x / scale) + zero, 0), 2**bits - 1)]) for x in numbers)
    return Grid(low, high, points, pairs)


def draw_number_line(numbers: Sequence[float], ranges: Mapping[str, tuple[float, float]], *, bits: int = 4) -> None:
    """Show where numbers go in several ranges: one line a range, with its grid, and an arrow for each number.

    numbers: at most 40. ranges: name -> (low, high), each with 0 inside. bits: codes are 2**bits; few, to be seen.
    """
    if len(numbers) > 40:
        raise ValueError(f"{len(numbers)} numbers do not fit on a line; at most 40")
    grids = {name: grid_of(numbers, *ends, bits=bits) for name, ends in ranges.items()}
    show_figure(number_line_figure(grids), alt=number_line_words(grids))


@_plain_style()
def number_line_figure(grids: Mapping[str, Grid]) -> Figure:
    """The picture of :func:`draw_number_line` as a figure that pyplot does not know."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(9.2, 1.45 * len(grids) + 0.9), layout="constrained")
    axes = figure.add_subplot()
    for row, (name, grid) in enumerate(grids.items()):
        top, bottom = -1.6 * row, -1.6 * row - 0.62
        axes.plot([grid.points[0], grid.points[-1]], [bottom, bottom], color=INK, lw=1)
        axes.plot(grid.points, [bottom] * len(grid.points), ls="", marker="|", color=INK, markersize=11, mew=1.4)
        for pair in grid.pairs:
            colour, style = (CLIPPED, "--") if grid.clipped(pair) else (ROUNDED, "-")
            axes.plot(pair, [top, bottom], color=colour, ls=style, lw=1.3)
            axes.plot(pair[0], top, marker="s" if style == "--" else "o", color=colour, markersize=5)
        axes.text(0.0, top + 0.22, _heading(name, grid), fontsize=10, color=INK, transform=_across(axes))
    legend = [
        Line2D([], [], color=ROUNDED, marker="o", label="a number, rounded to the nearest code"),
        Line2D([], [], color=CLIPPED, marker="s", ls="--", label="a number outside, clipped to the last code"),
        Line2D([], [], color=INK, marker="|", ls="", markersize=11, label="a code"),
    ]
    axes.legend(handles=legend, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, frameon=False, fontsize=9)
    axes.set(yticks=[], ylim=(-1.6 * len(grids) + 0.65, 0.55))
    axes.spines[["left", "right", "top"]].set_visible(False)
    return figure


def number_line_words(grids: Mapping[str, Grid]) -> str:
    """What the picture shows, in words."""
    first = next(iter(grids.values()))
    lines = [f"{len(first.pairs)} numbers on a line, and {len(first.points)} codes in each of {len(grids)} ranges."]
    return "\n".join(lines + [f"{_heading(name, grid)}." for name, grid in grids.items()])


def _heading(name: str, grid: Grid) -> str:
    clipped = [pair for pair in grid.pairs if grid.clipped(pair)]
    worst = max((abs(a - b) for a, b in clipped), default=0.0)
    used = len({value for _, value in grid.pairs})
    outside = f"{len(clipped)} clipped, by up to {worst:.2g}" if clipped else "none clipped"
    return (
        f"{name}, {grid.low:g} to {grid.high:g}: step {grid.step:.2g}, {used} of {len(grid.points)} codes used, "
        f"{outside}, mean error of the others {grid.mean_error:.2g}"
    )


def _across(axes: object) -> object:
    """x as a share of the width, y in data."""
    return axes.get_yaxis_transform()  # type: ignore[attr-defined]

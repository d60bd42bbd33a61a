"""A roofline: how fast operations are, and what memory and arithmetic of the machine allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from course.figures.curves import CHANCE, COLOURS, INK, MARKS, _plain_style
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Mapping[str, tuple[float, float]]
"""Name of an operation -> its intensity (FLOP a byte) and what it reached (FLOP a second)."""


def draw_roofline(
    bandwidth: float, peak: float, points: Points, *, title: str = "The roofline of this machine"
) -> None:
    """Show operations below the roof of a machine, both axes logarithmic.

    bandwidth: bytes a second that memory can move. peak: FLOP a second of the arithmetic units.
    points: name -> (FLOP a byte, FLOP a second). Raises ValueError for no points and for numbers that are not above 0.
    """
    figure = roofline_figure(bandwidth, peak, points, title=title)
    show_figure(figure, alt=roofline_words(bandwidth, peak, points, title=title))


@_plain_style()
def roofline_figure(
    bandwidth: float, peak: float, points: Points, *, title: str = "The roofline of this machine"
) -> Figure:
    """The picture of :func:`draw_roofline` as a figure that pyplot does not know."""
    from matplotlib.figure import Figure

    _check(bandwidth, peak, points)
    ridge = peak / bandwidth
    low = min(ridge, *(intensity for intensity, _ in points.values())) / 3
    high = max(ridge, *(intensity for intensity, _ in points.values())) * 3
    figure = Figure(figsize=(9.2, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot([low, ridge, high], [low * bandwidth / 1e9, peak / 1e9, peak / 1e9], color=INK, lw=2)
    axes.axvline(ridge, color=CHANCE, lw=1, ls=":")
    for number, (name, (intensity, rate)) in enumerate(points.items()):
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % len(MARKS)]}
        roof = min(peak, intensity * bandwidth)
        axes.plot([intensity, intensity], [rate / 1e9, roof / 1e9], color=look["color"], lw=1, ls="--")
        axes.plot(intensity, rate / 1e9, ms=9, ls="", label=f"{name}: {100 * rate / roof:.0f} % of the roof", **look)
    lowest = min([low * bandwidth, *(rate for _, rate in points.values())])
    highest = max([peak, *(rate for _, rate in points.values())])
    axes.set(xlim=(low, high), ylim=(lowest / 2e9, highest * 3 / 1e9))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel("intensity: FLOP for each byte moved")
    axes.set_ylabel("GFLOP a second")
    top = axes.get_xaxis_transform()
    axes.text(ridge / 1.08, 0.97, "memory limits", ha="right", va="top", fontsize=9, color=INK, transform=top)
    axes.text(ridge * 1.08, 0.97, "arithmetic limits", ha="left", va="top", fontsize=9, color=INK, transform=top)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def roofline_words(
    bandwidth: float, peak: float, points: Points, *, title: str = "The roofline of this machine"
) -> str:
    """The picture of :func:`draw_roofline` in words."""
    _check(bandwidth, peak, points)
    ridge = peak / bandwidth
    lines = [
        f"{title}, intensity to the right, speed upwards, both logarithmic. The roof rises with {bandwidth / 1e9:.3g} "
        f"GB/s up to {ridge:.3g} FLOP a byte, and is flat from there on at {peak / 1e9:.3g} GFLOP/s."
    ]
    for name, (intensity, rate) in points.items():
        limit = "memory" if intensity < ridge else "arithmetic"
        share = 100 * rate / min(peak, intensity * bandwidth)
        lines.append(
            f"{name}: {intensity:.3g} FLOP a byte, {rate / 1e9:.3g} GFLOP/s, {share:.0f} % of the roof; {limit} limits."
        )
    return "\n".join(lines)


def _check(bandwidth: float, peak: float, points: Points) -> None:
    if not points:
        raise ValueError("a roofline needs at least one operation: {'name': (FLOP a byte, FLOP a second)}")
    if min(bandwidth, peak, *(number for point in points.values() for number in point)) <= 0:
        raise ValueError("bandwidth, peak, intensities and speeds should be above 0")

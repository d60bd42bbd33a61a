"""The parts of a step over time: which one runs when, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course.figures.curves import COLOURS, INK, _plain_style
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spans = Sequence[tuple[float, float]]
"""Start and duration of each time that a part ran, in milliseconds."""


def draw_timeline(parts: Mapping[str, Spans], *, title: str = "Where the time goes") -> None:
    """Show when each part ran, a row a part, with its share of the time of all parts.

    parts: name -> (start, duration) in milliseconds. Raises ValueError where nothing is to be drawn, or for a duration
    below 0.
    """
    show_figure(timeline_figure(parts, title=title), alt=timeline_words(parts, title=title))


@_plain_style()
def timeline_figure(parts: Mapping[str, Spans], *, title: str = "Where the time goes") -> Figure:
    """The picture of :func:`draw_timeline` as a figure that pyplot does not know."""
    from matplotlib.figure import Figure

    shares = _shares(parts)
    figure = Figure(figsize=(9.2, 1.0 + 0.5 * len(parts)), layout="constrained")
    axes = figure.subplots()
    end = max(start + length for spans in parts.values() for start, length in spans)
    for row, spans in enumerate(parts.values()):
        # Too short a time would leave nothing to see: a thousandth of the width is drawn at least.
        bars = [(start, max(length, end / 1000)) for start, length in spans]
        axes.broken_barh(bars, (row - 0.4, 0.8), color=COLOURS[row % len(COLOURS)], lw=0)
    names = [f"{name}  {100 * share:.0f} %" for name, share in shares.items()]
    axes.set_yticks(range(len(parts)), names)
    axes.set(xlim=(0, end * 1.01), ylim=(len(parts) - 0.4, -0.6), xlabel="milliseconds")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    return figure


def timeline_words(parts: Mapping[str, Spans], *, title: str = "Where the time goes") -> str:
    """The picture of :func:`draw_timeline` in words."""
    lines = [f"{title}: a row for each part, time from left to right."]
    for name, share in _shares(parts).items():
        times = [length for _, length in parts[name]]
        lines.append(
            f"{name}: {100 * share:.0f} % of the time; {len(times)} times, {min(times):.3g} to {max(times):.3g} ms."
        )
    return "\n".join(lines)


def _shares(parts: Mapping[str, Spans]) -> dict[str, float]:
    if not parts or not all(parts.values()):
        raise ValueError("a timeline needs parts, and every part needs spans (start, duration)")
    if any(length < 0 for spans in parts.values() for _, length in spans):
        raise ValueError("a duration is below 0")
    sums = {name: sum(length for _, length in spans) for name, spans in parts.items()}
    total = sum(sums.values())
    if total <= 0:
        raise ValueError("all durations are 0; there is nothing to draw")
    return {name: length / total for name, length in sums.items()}

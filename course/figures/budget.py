"""Times of single calls with their percentiles, and variants by latency, accuracy and size with the chosen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.figures.curves import CHANCE, COLOURS, INK, MARKS, _figure, _plain_style
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Point:
    """A variant. seconds: of a call. accuracy: a share, 0 to 1. size: bytes of its file."""

    name: str
    seconds: float
    accuracy: float
    size: int


def draw_calls_in_order(seconds: Sequence[float], marks: Mapping[str, float], *, title: str = "") -> None:
    """Show the time of each call in the order in which they were made, with a line for each mark.

    seconds: of each call. marks: name -> seconds, such as {"p50": 0.001, "mean": 0.002}; at most four.
    """
    figure = calls_in_order_figure(seconds, marks, title=title)
    show_figure(figure, alt=calls_in_order_words(seconds, marks, title=title))


@_plain_style()
def calls_in_order_figure(seconds: Sequence[float], marks: Mapping[str, float], *, title: str = "") -> Figure:
    """The picture of :func:`draw_calls_in_order` as a figure that pyplot does not know."""
    from matplotlib.ticker import LogLocator, NullFormatter

    _check_calls(seconds, marks)
    figure, (axes,) = _figure(1, (9.2, 3.6))
    axes.plot(
        range(1, len(seconds) + 1), [1000 * s for s in seconds], "o", color=CHANCE, markersize=3.5, label="a call"
    )
    for number, (name, value) in enumerate(sorted(marks.items(), key=lambda mark: -mark[1])):
        label = f"{name}: {1000 * value:.3g} ms"
        axes.axhline(1000 * value, color=COLOURS[number], ls=LINES[number], lw=2, label=label)
    axes.set_yscale("log")
    axes.set(xlabel="call", ylabel="milliseconds")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    figure.legend(fontsize=9, frameon=False, loc="outside right upper")
    figure.suptitle(title, fontsize=11)
    return figure


def calls_in_order_words(seconds: Sequence[float], marks: Mapping[str, float], *, title: str = "") -> str:
    """The picture of :func:`draw_calls_in_order` in words."""
    _check_calls(seconds, marks)
    begin = f"{title}: " if title else ""
    low, high = 1000 * min(seconds), 1000 * max(seconds)
    lines = [f"{begin}{len(seconds)} calls in their order, from {low:.3g} to {high:.3g} ms, on a logarithmic axis."]
    for name, value in sorted(marks.items(), key=lambda mark: -mark[1]):
        slower = sum(second > value for second in seconds)
        lines.append(f"  {name}: {1000 * value:.3g} ms; {slower} calls took longer")
    return "\n".join(lines)


def draw_budget(
    points: Sequence[Point],
    chosen: str,
    *,
    max_latency: float | None = None,
    min_accuracy: float | None = None,
    title: str = "Latency, accuracy and size",
) -> None:
    """Show variants by latency and accuracy; areas are proportional to their bytes, the chosen one has a star.

    max_latency: seconds, min_accuracy: a share; what lies beyond them is grey. Raises ValueError for no points, and
    for a chosen name that no point has.
    """
    options = {"max_latency": max_latency, "min_accuracy": min_accuracy, "title": title}
    show_figure(budget_figure(points, chosen, **options), alt=budget_words(points, chosen, **options))


@_plain_style()
def budget_figure(
    points: Sequence[Point],
    chosen: str,
    *,
    max_latency: float | None = None,
    min_accuracy: float | None = None,
    title: str = "Latency, accuracy and size",
) -> Figure:
    """The picture of :func:`draw_budget` as a figure that pyplot does not know."""
    _check_points(points, chosen)
    figure, (axes,) = _figure(1, (9.2, 4.4))
    largest = max(point.size for point in points) or 1
    times, shares = [1000 * point.seconds for point in points], [100 * point.accuracy for point in points]
    right = 1.15 * max(times + ([1000 * max_latency] if max_latency is not None else []))
    room = max(1.0, 0.25 * (max(shares) - min(shares)))
    lowest = min(shares + ([100 * min_accuracy] if min_accuracy is not None else [])) - room
    highest = max(shares + ([100 * min_accuracy] if min_accuracy is not None else [])) + room
    for number, point in enumerate(points):
        x, y = 1000 * point.seconds, 100 * point.accuracy
        colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
        label = f"{point.name}, {point.size / 1000:,.0f} kB" + (" (chosen)" if point.name == chosen else "")
        axes.scatter(x, y, s=900 * point.size / largest, color=colour, alpha=0.35, lw=0)
        axes.plot(x, y, mark, color=colour, markersize=8, markeredgecolor=INK, label=label)
        if point.name == chosen:
            axes.plot(x, y, "*", color="white", markersize=19, markeredgecolor=INK, zorder=4)
    if max_latency is not None:
        axes.axvspan(1000 * max_latency, right, color="#E4E4E4", zorder=0)
        axes.annotate("too slow", (0.995, 0.02), xycoords="axes fraction", ha="right", fontsize=9, color=INK)
    if min_accuracy is not None:
        axes.axhspan(lowest, 100 * min_accuracy, color="#E4E4E4", zorder=0)
        axes.annotate("not accurate enough", (0.01, 0.02), xycoords="axes fraction", fontsize=9, color=INK)
    axes.set(xlim=(0, right), ylim=(lowest, highest), xlabel="milliseconds a call", ylabel="accuracy in %")
    figure.legend(fontsize=9, frameon=False, loc="outside right upper", labelspacing=1.0)
    axes.set_title(f"{title}  (area: bytes of the file; star: chosen)", fontsize=10, loc="left")
    return figure


def budget_words(
    points: Sequence[Point],
    chosen: str,
    *,
    max_latency: float | None = None,
    min_accuracy: float | None = None,
    title: str = "Latency, accuracy and size",
) -> str:
    """The picture of :func:`draw_budget` in words."""
    _check_points(points, chosen)
    limits = [f"at most {1000 * max_latency:.3g} ms"] if max_latency is not None else []
    limits += [f"at least {100 * min_accuracy:.3g} %"] if min_accuracy is not None else []
    lines = [f"{title}; limits: {' and '.join(limits) or 'none'}."]
    for point in points:
        mark = "; chosen" if point.name == chosen else ""
        figures = f"{1000 * point.seconds:.3g} ms a call, {100 * point.accuracy:.3g} %, {point.size / 1000:,.0f} kB"
        lines.append(f"  {point.name}: {figures}{mark}")
    return "\n".join(lines)


def _check_calls(seconds: Sequence[float], marks: Mapping[str, float]) -> None:
    if not seconds or not all(second > 0 for second in seconds):
        raise ValueError("the times should be positive seconds, at least one of them")
    if len(marks) > len(LINES):
        raise ValueError(f"{len(marks)} marks were given; at most {len(LINES)} can be told apart")


def _check_points(points: Sequence[Point], chosen: str) -> None:
    if not points:
        raise ValueError("there is no variant to draw")
    if chosen not in {point.name for point in points}:
        raise ValueError(f"no variant is called {chosen!r}; there are {', '.join(point.name for point in points)}")

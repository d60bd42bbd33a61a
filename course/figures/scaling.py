"""Time per step over the number of workers: what was measured, and what a model makes of it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course.figures.curves import CHANCE, COLOURS, INK, MARKS, _plain_style
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points of a line: (workers, seconds per step).
Points = Sequence[tuple[int, float]]
LEFT_OUT = "#F2F2F2"


def draw_scaling(
    lines: Mapping[str, Points],
    measured: tuple[int, float],
    *,
    compute: float,
    assumptions: Sequence[str],
    title: str = "Time per step when every worker keeps its batch size",
) -> None:
    """Show the time per step by workers, for several ways to all-reduce, and the point that was measured.

    lines: name -> (workers, seconds) by workers, such as those of `course.distributed.costs.forecast` for "ring" and
        "tree". Up to the measured number of workers they are solid, beyond it dashed and on grey: extrapolated.
    measured: (workers, seconds), drawn as a star. compute: seconds a step without communication, drawn as a line.
    assumptions: what the extrapolation takes for granted, one sentence each, written below the picture.

    Raises ValueError for no lines, lines without points, numbers of workers below 1, seconds that are not positive.
    """
    figure = scaling_figure(lines, measured, compute=compute, assumptions=assumptions, title=title)
    words = scaling_words(lines, measured, compute=compute, assumptions=assumptions, title=title)
    show_figure(figure, alt=words)


@_plain_style()
def scaling_figure(
    lines: Mapping[str, Points],
    measured: tuple[int, float],
    *,
    compute: float,
    assumptions: Sequence[str],
    title: str = "Time per step when every worker keeps its batch size",
) -> Figure:
    """The picture of :func:`draw_scaling` as a figure that pyplot does not know."""
    from matplotlib.figure import Figure

    _check(lines, measured, compute)
    notes = ["Assumed:"] + [line for each in assumptions for line in _item(each)]
    below = 0.19 * len(notes) + 0.1 if assumptions else 0.1  # inches
    height = 4.0 + below
    figure = Figure(figsize=(9.2, height))
    axes = figure.add_axes((0.1, (below + 0.55) / height, 0.745, (height - below - 0.95) / height))
    end, last = measured[0], max(workers for points in lines.values() for workers, _ in points)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    if last > end:
        axes.axvspan(end, 2 * last, color=LEFT_OUT, zorder=0)
        axes.text(
            end * 1.15, 0.97, "extrapolated by the model", color=INK, fontsize=9, va="top", transform=_mixed(axes)
        )
    axes.axhline(compute, color=CHANCE, lw=1.4, ls=":", zorder=1)
    labels = [(compute, f"compute alone\n{_time(compute)}", CHANCE)]
    for number, (name, points) in enumerate(lines.items()):
        colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
        points = sorted(points)
        inside = [point for point in points if point[0] <= end]
        outside = [*inside[-1:], *[point for point in points if point[0] > end]]
        axes.plot(*_columns(inside), color=colour, lw=2, marker=mark, ms=5)
        axes.plot(*_columns(outside), color=colour, lw=2, ls="--", marker=mark, ms=5, mfc="white")
        labels.append((points[-1][1], f"{name}\n{_time(points[-1][1])} at {points[-1][0]}", colour))
    axes.plot(*measured, color=INK, marker="*", ms=15, ls="", zorder=5)
    axes.annotate(
        f"measured: {_time(measured[1])}\nwith {measured[0]} workers",
        measured,
        xytext=(-8, 14),
        textcoords="offset points",
        fontsize=9,
        ha="center",
        va="bottom",
    )
    ticks = sorted({workers for points in lines.values() for workers, _ in points})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    every = [seconds for points in lines.values() for _, seconds in points] + [measured[1], compute]
    axes.set(xlim=(min(ticks) / 1.25, last * 1.3), ylim=(min(every) / 1.6, max(every) * 1.9))
    axes.set_yticks(heights := _round_times(*axes.get_ylim()), list(map(_time, heights)))
    axes.set_yticks([], minor=True)
    _write_beside(axes, labels)
    axes.set_xlabel("number of workers")
    axes.set_ylabel("time per step")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=10, width=0.8, length=3.5)
    figure.text(0.1, 1 - 0.28 / height, title, fontsize=11, color=INK, va="center")
    if assumptions:
        figure.text(0.02, 0.08 / height, "\n".join(notes), fontsize=9, color=INK, va="bottom", linespacing=1.35)
    return figure


def scaling_words(
    lines: Mapping[str, Points],
    measured: tuple[int, float],
    *,
    compute: float,
    assumptions: Sequence[str],
    title: str = "Time per step when every worker keeps its batch size",
) -> str:
    """The picture of :func:`draw_scaling` in words."""
    _check(lines, measured, compute)
    words = [f"{title}, by number of workers, both axes logarithmic."]
    words.append(f"Measured: {_time(measured[1])} with {measured[0]} workers. Compute alone: {_time(compute)}.")
    for name, points in lines.items():
        points = sorted(points)
        known = ", ".join(f"{_time(seconds)} with {workers}" for workers, seconds in points if workers <= measured[0])
        beyond = ", ".join(f"{_time(seconds)} with {workers}" for workers, seconds in points if workers > measured[0])
        parts = [known and f"model {known}", beyond and f"extrapolated {beyond}"]
        words.append(f"{name}: {'; '.join(filter(None, parts))}.")
    if assumptions:
        words.append("Assumed: " + " ".join(assumptions))
    return "\n".join(words)


def _check(lines: Mapping[str, Points], measured: tuple[int, float], compute: float) -> None:
    if not lines or not all(lines.values()):
        raise ValueError("scaling needs lines, and every line needs points (workers, seconds)")
    for workers, seconds in [measured, *[point for points in lines.values() for point in points], (1, compute)]:
        if workers < 1 or not seconds > 0:
            raise ValueError(f"a point is (workers >= 1, seconds > 0), not ({workers}, {seconds})")


def _columns(points: Points) -> tuple[list[int], list[float]]:
    return [workers for workers, _ in points], [seconds for _, seconds in points]


def _item(text: str) -> list[str]:
    """One assumption as lines of text behind a bullet."""
    return textwrap.wrap(text, 116, initial_indent="• ", subsequent_indent="   ")


def _round_times(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two numbers; the powers alone where that makes too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    chosen = [value for value in fine if low <= value <= high]
    return chosen if len(chosen) <= 9 else [10.0**power for power in powers if low <= 10.0**power <= high]


def _mixed(axes):
    """x in data, y as a fraction of the axes."""
    return axes.get_xaxis_transform()


def _write_beside(axes, labels: list[tuple[float, str, str]]) -> None:
    """Name each line at its right end, names apart from each other by two lines of text."""
    low, high = map(math.log, axes.get_ylim())
    place = -1.0
    for value, text, colour in sorted(labels):
        place = max(place + 0.13, (math.log(value) - low) / (high - low))
        axes.text(1.012, place, text, color=colour, fontsize=9, va="center", transform=axes.transAxes)


def _time(seconds: float) -> str:
    """Seconds as a person writes them: 1.2 s, 35 ms, 250 µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"

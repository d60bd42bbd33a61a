"""A picture of calls one after the other: how long each took, and which of them compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPILED, READY, INK = (
    "#D55E00",
    "#0072B2",
    "#1A1A1A",
)  # of the Okabe-Ito palette; bars and hatching tell them apart too
MAX_CALLS = 40

Call = tuple[float, bool]
"""Seconds of one call, and whether it compiled."""


def draw_calls(lengths: Sequence[int], policies: Mapping[str, Sequence[Call]], *, title: str = "") -> None:
    """Show the time of each call for several ways to compile, one panel for each.

    lengths: of the input of each call, at most 40. policies: name -> (seconds, compiled) of each call, one a length.
    Seconds are on a logarithmic scale: a call that compiles takes thousands of times as long as one that does not.
    Raises ValueError where there is nothing to draw, or numbers of calls differ.
    """
    show_figure(calls_figure(lengths, policies, title=title), alt=calls_words(lengths, policies, title))


def calls_words(lengths: Sequence[int], policies: Mapping[str, Sequence[Call]], title: str = "") -> str:
    """The picture of :func:`draw_calls` in words."""
    lines = [f"{title or 'Time of each call'}: one panel for each way to compile, a bar a call. Lengths of the calls:"]
    lines[0] += f" {', '.join(map(str, lengths))}."
    for name, calls in policies.items():
        numbers = [str(number) for number, (_, compiled) in enumerate(calls, 1) if compiled]
        slow = [seconds for seconds, compiled in calls if compiled]
        fast = [seconds for seconds, compiled in calls if not compiled]
        words = f"{name}: {_count(len(slow))}, at {_which(numbers)}" if slow else f"{name}: no compilation"
        for kind, times in (("with compiling", slow), ("without", fast)):
            if times:
                words += f"; calls {kind} take {min(times):.2g} to {max(times):.2g} s"
        lines.append(f"{words}.")
    return "\n".join(lines)


def calls_figure(lengths: Sequence[int], policies: Mapping[str, Sequence[Call]], *, title: str = "") -> Figure:
    """The picture as a matplotlib figure that pyplot does not know; see :func:`draw_calls`."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    _check(lengths, policies)
    everything = [seconds for calls in policies.values() for seconds, _ in calls]
    bottom = min(everything) / 3
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(max(5.5, 2.0 + 0.42 * len(lengths)), 0.9 + 1.55 * len(policies)), layout="constrained")
        panels = figure.subplots(len(policies), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        places = range(1, len(lengths) + 1)
        for axes, (name, calls) in zip(panels, policies.items(), strict=True):
            for place, (seconds, compiled) in zip(places, calls, strict=True):
                look = {"facecolor": COMPILED, "hatch": "////"} if compiled else {"facecolor": READY}
                axes.bar(place, seconds - bottom, bottom=bottom, width=0.7, edgecolor="white", lw=0.6, **look)
            axes.set_yscale("log")
            axes.set_ylabel("seconds")
            compilations = _count(sum(compiled for _, compiled in calls))
            axes.set_title(f"{name}: {compilations}", fontsize=11, fontweight="bold", loc="left", color=INK)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylim(bottom, max(everything) * 3)
        panels[-1].set_xticks(places, [str(length) for length in lengths])
        panels[-1].set_xlabel("length of the input, call after call from left to right")
        marks = [
            Patch(facecolor=COMPILED, hatch="////", edgecolor="white", label="compiles, then runs"),
            Patch(facecolor=READY, edgecolor="white", label="runs"),
        ]
        if title:
            figure.suptitle(title, fontsize=12, color=INK)
        figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False)
        return figure


def _check(lengths: Sequence[int], policies: Mapping[str, Sequence[Call]]) -> None:
    if not lengths or not policies:
        raise ValueError("there is nothing to draw; give at least one length, and one name with its calls")
    if len(lengths) > MAX_CALLS:
        raise ValueError(f"{len(lengths)} calls were given; at most {MAX_CALLS} can be drawn")
    for name, calls in policies.items():
        if len(calls) != len(lengths):
            raise ValueError(f"{name!r} has {len(calls)} calls; {len(lengths)} lengths were given")
        if min(seconds for seconds, _ in calls) <= 0:
            raise ValueError(f"{name!r} has a call of no time; the scale is logarithmic, so seconds must be above 0")


def _count(number: int) -> str:
    return "1 compilation" if number == 1 else f"{number} compilations"


def _which(numbers: Sequence[str]) -> str:
    return f"call {numbers[0]}" if len(numbers) == 1 else f"calls {', '.join(numbers)}"

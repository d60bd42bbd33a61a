"""The class at a glance: outcomes by exercise, and the most frequent misunderstandings."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from course.grading.summary import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12  # misunderstandings
INK = "#1A1A1A"
# Told apart by brightness too, and by hatches where two are alike.
STYLES = {
    "PASSED": ("#009E73", ""),
    "WRONG": ("#D55E00", ""),
    "ERROR": ("#E69F00", "//"),
    "TIMED_OUT": ("#CC79A7", "xx"),
    "CONTAINED": (INK, ""),
    "NOT_ATTEMPTED": ("#DDDDDD", ""),
}
BAR = "#0072B2"


def class_figure(summary: Summary) -> Figure:
    """The picture as a figure that pyplot does not know."""
    import matplotlib
    from matplotlib.figure import Figure

    exercises = list(summary.exercises)
    found = summary.misunderstandings()[:SHOWN]
    heights = (max(2, len(exercises)), max(2, 1.3 * len(found)))
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(9.2, 1.9 + 0.33 * sum(heights)), layout="constrained")
        top, bottom = figure.subplots(2, 1, height_ratios=heights)
        left = [0] * len(exercises)
        for outcome in summary.outcomes:
            counts = [summary.exercises[each].get(outcome, 0) for each in exercises]
            colour, hatch = STYLES.get(outcome, ("#999999", "."))
            label = outcome.replace("_", " ").lower()
            top.barh(exercises, counts, left=left, color=colour, hatch=hatch, edgecolor="white", lw=0.8, label=label)
            left = [a + b for a, b in zip(left, counts, strict=True)]
        top.set(xlabel="submissions", xlim=(0, max(1, summary.submissions)))
        if exercises:
            top.legend(fontsize=8, frameon=False, ncols=6, loc="lower left", bbox_to_anchor=(0, 1))
        names = [_label(each) for each, _, _ in found]
        bars = bottom.barh(names, [count for _, _, count in found], color=BAR)
        bottom.bar_label(bars, padding=3, fontsize=9, color=INK)
        bottom.set(xlim=(0, 1.1 * max([1, *(count for _, _, count in found)])))
        bottom.set_title("Misunderstandings: submissions that show each", fontsize=10, loc="left")
        if not found:
            bottom.text(0.5, 0.5, "none recognised", ha="center", va="center", transform=bottom.transAxes)
            bottom.set_yticks([])
        for axes, bars in ((top, len(exercises)), (bottom, len(found))):
            axes.set_ylim(max(2, bars) - 0.5, -0.5)  # the first on top
            axes.spines[["top", "right"]].set_visible(False)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.tick_params(labelsize=8, colors=INK)
            # Names are names, also those that hold a dollar sign.
            for tick in axes.get_yticklabels():
                tick.set_parse_math(False)
    return figure


def class_words(summary: Summary) -> str:
    """The picture in words."""
    count = summary.submissions
    lines = [f"How {count} submission{'s' if count != 1 else ''} went, exercise by exercise."]
    for exercise, counts in summary.exercises.items():
        parts = [f"{counts[each]} {each.replace('_', ' ').lower()}" for each in summary.outcomes if each in counts]
        lines.append(f"{exercise}: {', '.join(parts)}.")
    found = summary.misunderstandings()
    if not found:
        lines.append("No misunderstanding was recognised.")
    else:
        lines.append("Submissions that show each misunderstanding, the most frequent first:")
        lines += [f"{each}: {number}." for each, _, number in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"{len(found) - SHOWN} rarer ones are left out.")
    return "\n".join(lines)


def _label(name: str) -> str:
    return "\n".join(textwrap.wrap(name.replace("/", "/ "), 34)).replace("/ ", "/")

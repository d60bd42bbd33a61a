"""Curves of training runs: loss and accuracy by epoch, live while a run goes on, and lines in general."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course.figures.show import in_words, png, show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of the Okabe-Ito palette, told apart with every kind of colour vision, and marks for those who see none.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKS = ("o", "s", "^", "D", "v", "P")
INK = "#1A1A1A"
CHANCE = "#6B6B6B"

# A history of course.training, or anything with these columns: numbers, one an epoch.
Columns = Any


@contextlib.contextmanager
def _plain_style() -> Iterator[None]:
    """The picture is the same whatever style the notebook has set, and leaves that style as it is."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


def draw_curves(runs: Mapping[str, Columns], *, title: str = "", chance: float | None = 0.1) -> None:
    """Show loss and accuracy of one or several runs by epoch.

    runs: name -> history (columns ``loss``, ``accuracy``, ``held_out_loss``, ``held_out_accuracy``). Held-out figures
        are solid lines with marks, those of training dashed; each run has a colour and a mark of its own.
    chance: the accuracy of guessing, drawn as a line; None leaves it out.
    """
    show_figure(curves_figure(runs, title=title, chance=chance), alt=curves_words(runs, title))


@_plain_style()
def curves_figure(runs: Mapping[str, Columns], *, title: str = "", chance: float | None = 0.1) -> Figure:
    """The picture of :func:`draw_curves` as a figure that pyplot does not know."""
    figure, (left, right) = _figure(2, (9.2, 3.7))
    for number, (name, run) in enumerate(runs.items()):
        colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
        epochs = range(1, len(run["loss"]) + 1)
        for axes, column, factor in ((left, "loss", 1), (right, "accuracy", 100)):
            label = f"{name}: " if name else ""
            held_out = [factor * value for value in run[f"held_out_{column}"]]
            trained = [factor * value for value in run[column]]
            axes.plot(epochs, held_out, color=colour, marker=mark, markersize=5, lw=2, label=f"{label}held out")
            axes.plot(epochs, trained, color=colour, ls="--", lw=1.6, label=f"{label}training")
    if chance is not None:
        right.axhline(100 * chance, color=CHANCE, lw=1, ls=":")
        right.annotate("guessing", (1.0, 100 * chance), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    left.set(xlabel="epoch", ylabel="cross-entropy")
    right.set(xlabel="epoch", ylabel="accuracy in %", ylim=(0, 102))
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if runs:
        right.legend(fontsize=8, frameon=False, loc="best")
    figure.suptitle(title, fontsize=11)
    return figure


def curves_words(runs: Mapping[str, Columns], title: str = "") -> str:
    """The picture of :func:`draw_curves` in words."""
    lines = [f"{title}: loss and accuracy by epoch." if title else "Loss and accuracy by epoch."]
    for name, run in runs.items():
        epochs = len(run["loss"])
        lines.append(f"{name or 'The run'}, {epochs} epoch{'s' if epochs != 1 else ''}:")
        for label, column in (("training", "accuracy"), ("held-out", "held_out_accuracy")):
            lines.append(f"  {label} accuracy {_from_to([100 * value for value in run[column]], ' %')}")
        for label, column in (("training", "loss"), ("held-out", "held_out_loss")):
            lines.append(f"  {label} loss {_from_to(run[column])}")
    return "\n".join(lines)


def _from_to(values: Sequence[float], unit: str = "") -> str:
    if not values:
        return "not measured yet"
    finite = [value for value in values if math.isfinite(value)] or [math.nan]
    spread = f"between {min(finite):.3g} and {max(finite):.3g}{unit}"
    return f"from {values[0]:.3g} to {values[-1]:.3g}{unit}, {spread}"


class LiveCurves:
    """Curves that are drawn anew after each epoch, in one place: give it to ``fit`` as ``after_epoch``.

    Outside a notebook it does nothing.
    """

    def __init__(self, name: str = "", *, title: str = "", others: Mapping[str, Columns] | None = None) -> None:
        self.name, self.title, self.others = name, title, dict(others or {})
        self._picture: Any = None
        self._words: Any = None

    def __call__(self, history: Columns) -> None:
        ipython = sys.modules.get("IPython")
        if ipython is None or ipython.get_ipython() is None:
            return
        runs = {**self.others, self.name: history}
        words = curves_words(runs, self.title)
        figure = curves_figure(runs, title=self.title)
        width = round(figure.get_figwidth() * 96)
        picture = {"image/png": png(figure), "text/plain": f"[picture] {words}"}
        about = {"image/png": {"alt": " ".join(words.split()), "width": width}}
        spoken = {"text/html": in_words(words), "text/plain": "[the picture in words: see above]"}
        if self._picture is None:
            self._picture = ipython.display.display(picture, metadata=about, raw=True, display_id=True)
            self._words = ipython.display.display(spoken, raw=True, display_id=True)
        else:
            self._picture.update(picture, metadata=about, raw=True)
            self._words.update(spoken, raw=True)


def draw_lines(lines: Mapping[str, Sequence[float]], *, x: str, y: str, title: str = "", log: bool = False) -> None:
    """Show sequences of numbers against their position, such as learning rates by step.

    x, y: what the axes mean. log: a logarithmic y axis.
    """
    words = [f"{title}: {y} against {x}." if title else f"{y} against {x}."]
    words += [f"  {name}: {_from_to(values)}" for name, values in lines.items()]
    show_figure(lines_figure(lines, x=x, y=y, title=title, log=log), alt="\n".join(words))


@_plain_style()
def lines_figure(lines: Mapping[str, Sequence[float]], *, x: str, y: str, title: str = "", log: bool = False) -> Figure:
    """The picture of :func:`draw_lines` as a figure that pyplot does not know."""
    figure, (axes,) = _figure(1, (9.2, 3.4))
    for number, (name, values) in enumerate(lines.items()):
        every = max(1, len(values) // 8)
        axes.plot(
            range(len(values)),
            values,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKS[number % len(MARKS)],
            markevery=(number * every // max(1, len(lines)), every),
            lw=2,
            label=name,
        )
    axes.set(xlabel=x, ylabel=y, yscale="log" if log else "linear")
    figure.legend(fontsize=9, frameon=False, loc="outside right upper")
    figure.suptitle(title, fontsize=11)
    return figure


def _figure(columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = [figure.add_subplot(1, columns, number + 1) for number in range(columns)]
    for each in axes:
        each.grid(alpha=0.3)
        each.spines[["top", "right"]].set_visible(False)
        # In numbers: ticks are made when the figure is drawn, under whatever style holds then.
        each.tick_params(colors=INK, labelsize=10, width=0.8, length=3.5)
    return figure, axes

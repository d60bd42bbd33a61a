"""When does a run leave another one? A row for each run, a column for each step, and how far the weights are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course.figures.layout import TooLargeToDraw
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#1A1A2E", "#55586A"
EQUAL, EQUAL_INK = "#E3F1E7", "#1E6B3A"
# Differences from the smallest that float32 can show to large ones; a digit in each cell says the same without colour.
TONES = ("#FBE3D6", "#F6C9AF", "#EFA984", "#DF8155", "#B4532A", "#7C3214")
SMALLEST, LARGEST = -8, 0
CELL, ROW, LETTER = 0.62, 0.42, 0.083
MOST = 40


def draw_divergence(
    differences: Mapping[str, Sequence[float]], *, first_step: int = 0, title: str = "", against: str = "the other run"
) -> None:
    """Draw, for each run and step, the largest difference between its weights and those of another run.

    differences: name of a run -> differences (0 or more) after the steps first_step, first_step + 1, ...; the same
        number for each run. 0 means that every bit is equal.
    Raises ValueError for rows of different lengths or a negative difference, TooLargeToDraw beyond 40 rows or steps.
    """
    rows = checked(differences)
    show_figure(
        divergence_figure(rows, first_step=first_step, title=title, against=against),
        describe_divergence(rows, first_step=first_step, title=title, against=against),
    )


def checked(differences: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The rows as lists of floats; raises as :func:`draw_divergence` says."""
    rows = {name: [float(value) for value in values] for name, values in differences.items()}
    lengths = sorted({len(values) for values in rows.values()})
    if len(lengths) != 1 or lengths[0] == 0:
        raise ValueError(f"every run needs the same number of steps, at least 1; they have {lengths}")
    if len(rows) > MOST or lengths[0] > MOST:
        raise TooLargeToDraw(f"{len(rows)} runs of {lengths[0]} steps; at most {MOST} of each can be drawn")
    negative = [name for name, values in rows.items() if any(value < 0 for value in values)]
    if negative:
        raise ValueError(f"differences should be 0 or more; {negative[0]!r} has a negative one")
    return rows


def describe_divergence(
    rows: Mapping[str, Sequence[float]], *, first_step: int, title: str = "", against: str = "the other run"
) -> str:
    """The picture in words: a line for each run."""
    steps = len(next(iter(rows.values())))
    lines = [
        f"{title or 'Difference of the weights'}: {len(rows)} runs beside {against}, "
        f"from step {first_step} to step {first_step + steps - 1}."
    ]
    for name, values in rows.items():
        first = first_difference(values)
        if first is None:
            lines.append(f"{name}: every bit equal at every step.")
            continue
        back = " It is equal again later." if any(value == 0 for value in values[first:]) else ""
        lines.append(
            f"{name}: differs from step {first_step + first} on; at the last step the largest difference is about "
            f"{_power(values[-1])}.{back}"
        )
    return "\n".join(lines)


def first_difference(values: Sequence[float]) -> int | None:
    """The place of the first value that is not 0 (NaN is not), None where all are 0."""
    return next((place for place, value in enumerate(values) if value != 0), None)


def divergence_figure(
    rows: Mapping[str, Sequence[float]], *, first_step: int, title: str = "", against: str = "the other run"
) -> Figure:
    """The picture as a matplotlib figure that pyplot does not know; see :func:`draw_divergence`."""
    import matplotlib
    from matplotlib.figure import Figure

    # The picture is the same whatever style the notebook has set, and leaves that style as it is.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        left = 0.4 + LETTER * max(len("step"), *(len(name) for name in rows))
        steps = len(next(iter(rows.values())))
        width = max(left + CELL * steps + 0.25, 0.5 + 0.105 * len(title), 5.6 + LETTER * len(against))
        height = 1.1 + ROW * len(rows) + 0.75
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        _write(axes, 0.2, 0.3, title or f"How far from {against}?", size=12, weight="bold")
        _write(axes, 0.2, 0.8, "step", size=9.5, color=FAINT)
        for place in range(steps):
            _write(axes, left + CELL * (place + 0.5), 0.8, str(first_step + place), size=9.5, color=FAINT, ha="center")
        for number, (name, values) in enumerate(rows.items()):
            y = 1.1 + ROW * (number + 0.5)
            _write(axes, 0.2, y, name, size=10)
            for place, value in enumerate(values):
                _cell(axes, left + CELL * place, y, value)
        y = height - 0.35
        _cell(axes, 0.2, y, 0.0)
        _write(axes, 0.2 + CELL + 0.08, y, "every bit equal", size=9.5)
        _cell(axes, 2.25, y, 1e-3)
        _write(axes, 2.25 + CELL + 0.08, y, f"largest difference of a weight to {against}", size=9.5)
        return figure


def _cell(axes: Axes, x: float, y: float, value: float) -> None:
    from matplotlib.patches import Rectangle

    fill, ink = (EQUAL, EQUAL_INK) if value == 0 else _tone(value)
    axes.add_patch(Rectangle((x + 0.02, y - ROW / 2 + 0.02), CELL - 0.04, ROW - 0.04, facecolor=fill, edgecolor="none"))
    text = "=" if value == 0 else _power(value)
    _write(axes, x + CELL / 2, y, text, size=9, ha="center", color=ink, weight="bold" if value == 0 else "normal")


def _tone(value: float) -> tuple[str, str]:
    exponent = round(math.log10(value)) if math.isfinite(value) else LARGEST
    share = (min(max(exponent, SMALLEST), LARGEST) - SMALLEST) / (LARGEST - SMALLEST)
    place = min(int(share * len(TONES)), len(TONES) - 1)
    return TONES[place], "white" if place >= 4 else INK


def _power(value: float) -> str:
    """A difference as a power of ten."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ("nan" if math.isnan(value) else "inf")
    return f"1e{round(math.log10(value))}"


def _write(axes: Axes, x: float, y: float, text: str, *, color: str = INK, **font: Any) -> None:
    axes.text(x, y, text, va="center", color=color, parse_math=False, **({"ha": "left"} | font))

"""The bits of floating formats, and the distance between their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.figures.curves import COLOURS, INK, MARKS, _figure, _plain_style
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Format:
    """A binary floating format: one sign bit, and so many bits of exponent and mantissa (without the leading 1)."""

    name: str
    exponent: int
    mantissa: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent - 1) - 1

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2 - 2.0**-self.mantissa) * 2.0**self.bias

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def smallest(self) -> float:
        """The smallest positive number, a subnormal one."""
        return 2.0 ** (1 - self.bias - self.mantissa)

    def spacing(self, exponent: int) -> float:
        """The distance between neighbours from ``2**exponent`` up to its double; beyond the range ValueError."""
        if exponent > self.bias:
            raise ValueError(f"{self.name} ends at 2**{self.bias + 1}; there are no numbers from 2**{exponent} on")
        return 2.0 ** (max(exponent, 1 - self.bias) - self.mantissa)


FORMATS = (Format("float32", 8, 23), Format("tf32", 8, 10), Format("bfloat16", 8, 7), Format("float16", 5, 10))

_PARTS = {"sign": "#CC79A7", "exponent": "#E69F00", "mantissa": "#56B4E9"}


def draw_bits(formats: Sequence[Format] = FORMATS) -> None:
    """Show sign, exponent and mantissa bits of formats below each other, with range and precision."""
    show_figure(bits_figure(formats), alt=bits_words(formats))


@_plain_style()
def bits_figure(formats: Sequence[Format] = FORMATS) -> Figure:
    """The picture of :func:`draw_bits` as a figure that pyplot does not know."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    figure = Figure(figsize=(9.2, 0.78 * len(formats) + 0.5), layout="constrained")
    axes = figure.add_subplot()
    for row, each in enumerate(formats):
        parts = ["sign"] + ["exponent"] * each.exponent + ["mantissa"] * each.mantissa
        for column, part in enumerate(parts):
            box = Rectangle((column, -row), 0.92, 0.5, facecolor=_PARTS[part], edgecolor=INK, lw=0.6)
            axes.add_patch(box)
            axes.text(column + 0.46, 0.25 - row, part[0], ha="center", va="center", fontsize=8, color=INK)
        axes.text(-0.5, 0.25 - row, each.name, ha="right", va="center", fontsize=12, weight="bold", color=INK)
        about = f"1 + {each.exponent} + {each.mantissa} bits, up to {each.largest:.5g}, eps = 2^-{each.mantissa}"
        axes.text(0, -0.05 - row, about, ha="left", va="top", fontsize=9, color=INK)
    axes.set(xlim=(-5.5, max(each.bits for each in formats) + 0.3), ylim=(-len(formats) + 0.6, 0.65))
    axes.axis("off")
    handles = [Patch(facecolor=colour, edgecolor=INK, label=part) for part, colour in _PARTS.items()]
    figure.legend(handles=handles, loc="outside upper right", ncols=3, frameon=False, fontsize=9)
    return figure


def bits_words(formats: Sequence[Format] = FORMATS) -> str:
    """The picture of :func:`draw_bits` in words."""
    lines = ["The bits of each format, in boxes: sign, exponent, mantissa."]
    for each in formats:
        lines.append(
            f"  {each.name}: 1 sign bit, {each.exponent} exponent bits, {each.mantissa} mantissa bits, {each.bits} in "
            f"all; largest number {each.largest:.5g}, smallest normal {each.smallest_normal:.3g}"
        )
    return "\n".join(lines)


def draw_spacing(formats: Sequence[Format] = FORMATS, *, lowest: int = -32, highest: int = 20) -> None:
    """Show the distance between neighbouring numbers of each format against their size.

    lowest, highest: the powers of two between which it is drawn. A curve ends where the format ends.
    """
    show_figure(
        spacing_figure(formats, lowest=lowest, highest=highest),
        alt=spacing_words(formats, lowest=lowest, highest=highest),
    )


@_plain_style()
def spacing_figure(formats: Sequence[Format] = FORMATS, *, lowest: int = -32, highest: int = 20) -> Figure:
    """The picture of :func:`draw_spacing` as a figure that pyplot does not know."""
    figure, (axes,) = _figure(1, (9.2, 4.2))
    for number, each in enumerate(formats):
        exponents = _drawn(each, lowest, highest)
        axes.plot(
            [2.0**e for e in exponents],
            [each.spacing(e) for e in exponents],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKS[number % len(MARKS)],
            markevery=(2 * number, 8),
            ls=("-", "--", "-.", "-")[number % 4],
            lw=2,
            label=each.name,
        )
        last = exponents[-1]
        if last < highest:
            ends = (2.0**last, each.spacing(last))
            axes.annotate(
                f"{each.name} ends at {each.largest:g}",
                ends,
                xytext=(-75, 30),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                color=INK,
                arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.8},
            )
        if exponents[0] < 1 - each.bias:
            axes.annotate(
                f"subnormal: a fixed step below {each.smallest_normal:.2g}",
                (2.0 ** exponents[0], each.spacing(exponents[0])),
                xytext=(-80, 38),
                textcoords="offset points",
                fontsize=9,
                color=INK,
                arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.8},
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="size of the number", ylabel="distance to the next")
    figure.legend(fontsize=9, frameon=False, loc="outside right upper")
    figure.suptitle("Distance between neighbouring numbers", fontsize=11)
    return figure


def spacing_words(formats: Sequence[Format] = FORMATS, *, lowest: int = -32, highest: int = 20) -> str:
    """The picture of :func:`draw_spacing` in words."""
    lines = [
        "Distance between neighbouring numbers against their size, both axes logarithmic: rising straight lines, "
        "because the distance doubles with each power of two."
    ]
    for each in formats:
        drawn = _drawn(each, lowest, highest)
        text = f"  {each.name}: numbers from 1 to 2 lie 2^-{each.mantissa} apart"
        if drawn[0] < 1 - each.bias:
            text += f"; below {each.smallest_normal:.2g} the line is flat, at a step of {each.smallest:.2g}"
        if drawn[-1] < highest:
            text += f"; the line ends at {each.largest:g}"
        lines.append(text)
    return "\n".join(lines)


def _drawn(each: Format, lowest: int, highest: int) -> range:
    return range(max(lowest, 1 - each.bias - each.mantissa), min(highest, each.bias) + 1)


def draw_scale(scales: Sequence[float], skipped: Sequence[int], *, title: str = "The loss scale") -> None:
    """Show a loss scale by step on a logarithmic axis; steps that were skipped are marked.

    scales: the scale after each step. skipped: the numbers of the skipped steps, counted from 0.
    """
    show_figure(scale_figure(scales, skipped, title=title), alt=scale_words(scales, skipped, title=title))


@_plain_style()
def scale_figure(scales: Sequence[float], skipped: Sequence[int], *, title: str = "The loss scale") -> Figure:
    """The picture of :func:`draw_scale` as a figure that pyplot does not know."""
    figure, (axes,) = _figure(1, (9.2, 3.0))
    axes.step(range(len(scales)), scales, where="post", color=COLOURS[0], lw=2, label="scale after the step")
    if skipped:
        heights = [scales[step] for step in skipped]
        axes.plot(skipped, heights, "X", color=COLOURS[1], markersize=10, ls="none", label="not finite: step skipped")
    axes.set_yscale("log", base=2)
    axes.set(xlabel="step", ylabel="scale")
    axes.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(fontsize=9, frameon=False, loc="outside lower center", ncols=2)
    figure.suptitle(title, fontsize=11)
    return figure


def scale_words(scales: Sequence[float], skipped: Sequence[int], *, title: str = "The loss scale") -> str:
    """The picture of :func:`draw_scale` in words."""
    lines = [f"{title}, by step, {len(scales)} steps, from {scales[0]:g} to {scales[-1]:g}."]
    lines += [f"  step {step}: {event}" for step, event in _events(scales, skipped).items()]
    return "\n".join(lines)


def _events(scales: Sequence[float], skipped: Sequence[int]) -> Mapping[int, str]:
    events = {}
    for step, scale in enumerate(scales):
        before = scales[step - 1] if step else scale
        if step in skipped:
            events[step] = f"skipped, the scale is {scale:g} afterwards"
        elif scale != before:
            events[step] = f"the scale {'grows' if scale > before else 'falls'} to {scale:g}"
    return events

"""The picture of the two CUDA numbers: what pip brings, what the system has, and which must not be the smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course.environment.accelerator import driver_is_new_enough, parse_version
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1A1A1A"
PIP, SYSTEM, GOOD, BAD = "#CFE6F5", "#F6DDB0", "#00694A", "#A83E00"
FONT = 10


def draw_driver_and_runtime(*pairs: tuple[str, str]) -> None:
    """Show one stack of software for each (driver, runtime), such as ("13.1", "13.0"), and whether the two fit."""
    show_figure(driver_figure(*pairs), alt=driver_words(*pairs))


def driver_words(*pairs: tuple[str, str]) -> str:
    """The picture in words."""
    lines = [
        "From top to bottom: your notebook; the torch wheel, which pip installs and which brings a CUDA runtime; the "
        "NVIDIA driver, which the system installs; the GPU. The runtime calls the driver."
    ]
    for driver, runtime in pairs:
        verdict = "they fit" if _fits(driver, runtime) else "the driver is too old, and torch uses the CPU"
        lines.append(f"Runtime {runtime} on a driver that supports CUDA up to {driver}: {verdict}.")
    return "\n".join(lines)


def driver_figure(*pairs: tuple[str, str]) -> Figure:
    """The picture of :func:`draw_driver_and_runtime` as a figure that pyplot does not know."""
    import matplotlib
    from matplotlib.figure import Figure

    # The picture is the same whatever style the notebook has set, and leaves that style as it is.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(4.4 * len(pairs), 3.6), layout="constrained")
        for axes, (driver, runtime) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs, strict=True):
            _draw_stack(axes, driver, runtime)
        return figure


def _draw_stack(axes: Axes, driver: str, runtime: str) -> None:
    axes.set(xlim=(0, 10), ylim=(0, 9.6))
    axes.axis("off")
    fits = _fits(driver, runtime)
    _box(axes, 8.2, 1.1, "white", "your notebook:  import torch", "")
    _box(axes, 5.2, 2.2, PIP, f"CUDA runtime  {runtime}", "inside the torch wheel; pip installs it")
    _box(axes, 1.8, 2.2, SYSTEM, f"supports CUDA up to  {driver}", "the NVIDIA driver; the system installs it")
    _box(axes, 0.2, 1.1, "white", "GPU", "")
    colour = GOOD if fits else BAD
    axes.annotate("", (2.2, 4.05), (2.2, 5.15), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2.2})
    words = f"✓  {driver} ≥ {runtime}:  they fit" if fits else f"✗  {driver} < {runtime}:  too old, CPU only"
    axes.text(2.6, 4.6, words, va="center", fontsize=FONT, fontweight="bold", color=colour)


def _box(axes: Axes, bottom: float, height: float, colour: str, head: str, note: str) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((0.2, bottom), 9.6, height, facecolor=colour, edgecolor=INK, lw=1))
    middle = bottom + height / 2
    axes.text(5, middle + (0.45 if note else 0), head, ha="center", va="center", fontsize=FONT + 1, color=INK)
    if note:
        axes.text(5, middle - 0.55, note, ha="center", va="center", fontsize=FONT - 1, color=INK)


def _fits(driver: str, runtime: str) -> bool:
    return driver_is_new_enough(parse_version(driver), parse_version(runtime))

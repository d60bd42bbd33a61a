"""The confusion matrix as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

NAMED = 3  # confusions named in the words


def draw_confusion(matrix: Tensor, classes: Sequence[str], *, title: str = "") -> None:
    """Show how often each class was taken for each other.

    matrix: (C, C), counts, rows are true classes, columns predictions. classes: C names. The shade is the share of the
    row; every cell carries its count, and the share recognised stands at the end of the row.
    """
    show_figure(confusion_figure(matrix, classes, title=title), alt=confusion_words(matrix, classes, title))


def confusion_figure(matrix: Tensor, classes: Sequence[str], *, title: str = "") -> Figure:
    """The picture of :func:`draw_confusion` as a figure that pyplot does not know."""
    import matplotlib
    from matplotlib.figure import Figure

    size = len(classes)
    if tuple(matrix.shape) != (size, size):
        raise ValueError(f"a matrix of shape ({size}, {size}) was expected, not {tuple(matrix.shape)}")
    shares = _shares(matrix)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(1.8 + 0.55 * size, 1.5 + 0.45 * size), layout="constrained")
        axes = figure.add_subplot()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for row in range(size):
            for column in range(size):
                count = int(matrix[row, column])
                colour = "white" if shares[row][column] > 0.55 else "#1A1A1A"
                weight = "bold" if row == column else "normal"
                axes.text(
                    column,
                    row,
                    str(count) if count else "·",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color=colour,
                    weight=weight,
                )
        axes.set_xticks(range(size), classes, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(size), classes)
        axes.set(xlabel="predicted", ylabel="true class")
        recognised = axes.secondary_yaxis("right")
        recognised.set_yticks(range(size), [f"{100 * shares[k][k]:.0f} %" for k in range(size)])
        recognised.set_ylabel("recognised")
        recognised.tick_params(length=0)
        figure.suptitle(title, fontsize=11)
    return figure


def confusion_words(matrix: Tensor, classes: Sequence[str], title: str = "") -> str:
    """The picture of :func:`draw_confusion` in words: what is recognised, and the most frequent confusions."""
    shares = _shares(matrix)
    lines = [f"{title}: true classes against predictions." if title else "True classes against predictions."]
    recognised = [f"{name} {100 * shares[k][k]:.0f} %" for k, name in enumerate(classes)]
    lines.append(f"Recognised: {', '.join(recognised)}.")
    pairs = [(int(matrix[i, j]), i, j) for i in range(len(classes)) for j in range(len(classes)) if i != j]
    worst = [item for item in sorted(pairs, key=lambda item: (-item[0], item[1:])) if item[0]][:NAMED]
    named = [f"{classes[i]} taken for {classes[j]} {count} times" for count, i, j in worst]
    lines.append(f"Most frequent confusions: {'; '.join(named)}." if named else "No confusions.")
    return "\n".join(lines)


def _shares(matrix: Tensor) -> list[list[float]]:
    """Each row divided by its sum; zeros for a class without samples."""
    counts = matrix.double()
    return (counts / counts.sum(dim=1, keepdim=True).clamp(min=1)).tolist()

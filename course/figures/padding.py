"""Pictures of padding: one padded batch beside its mask, and the waste of whole epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course.figures.show import show_figure
from course.figures.strides import FAINT, INK, TINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

REAL, MASKED = TINTS[0], "#FFFFFF"
INCHES = 0.5  # edge of a cell of the batch, the unit of its lengths
MAX_ROWS, MAX_COLUMNS = 12, 16
MAX_SAMPLES = 400


def draw_padded_batch(padded: Tensor, mask: Tensor, *, title: str = "") -> None:
    """Show a padded batch beside its mask; padding is hatched in both.

    padded: (B, T) numbers, at most 12 by 16. mask: bool (B, T), True where an element is real. title: what it is.
    Raises ValueError for other shapes.
    """
    rows, columns = _checked(padded, mask)
    lengths = mask.sum(1).tolist()
    padding = rows * columns - sum(lengths)
    words = (
        f"{title or 'A padded batch'}: {rows} sequences, padded to {columns} columns. "
        f"Real elements in each row: {', '.join(map(str, lengths))}. {padding} of {rows * columns} cells are padding "
        "and hatched; the mask beside it is F there and T elsewhere."
    )
    show_figure(padded_batch_figure(padded, mask, title=title), alt=words)


def padded_batch_figure(padded: Tensor, mask: Tensor, *, title: str = "") -> Figure:
    """The picture as a matplotlib figure that pyplot does not know; see :func:`draw_padded_batch`."""
    import matplotlib
    from matplotlib.figure import Figure

    rows, columns = _checked(padded, mask)
    left, gap, top = 0.4, 2.4, 2.2 if title else 1.5
    width = max(left + 2 * columns + gap + 1.6, 0.4 + 0.24 * len(title))
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(width * INCHES, (top + rows + 1.3) * INCHES))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(rows + 1.3, -top))
        axes.axis("off")
        if title:
            _write(axes, left, -top + 0.55, title, size=12, weight="bold", ha="left")
        second = left + columns + gap
        for start, heading in ((left, f"padded  {(rows, columns)}"), (second, f"mask  {(rows, columns)}")):
            _write(axes, start, -0.75, heading, size=11, weight="bold", ha="left")
        for row in range(rows):
            for column in range(columns):
                real = bool(mask[row, column])
                value = f"{padded[row, column].item():.4g}"
                _cell(axes, left + column, row, real, value)
                _cell(axes, second + column, row, real, "T" if real else "F")
            length = int(mask[row].sum())
            _write(axes, left + columns + 0.25, row + 0.5, f"length {length}", size=9, color=FAINT, ha="left")
        _write(axes, left, rows + 0.65, "position 0, 1, 2, ... from left to right", size=9, color=FAINT, ha="left")
        return figure


def draw_padding_waste(lengths: Sequence[int], epochs: Mapping[str, Sequence[Sequence[int]]]) -> None:
    """Show for several ways to make batches how much of each batch is padding.

    lengths: of every sample. epochs: name -> list of batches, each a list of indices into `lengths`, together at most
    400 samples a name. One panel a name; a bar a sample, one below the other in the order of the epoch.
    """
    shares = [f"{name}: {_share(lengths, batches):.0%} of the cells are padding." for name, batches in epochs.items()]
    show_figure(
        padding_waste_figure(lengths, epochs),
        alt="One bar a sample in the order of the epoch: the real length in colour, then padding, hatched. "
        + " ".join(shares),
    )


def padding_waste_figure(lengths: Sequence[int], epochs: Mapping[str, Sequence[Sequence[int]]]) -> Figure:
    """The picture as a matplotlib figure that pyplot does not know; see :func:`draw_padding_waste`."""
    import matplotlib
    from matplotlib.figure import Figure

    if not epochs or any(not sum(map(len, batches)) for batches in epochs.values()):
        raise ValueError("there are no batches to draw; give at least one name with a list of non-empty batches")
    samples = max(sum(map(len, batches)) for batches in epochs.values())
    if samples > MAX_SAMPLES:
        raise ValueError(f"an epoch of {samples} samples was given; at most {MAX_SAMPLES} can be drawn, so take fewer")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(4.6 * len(epochs), 4.6), layout="constrained")
        panels = figure.subplots(1, len(epochs), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (name, batches) in zip(panels, epochs.items(), strict=True):
            _draw_epoch(axes, lengths, batches)
            axes.set_title(f"{name}: {_share(lengths, batches):.0%} padding", fontsize=12, fontweight="bold")
            axes.set_xlabel("position in the sequence")
        panels[0].set_ylabel("samples, in the order of the epoch")
        panels[0].invert_yaxis()
        panels[-1].legend(loc="lower right", fontsize=9, framealpha=0.9)
        return figure


def _draw_epoch(axes: Axes, lengths: Sequence[int], batches: Sequence[Sequence[int]]) -> None:
    real, padding, row = [], [], 0
    for number, batch in enumerate(batches):
        longest = max(lengths[i] for i in batch)
        real += [lengths[i] for i in batch]
        padding += [longest - lengths[i] for i in batch]
        if number:
            axes.axhline(row - 0.5, color=INK, lw=0.6)
        row += len(batch)
    rows = range(row)
    axes.barh(rows, real, height=1.0, color=REAL, label="real")
    axes.barh(
        rows, padding, height=1.0, left=real, facecolor=MASKED, hatch="////", edgecolor="#9A9A9A", lw=0, label="padding"
    )
    axes.set_ylim(-0.5, row - 0.5)


def _share(lengths: Sequence[int], batches: Sequence[Sequence[int]]) -> float:
    cells = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1 - sum(lengths[i] for batch in batches for i in batch) / cells if cells else 0.0


def _checked(padded: Tensor, mask: Tensor) -> tuple[int, int]:
    if padded.ndim != 2 or padded.shape != mask.shape:
        raise ValueError(
            f"shapes {tuple(padded.shape)} and {tuple(mask.shape)} were given; both must be the same (B, T)"
        )
    rows, columns = padded.shape
    if not (1 <= rows <= MAX_ROWS and 1 <= columns <= MAX_COLUMNS):
        raise ValueError(
            f"a batch of {rows} by {columns} was given; from 1 by 1 to {MAX_ROWS} by {MAX_COLUMNS} can be drawn"
        )
    return int(rows), int(columns)


def _cell(axes: Axes, x: float, y: float, real: bool, text: str) -> None:
    from matplotlib.patches import Rectangle

    if real:
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=REAL, edgecolor=INK, lw=0.8))
    else:
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=MASKED, edgecolor="#C4C4C4", lw=0.8, hatch="////"))
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor="none", edgecolor=FAINT, lw=0.8))
    box: dict[str, Any] = {} if real else {"bbox": {"facecolor": MASKED, "edgecolor": "none", "pad": 1.5}}
    size = 11 if len(text) <= 3 else 8
    _write(axes, x + 0.5, y + 0.5, text, size=size, weight="bold" if real else "normal", **box)


def _write(axes: Axes, x: float, y: float, text: str, *, ha: str = "center", color: str = INK, **font: Any) -> None:
    axes.text(x, y, text, ha=ha, va="center", color=color, parse_math=False, **font)

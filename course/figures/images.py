"""Sheets of small images, with captions or one row a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy import ndarray as Array

INCHES = 0.8  # edge of an image
CAPTION = 0.22  # height of a caption line
LETTER = 0.095  # width of a letter of a row's name
LARGEST = 200


def draw_images(
    images: Any, captions: Sequence[str] = (), *, columns: int = 8, title: str = "", alt: str | None = None
) -> None:
    """Show images side by side, row by row.

    images: (N, 3, H, W) or (N, 1, H, W) tensor, or (N, H, W, 3) array; uint8, or floats in 0..1; at most 200.
    captions: one a image, or none. title: what the images have in common.
    alt: the sheet in words; by default how many images there are, and the captions.

    Raises ValueError for other shapes, too many images, floats outside 0..1 or another number of captions.
    """
    pictures = as_pictures(images)
    if captions and len(captions) != len(pictures):
        raise ValueError(f"captions should be as many as images, {len(pictures)}, or none; they are {len(captions)}")
    words = alt or _in_words(len(pictures), captions, title)
    show_figure(sheet(pictures, captions, columns=columns, title=title), alt=words)


def draw_classes(
    images: Any, targets: Sequence[int] | Any, classes: Sequence[str], *, per_class: int = 10, title: str = ""
) -> None:
    """Show the first images of each class, one row a class with its name.

    images: as for :func:`draw_images`, any number. targets: N numbers of classes. classes: their names.
    A class with fewer than `per_class` images gets a shorter row. Raises ValueError as :func:`draw_images` does.
    """
    import numpy as np

    numbers = np.asarray(targets)
    if len(numbers) != len(images):
        raise ValueError(f"targets should be as many as images, {len(images)}; they are {len(numbers)}")
    rows = [np.flatnonzero(numbers == number)[:per_class] for number in range(len(classes))]
    pictures = [as_pictures(images[row]) if len(row) else [] for row in rows]
    words = f"{title}: " if title else ""
    words += f"{len(classes)} rows of up to {per_class} images, one row a class: {', '.join(classes)}."
    show_figure(class_sheet(pictures, classes, per_class=per_class, title=title), alt=words)


def as_pictures(images: Any) -> Array:
    """Images as (N, H, W, 3), uint8 or floats in 0..1, whatever of the forms of :func:`draw_images` they have."""
    import numpy as np

    if hasattr(images, "detach"):
        images = images.detach().cpu().numpy()
    pictures = np.asarray(images)
    if pictures.ndim == 4 and pictures.shape[-1] != 3 and pictures.shape[1] in (1, 3):
        pictures = pictures.transpose(0, 2, 3, 1)
        if pictures.shape[-1] == 1:
            pictures = pictures.repeat(3, axis=-1)
    if pictures.ndim != 4 or pictures.shape[-1] != 3:
        raise ValueError(f"images should be (N, 3, H, W), (N, 1, H, W) or (N, H, W, 3); they are {pictures.shape}")
    if not 0 < len(pictures) <= LARGEST:
        raise ValueError(f"a sheet shows 1 to {LARGEST} images; these are {len(pictures)}")
    if pictures.dtype != np.uint8:
        low, high = float(pictures.min()), float(pictures.max())
        if not (np.issubdtype(pictures.dtype, np.floating) and low >= 0 and high <= 1):
            raise ValueError(
                f"images should be uint8, or floats in 0..1; they are {pictures.dtype} in {low:.3g}..{high:.3g}. "
                "Undo a normalisation first: images * std + mean"
            )
    return pictures


def sheet(pictures: Array, captions: Sequence[str] = (), *, columns: int = 8, title: str = "") -> Figure:
    """The picture of :func:`draw_images` as a matplotlib figure that pyplot does not know."""
    columns = min(columns, len(pictures))
    places = [divmod(number, columns) for number in range(len(pictures))]
    return _figure(pictures, places, captions, title=title, columns=columns)


def class_sheet(rows: Sequence[Array], classes: Sequence[str], *, per_class: int = 10, title: str = "") -> Figure:
    """The picture of :func:`draw_classes` as a matplotlib figure that pyplot does not know."""
    pictures = [picture for row in rows for picture in row]
    places = [(number, column) for number, row in enumerate(rows) for column in range(len(row))]
    return _figure(pictures, places, names=classes, title=title, columns=per_class)


def _figure(
    pictures: Sequence[Array],
    places: Sequence[tuple[int, int]],
    captions: Sequence[str] = (),
    *,
    names: Sequence[str] = (),
    title: str,
    columns: int,
) -> Figure:
    """Images at their (row, column), with captions below or the names of the rows on the left."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = max(len(names), 1 + max((row for row, _ in places), default=0))
    lines = max((caption.count("\n") + 1 for caption in captions), default=0)
    step = INCHES + CAPTION * lines
    left = 0.1 + LETTER * max(map(len, names), default=0)
    top = 0.35 if title else 0.02
    # The picture is the same whatever style the notebook has set, and leaves that style as it is.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        width, height = left + columns * INCHES, top + rows * step
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        if title:
            axes.text(0.05, 0.05, title, fontsize=10, va="top")
        for row, name in enumerate(names):
            axes.text(left - 0.07, top + (row + 0.5) * step, name, fontsize=9, ha="right", va="center")
        for number, (picture, (row, column)) in enumerate(zip(pictures, places, strict=True)):
            x, y = left + column * INCHES, top + row * step
            extent = (x + 0.02, x + INCHES - 0.02, y + INCHES - 0.02, y + 0.02)
            axes.imshow(picture, extent=extent, interpolation="nearest", aspect="auto")
            if captions:
                axes.text(x + INCHES / 2, y + INCHES, captions[number], fontsize=7, ha="center", va="top")
        axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


def _in_words(count: int, captions: Sequence[str], title: str) -> str:
    words = f"{title}: " if title else ""
    words += f"{count} image{'s' if count > 1 else ''}"
    spoken = [" ".join(caption.split()) for caption in captions]
    return f"{words}: {'; '.join(spoken)}." if spoken else f"{words}."

"""Showing a matplotlib figure together with its text alternative."""

from __future__ import annotations

import html
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 144


def show_figure(figure: Figure, alt: str) -> None:
    """Display a figure as a PNG with a text alternative, and close it.

    alt: what the picture shows, in words, for people who do not see it. It becomes the ``alt`` text of the image
        where the viewer honours that (nbconvert, nbviewer), the plain text form of the output, and, since
        JupyterLab ignores the former two, a line to unfold below the picture.

    In plain Python the text alternative is printed.
    """
    words = " ".join(alt.split())
    if not words:
        raise ValueError("show_figure needs alt=...: what the picture shows, in words")
    picture = png(figure)
    _forget(figure)
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(f"[picture] {alt}")
        return
    from IPython.display import publish_display_data

    width = round(figure.get_figwidth() * 96)  # CSS pixels: points in the figure are points on the screen
    publish_display_data(
        {"image/png": picture, "text/plain": f"[picture] {alt}"}, {"image/png": {"alt": words, "width": width}}
    )
    publish_display_data({"text/html": in_words(alt), "text/plain": "[the picture in words: see above]"})


def png(figure: Figure) -> bytes:
    """The figure as a PNG on a white background, the same bytes for the same figure and matplotlib."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def in_words(alt: str) -> str:
    """A text alternative as HTML to unfold."""
    lines = html.escape(alt.strip(), quote=False).replace("\n", "<br>\n")
    return (
        '<details class="course-alt"><summary>The picture in words</summary>\n'
        f'<p style="margin: 0.3em 0 0.3em 1em; max-width: 60em">{lines}</p></details>'
    )


def _forget(figure: Figure) -> None:
    # Without this a figure made by pyplot is shown once more at the end of the cell.
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)

"""Showing things in a notebook, and the same as plain text where there is none.

HTML is made of semantic elements, so that it still reads well where a viewer strips the styles; the styles
take their colours from the JupyterLab theme, and no meaning is carried by colour alone.
"""

from __future__ import annotations

import contextlib
import html
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

FONT_CODE = "font-family: var(--jp-code-font-family, monospace)"
BORDERS = {
    "good": "var(--jp-success-color1, #2e7d32)",
    "bad": "var(--jp-error-color1, #c62828)",
    "warn": "var(--jp-warn-color1, #b26a00)",
    "note": "var(--jp-info-color1, #0277bd)",
}


class NotebookError(Exception):
    """Something to tell the person at the notebook; shown as one line instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [one_line(self)]


def one_line(error: BaseException) -> str:
    """An exception as its type and message, as the last line of a traceback has it."""
    return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def without_traceback(*kinds: type[BaseException]) -> Iterator[None]:
    """Let exceptions of these kinds pass, shown by IPython as one line."""
    try:
        yield
    except kinds as error:
        line = one_line(error)
        error._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
        raise


@dataclass(frozen=True)
class Shown:
    """Something to show.

    text: the plain form. html: the same as HTML. data: further mime types and their JSON values.
    """

    text: str
    html: str
    data: dict[str, object] = field(default_factory=dict)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        return {"text/plain": self.text, "text/html": self.html, **self.data}

    def __str__(self) -> str:
        return self.text


def shell() -> object | None:
    """The running IPython shell, or None in plain Python. Does not import IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def show(shown: Shown, display_id: str | None = None) -> None:
    """Display in the notebook; print the text form in plain Python.

    display_id: a name under which `update` can put something else in its place.
    """
    if shell() is None:
        print(shown.text)
        return
    from IPython.display import publish_display_data

    transient = {"display_id": display_id} if display_id else {}
    publish_display_data(shown._repr_mimebundle_(), transient=transient)


def update(shown: Shown, display_id: str) -> None:
    """Put something in the place of what was shown under a display id, in the page and in what is saved of it."""
    from IPython.display import publish_display_data

    publish_display_data(shown._repr_mimebundle_(), transient={"display_id": display_id}, update=True)


def prose(text: object) -> str:
    """Text as HTML: escaped, code between backticks marked up, line breaks kept."""
    escaped = html.escape(str(text), quote=False)
    marked = re.sub(r"`([^`\n]+)`", rf'<code style="{FONT_CODE}">\1</code>', escaped)
    return marked.replace("\n", "<br>\n")


def preformatted(text: object) -> str:
    """Code or output as an HTML block that keeps its spaces."""
    look = "background: transparent; color: inherit; margin: 0.3em 0; white-space: pre-wrap; word-break: normal"
    return f'<pre style="{FONT_CODE}; {look}">{html.escape(str(text), quote=False)}</pre>'


def paragraph(text: object) -> str:
    return f'<p style="margin: 0.3em 0">{prose(text)}</p>'


def labelled(rows: Iterable[tuple[str, str]]) -> str:
    """(label, HTML) pairs as a description list; "" where there are none."""
    items = "".join(
        f'<dt style="font-weight: 600">{html.escape(label)}</dt><dd style="margin: 0 0 0.3em 1.5em">{content}</dd>\n'
        for label, content in rows
    )
    return f'<dl style="margin: 0.3em 0">\n{items}</dl>' if items else ""


def box(heading: str, *parts: str, tone: str, kind: str, role: str | None = None, **data: str) -> str:
    """A framed block: a heading in words, then the parts, which are HTML already.

    tone: one of BORDERS, the colour of the frame. kind: the last part of its CSS class, ``course-<kind>``.
    role: the ARIA role, such as ``status`` for what answers an action. data: further attributes, ``data-<name>``.
    """
    style = (
        f"border-left: 5px solid {BORDERS[tone]}; padding: 0.2em 0 0.2em 0.9em; margin: 0.3em 0; "
        "max-width: 70em; line-height: 1.45"
    )
    described = f' role="{role}"' if role else ""
    described += "".join(f' data-{name}="{html.escape(value)}"' for name, value in data.items())
    body = "\n".join(part for part in parts if part)
    return (
        f'<div class="course-{kind}"{described} style="{style}">\n'
        f'<p style="margin: 0.2em 0"><strong>{prose(heading)}</strong></p>\n{body}\n</div>'
    )

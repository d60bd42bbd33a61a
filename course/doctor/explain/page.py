"""An explanation as text and as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

from course.curriculum import LESSONS

_COLOR = "var(--jp-info-color1, #0277bd)"
_BOX = (
    f"border-left: 5px solid {_COLOR}; padding: 0.2em 0 0.2em 0.9em; margin: 0.3em 0; max-width: "
    f"70em; line-height: 1.45"
)
_CODE = "font-family: var(--jp-code-font-family, monospace)"
_SURE = 0.85

Found = Mapping[str, object]


def link(finding: Found) -> str:
    """The lesson's notebook and section as a relative link; "" for a lesson that the course does not have."""
    name = next((lesson.name for lesson in LESSONS if lesson.number == finding["lesson"]), None)
    section = str(finding["section"] or "").replace(" ", "-")
    return "" if name is None else f"{name}.ipynb" + (f"#{section}" if section else "")


def place(finding: Found) -> str:
    """Where the course teaches it, in words."""
    return f"{finding['lesson']}" + (f", “{finding['section']}”" if finding["section"] else "")


def heading(finding: Found) -> str:
    """The fault in one line, and how sure it is."""
    sure = "Cause" if float(finding["confidence"]) >= _SURE else "Likely cause"
    return f"{sure}: {finding['title']} [{finding['fault']}]"


def as_text(findings: Sequence[Found], note: str = "", most: int | None = None) -> str:
    """The findings as plain text, the first `most` of them in full; the note where there are none."""
    parts = []
    for finding in findings[:most]:
        lines = [heading(finding)]
        lines += [f"  {label}: {finding[key]}" for label, key in (("Why", "why"), ("Fix", "fix")) if finding[key]]
        lines.append(f"  Lesson: {place(finding)}" + (f" ({link(finding)})" if link(finding) else ""))
        parts.append("\n".join(lines))
    if others := findings[len(parts) :]:
        parts.append(f"Also possible: {_named(others)}")
    return "\n\n".join(parts) or note


def as_html(findings: Sequence[Found], note: str = "", most: int | None = None) -> str:
    """The same as HTML."""
    parts = []
    for finding in findings[:most]:
        shown = place(finding)
        where = (
            f'<a href="{html.escape(link(finding))}">{html.escape(shown)}</a>' if link(finding) else html.escape(shown)
        )
        rows = [(label, _prose(finding[key])) for label, key in (("Why", "why"), ("Fix", "fix")) if finding[key]]
        items = "".join(
            f'<dt style="font-weight: 600">{label}</dt><dd style="margin: 0 0 0.3em 1.5em">{content}</dd>\n'
            for label, content in [*rows, ("Lesson", where)]
        )
        parts.append(
            f'<p style="margin: 0.2em 0"><strong>{_prose(heading(finding))}</strong></p>\n<dl '
            f'style="margin: 0.3em 0">\n{items}</dl>'
        )
    if others := findings[len(parts) :]:
        parts.append(f'<p style="margin: 0.3em 0">{_prose(f"Also possible: {_named(others)}")}</p>')
    body = "\n".join(parts) or f'<p style="margin: 0.2em 0">{_prose(note)}</p>'
    return f'<div class="course-explanation" role="status" style="{_BOX}">\n{body}\n</div>'


def _named(findings: Sequence[Found]) -> str:
    return "; ".join(f"{finding['title']} [{finding['fault']}]" for finding in findings) + "."


def _prose(text: object) -> str:
    escaped = html.escape(str(text), quote=False)
    return re.sub(r"`([^`\n]+)`", rf'<code style="{_CODE}">\1</code>', escaped).replace("\n", "<br>\n")

"""A finding about the machine, and many of them as text, HTML and JSON."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "note", "problem"]
SYMBOLS = {"ok": "✓", "note": "○", "problem": "✗"}
WIDTH = 100
COLOURS = {
    "ok": "var(--jp-success-color1, #2e7d32)",
    "note": "var(--jp-info-color1, #0277bd)",
    "problem": "var(--jp-error-color1, #c62828)",
}


@dataclass(frozen=True)
class Finding:
    """What one probe found.

    name: what was looked at. value: what is there, in plain words.
    state: "ok"; "note": the course runs, with less than the machine could give; "problem": the course cannot run.
    remedy: what to do about a note or a problem; empty where nothing has to be done. Code stands between backticks.
    """

    name: str
    value: str
    state: State = "ok"
    remedy: str = ""


@dataclass(frozen=True)
class Report:
    """All findings. Shows itself as a table in a notebook; ``str()`` is the same in plain text."""

    findings: Sequence[Finding]

    @property
    def ready(self) -> bool:
        """Whether the course can run here: no finding is a problem."""
        return not self._of("problem")

    @property
    def summary(self) -> str:
        notes = f"{_count(len(self._of('note')), 'note')} below"
        if self.ready:
            return f"This machine can run the course; {notes}."
        return f"The course cannot run here yet: {_count(len(self._of('problem')), 'problem')} and {notes}."

    def to_dict(self) -> dict[str, object]:
        """As JSON: {"ready", "summary", "findings": [{"name", "value", "state", "remedy"}]}."""
        return {"ready": self.ready, "summary": self.summary, "findings": [asdict(entry) for entry in self.findings]}

    def __str__(self) -> str:
        width = max((len(entry.name) for entry in self.findings), default=0)
        indent = " " * (width + 4)
        lines = [self.summary, ""]
        for entry in self.findings:
            head = f"{SYMBOLS[entry.state]} {entry.name:{width}}  "
            lines += _wrapped(entry.value, head, indent)
            if entry.remedy:
                lines += _wrapped(f"{entry.state}: {entry.remedy}", indent, indent)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = 'style="text-align: left; vertical-align: top; padding: 0.15em 1.2em 0.15em 0"'
        rows = "\n".join(_row(entry, cell) for entry in self.findings)
        head = "".join(f'<th scope="col" {cell}>{word}</th>' for word in ("", "part", "found", "what to do"))
        return (
            '<table class="course-environment" style="border-collapse: collapse; max-width: 75em">\n'
            f'<caption style="caption-side: top; text-align: left"><strong>{_prose(self.summary)}</strong></caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
        )

    def _of(self, state: State) -> list[Finding]:
        return [entry for entry in self.findings if entry.state == state]


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _row(entry: Finding, cell: str) -> str:
    mark = (
        f'<span style="white-space: nowrap; color: {COLOURS[entry.state]}">{SYMBOLS[entry.state]} {entry.state}</span>'
    )
    return (
        f'<tr><td {cell}>{mark}</td><th scope="row" {cell}>{_prose(entry.name)}</th>'
        f"<td {cell}>{_prose(entry.value)}</td><td {cell}>{_prose(entry.remedy)}</td></tr>"
    )


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

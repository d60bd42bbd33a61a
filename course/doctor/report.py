"""What the doctor found: findings with their evidence, shown as text and as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from course.curriculum import LESSONS
from course.faults import fault as catalogue_entry

SEVERITIES = ("error", "warning", "note")

_TONES = {
    "error": ("Error", "var(--jp-error-color1, #c62828)"),
    "warning": ("Warning", "var(--jp-warn-color1, #b26a00)"),
    "note": ("Note", "var(--jp-info-color1, #0277bd)"),
}
_SOUND = "var(--jp-success-color1, #2e7d32)"
_BOX = "padding: 0.2em 0 0.2em 0.9em; margin: 0.3em 0; max-width: 70em; line-height: 1.45"


@dataclass
class Finding:
    """One fault that the doctor saw in a training setup.

    fault: its id in the catalogue; an unknown one raises UnknownFault.
    evidence: what was seen, with its numbers, in one to three sentences. It has to convince an expert.
    severity: ``"error"`` (training is wrong), ``"warning"`` (it very likely is) or ``"note"`` (worth knowing).
    title, why, fix, lesson: from the catalogue where not given; lesson is two digits, such as ``"05"``.
    consequences: what else was seen that this fault explains.
    confidence: between 0 and 1; of two findings that exclude each other the higher one stays.
    """

    fault: str
    evidence: str
    severity: str = "error"
    title: str = ""
    why: str = ""
    fix: str = ""
    lesson: str = ""
    section: str = ""
    consequences: list[str] = field(default_factory=list)
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity is {self.severity!r}; it has to be one of {', '.join(SEVERITIES)}")
        if not self.evidence.strip():
            raise ValueError(f"the finding {self.fault!r} has no evidence; say what was seen, with its numbers")
        known = catalogue_entry(self.fault)
        self.title = self.title or known.title
        self.why = self.why or known.why or ""
        self.fix = self.fix or known.fix or ""
        if not self.lesson:
            self.lesson, self.section = known.lesson, self.section or known.section or ""

    @property
    def where(self) -> str:
        """Where the course teaches it, in words."""
        return f"lesson {self.lesson}" + (f", “{self.section}”" if self.section else "")

    @property
    def link(self) -> str:
        """The lesson's notebook and section as a relative link; "" for a lesson that the course does not have."""
        name = next((lesson.name for lesson in LESSONS if lesson.number == self.lesson), None)
        if name is None:
            return ""
        return f"{name}.ipynb" + (f"#{self.section.replace(' ', '-')}" if self.section else "")

    def to_dict(self) -> dict[str, object]:
        """As JSON values."""
        return {
            "fault": self.fault,
            "severity": self.severity,
            "title": self.title,
            "evidence": self.evidence,
            "why": self.why,
            "fix": self.fix,
            "lesson": self.lesson,
            "section": self.section,
            "consequences": list(self.consequences),
            "confidence": self.confidence,
        }


class FaultsFound(AssertionError):
    """raise_if_any() found something; the message is the report's text."""


@dataclass
class Report:
    """What an examination found.

    findings: the faults seen, errors first. notes: what else was seen. not_examined: what could not be looked at,
    and why. examined: what was looked at. seconds: how long it took.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_examined: list[str] = field(default_factory=list)
    examined: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def faults(self) -> list[str]:
        """The ids of the findings, in their order."""
        return [finding.fault for finding in self.findings]

    def worst(self, severity: str = "warning") -> list[Finding]:
        """The findings that are at least this severe."""
        if severity not in SEVERITIES:
            raise ValueError(f"severity is {severity!r}; it has to be one of {', '.join(SEVERITIES)}")
        bound = SEVERITIES.index(severity)
        return [finding for finding in self.findings if SEVERITIES.index(finding.severity) <= bound]

    def raise_if_any(self, severity: str = "warning") -> None:
        """Raise FaultsFound when there is a finding of this severity or a worse one."""
        if self.worst(severity):
            raise FaultsFound(self.text)

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        if not self.findings:
            return "The doctor found nothing." if self.examined else "The doctor could examine nothing."
        counts = [
            f"{number} {severity}{'s' if number > 1 else ''}"
            for severity in SEVERITIES
            if (number := sum(finding.severity == severity for finding in self.findings))
        ]
        return f"The doctor found {', '.join(counts)}."

    @property
    def text(self) -> str:
        """The report as plain text."""
        return "\n".join(self._text_lines())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Report: {', '.join(self.faults) or 'no findings'}>"

    def _repr_html_(self) -> str:
        parts = [f'<p style="margin: 0.2em 0"><strong>{_prose(self.headline)}</strong></p>']
        parts += [_finding_html(finding) for finding in self.findings]
        for label, lines in self._lists():
            items = "".join(f"<li>{_prose(line)}</li>" for line in lines)
            parts.append(f'<p style="margin: 0.3em 0">{label}</p>\n<ul style="margin: 0 0 0.3em 0">{items}</ul>')
        color = _TONES[self.findings[0].severity][1] if self.findings else _SOUND
        body = "\n".join(parts)
        return f'<div class="course-report" style="border-left: 5px solid {color}; {_BOX}">\n{body}\n</div>'

    def to_dict(self) -> dict[str, object]:
        """As JSON values."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
            "not_examined": list(self.not_examined),
            "examined": list(self.examined),
        }

    def _lists(self) -> list[tuple[str, list[str]]]:
        examined = [", ".join(self.examined)] if self.examined else []
        pairs = [("Notes", self.notes), ("Not examined", self.not_examined), ("Examined", examined)]
        return [(label, lines) for label, lines in pairs if lines]

    def _text_lines(self) -> Iterator[str]:
        yield self.headline
        for finding in self.findings:
            yield ""
            yield f"{_TONES[finding.severity][0]}: {finding.title} [{finding.fault}]"
            for label, content in _rows(finding):
                yield f"  {label}: " + content.replace("\n", "\n    ")
        for label, lines in self._lists():
            yield ""
            yield f"{label}:"
            yield from (f"  - {line}" for line in lines)


def _rows(finding: Finding) -> list[tuple[str, str]]:
    rows = [
        ("Seen", finding.evidence),
        ("Explains", "\n".join(finding.consequences)),
        ("Why", finding.why),
        ("Fix", finding.fix),
        ("Lesson", finding.where),
    ]
    return [(label, content) for label, content in rows if content]


def _finding_html(finding: Finding) -> str:
    word, color = _TONES[finding.severity]
    rows = []
    for label, content in _rows(finding):
        shown = _prose(content)
        if label == "Lesson" and finding.link:
            shown = f'<a href="{html.escape(finding.link)}">{shown}</a>'
        rows.append(f'<dt style="font-weight: 600">{label}</dt><dd style="margin: 0 0 0.3em 1.5em">{shown}</dd>')
    head = f"{word}: {_prose(finding.title)} <code>{html.escape(finding.fault)}</code>"
    return (
        f'<section data-fault="{html.escape(finding.fault)}" style="border-left: 3px solid {color}; {_BOX}">\n'
        f'<p style="margin: 0.2em 0"><strong>{head}</strong></p>\n'
        f'<dl style="margin: 0.3em 0">\n' + "\n".join(rows) + "\n</dl>\n</section>"
    )


def _prose(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escaped).replace("\n", "<br>\n")

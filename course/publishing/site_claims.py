"""The page of claims: what lessons state, what their stored outputs found, and what a recorded full run found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.notebook.values import describe
from course.publishing.site_lessons import Claimed, LessonPage

_SYMBOLS = {"holds": "✓", "does not hold here": "✗", "not measurable here": "○"}


@dataclass(frozen=True)
class ClaimRow:
    """A claim as the page shows it; every field is text, "" where there is nothing to say.

    kind: "exact" or "measured". stored: the value in the notebook. verdict: of that value. recorded: the value of the
    full run, recorded_verdict its verdict, machine and date where and when it ran. link: to the claim in its lesson.
    """

    name: str
    link: str
    kind: str
    stated: str
    stored: str
    verdict: str
    recorded: str
    recorded_verdict: str
    machine: str
    date: str


def read_recorded(path: Path) -> dict[str, dict]:
    """Return lesson number -> claim name -> what a full run recorded; {} before the first one."""
    return json.loads(path.read_text(encoding="utf-8"))["lessons"] if path.is_file() else {}


def claim_rows(page: LessonPage, recorded: Mapping[str, dict]) -> Sequence[ClaimRow]:
    """Return the claims of a lesson in order; `recorded` is what `read_recorded` returns."""
    known = recorded.get(page.lesson.number, {})
    return [_row(page, claimed, known.get(claimed.data["name"], {})) for claimed in page.claims]


def _row(page: LessonPage, claimed: Claimed, recorded: Mapping) -> ClaimRow:
    data = claimed.data
    run = [recorded.get("machine"), recorded.get("device"), _torch(recorded.get("torch"))]
    return ClaimRow(
        name=data["name"],
        link=f"{page.address}#{claimed.anchor}",
        kind=data["kind"],
        stated=data["stated"],
        stored="" if data["value"] is None and data["kind"] == "measured" else _value(data["value"], data["unit"]),
        verdict=_judged(data["verdict"]),
        recorded=_value(recorded["value"], recorded["unit"]) if recorded else "",
        recorded_verdict=_judged(recorded["verdict"]) if recorded else "",
        machine=", ".join(part for part in run if part),
        date=recorded.get("date", ""),
    )


def _value(value: object, unit: str) -> str:
    return f"{describe(value)} {unit}".strip()


def _judged(verdict: str) -> str:
    return f"{_SYMBOLS.get(verdict, '')} {verdict}".strip()


def _torch(version: str | None) -> str:
    return f"torch {version}" if version else ""

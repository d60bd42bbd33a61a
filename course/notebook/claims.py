"""``claim``: a number or fact that a lesson states, beside what this machine measures."""

from __future__ import annotations

import json
from typing import Any

from course import curriculum
from course.notebook import display
from course.notebook.session import current_lesson
from course.notebook.values import describe, number, plain, same

MIME = "application/vnd.course.claim+json"

HOLDS = "holds"
FAILS = "does not hold here"
NOT_MEASURABLE = "not measurable here"

_LOOKS = {HOLDS: ("✓", "good"), FAILS: ("✗", "warn"), NOT_MEASURABLE: ("○", "note")}


class ClaimFailed(display.NotebookError):
    """An exact claim that is false."""


def claim(
    name: str,
    value: Any,
    *,
    stated: str | None = None,
    equals: Any = ...,
    low: float | None = None,
    high: float | None = None,
    unit: str = "",
    reason: str | None = None,
) -> None:
    """Show a claim of the lesson and whether it holds here.

    name: what the claim is about, unique in its lesson.
    value: what this run found; None with a reason where it could not be measured here.
    stated: what is said, in words, such as ``"20-40 % faster"``; by default ``equals`` or the range.
    equals: makes the claim exact (bytes, counts, equality): ClaimFailed is raised, after it was shown, when
        the value is another one. Tensors compare by shape, dtype and values.
    low, high: make it a measured claim (times, accuracies), which never fails; either end may be left open.
    unit: of the value, such as ``"x"`` or ``"bytes"``.
    """
    measured = equals is ...
    if measured and low is None and high is None:
        raise display.NotebookError(f"claim {name!r} needs equals=... (exact), or low=... or high=... (measured)")
    if not measured and not (low is None and high is None):
        raise display.NotebookError(f"claim {name!r} is either exact (equals=...) or measured (low=..., high=...)")
    if value is None and reason is None and (measured or equals is not None):
        raise display.NotebookError(f"claim {name!r} has no value; give reason=... to say why it is not measurable")
    verdict = _verdict(value, equals, low, high, reason)
    kind = "measured" if measured else "exact"
    stated = stated or (_range(low, high, unit) if measured else _with_unit(_readable(equals), unit))
    here = f"– ({reason})" if verdict == NOT_MEASURABLE else _with_unit(_readable(value), unit)
    columns = [("stated", stated), ("here", here)]
    if measured and (recorded := _recorded(name, unit)):
        columns.insert(1, ("recorded", recorded))
    data = {
        "name": name,
        "kind": kind,
        "stated": stated,
        "low": low,
        "high": high,
        "value": plain(value),
        "unit": unit,
        "verdict": verdict,
    }
    display.show(_render(name, verdict, columns, data))
    if not measured and verdict == FAILS:
        raise ClaimFailed(f"{name}: {_in_line(here)} was found, {_in_line(stated)} is stated")


def _verdict(value: Any, equals: Any, low: float | None, high: float | None, reason: str | None) -> str:
    if value is None and reason is not None:
        return NOT_MEASURABLE
    if equals is not ...:
        return HOLDS if same(value, equals) else FAILS
    size = float(value)
    inside = (low is None or size >= low) and (high is None or size <= high)
    return HOLDS if inside and size == size else FAILS


def _render(name: str, verdict: str, columns: list[tuple[str, str]], data: dict[str, object]) -> display.Shown:
    symbol, tone = _LOOKS[verdict]
    heading = f"{symbol} {name}: {verdict}"
    text = "\n".join([heading, *(f"  {label}: {content}" for label, content in columns)])
    cell = 'style="text-align: left; padding: 0.1em 1.5em 0.1em 0; vertical-align: top"'
    head = "".join(f'<th scope="col" {cell}>{label}</th>' for label, _ in columns)
    body = "".join(f"<td {cell}>{display.prose(content)}</td>" for _, content in columns)
    table = (
        f'<table style="margin: 0.2em 0; border-collapse: collapse">'
        f"<thead><tr>{head}</tr></thead><tbody><tr>{body}</tr></tbody></table>"
    )
    return display.Shown(text, display.box(heading, table, tone=tone, kind="claim"), {MIME: data})


def _recorded(name: str, unit: str) -> str | None:
    """What the recorded full run found: value, machine, torch and date; None where nothing is recorded."""
    lesson = current_lesson()
    try:
        record = json.loads(curriculum.recorded_path().read_text(encoding="utf-8"))
        entry = record["lessons"][lesson.number][name] if lesson else None
    except (OSError, ValueError, KeyError, TypeError):
        entry = None
    if not isinstance(entry, dict) or "value" not in entry:
        return None
    place = [str(entry[key]) for key in ("machine", "device", "date") if entry.get(key)]
    place += [f"torch {entry['torch']}"] if entry.get("torch") else []
    value = _with_unit(_readable(entry["value"]), unit)
    return f"{value} ({', '.join(place)})" if place else value


def _range(low: float | None, high: float | None, unit: str) -> str:
    if low is None:
        return _with_unit(f"at most {number(high)}", unit)
    if high is None:
        return _with_unit(f"at least {number(low)}", unit)
    return _with_unit(f"{number(low)} to {number(high)}", unit)


def _readable(value: Any) -> str:
    return describe(value.item() if getattr(value, "ndim", None) == 0 else value)


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}".rstrip()


def _in_line(text: str) -> str:
    return " ".join(text.split())

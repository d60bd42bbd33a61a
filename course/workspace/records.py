"""The format of kept progress: JSON lines, one record a line, in as many files as there were kernels.

A record names its kernel and its number there: a line that was written twice, or a file that was copied, counts once.
A later format may add keys and events; a key that changes its meaning needs a new name, since older versions read on.
"""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import NamedTuple

FORMAT = 1
EVENTS = ("check", "hint", "solution")
SUFFIX = ".jsonl"
BEGINNING = b'{"v":'
# Ours stay below 400 bytes.
LONGEST_LINE = 1 << 14


class Damaged(ValueError):
    """A line that is no record."""


class Newer(ValueError):
    """A record of a later format that this version does not understand."""


class Record(NamedTuple):
    """One event.

    kernel: names the process that wrote it. number: counts its records from 1.
    at: when, in UTC. clock: seconds of a clock that is never set, to be compared within one kernel only.
    event: one of EVENTS. exercise: an id. outcome: of a check, such as "PASSED".
    format: which version of the format it was written in.
    """

    kernel: str
    number: int
    at: datetime
    clock: float
    event: str
    exercise: str
    outcome: str | None = None
    format: int = FORMAT


def encode(record: Record) -> bytes:
    """One record as one line of ASCII, with its end of line."""
    data = {
        "v": record.format,
        "kernel": record.kernel,
        "n": record.number,
        "at": record.at.isoformat(timespec="milliseconds"),
        "clock": round(record.clock, 3),
        "event": record.event,
        "exercise": record.exercise,
    }
    if record.outcome is not None:
        data["outcome"] = record.outcome
    return json.dumps(data, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Record:
    """Read one line. Raises Damaged, or Newer for what only a later version of the course understands."""
    try:
        data = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(str(error)) from None
    version = data.get("v") if isinstance(data, dict) else None
    if not isinstance(version, int) or version < 1:
        raise Damaged("no version")
    try:
        return _record(data, version)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise (Newer if version > FORMAT else Damaged)(str(error)) from None


def _record(data: dict, version: int) -> Record:
    kernel, number, event, exercise = data["kernel"], data["n"], data["event"], data["exercise"]
    clock, outcome = data["clock"], data.get("outcome")
    if not (isinstance(kernel, str) and isinstance(number, int) and isinstance(exercise, str)):
        raise TypeError("kernel, n or exercise")
    if not isinstance(clock, (int, float)) or not math.isfinite(clock):
        raise TypeError("clock")
    if event not in EVENTS or (event == "check") is not isinstance(outcome, str):
        raise ValueError("event or outcome")
    at = datetime.fromisoformat(data["at"])
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return Record(kernel, number, at.astimezone(timezone.utc), clock, event, exercise, outcome, version)

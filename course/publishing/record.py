"""The measured claims of full runs, kept in `lessons/recorded.json`."""

from __future__ import annotations

import json
from pathlib import Path

from course.publishing.files import write_text


def record(report: dict, path: Path) -> int:
    """Put the measured claims of the passed lessons of a full run's `report` into `path`; return how many.

    The file is {"lessons": {number: {claim name: {"value", "unit", "verdict", "device", "machine", "torch", "date"}}}}.
    A lesson's entry is replaced as a whole, the other lessons' entries stay.
    """
    recorded = json.loads(path.read_text(encoding="utf-8"))["lessons"] if path.is_file() else {}
    count = 0
    for lesson in report["lessons"]:
        if lesson["status"] != "passed":
            continue
        entry = {
            claim["name"]: {
                "value": claim["value"],
                "unit": claim["unit"],
                "verdict": claim["verdict"],
                "device": lesson["device"],
                "machine": report["machine"],
                "torch": report["torch"],
                "date": report["date"][:10],
            }
            for claim in lesson["claims"]
            if claim["kind"] == "measured" and claim["value"] is not None
        }
        recorded[lesson["lesson"]] = entry
        count += len(entry)
    write_text(path, json.dumps({"lessons": dict(sorted(recorded.items()))}, indent=1, ensure_ascii=False) + "\n")
    return count

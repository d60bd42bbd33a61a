"""Grades as CSV or JSON, and beside them a summary of the class: JSON for programs, HTML and a picture for people."""

from __future__ import annotations

import csv
import datetime
import io
import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from course.figures.show import png
from course.grading.engine import Graded
from course.grading.picture import class_figure, class_words
from course.grading.row import Row
from course.grading.summary import Summary, harmless, summarise
from course.publishing.files import write_text

COLUMNS = (
    "submission", "exercise", "outcome", "diagnosis", "fault", "wrong", "seen", "expected", "note", "seconds",
)  # fmt: skip
FORMATS = (".csv", ".json")
# Characters of a text: a spreadsheet's cell holds 32,767, and Python's csv module reads 131,072.
LONGEST = 8_000
# What a spreadsheet would take for a formula, in a text that somebody handed in.
FORMULA = ("=", "+", "-", "@", "\t")


@dataclass(frozen=True)
class Written:
    """The files of a report."""

    grades: Path
    summary: Path
    page: Path
    picture: Path


def journal_path(output: Path) -> Path:
    """Where a run into `output` keeps what it has graded."""
    return output.with_name(f"{output.stem}-journal.jsonl")


def write(graded: Sequence[Graded], output: Path) -> tuple[Written, Summary]:
    """Write grades to `output` (.csv or .json) and the summary beside it. Raises OSError."""
    rows = [_harmless(row) for each in graded for row in each.result.rows]
    summary = summarise(rows)
    about = _about(graded)
    beside = output.with_name(f"{output.stem}-summary")
    written = Written(
        grades=output,
        summary=beside.with_name(f"{beside.name}.json"),
        page=beside.with_name(f"{beside.name}.html"),
        picture=beside.with_name(f"{beside.name}.png"),
    )
    if output.suffix == ".csv":
        write_text(output, _csv(rows))
    else:
        write_text(output, _json({**about, "rows": [row.to_dict() for row in rows], "summary": as_dict(summary)}))
    write_text(written.summary, _json({**about, **as_dict(summary)}))
    written.picture.write_bytes(png(class_figure(summary)))
    write_text(written.page, _page(rows, summary, about, written))
    return written, summary


def as_dict(summary: Summary) -> dict[str, Any]:
    """A summary as JSON-able data."""
    names = ("submission", "exercise", "outcome", "note")
    return {**asdict(summary), "notes": [dict(zip(names, note, strict=True)) for note in summary.notes]}


def _about(graded: Sequence[Graded]) -> dict[str, Any]:
    protections = Counter(each.result.protection or "unknown" for each in graded)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "course": version("pytorch-course"),
        "torch": version("torch").partition("+")[0],
        "python": platform.python_version(),
        # What protected this machine, by the number of submissions that ran under it.
        "protection": dict(protections.most_common()),
        "not_graded": sorted(harmless(each.submission.id) for each in graded if not each.result.complete),
    }


def _harmless(row: Row) -> Row:
    return Row.from_dict({key: _text(value) for key, value in row.to_dict().items()})


def _text(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = harmless(value[: LONGEST + 1])
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {key: _cell(value) for key, value in row.to_dict().items()} | {"seconds": round(row.seconds, 3)}
        )
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _page(rows: Sequence[Row], summary: Summary, about: Mapping[str, Any], written: Written) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("course.grading", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    passed = Counter(row.submission for row in rows if row.outcome == "PASSED")
    people = [(name, passed[name]) for name in dict.fromkeys(row.submission for row in rows)]
    return environment.get_template("summary.html.j2").render(
        about=about, summary=summary, people=people, words=class_words(summary), written=written
    )

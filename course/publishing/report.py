"""What a run found, as JSON for programs, JUnit for CI and HTML for people."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jinja2

from course.publishing.files import write_text

# What XML 1.0 cannot hold.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class LessonReport:
    """One lesson of a run; the fields are the keys in `report.json`.

    `status` is passed, failed, timeout or not_run, and `reason` a sentence unless it passed. `seconds` is wall time,
    `cpu_seconds` what the kernel and its children used, `budget` the manifest's CPU-seconds. `error` has the
    keys cell, type and message.
    """

    lesson: str
    status: str = "not_run"
    reason: str | None = None
    seconds: float = 0.0
    device: str = "cpu"
    exercises: dict[str, str] = field(default_factory=dict)
    claims: list[dict] = field(default_factory=list)
    error: dict[str, str] | None = None
    cpu_seconds: float = 0.0
    budget: float = 0.0


def torch_version() -> str:
    """Return the installed torch's version without its build tag, "2.14.1"."""
    return importlib.metadata.version("torch").partition("+")[0]


def machine() -> str:
    """Return a line that names this machine's system and processor."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = re.findall(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
        if names:
            processor = f"{names[0]}, {len(names)} threads"
    return f"{platform.system()} {platform.machine()}, {processor}"


def as_dict(lessons: list[LessonReport]) -> dict:
    """Return the content of `report.json`."""
    return {
        "torch": torch_version(),
        "python": platform.python_version(),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "lessons": [asdict(lesson) for lesson in lessons],
    }


def write(lessons: list[LessonReport], folder: Path, *, notebooks: dict[str, str], expected: str) -> dict:
    """Write `report.json`, `junit.xml` and `index.html` to `folder`; return the content of the first.

    `notebooks` names the executed notebook of each lesson, relative to `folder`; `expected` is the verdict that
    every exercise should have.
    """
    report = as_dict(lessons)
    write_text(folder / "report.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    write_text(folder / "junit.xml", junit(lessons, expected=expected))
    write_text(folder / "index.html", html(report, notebooks=notebooks, expected=expected))
    return report


def junit(lessons: list[LessonReport], *, expected: str) -> str:
    """Return JUnit XML: a suite a lesson, a case for its run and for each exercise."""
    suites = ElementTree.Element("testsuites")
    for lesson in lessons:
        cases = [("run", lesson.seconds, None if lesson.status == "passed" else lesson.status, _message(lesson))]
        for exercise, verdict in lesson.exercises.items():
            wrong = None if verdict == expected else "failed"
            cases.append((exercise, 0.0, wrong, f"{verdict} instead of {expected}"))
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=f"lesson {lesson.lesson}",
            tests=str(len(cases)),
            failures=str(sum(status == "failed" for _, _, status, _ in cases)),
            errors=str(sum(status in ("timeout", "not_run") for _, _, status, _ in cases)),
            skipped="0",
            time=f"{lesson.seconds:.3f}",
        )
        for name, seconds, status, message in cases:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"lesson {lesson.lesson}", name=name, time=f"{seconds:.3f}"
            )
            if status:
                kind = "failure" if status == "failed" else "error"
                ElementTree.SubElement(case, kind, type=status, message=_NOT_XML.sub("", message))
    ElementTree.indent(suites, " ")
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def html(report: dict, *, notebooks: dict[str, str], expected: str) -> str:
    """Return a page that shows the content of `report.json` with links to the executed notebooks."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("course.publishing", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(report=report, notebooks=notebooks, expected=expected)


def _message(lesson: LessonReport) -> str:
    if lesson.error is None:
        return lesson.reason or ""
    return f"{lesson.reason} ({lesson.error['cell']}: {lesson.error['type']}: {lesson.error['message']})"

"""Every lesson with its exercises solved, through `course run`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from course.curriculum import LESSONS, lesson

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(reports):
    """The report of one solved run of all lessons."""
    folder = reports / "solved"
    result = subprocess.run(
        [sys.executable, "-m", "course", "run", "--solved", "--output", str(folder)],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return content | {"code": result.returncode, "printed": result.stdout + result.stderr}


def test_every_lesson_passes(report):
    assert report["code"] == 0, report["printed"]
    assert [entry["lesson"] for entry in report["lessons"]] == [lesson.number for lesson in LESSONS]
    assert {entry["status"] for entry in report["lessons"]} == {"passed"}


def test_every_exercise_passes(report, exercises_of):
    for entry in report["lessons"]:
        assert set(entry["exercises"]) == set(exercises_of[entry["lesson"]])
        assert set(entry["exercises"].values()) == {"PASSED"}


def test_exact_claims_hold_and_measured_ones_have_a_verdict(report):
    for entry in report["lessons"]:
        assert entry["claims"]
        for claim in entry["claims"]:
            allowed = {"holds"} if claim["kind"] == "exact" else {"holds", "does not hold here", "not measurable here"}
            assert claim["verdict"] in allowed


def test_lessons_keep_to_their_budget(report, record_property):
    for entry in report["lessons"]:
        assert entry["budget"] == lesson(entry["lesson"]).cpu_seconds
        assert entry["cpu_seconds"] <= entry["budget"]
        record_property(f"cpu_seconds_{entry['lesson']}", entry["cpu_seconds"])
        print(f"lesson {entry['lesson']}: {entry['cpu_seconds']} of {entry['budget']} CPU-seconds")

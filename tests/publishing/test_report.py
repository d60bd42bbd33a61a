from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree

import nbformat
import pytest

from course.publishing import outputs, report
from course.publishing.files import write_text
from course.publishing.report import LessonReport

CLAIM = {"name": "ratio", "kind": "measured", "stated": "<2 x>", "low": 1.0, "high": 3.0, "value": 2.5, "unit": "x"}


def two_lessons() -> list[LessonReport]:
    return [
        LessonReport(
            "01",
            status="passed",
            seconds=2.0,
            exercises={"a.b": "PASSED"},
            claims=[CLAIM | {"verdict": "holds"}],
            cpu_seconds=1.5,
            budget=40,
        ),
        LessonReport("02", reason="No GPU here.", device="cuda", budget=120),
    ]


def test_the_three_files_say_the_same(tmp_path):
    report.write(two_lessons(), tmp_path, notebooks={"01": "01_one.ipynb"}, expected="PASSED")
    content = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [lesson["status"] for lesson in content["lessons"]] == ["passed", "not_run"]
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [(suite.get("tests"), suite.get("errors")) for suite in suites] == [("2", "0"), ("1", "1")]
    assert suites.find(".//error").get("message") == "No GPU here."
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<a href="01_one.ipynb">01</a>' in page
    for text in ("No GPU here.", "a.b", "ratio", "&lt;2 x&gt;", "2.5 x", content["torch"], content["machine"]):
        assert text in page


def test_junit_survives_what_xml_cannot_hold():
    failed = LessonReport(
        "01",
        status="failed",
        reason="Cell 1 failed.",
        error={"cell": "1", "type": "E", "message": "\x1b[31m\x00\ud800<&"},
    )
    (suite,) = ElementTree.fromstring(report.junit([failed], expected="PASSED").split("\n", 1)[1])
    assert suite.find(".//failure").get("message") == "Cell 1 failed. (1: E: [31m<&)"


def test_claims_without_a_finite_value_are_null():
    data = {outputs.CLAIM: CLAIM | {"value": math.inf, "high": math.nan, "verdict": "not measurable here"}}
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data=data)])
    (claim,) = outputs.claims(nbformat.v4.new_notebook(cells=[cell]))
    assert (claim["value"], claim["high"], claim["low"]) == (None, None, 1.0)


def test_the_machine_is_named_in_one_line():
    assert len(report.machine()) > 10
    assert "\n" not in report.machine()


def test_a_file_is_whole_or_untouched(tmp_path):
    path = tmp_path / "folder" / "file.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(path.parent.iterdir()) == [path]

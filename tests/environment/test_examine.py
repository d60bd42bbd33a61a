from __future__ import annotations

import re

import pytest

from course import show_environment
from course.environment import Finding, accelerator, examine
from course.environment.examine import PROBES


def test_every_probe_gives_the_finding_of_its_name():
    report = examine()
    assert [entry.name for entry in report.findings] == [name for name, _ in PROBES]
    assert all(entry.state in ("ok", "note", "problem") and entry.value for entry in report.findings)
    assert all(entry.remedy or entry.state == "ok" for entry in report.findings)


def test_no_path_of_this_machine_is_shown(root, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    text = str(examine())
    assert not re.search(rf"{re.escape(str(tmp_path))}|{re.escape(str(root))}", text)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (accelerator.TorchUnusable("no"), "cannot be told without torch"),
        (ModuleNotFoundError("no", name="psutil"), "cannot be told: psutil is not installed"),
        (PermissionError("not yours"), "cannot be told (PermissionError: not yours)"),
    ],
)
def test_a_probe_that_fails_is_a_note(error, words):
    def probe():
        raise error

    (finding,) = examine([("memory", probe)]).findings
    assert (finding.name, finding.state, finding.value) == ("memory", "note", words)


def test_what_a_notebook_shows():
    report = show_environment()
    assert "<table" in report._repr_html_()
    assert repr(report) == str(report)


def test_a_report_of_own_probes():
    assert not examine([("a", lambda: Finding("a", "b", "problem", "c"))]).ready

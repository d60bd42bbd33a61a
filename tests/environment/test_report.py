from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from course.environment import Finding, Report

OK = Finding("Python", "3.11.7")
NOTE = Finding("data", "none <here>", "note", "Set `COURSE_DATA` & run again.")
PROBLEM = Finding("PyTorch", "torch is not installed", "problem", "Install it.")


class Words(HTMLParser):
    """The text of a page, and a complaint about tags that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.open = "", []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    ("findings", "ready", "summary"),
    [
        ([OK], True, "This machine can run the course; no notes below."),
        ([OK, NOTE], True, "This machine can run the course; 1 note below."),
        ([PROBLEM, NOTE, NOTE], False, "The course cannot run here yet: 1 problem and 2 notes below."),
        ([PROBLEM, PROBLEM], False, "The course cannot run here yet: 2 problems and no notes below."),
    ],
)
def test_only_problems_stop_the_course(findings, ready, summary):
    report = Report(findings)
    assert report.ready is ready
    assert report.summary == summary
    assert str(report).startswith(summary)


def test_text_and_page_and_json_say_the_same():
    report = Report([OK, NOTE, PROBLEM])
    text, page = " ".join(str(report).split()), Words(report._repr_html_()).text
    data = json.loads(json.dumps(report.to_dict()))
    assert [entry["name"] for entry in data["findings"]] == ["Python", "data", "PyTorch"]
    assert (data["ready"], data["summary"]) == (False, report.summary)
    for entry in data["findings"]:
        for part in entry.values():
            assert part in text or entry["state"] == "ok"
            assert part.replace("`", "") in page


def test_states_are_told_in_words_and_symbols():
    rows = str(Report([OK, NOTE, PROBLEM])).splitlines()[2:]
    assert [row[0] for row in rows if row[0] != " "] == ["✓", "○", "✗"]
    assert [row.split(":")[0].strip() for row in rows if row[0] == " "] == ["note", "problem"]
    page = Report([OK, NOTE, PROBLEM])._repr_html_()
    assert re.findall(r"[✓○✗] (\w+)</span>", page) == ["ok", "note", "problem"]
    assert "<here>" not in page
    assert "<code>COURSE_DATA</code>" in page


def test_long_lines_are_wrapped_under_their_column():
    report = Report([Finding("memory", "word " * 60, "note", "other " * 60)])
    lines = str(report).splitlines()[2:]
    assert len(lines) > 4
    assert max(map(len, lines)) <= 100
    assert all(line.startswith(" " * 10) for line in lines[1:])

from __future__ import annotations

import csv
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from course.checking.diagnose import PARTLY
from course.grading import report, summary
from course.grading.engine import Graded
from course.grading.local import Result
from course.grading.picture import SHOWN, class_figure, class_words
from course.grading.row import OUTCOMES, Row
from course.grading.submission import Submission
from course.grading.summary import harmless, summarise

VIEW = {"fault": "view-of-noncontiguous", "diagnosis": "view() re-labels.", "wrong": "tensors.flatten/view_only"}
COPY = {"diagnosis": "clone() always copies.", "wrong": "tensors.flatten/always_copies"}


def row(submission: str, exercise: str, outcome: str = "WRONG", **more: object) -> Row:
    return Row(submission=submission, exercise=exercise, outcome=outcome, **more)


CLASS = [
    row("ada.py", "tensors.flatten", **VIEW),
    row("ada.py", "tensors.scores", **{**VIEW, "wrong": "tensors.scores/view_too"}),
    row("bob.py", "tensors.flatten", **{**VIEW, "diagnosis": f"{PARTLY} view() re-labels."}),
    row("bob.py", "tensors.scores", "PASSED", note="Two definitions; the last one counts."),
    row("eve.py", "tensors.flatten", "CONTAINED", note="It tried to open another submission."),
    row("eve.py", "tensors.scores", "NOT_ATTEMPTED", note="No definition."),
    row("fay.py", "tensors.flatten", **COPY),
    row("fay.py", "tensors.scores"),
    row("gus.py", "tensors.flatten", "NOT_ATTEMPTED", note="The file is not valid JSON."),
    row("gus.py", "tensors.scores", "NOT_ATTEMPTED", note="The file is not valid JSON."),
]


def graded(rows: list[Row], protection: str = "Protected by play.", *, complete: bool = True) -> list[Graded]:
    names = dict.fromkeys(each.submission for each in rows)
    return [
        Graded(
            Submission(name, Path(name)),
            Result(tuple(each for each in rows if each.submission == name), protection, complete),
        )
        for name in names
    ]


def test_the_summary_counts_submissions_by_fault_and_by_wrong_answer():
    found = summarise(CLASS)
    assert found.submissions == 5
    assert found.exercises == {
        "tensors.flatten": {"WRONG": 3, "CONTAINED": 1, "NOT_ATTEMPTED": 1},
        "tensors.scores": {"WRONG": 2, "PASSED": 1, "NOT_ATTEMPTED": 2},
    }
    (view,) = found.faults
    # Ada shows it twice and counts once.
    assert (view.id, view.submissions, view.lesson) == ("view-of-noncontiguous", 2, "01")
    assert view.title.startswith("view() on a tensor")
    assert view.wrong_answers == {"tensors.flatten/view_only": 2, "tensors.scores/view_too": 1}
    assert [(each.id, each.submissions, each.partly, each.message) for each in found.wrong_answers] == [
        ("tensors.flatten/view_only", 2, 1, "view() re-labels."),
        ("tensors.flatten/always_copies", 1, 0, "clone() always copies."),
        ("tensors.scores/view_too", 1, 0, "view() re-labels."),
    ]
    assert found.undiagnosed == {"tensors.scores": 1}
    assert found.misunderstandings() == [
        ("view-of-noncontiguous", view.title, 2),
        ("tensors.flatten/always_copies", "clone() always copies.", 1),
    ]
    assert found.notes == (
        ("bob.py", "tensors.scores", "PASSED", "Two definitions; the last one counts."),
        ("eve.py", "tensors.flatten", "CONTAINED", "It tried to open another submission."),
        ("gus.py", "", "NOT_ATTEMPTED", "The file is not valid JSON."),
    )


def test_how_a_part_match_is_marked_is_the_same_here_and_in_the_checks():
    assert summary.PARTLY == PARTLY


def test_every_outcome_is_shown():
    assert set(summary.OUTCOMES) == set(OUTCOMES)
    found = summarise(row(f"{number}.py", "tensors.flatten", outcome) for number, outcome in enumerate(OUTCOMES))
    assert set(found.outcomes) == set(OUTCOMES)
    bars = {(*patch.get_facecolor(), patch.get_hatch()) for patch in class_figure(found).axes[0].patches}
    assert len(bars) == len(OUTCOMES)


def test_a_fault_that_the_catalogue_lost_still_counts():
    (fault,) = summarise([row("a.py", "tensors.flatten", fault="long-gone")]).faults
    assert (fault.id, fault.title, fault.wrong_answers) == ("long-gone", "long-gone", {"tensors.flatten": 1})


def test_the_words_say_what_the_picture_shows():
    found = summarise(CLASS)
    words = class_words(found)
    assert words.splitlines()[:3] == [
        "How 5 submissions went, exercise by exercise.",
        "tensors.flatten: 3 wrong, 1 contained, 1 not attempted.",
        "tensors.scores: 1 passed, 2 wrong, 2 not attempted.",
    ]
    top, bottom = class_figure(found).axes
    assert [tick.get_text() for tick in top.get_yticklabels()] == list(found.exercises)
    assert sum(patch.get_width() for patch in top.patches) == len(CLASS)
    assert [patch.get_width() for patch in bottom.patches] == [2, 1]
    for name, _, count in found.misunderstandings():
        assert f"{name}: {count}." in words


def test_the_rarest_of_many_misunderstandings_are_left_out_and_that_is_said():
    rows = [
        row(f"{k}.py", "a.b", wrong=f"a.b/w{n:02}", diagnosis="So.") for n in range(SHOWN + 3) for k in range(n + 1)
    ]
    found = summarise(rows)
    assert len(class_figure(found).axes[1].patches) == SHOWN
    assert class_words(found).endswith("3 rarer ones are left out.")
    assert "a.b/w02: 3." not in class_words(found)


@pytest.mark.parametrize("rows", [[], [row("a.py", "a.b", "PASSED")]], ids=["nobody", "all right"])
def test_a_class_without_misunderstandings_has_a_picture_too(rows, tmp_path):
    written, found = report.write(graded(rows), tmp_path / "grades.csv")
    assert "No misunderstanding was recognised." in class_words(found)
    with Image.open(written.picture) as picture:
        assert picture.width > 600


def test_csv_holds_every_row(tmp_path):
    written, _ = report.write(graded(CLASS), tmp_path / "grades.csv")
    with open(written.grades, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(report.COLUMNS)
    assert [(each["submission"], each["exercise"], each["outcome"]) for each in rows] == [
        (each.submission, each.exercise, each.outcome) for each in CLASS
    ]
    assert (rows[0]["fault"], rows[0]["wrong"], rows[5]["fault"]) == (VIEW["fault"], VIEW["wrong"], "")


def test_texts_of_any_length_can_be_read_back(tmp_path):
    rows = [row("a.py", "tensors.flatten", note="\x00" * 200_000, seen="7" * report.LONGEST)]
    written, _ = report.write(graded(rows), tmp_path / "grades.csv")
    with open(written.grades, encoding="utf-8", newline="") as file:
        (read,) = csv.DictReader(file)
    assert read["note"] == ("\\x00" * report.LONGEST)[: report.LONGEST] + " ..."
    assert read["seen"] == rows[0].seen


def test_json_holds_every_row_and_the_summary(tmp_path):
    written, found = report.write(graded(CLASS), tmp_path / "grades.json")
    content = json.loads(written.grades.read_text(encoding="utf-8"))
    assert [Row.from_dict(each) for each in content["rows"]] == CLASS
    assert content["summary"] == json.loads(json.dumps(report.as_dict(found)))
    assert content["protection"] == {"Protected by play.": 5}
    beside = json.loads(written.summary.read_text(encoding="utf-8"))
    assert beside["faults"] == content["summary"]["faults"]
    assert beside["notes"][1]["outcome"] == "CONTAINED"
    assert {"date", "torch", "python", "course", "not_graded"} <= set(beside)


def test_the_protections_that_were_active_and_what_was_not_graded_are_said(tmp_path):
    some = graded(CLASS[:4], "Protected by play.") + graded(CLASS[4:6], "No protection.", complete=False)
    written, _ = report.write(some, tmp_path / "grades.csv")
    about = json.loads(written.summary.read_text(encoding="utf-8"))
    assert about["protection"] == {"Protected by play.": 2, "No protection.": 1}
    assert about["not_graded"] == ["eve.py"]
    page = written.page.read_text(encoding="utf-8")
    assert "The grader failed on 1 submissions" in page
    assert "No protection. (1 submissions)" in page


HOSTILE = "=cmd|'/c calc'!A1 <script>alert(1)</script> \x1b[2J\x00\udc80\u202e \"',\r\n- end"


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_nothing_that_somebody_handed_in_steers_a_spreadsheet_a_browser_or_a_terminal(tmp_path):
    texts = dict.fromkeys(("diagnosis", "seen", "expected", "note"), HOSTILE)
    rows = [row(f"{HOSTILE}.py", "tensors.flatten", **texts), row("@b.py", "tensors.flatten", note="\t=1+1")]
    for name in ("grades.csv", "grades.json"):
        written, _ = report.write(graded(rows), tmp_path / name)
        for path in (written.grades, written.page, written.summary):
            text = path.read_bytes().decode("utf-8")
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text), path
    with open(tmp_path / "grades.csv", encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    for cell in (first["submission"], first["note"], second["submission"], second["note"]):
        assert cell.startswith("'")
    page = (tmp_path / "grades-summary.html").read_text(encoding="utf-8")
    tags = Reader()
    tags.feed(page)
    assert "script" not in {tag for tag, _ in tags.tags}
    assert html.escape("<script>alert(1)</script>") in page


def test_the_page_shows_the_picture_with_its_text_alternative(tmp_path):
    written, found = report.write(graded(CLASS), tmp_path / "my grades.csv")
    tags = Reader()
    tags.feed(written.page.read_text(encoding="utf-8"))
    (picture,) = [attributes for tag, attributes in tags.tags if tag == "img"]
    assert picture["src"] == "my%20grades-summary.png"
    assert picture["alt"] == class_words(found).replace("\n", " ")
    assert ("a", {"href": "my%20grades.csv"}) in tags.tags
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "my grades-summary.html",
        "my grades-summary.json",
        "my grades-summary.png",
        "my grades.csv",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain – é 数\tand\nlines", "plain – é 数\tand\nlines"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\x9b31m \u2028 \u2066 \udcff", "\\x9b31m \\u2028 \\u2066 \\udcff"),
    ],
)
def test_control_characters_become_visible(text, expected):
    assert harmless(text) == expected
    assert harmless(expected) == expected

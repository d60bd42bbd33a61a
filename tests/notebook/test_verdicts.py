from __future__ import annotations

import html
import re

import pytest

from course.checking import Outcome, Verdict
from course.exercises import UnknownExercise
from course.notebook import display
from course.notebook.verdicts import MIME, ShownVerdict, check, render

WRONG = Verdict(
    "tensors.demo",
    Outcome.WRONG,
    diagnosis="`view` needs <one> step.",
    wrong_answer="tensors.demo/view_only",
    fault="view-of-noncontiguous",
    seen="RuntimeError",
    expected="shape (6,)",
    seconds=1.25,
)


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_said_in_words(outcome):
    shown = render(Verdict("tensors.demo", outcome, diagnosis="why"))
    for form in (shown.text, words(shown.html)):
        assert outcome.value in form
        assert "tensors.demo" in form
        assert "why" in form


def test_all_forms_hold_the_same_content_and_no_seconds():
    shown = render(WRONG)
    for part in ("WRONG", "needs <one> step.", "RuntimeError", "shape (6,)", "view-of-noncontiguous (lesson 01"):
        assert part in shown.text
        assert part in words(shown.html)
    assert 'hint("tensors.demo")' in words(shown.html)
    assert "1.25" not in shown.text + shown.html
    assert shown.data[MIME] == {
        "exercise": "tensors.demo",
        "verdict": "WRONG",
        "fault": "view-of-noncontiguous",
        "wrong_answer": "tensors.demo/view_only",
        "diagnosis": "`view` needs <one> step.",
        "seen": "RuntimeError",
        "expected": "shape (6,)",
    }


def test_html_is_escaped_and_announced():
    page = render(WRONG).html
    assert "<one>" not in page
    assert 'role="status"' in page


def test_plain_python_prints_the_text_form(capsys):
    verdict = ShownVerdict(WRONG)
    assert capsys.readouterr().out == f"{verdict}\n"
    assert repr(verdict) == "<tensors.demo: WRONG>"
    assert not verdict.passed


def test_shown_again_only_in_a_later_cell(shown, monkeypatch):
    class Shell:
        execution_count = 3

    monkeypatch.setattr(display, "shell", Shell)
    verdict = ShownVerdict(WRONG)
    verdict._ipython_display_()
    assert len(shown) == 1
    Shell.execution_count = 4
    verdict._ipython_display_()
    assert len(shown) == 2
    assert shown[0] is shown[1]


def test_check_of_a_real_exercise(shown):
    assert check("tensors.flatten", lambda x: x.reshape(-1)).passed
    wrong = check("tensors.flatten", lambda x: x.view(-1))
    assert wrong.verdict.fault == "view-of-noncontiguous"
    assert [output.data[MIME]["verdict"] for output in shown] == ["PASSED", "WRONG"]


def test_unknown_exercise_is_one_line():
    with pytest.raises(UnknownExercise, match=r"tensors\.flatten") as caught:
        check("tensors.flaten", None)
    assert caught.value._render_traceback_() == [f"UnknownExercise: {caught.value}"]

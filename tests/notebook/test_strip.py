from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from support import demo

from course.figures import live
from course.notebook import display, hints, progress, strip, verdicts
from course.notebook.display import Shown
from course.notebook.strip import Strip, show_verdict
from course.notebook.verdicts import MIME
from course.workspace import progress as kept

RIGHT, WRONG = demo.by_reshape, demo.view_only


@pytest.fixture(autouse=True)
def session(monkeypatch):
    """A kernel with variables, in front of which somebody sits: no hint given, nothing shown or recorded yet."""
    session = SimpleNamespace(variables={}, events=[], passed=0, updates=[], widgets=[])
    shell = SimpleNamespace(user_ns=session.variables, execution_count=1)
    monkeypatch.setattr(display, "shell", lambda: shell)
    monkeypatch.setattr(display, "update", lambda shown, place: session.updates.append((place, shown)))
    monkeypatch.setattr(strip, "show_widget", session.widgets.append)
    monkeypatch.setattr(hints, "_given", {})
    monkeypatch.setattr(hints, "_solved", set())
    monkeypatch.setattr(strip, "_strips", {})
    for module in (progress, verdicts):
        monkeypatch.setattr(module, "has_front_end", lambda: True)

    def record(event, exercise_id, *, outcome=None):
        session.events.append((event, exercise_id, outcome))
        session.passed += outcome == "PASSED"

    monkeypatch.setattr(kept, "record", record)
    monkeypatch.setattr(progress, "line", lambda exercise_id: f"{session.passed} of 3 exercises passed")
    return session


@pytest.fixture
def make(session):
    """Makes the strip of an exercise after an answer was checked; `updates` has what then replaces its verdict."""

    def make(exercise, answer):
        return Strip(exercise, answer, lambda shown: session.updates.append(("above", shown)))

    return make


def press(strip_, do, **more):
    strip_.answer({"do": do, "number": strip_.answered + 1, **more})


def test_check_again_takes_the_newest_definition(make, session):
    session.variables["flatten_elements"] = WRONG
    buttons = make(demo.flatten, WRONG)
    assert buttons.result == ""
    session.variables["flatten_elements"] = RIGHT
    press(buttons, "again")
    ((_, above),) = session.updates
    assert above.data[MIME]["verdict"] == "PASSED"
    assert buttons.result == above.html
    assert (buttons.region, buttons.note, buttons.answered) == ("result", "", 1)
    assert session.events == [("check", "demo.flatten", "PASSED")]


def test_an_answer_under_another_name_is_found_there(make, session):
    def mine(x):
        return x.view(-1)

    session.variables.update(flatten_elements=RIGHT, mine=mine)
    buttons = make(demo.flatten, mine)
    press(buttons, "again")
    session.variables["mine"] = RIGHT
    press(buttons, "again")
    assert [shown.data[MIME]["verdict"] for _, shown in session.updates] == ["WRONG", "PASSED"]


def test_an_answer_without_a_name_is_checked_once_more(make, session):
    session.variables["flatten_elements"] = RIGHT
    press(buttons := make(demo.flatten, lambda x: x.view(-1)), "again")
    assert "demo.flatten: not right yet" in buttons.result


def test_a_name_that_is_gone_is_said(make, session):
    session.variables["flatten_elements"] = RIGHT
    buttons = make(demo.flatten, RIGHT)
    session.variables.clear()
    press(buttons, "again")
    assert buttons.note.startswith("There is no flatten_elements in this kernel now. Run the cell that defines it")
    assert (buttons.result, session.events) == ("", [])
    session.variables["flatten_elements"] = RIGHT
    press(buttons, "again")
    assert buttons.note == ""


def test_hints_are_those_of_hint_and_count_on_with_them(make, monkeypatch, shown, session):
    monkeypatch.setattr(hints, "load_exercise", lambda exercise_id: demo.flatten)
    buttons = make(demo.flatten, WRONG)
    assert (buttons.next_hint, buttons.hint_count) == (1, 2)
    press(buttons, "hint")
    first = buttons.help
    hints.hint("demo.flatten")
    press(buttons, "hint")
    assert "hint 1 of 2" in first
    assert "A direction." in first
    assert buttons.help == shown[0].html
    assert "hint 2 of 2" in buttons.help
    assert (buttons.next_hint, buttons.region) == (2, "help")
    assert [event for event, _, _ in session.events] == ["hint", "hint"]


def test_the_solution_is_that_of_solution(make, monkeypatch, shown, session):
    monkeypatch.setattr(hints, "load_exercise", lambda exercise_id: demo.flatten)
    buttons = make(demo.flatten, WRONG)
    assert not buttons.solved
    press(buttons, "solution")
    hints.solution("demo.flatten")
    assert buttons.help == shown[0].html
    assert "return x.reshape(-1)" in buttons.help
    assert buttons.solved
    assert make(demo.flatten, WRONG).solved
    assert set(session.events) == {("solution", "demo.flatten", None)}


def test_a_choice_sets_the_variable_and_is_checked_at_once(make, session):
    session.variables["choice"] = ...
    buttons = make(demo.choice, ...)
    assert [letter for letter, _ in buttons.choices] == list(demo.choice.choices)
    assert buttons.chosen == ""
    outcomes = []
    for letter in buttons.choices:
        press(buttons, "choose", letter=letter[0])
        assert session.variables["choice"] == buttons.chosen == letter[0]
        outcomes.append(session.updates[-1][1].data[MIME]["verdict"])
    assert sorted(set(outcomes)) == ["PASSED", "WRONG"]
    assert outcomes.count("PASSED") == 1
    assert [outcome for _, _, outcome in session.events] == outcomes


def test_a_choice_made_in_the_cell_is_marked(make, session):
    session.variables["choice"] = " B "
    buttons = make(demo.choice, session.variables["choice"])
    assert buttons.chosen == "b"
    session.variables["choice"] = "a"
    press(buttons, "again")
    assert buttons.chosen == "a"


@pytest.mark.parametrize("letter", ["z", "", None, 3])
def test_a_choice_that_is_none_changes_nothing(make, session, letter):
    session.variables["choice"] = ...
    press(buttons := make(demo.choice, ...), "choose", letter=letter)
    assert session.variables["choice"] is ...
    assert (buttons.chosen, session.events, buttons.answered) == ("", [], 1)


def test_only_choices_have_radio_buttons(make):
    assert make(demo.flatten, WRONG).choices == []
    press(buttons := make(demo.flatten, WRONG), "choose", letter="a")
    assert buttons.result == ""


def test_an_error_is_told_in_the_strip(make, monkeypatch, session):
    def fails(exercise, show):
        raise OSError("no source")

    monkeypatch.setattr(hints, "give_solution", fails)
    press(buttons := make(demo.flatten, WRONG), "solution")
    assert (buttons.note, buttons.answered) == ("OSError: no source", 1)


def test_trouble_with_recording_is_told_once_where_it_happened(make, monkeypatch, shown):
    voices = []
    monkeypatch.setattr(kept, "on_problem", voices.append)
    monkeypatch.setattr(kept, "record", lambda *_, **__: voices.pop()("Progress cannot be kept."))
    press(buttons := make(demo.flatten, WRONG), "again")
    assert (buttons.note, shown) == ("Progress cannot be kept.", [])
    progress.keep("hint", "demo.flatten")
    assert [output.text for output in shown] == ["Progress cannot be kept."]


def test_one_strip_for_each_exercise_and_all_follow_the_progress(session, shown, monkeypatch):
    places = []
    monkeypatch.setattr(display, "show", lambda shown, display_id=None: places.append(display_id))
    for exercise, answer in ((demo.flatten, WRONG), (demo.total, None), (demo.flatten, WRONG)):
        show_verdict(exercise, answer, Shown("", ""))
    old, other, new = session.widgets
    assert old.comm is None
    assert len(set(places)) == 3
    press(new, "again")
    assert session.updates[-1][0] == places[2]
    session.variables["flatten_elements"] = RIGHT
    new._name = "flatten_elements"
    press(new, "again")
    assert other.progress_line == new.progress_line == "1 of 3 exercises passed"


def test_checks_wait_for_the_running_cell_and_hints_do_not(make, monkeypatch):
    calls = []
    kernel = SimpleNamespace(io_loop=SimpleNamespace(add_callback=calls.append))
    monkeypatch.setattr(live, "_kernel", lambda: kernel)
    buttons = make(demo.flatten, WRONG)
    for number, do in enumerate(("hint", "again"), 1):
        request = {"do": do, "number": number}
        subshell = threading.Thread(target=buttons._receive, args=(buttons, request, []))
        subshell.start()
        subshell.join()
    assert "hint 1 of 2" in buttons.help
    assert buttons.result == ""
    (check,) = calls
    check()
    assert "demo.flatten" in buttons.result


def test_check_shows_the_strip_only_where_somebody_is(session, shown, monkeypatch):
    monkeypatch.setattr(verdicts, "load_exercise", lambda exercise_id: demo.flatten)
    monkeypatch.setattr(verdicts, "has_front_end", lambda: False)
    verdicts.check("demo.flatten", WRONG)
    assert (len(shown), session.widgets) == (1, [])
    monkeypatch.setattr(verdicts, "has_front_end", lambda: True)
    monkeypatch.setattr(display, "show", lambda output, display_id=None: shown.append(output))
    verdicts.check("demo.flatten", WRONG)
    assert len(session.widgets) == 1
    assert shown[0] == shown[1]
    assert session.events == [("check", "demo.flatten", "WRONG")] * 2


def test_the_script_and_the_style_are_in_the_package():
    assert 'setAttribute("data-lm-suppress-shortcuts", "true")' in str(Strip._esm)
    assert "prefers-reduced-motion" in str(Strip._css)
    assert "http" not in f"{Strip._esm}{Strip._css}"

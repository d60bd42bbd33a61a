"""The strip under a verdict: check again, hint, solution, and radio buttons where the answer is a choice."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import anywidget
import traitlets

from course import figures
from course.checking import ChoiceExercise, Exercise, Verdict
from course.figures.live import between_cells, show_widget
from course.notebook import display, hints, progress
from course.notebook.verdicts import judge, render

_strips: dict[str, Strip] = {}


class Strip(anywidget.AnyWidget):
    """Buttons for one exercise. What they show is what ``check``, ``hint`` and ``solution`` show.

    exercise, title: of the exercise. choices: letters and their texts as HTML; none but for a choice.
    result, help: the newest verdict, and hint or solution, that the strip was asked for, as HTML; "" before.
    region: which of the two the last answer is in. answered: the number of the last request.
    `strip.js` draws all this and sends what is asked for, see `answer`.
    """

    _esm = Path(__file__).with_name("strip.js")
    _css = Path(figures.__file__).with_name("controls.css")

    exercise = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)
    hint_count = traitlets.Int().tag(sync=True)
    next_hint = traitlets.Int().tag(sync=True)
    solved = traitlets.Bool().tag(sync=True)
    result = traitlets.Unicode().tag(sync=True)
    help = traitlets.Unicode().tag(sync=True)
    region = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    progress_line = traitlets.Unicode().tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)

    def __init__(self, exercise: Exercise, answer: object, show: Callable[[display.Shown], None]) -> None:
        """answer: what was checked last. show: puts a newer verdict in the place of the one above the strip."""
        self._exercise, self._answer, self._show = exercise, answer, show
        self._name = _name_of(exercise, answer)
        choices = exercise.choices if isinstance(exercise, ChoiceExercise) else {}
        super().__init__(
            exercise=exercise.id,
            title=exercise.title.replace("`", ""),
            choices=[[letter, display.prose(f"{letter}: {text}")] for letter, text in choices.items()],
            progress_line=progress.line(exercise.id),
        )
        self._refresh()
        self.on_msg(self._receive)

    def _receive(self, _widget: object, request: Mapping[str, Any], _buffers: object) -> None:
        if request.get("do") in ("hint", "solution"):
            self.answer(request)
        else:
            between_cells(lambda: self.answer(request))

    def answer(self, request: Mapping[str, Any]) -> None:
        """Do what was asked for: {"do": "again" | "hint" | "solution" | "choose", "letter": ..., "number": ...}."""
        do = request.get("do")
        with self.hold_sync(), progress.problems_told_to(self._note):
            self.note = self.region = ""
            try:
                if do == "hint":
                    hints.give_hint(self._exercise, self._help)
                elif do == "solution":
                    hints.give_solution(self._exercise, self._help)
                elif do == "again":
                    self._check()
                elif do == "choose" and request.get("letter") in dict(self.choices):
                    self._name = self._exercise.name
                    _variables()[self._name] = request["letter"]
                    self._check()
            except Exception as error:  # there is no cell in which it could show
                self._note(display.one_line(error))
            self._refresh()
            self.answered = request.get("number", 0)

    def _check(self) -> None:
        if self._name is not None:
            if self._name not in _variables():
                self._note(
                    f"There is no {self._name} in this kernel now. Run the cell that defines it, then check again."
                )
                return
            self._answer = _variables()[self._name]
        judge(self._exercise, self._answer, self._verdict)

    def _verdict(self, verdict: Verdict) -> None:
        shown = render(verdict)
        self.result, self.region = shown.html, "result"
        self._show(shown)

    def _help(self, shown: display.Shown) -> None:
        self.help, self.region = shown.html, "help"

    def _note(self, sentence: str) -> None:
        self.note = f"{self.note} {sentence}".strip()

    def _refresh(self) -> None:
        self.hint_count, self.next_hint = len(self._exercise.hints), hints.next_hint_number(self._exercise)
        self.solved = hints.solution_was_shown(self._exercise)
        if self.choices:
            value = _variables().get(self._exercise.name)
            letter = value.strip().lower() if type(value) is str else ""
            self.chosen = letter if letter in dict(self.choices) else ""


def show_verdict(exercise: Exercise, answer: object, shown: display.Shown) -> None:
    """Show a verdict with a strip under it, in a live front end; an exercise has one strip, under its last verdict."""
    place = f"course-verdict-{uuid.uuid4().hex}"
    display.show(shown, display_id=place)
    strip = Strip(exercise, answer, lambda newer: display.update(newer, place))
    if exercise.id in _strips:
        _strips[exercise.id].close()
    _strips[exercise.id] = strip
    show_widget(strip)


def _variables() -> dict[str, Any]:
    return display.shell().user_ns  # type: ignore[union-attr]


def _name_of(exercise: Exercise, answer: object) -> str | None:
    """The variable from which an answer came, to look there again; None where it came from none."""
    variables = _variables()
    if exercise.name in variables and variables[exercise.name] is answer:
        return exercise.name
    if type(answer) is FunctionType or issubclass(type(answer), type):
        return next((name for name, value in variables.items() if value is answer and not name.startswith("_")), None)
    return None


def _follow(exercise_id: str) -> None:
    """After a check: every strip of the lesson tells the new progress."""
    room, line = exercise_id.split(".")[0], progress.line(exercise_id)
    for name, strip in _strips.items():
        if name.split(".")[0] == room:
            strip.progress_line = line


progress.watch(_follow)

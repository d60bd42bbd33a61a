"""``check``: judge an answer and show the verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from course.checking.verdict import Outcome, Verdict
from course.exercises import UnknownExercise, load_exercise
from course.faults import FAULTS
from course.figures.live import has_front_end, hide_dead_widget
from course.notebook import display
from course.notebook.progress import keep

if TYPE_CHECKING:
    from course.checking import Exercise

Result = TypeVar("Result")

MIME = "application/vnd.course.verdict+json"

_LOOKS = {
    Outcome.PASSED: ("✓", "good"),
    Outcome.WRONG: ("✗", "bad"),
    Outcome.ERROR: ("!", "warn"),
    Outcome.TIMED_OUT: ("!", "warn"),
    Outcome.NOT_ATTEMPTED: ("○", "note"),
}


class ShownVerdict:
    """A verdict that has been shown, and shows itself again in a later cell.

    verdict: the :class:`~course.checking.verdict.Verdict`. ``str()`` gives its plain text form.
    show: how it is shown the first time, by default with nothing added.
    """

    def __init__(self, verdict: Verdict, show: Callable[[display.Shown], None] | None = None) -> None:
        self.verdict = verdict
        self._shown = render(verdict)
        self._cell = _cell_number()
        (show or display.show)(self._shown)

    @property
    def passed(self) -> bool:
        return self.verdict.passed

    def _ipython_display_(self) -> None:
        # As the last expression of the cell that made it, it has been shown already.
        if _cell_number() != self._cell:
            display.show(self._shown)

    def _repr_html_(self) -> str:
        return self._shown.html

    def __str__(self) -> str:
        return self._shown.text

    def __repr__(self) -> str:
        return f"<{self.verdict.exercise}: {self.verdict.outcome.value}>"


def check(exercise_id: str, answer: object) -> ShownVerdict:
    """Check an answer to an exercise, show the verdict and return it.

    exercise_id: such as ``"tensors.flatten"``; an unknown one raises UnknownExercise, which names close ids.
    answer: what the exercise asks for: a function, a class or a value.

    Never raises because of the answer, and leaves the notebook's state as it was. Where somebody is in front of the
    notebook, buttons to check again, for hints and for the solution follow.
    """
    with display.without_traceback(UnknownExercise):
        exercise = load_exercise(exercise_id)
    show = None
    if has_front_end():
        from course.notebook.strip import show_verdict

        def show(shown: display.Shown) -> None:
            show_verdict(exercise, answer, shown)

    return judge(exercise, answer, lambda verdict: ShownVerdict(verdict, show))


def judge(exercise: Exercise, answer: object, show: Callable[[Verdict], Result]) -> Result:
    """Hand the verdict on an answer to `show`, return what that returns, and count the answer as checked."""
    from course.checking import check_answer

    verdict = check_answer(exercise, answer)
    result = show(verdict)
    keep("check", exercise.id, outcome=verdict.outcome.value)
    return result


def render(verdict: Verdict) -> display.Shown:
    """A verdict as text, HTML and JSON; none of them holds the seconds."""
    advice = _advice(verdict)
    text = "\n".join([str(verdict), *(f"  {line}" for line in advice)])
    symbol, tone = _LOOKS[verdict.outcome]
    parts = [
        display.paragraph(content) if not label else display.labelled([(label, display.prose(content))])
        for label, content in verdict.lines()
    ]
    page = display.box(
        f"{symbol} {verdict.outcome.value}  {verdict.headline}",
        *parts,
        *(display.paragraph(line) for line in advice),
        hide_dead_widget("course-verdict", "course-strip"),
        tone=tone,
        kind="verdict",
        role="status",
        exercise=verdict.exercise,
        outcome=verdict.outcome.value,
    )
    data = {key: value for key, value in verdict.to_dict().items() if key != "seconds"}
    return display.Shown(text, page, {MIME: data})


def _advice(verdict: Verdict) -> list[str]:
    lines = []
    if verdict.fault in FAULTS:
        known = FAULTS[verdict.fault]
        where = f"lesson {known.lesson}" + (f", “{known.section}”" if known.section else "")
        lines.append(f"fault: {known.id} ({where})")
    if verdict.outcome is Outcome.WRONG:
        lines.append(f'`hint("{verdict.exercise}")` gives a hint.')
    return lines


def _cell_number() -> int | None:
    return getattr(display.shell(), "execution_count", None)

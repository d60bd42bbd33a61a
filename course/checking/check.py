"""Judge an answer: what kind of thing it is, what it did on the probes, and which misunderstanding that shows."""

from __future__ import annotations

import time
from dataclasses import replace
from types import FunctionType
from typing import Any

from course.checking.diagnose import expected_observations
from course.checking.exercise import Exercise, ValueExercise
from course.checking.judging import (
    asked_for,
    in_words,
    not_attempted,
    prepared,
    unfinished,
    verdict_on,
    wrong_kind,
)
from course.checking.observe import PASSES, CheckFailed, observe
from course.checking.source import is_stub
from course.checking.state import preserved_state
from course.checking.verdict import Outcome, Verdict


def check_answer(exercise: Exercise, answer: Any, *, deadline: float | None = None) -> Verdict:
    """The verdict on an answer. Never raises because of the answer, whatever it is or does.

    deadline: wall seconds for all probes together; the exercise's own where None.
    """
    start = time.perf_counter()
    with preserved_state():
        seconds = exercise.seconds if deadline is None else deadline
        verdict = _unfit(exercise, answer) or _judge(exercise, answer, seconds)
    return replace(verdict, seconds=time.perf_counter() - start)


# Before anything runs: is this the kind of thing that the exercise asks for?


def _unfit(exercise: Exercise, answer: Any) -> Verdict | None:
    if answer is ...:
        return not_attempted(exercise)
    if isinstance(exercise, ValueExercise):
        return None
    has_source = type(answer) is FunctionType or issubclass(type(answer), type)
    if has_source and is_stub(answer, exercise.stub_source()):
        return not_attempted(exercise)
    problem = wrong_kind(exercise, answer)
    if problem is None:
        return None
    return Verdict(exercise.id, Outcome.ERROR, problem, seen=in_words(answer), expected=f"{asked_for(exercise)} itself")


# Running the probes.


def _judge(exercise: Exercise, answer: Any, deadline: float) -> Verdict:
    try:
        expected, answer = expected_observations(exercise), prepared(exercise, answer)
        run, (turns,) = observe(exercise, [answer], passes=PASSES, deadline=deadline)
        if not run.finished:
            return unfinished(exercise, run, deadline)
        return verdict_on(exercise, expected, *turns)
    except CheckFailed as problem:
        return Verdict(exercise.id, Outcome.ERROR, f"The check itself could not run: {problem}.")

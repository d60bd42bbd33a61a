"""Judge an answer: what kind of thing it is, what it did on the probes, and which misunderstanding that shows."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch

from course.checking.compare import Difference, first_difference
from course.checking.describe import describe
from course.checking.diagnose import expected_observations, probe_words, rejected
from course.checking.exercise import ChoiceExercise, Exercise, ValueExercise
from course.checking.isolate import Run
from course.checking.observation import Encoder, Observation
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
        return _not_attempted(exercise)
    if isinstance(exercise, ValueExercise):
        return None
    has_source = type(answer) is FunctionType or issubclass(type(answer), type)
    if has_source and is_stub(answer, exercise.stub_source()):
        return _not_attempted(exercise)
    problem = _wrong_kind(exercise, answer)
    if problem is None:
        return None
    return Verdict(exercise.id, Outcome.ERROR, problem, seen=_what(answer), expected=f"{_wanted(exercise)} itself")


def _not_attempted(exercise: Exercise) -> Verdict:
    if isinstance(exercise, ValueExercise):
        todo = f"Replace `...` with your answer for `{exercise.name}` and run the cell again."
    else:
        todo = f"Write the body of `{exercise.name}`, run its cell, then run this one again."
    return Verdict(exercise.id, Outcome.NOT_ATTEMPTED, todo)


def _wanted(exercise: Exercise) -> str:
    return f"the {exercise.kind} `{exercise.name}`"


def _wrong_kind(exercise: Exercise, answer: Any) -> str | None:
    hand_over = f"Pass {_wanted(exercise)} without calling it."
    kind = type(answer)
    is_class = issubclass(kind, type)
    if exercise.kind == "class":
        return None if is_class else hand_over
    if is_class or not callable(answer):
        return hand_over
    if kind.__module__.startswith("torch.jit") or "_torchdynamo_orig_callable" in getattr(answer, "__dict__", ()):
        return f"This is a compiled function. Pass `{exercise.name}` as you wrote it, before compiling it."
    return None


def _what(answer: Any) -> str:
    if issubclass(type(answer), type):
        return f"the class {type.__getattribute__(answer, '__name__')}"
    try:
        return describe(Encoder()(answer))
    except Exception:
        return f"an object of type {type(answer).__name__}"


# Running the probes.


def _judge(exercise: Exercise, answer: Any, deadline: float) -> Verdict:
    if isinstance(exercise, ChoiceExercise) and type(answer) is str:
        answer = answer.strip().lower()
    elif isinstance(exercise, ValueExercise):
        answer = _python_numbers(answer)
    try:
        expected = expected_observations(exercise)
        run, (turns,) = observe(exercise, [answer], passes=PASSES, deadline=deadline)
        if not run.finished:
            return _unfinished(exercise, run, deadline)
        return _verdict(exercise, expected, *turns)
    except CheckFailed as problem:
        return Verdict(exercise.id, Outcome.ERROR, f"The check itself could not run: {problem}.")


def _python_numbers(value: Any, depth: int = 3) -> Any:
    """A value with tensors without axes and NumPy scalars as Python's numbers, in tuples and lists too."""
    kind = type(value)
    if kind in (tuple, list) and depth:
        return kind(_python_numbers(part, depth - 1) for part in value)
    if kind is torch.Tensor and value.ndim == 0 and value.device.type != "meta":
        return value.item()
    return value.item() if kind.__module__ == "numpy" and issubclass(kind, sys.modules["numpy"].generic) else value


def _verdict(
    exercise: Exercise, expected: list[Observation], seen: list[Observation], again: list[Observation]
) -> Verdict:
    if _only_stubs(exercise, seen):
        return _not_attempted(exercise)
    if not exercise.random:
        for index, (one, other) in enumerate(zip(seen, again, strict=True)):
            if difference := first_difference(exercise, other, one):
                return _changed_its_mind(exercise, index, difference)
    failing = [i for i, one in enumerate(seen) if first_difference(exercise, one, expected[i])]
    return rejected(exercise, seen, expected, failing) if failing else Verdict(exercise.id, Outcome.PASSED)


def _only_stubs(exercise: Exercise, seen: list[Observation]) -> bool:
    """True when every probe that runs the answer ended in NotImplementedError."""
    ran = [one for probe, one in zip(exercise.probes, seen, strict=True) if probe.requirement is None]
    return all(one.error and one.error.type == "NotImplementedError" for one in ran)


def _unfinished(exercise: Exercise, run: Run, deadline: float) -> Verdict:
    started = [message for message in run.messages if message[0] == "start"]
    probe = f' on the probe "{probe_words(exercise, started[-1][3])}"' if started else ""
    if run.timed_out:
        text = (
            f"The answer was still running after {deadline:g} seconds{probe}, and was stopped. "
            "Look for a loop that does not end."
        )
        return Verdict(exercise.id, Outcome.TIMED_OUT, text)
    text = f"The Python process that ran the answer ended{probe} ({run.ending}). Your notebook is not affected."
    return Verdict(exercise.id, Outcome.ERROR, text)


def _changed_its_mind(exercise: Exercise, index: int, difference: Difference) -> Verdict:
    text = (
        f'The answer gave two different results for the same input (probe "{probe_words(exercise, index)}"). '
        "It depends on something besides its arguments: a random number, or state kept between calls."
    )
    seen = f"first {difference.expected}, then {difference.seen}"
    return Verdict(exercise.id, Outcome.WRONG, text, seen=seen, expected="the same result each time")

"""From what is known of an answer to a verdict and its words; nothing here runs an answer.

`check` uses it on what it observed here, grading on what a process in a sandbox reported.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from course.checking.compare import Difference, first_difference
from course.checking.describe import describe
from course.checking.diagnose import probe_words, rejected
from course.checking.exercise import ChoiceExercise, Exercise, ValueExercise
from course.checking.isolate import Run
from course.checking.observation import Encoder, Observation
from course.checking.observe import is_left_open
from course.checking.verdict import Outcome, Verdict


def asked_for(exercise: Exercise) -> str:
    """What the exercise wants to be given, such as "the function `flatten_elements`"."""
    return f"the {exercise.kind} `{exercise.name}`"


def wrong_kind(exercise: Exercise, answer: Any) -> str | None:
    """A sentence if the answer is a result, a class or a compiled function where another kind of thing is asked for."""
    hand_over = f"Pass {asked_for(exercise)} without calling it."
    kind = type(answer)
    is_class = issubclass(kind, type)
    if exercise.kind == "class":
        return None if is_class else hand_over
    if is_class or not callable(answer):
        return hand_over
    if kind.__module__.startswith("torch.jit") or "_torchdynamo_orig_callable" in getattr(answer, "__dict__", ()):
        return f"This is a compiled function. Pass `{exercise.name}` as you wrote it, before compiling it."
    return None


def in_words(answer: Any) -> str:
    """What the answer is, for "seen". Never raises."""
    if issubclass(type(answer), type):
        return f"the class {type.__getattribute__(answer, '__name__')}"
    try:
        return describe(Encoder()(answer))
    except Exception:
        return f"an object of type {type(answer).__name__}"


def prepared(exercise: Exercise, answer: Any) -> Any:
    """The answer as it is compared: a choice without case and spaces, a value in Python's numbers."""
    if isinstance(exercise, ChoiceExercise) and type(answer) is str:
        return answer.strip().lower()
    return _python_numbers(answer) if isinstance(exercise, ValueExercise) else answer


def _python_numbers(value: Any, depth: int = 3) -> Any:
    """A value with tensors without axes and NumPy scalars as Python's numbers, in tuples and lists too."""
    kind = type(value)
    if kind in (tuple, list) and depth:
        return kind(_python_numbers(part, depth - 1) for part in value)
    if kind is torch.Tensor and value.ndim == 0 and value.device.type != "meta":
        return value.item()
    return value.item() if kind.__module__ == "numpy" and issubclass(kind, sys.modules["numpy"].generic) else value


def not_attempted(exercise: Exercise) -> Verdict:
    """The verdict on a stub."""
    if isinstance(exercise, ValueExercise):
        todo = f"Replace `...` with your answer for `{exercise.name}` and run the cell again."
    else:
        todo = f"Write the body of `{exercise.name}`, run its cell, then run this one again."
    return Verdict(exercise.id, Outcome.NOT_ATTEMPTED, todo)


def unfinished(exercise: Exercise, run: Run, deadline: float) -> Verdict:
    """The verdict on an answer whose process ended before all probes were through. deadline: in seconds."""
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


def verdict_on(
    exercise: Exercise, expected: list[Observation], seen: list[Observation], again: list[Observation]
) -> Verdict:
    """The verdict on an answer from its observations on all probes: the reference's, and its own in two passes."""
    if _only_stubs(exercise, seen):
        return not_attempted(exercise)
    if not exercise.random:
        for index, (one, other) in enumerate(zip(seen, again, strict=True)):
            if difference := first_difference(exercise, other, one):
                return _changed_its_mind(exercise, index, difference)
    failing = [i for i, one in enumerate(seen) if first_difference(exercise, one, expected[i])]
    return rejected(exercise, seen, expected, failing) if failing else Verdict(exercise.id, Outcome.PASSED)


def _only_stubs(exercise: Exercise, seen: list[Observation]) -> bool:
    """True when every probe that runs the answer ended where the stub does."""
    ran = [one for probe, one in zip(exercise.probes, seen, strict=True) if probe.requirement is None]
    return all(one.error and is_left_open(one.error) for one in ran)


def _changed_its_mind(exercise: Exercise, index: int, difference: Difference) -> Verdict:
    text = (
        f'The answer gave two different results for the same input (probe "{probe_words(exercise, index)}"). '
        "It depends on something besides its arguments: a random number, or state kept between calls."
    )
    seen = f"first {difference.expected}, then {difference.seen}"
    return Verdict(exercise.id, Outcome.WRONG, text, seen=seen, expected="the same result each time")

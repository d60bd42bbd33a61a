"""Whatever an answer is or does, it gets a verdict in a sentence, and the process survives."""

from __future__ import annotations

import os

import pytest
import torch
from support import hostile

from course.checking import Outcome, ValueExercise, check_answer, isolate
from course.checking.isolate import can_fork, run_isolated
from course.checking.observation import leaves
from course.checking.state import global_state
from course.exercises import exercise_ids, load_exercise

EXERCISES = [load_exercise(name) for name in exercise_ids()]
CALLABLE = [e for e in EXERCISES if not isinstance(e, ValueExercise)]
SLOW = {hostile.loops_forever}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_fork(), reason="isolation needs fork on Linux without an initialised accelerator"),
]


@pytest.fixture(autouse=True)
def answers_run_in_a_child():
    """In this process some of these answers would end the test run, or never end."""
    assert run_isolated(lambda: iter([os.getpid()]), deadline=30).messages != [os.getpid()]


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr(isolate, "MEMORY_BYTES", 2**27)  # filling less takes less time


def says_a_sentence(verdict):
    text = f"{verdict.diagnosis or ''}{verdict.seen or ''}"
    return verdict.passed or (
        len(text) > 10 and "Traceback" not in str(verdict) and "course/checking" not in str(verdict)
    )


@pytest.mark.parametrize("what", hostile.NONSENSE)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_nonsense(exercise, what):
    verdict = check_answer(exercise, hostile.NONSENSE[what])
    assert verdict.outcome in (Outcome.ERROR, Outcome.WRONG), str(verdict)
    assert says_a_sentence(verdict), str(verdict)


def misbehaving_class(right, misbehave):
    """The class with an __init__ that misbehaves, or its first method where it has no __init__ to replace."""
    if "__init__" in vars(right) or issubclass(right, torch.nn.Module):
        return type("Answer", (right,), {"__init__": misbehave(lambda *args: None)})
    name = next(name for name, value in vars(right).items() if callable(value))
    return type("Answer", (right,), {name: misbehave(vars(right)[name])})


@pytest.mark.parametrize("misbehave", hostile.MISBEHAVING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("exercise", CALLABLE, ids=lambda e: e.id)
def test_misbehaviour(exercise, misbehave):
    right = exercise.answer_reference.obj
    answer = misbehaving_class(right, misbehave) if exercise.kind == "class" else misbehave(right)
    before = global_state()
    verdict = check_answer(exercise, answer, deadline=1.0 if misbehave in SLOW else None)
    after = global_state()
    assert says_a_sentence(verdict), str(verdict)
    # A right class with a compiled method is right; only a compiled answer itself is to be refused.
    may_pass = misbehave in hostile.MAY_PASS or (exercise.kind == "class" and misbehave is hostile.compiled)
    assert not verdict.passed or may_pass or no_tensor_to_mutate(exercise, misbehave), str(verdict)
    if misbehave is hostile.loops_forever:
        assert verdict.outcome is Outcome.TIMED_OUT
    for key in before:
        assert repr(before[key]) == repr(after[key]), key


def no_tensor_to_mutate(exercise, misbehave):
    """True where no probe hands tensors to the answer; what a probe does with an answer itself is its own matter."""
    if misbehave is not hostile.mutates_its_input:
        return False
    inputs = [probe.function() for probe in exercise.probes if probe.function and not probe.takes_answer]
    return not any(isinstance(leaf, torch.Tensor) and leaf.numel() for leaf in leaves(tuple(inputs)))

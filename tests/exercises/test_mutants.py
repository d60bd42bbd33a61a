"""Single-edit mutants of every reference are rejected, but for those that are proven equivalent."""

from __future__ import annotations

import inspect
import os

import pytest
from support.equivalents import EQUIVALENTS
from support.mutants import build, mutants
from support.survivors import deadline_for, survives

from course.checking import ChoiceExercise, ValueExercise, check_answer
from course.checking.isolate import can_fork, run_isolated
from course.exercises import exercise_ids, load_exercise

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def answers_run_in_a_child():
    """In this process a mutant that does not end would never be stopped."""
    assert not can_fork() or run_isolated(lambda: iter([os.getpid()]), deadline=30).messages != [os.getpid()]


def runnable_mutants(exercise):
    source = exercise.solution_source()
    home = inspect.getmodule(exercise.answer_reference.obj)
    for mutant in mutants(source):
        try:
            yield mutant, build(mutant.source, exercise.name, vars(home))
        except Exception:
            assert isinstance(exercise, ValueExercise), f"{exercise.id}: a definition that cannot be executed: {mutant}"


@pytest.mark.parametrize("name", exercise_ids())
def test_mutants_are_rejected(name, record_property):
    exercise = load_exercise(name)
    if isinstance(exercise, ChoiceExercise):
        for letter in exercise.choices:
            assert check_answer(exercise, letter).passed == (letter == exercise.answer_reference.obj)
        return
    equivalents = EQUIVALENTS.get(name, {})
    tried, accepted, deadline = [], [], deadline_for(exercise)
    for mutant, answer in runnable_mutants(exercise):
        tried.append(mutant.key)
        if survives(exercise, answer, deadline):
            accepted.append(mutant.key)
    record_property("mutants", len(tried))
    record_property("equivalents", len(equivalents))
    assert tried
    unexplained = [key for key in accepted if key not in equivalents]
    assert not unexplained, "accepted mutants:\n" + "\n".join(map(str, unexplained))
    stale = [key for key in equivalents if key not in accepted]
    assert not stale, "listed as equivalent, but rejected or gone:\n" + "\n".join(map(str, stale))


def test_equivalents_name_exercises_and_reasons():
    assert set(EQUIVALENTS) <= set(exercise_ids())
    assert all(reason.strip() for table in EQUIVALENTS.values() for reason in table.values())

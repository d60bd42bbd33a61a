"""Every promise of ``check``, proven for every exercise of the course."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import textwrap

import pytest

from course.checking import Outcome, check_answer, isolate
from course.checking.compare import behaves_like, first_difference
from course.checking.diagnose import best_match, catalogue_observations, expected_observations
from course.checking.exercise import ChoiceExercise, ValueExercise
from course.checking.source import source_of
from course.checking.state import global_state
from course.exercises import exercise_ids, load_exercise
from course.faults import FAULTS

EXERCISES = [load_exercise(name) for name in exercise_ids()]
CALLABLE = [e for e in EXERCISES if not isinstance(e, ValueExercise)]
VALUES = [e for e in EXERCISES if isinstance(e, ValueExercise)]
WRONG = [(e, w) for e in EXERCISES for w in e.wrong_answers]
ALTERNATIVES = [(e, a) for e in EXERCISES for a in e.alternatives]

every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)


@functools.cache
def verdict_of(exercise, candidate):
    """The verdict on an answer of the catalogue, which several tests look at."""
    return check_answer(exercise, exercise.value_of(candidate))


def test_there_are_exercises():
    assert EXERCISES


@every_exercise
def test_it_is_complete(exercise):
    assert exercise.title
    assert exercise.task
    assert len(exercise.hints) >= 2
    assert len(exercise.wrong_answers) >= 3
    assert exercise.name.isidentifier()
    assert exercise.probes
    if not isinstance(exercise, ChoiceExercise):
        assert exercise.alternatives, "an exercise needs another right answer"


@every_exercise
def test_the_stub_is_not_attempted(exercise):
    stub = ... if isinstance(exercise, ValueExercise) else exercise.stub_object
    assert check_answer(exercise, stub).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize("exercise", CALLABLE, ids=lambda e: e.id)
def test_an_answer_that_is_not_implemented_is_not_attempted(exercise):
    if exercise.kind == "class":

        class Unfinished:
            def __init__(self, *args, **kwargs):
                raise NotImplementedError("later")

        answer = Unfinished
    else:

        def answer(*args):
            note = "started"
            raise NotImplementedError(note)

    assert check_answer(exercise, answer).outcome is Outcome.NOT_ATTEMPTED


@every_exercise
def test_the_reference_passes(exercise):
    verdict = verdict_of(exercise, exercise.answer_reference)
    assert verdict.passed, str(verdict)
    assert verdict.seen is verdict.expected is None


@pytest.mark.parametrize(
    ("exercise", "candidate"), ALTERNATIVES, ids=lambda x: getattr(x, "id", getattr(x, "name", ""))
)
def test_every_alternative_passes(exercise, candidate):
    verdict = verdict_of(exercise, candidate)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=lambda x: x.id)
def test_every_wrong_answer_gets_its_own_diagnosis(exercise, wrong):
    verdict = verdict_of(exercise, wrong)
    assert not verdict.passed, f"{wrong.id} passes every probe: add a probe that shows what is wrong with it"
    assert verdict.outcome is Outcome.WRONG, str(verdict)
    assert verdict.wrong_answer == wrong.id, f"taken for {verdict.wrong_answer}: add a probe that tells them apart"
    assert verdict.diagnosis == wrong.message
    assert verdict.fault == wrong.fault
    assert verdict.seen
    assert verdict.expected


@every_exercise
def test_wrong_answers_can_be_told_apart(exercise):
    for (one, first), (two, second) in itertools.combinations(catalogue_observations(exercise), 2):
        alike = all(behaves_like(exercise, a, b) for a, b in zip(first, second, strict=True))
        assert not alike, f"{one.id} and {two.id} behave the same on every probe"


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=lambda x: x.id)
def test_faults_are_in_the_catalogue(exercise, wrong):
    assert wrong.fault is None or wrong.fault in FAULTS


def solution_lines(exercise):
    """The lines of the right answers that a person could copy out of a message."""
    candidates = [exercise.answer_reference, *exercise.alternatives]
    for candidate in candidates:
        body = (source_of(candidate.obj) or "").partition("\n")[2] or (source_of(candidate.obj) or "").partition(":")[2]
        for line in textwrap.dedent(body).splitlines():
            text = line.strip().removeprefix("return ")
            if len(text) > 12:
                yield text


@every_exercise
def test_no_verdict_gives_the_answer_away(exercise):
    verdicts = [verdict_of(exercise, wrong) for wrong in exercise.wrong_answers]
    verdicts += [check_answer(exercise, answer) for answer in (None, 3, "text", lambda: 1)]
    for verdict in verdicts:
        text = str(verdict)
        if isinstance(exercise, ValueExercise):
            right = repr(exercise.value_of(exercise.answer_reference))
            told = f"{verdict.diagnosis} {verdict.expected}"
            if isinstance(exercise, ChoiceExercise):
                assert not re.search(rf"(answer|choice|option) (is|would be) {right}", told)
            else:
                assert right not in told
        else:
            assert not [line for line in solution_lines(exercise) if line in text]


@every_exercise
def test_hints_do_not_contain_the_solution(exercise):
    if isinstance(exercise, ValueExercise):
        assert repr(exercise.value_of(exercise.answer_reference)) not in " ".join(exercise.hints)
    else:
        assert not [line for line in solution_lines(exercise) if line in " ".join(exercise.hints)]


@pytest.mark.parametrize("exercise", [e for e in CALLABLE if e.kind == "function"], ids=lambda e: e.id)
def test_published_solutions_keep_the_stub_s_signature(exercise):
    names = list(inspect.signature(exercise.stub_object).parameters)
    for candidate in (exercise.answer_reference, *exercise.alternatives, *exercise.wrong_answers):
        assert list(inspect.signature(candidate.obj).parameters) == names, candidate.name


@every_exercise
def test_published_solutions_pass_when_run_as_text(exercise):
    home = vars(inspect.getmodule(exercise.stub_object or exercise.answer_reference.obj) or inspect)
    for number, text in enumerate([exercise.solution_source(), *exercise.alternative_sources()]):
        scope = dict(home)
        exec(compile(text, f"<solution {number} of {exercise.id}>", "exec"), scope)
        verdict = check_answer(exercise, scope[exercise.name])
        assert verdict.passed, f"{verdict}\n{text}"


def same_state(before, after):
    assert before.keys() == after.keys()
    for key in before:
        assert repr(before[key]) == repr(after[key]), key


@every_exercise
def test_a_check_leaves_the_notebook_as_it_found_it(exercise):
    before = global_state()
    check_answer(exercise, exercise.value_of(exercise.answer_reference))
    for wrong in exercise.wrong_answers[:1]:
        check_answer(exercise, exercise.value_of(wrong))
    same_state(before, global_state())


@pytest.fixture
def in_children(exercise):
    return catalogue_observations(exercise)


@pytest.fixture
def without_fork(monkeypatch):
    monkeypatch.setattr(isolate, "can_fork", lambda: False)
    expected_observations.cache_clear()
    catalogue_observations.cache_clear()
    yield
    expected_observations.cache_clear()
    catalogue_observations.cache_clear()


@every_exercise
def test_the_same_observations_without_a_child_process(exercise, in_children, without_fork):
    """Verdicts follow from observations alone, so each answer needs to run only once."""
    before = global_state()
    expected = expected_observations(exercise)
    assert check_answer(exercise, exercise.value_of(exercise.answer_reference)).passed
    same_state(before, global_state())
    for (wrong, here), (_, there) in zip(catalogue_observations(exercise), in_children, strict=True):
        assert all(behaves_like(exercise, a, b) for a, b in zip(here, there, strict=True)), wrong.id
        failing = [i for i, one in enumerate(here) if first_difference(exercise, one, expected[i])]
        assert best_match(exercise, here, failing).wrong is wrong, wrong.id
    same_state(before, global_state())

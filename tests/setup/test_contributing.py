"""The exercise that CONTRIBUTING.md shows keeps every promise it teaches."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import textwrap
from pathlib import Path

import pytest
from support.mutants import build, mutants

from course.checking import Exercise, Outcome, check_answer


@pytest.fixture(scope="module")
def exercise(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    """The example, with the probe that a later step adds."""
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    example, probe = (textwrap.dedent(block) for block in blocks if "@exercise.probe" in block)
    file = tmp_path_factory.mktemp("example") / "first_column.py"
    file.write_text(example + "\n\n" + probe, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("first_column", file)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "first_column", module)
        spec.loader.exec_module(module)
        yield module.exercise


def test_it_is_complete(exercise: Exercise):
    assert exercise.id == "tensors.first_column"
    assert len(exercise.wrong_answers) >= 3
    assert len(exercise.probes) == 3


def test_the_stub_is_not_an_attempt(exercise: Exercise):
    assert check_answer(exercise, exercise.stub_object).outcome is Outcome.NOT_ATTEMPTED


def test_right_answers_pass(exercise: Exercise):
    for answer in (exercise.answer_reference, *exercise.alternatives):
        assert check_answer(exercise, answer.obj).passed, answer.name


def test_each_wrong_answer_gets_its_own_diagnosis(exercise: Exercise):
    for answer in exercise.wrong_answers:
        verdict = check_answer(exercise, answer.obj)
        assert (verdict.outcome, verdict.wrong_answer) == (Outcome.WRONG, answer.id)


def test_mutants_are_rejected(exercise: Exercise):
    home = vars(inspect.getmodule(exercise.answer_reference.obj))
    tried = list(mutants(exercise.solution_source()))
    assert tried
    for mutant in tried:
        answer = build(mutant.source, exercise.name, home)
        assert not check_answer(exercise, answer).passed, mutant.source

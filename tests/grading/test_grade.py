"""Grading honest answers: the same outcome, diagnosis and words as `check` gives, a row for every exercise."""

from __future__ import annotations

import ast
import itertools
import pickle
import sys
from types import ModuleType

import pytest

from course.checking import check_answer
from course.checking.exercise import ChoiceExercise, ValueExercise
from course.checking.source import renamed, source_of
from course.exercises import UnknownExercise, exercise_ids, exercise_path, load_exercise
from course.grading import grade as grading
from course.grading.grade import Grader, GraderSpec, exercises_of
from course.grading.row import Row
from course.grading.sandbox import NONE, Protection, Refused

LESSON = exercises_of("01")


def candidates(exercise):
    yield exercise.answer_reference
    yield from exercise.alternatives
    yield from exercise.wrong_answers


def as_submitted(exercise, candidate):
    """A catalogued answer under the learner's name, with the helpers of its file, as a person could hand it in."""
    if isinstance(exercise, ValueExercise):
        return f"{exercise.name} = {exercise.value_of(candidate)!r}\n"
    file = ast.parse(exercise_path(exercise.id).read_text(encoding="utf-8"))
    parts, catalogued = [], {}
    for node in file.body:
        definition = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        decorators = (
            [each for each in node.decorator_list if ast.unparse(each).startswith("exercise.")] if definition else []
        )
        if decorators:
            node.decorator_list = []
            catalogued[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            parts += [] if "course.checking" in ast.unparse(node) else [node]
        elif definition or (isinstance(node, ast.Assign) and "Exercise(" not in ast.unparse(node)):
            parts.append(node)
    answer = renamed(source_of(candidate.obj), exercise.name)
    bases, todo = [], [ast.parse(answer)]
    while todo:
        used = {each.id for each in ast.walk(todo.pop()) if isinstance(each, ast.Name)}
        for name in sorted(used & catalogued.keys() - {candidate.obj.__name__}):
            bases.insert(0, catalogued.pop(name))
            todo.append(bases[0])
    return "\n".join([*map(ast.unparse, [*parts, *bases]), answer])


def checked(exercise, path, source):
    """What `course check` says about the same file."""
    path.write_text(source)
    module = ModuleType("answer")
    module.__file__ = str(path)
    sys.modules["answer"] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return check_answer(exercise, getattr(module, exercise.name))


def same(row, verdict):
    seen = (row.outcome, row.diagnosis, row.wrong, row.fault, row.seen, row.expected)
    wanted = verdict.to_dict()
    assert seen == tuple(wanted[name] for name in ("verdict", "diagnosis", "wrong_answer", "fault", "seen", "expected"))


@pytest.fixture(scope="module")
def lesson(contained):
    with Grader(LESSON) as grader:
        yield grader


@pytest.fixture(scope="module")
def answers():
    """For each exercise its catalogued answers, as sources."""
    loaded = {name: load_exercise(name) for name in LESSON}
    return {name: [as_submitted(one, each) for each in candidates(one)] for name, one in loaded.items()}


def test_every_catalogued_answer_of_a_lesson_gets_the_verdict_of_check(lesson, answers, notebook, tmp_path):
    """Each submission has one answer to every exercise, the next one the next answers."""
    told = 0
    for number, sources in enumerate(itertools.zip_longest(*answers.values())):
        cells = [(source, name) for name, source in zip(answers, sources, strict=True) if source]
        rows = {row.exercise: row for row in lesson.grade(notebook(*cells, lesson="01"))}
        for source, name in cells:
            exercise = load_exercise(name)
            same(rows[name], checked(exercise, tmp_path / f"{name}{number}.py", source))
            assert rows[name].note is None
            told += 1
        skipped = [name for name in LESSON if name not in [each for _, each in cells]]
        assert all(rows[name].outcome == "NOT_ATTEMPTED" for name in skipped)
    assert told == sum(map(len, answers.values())) > 100


NONSENSE = {
    "None": "{name} = None",
    "a number": "{name} = 3",
    "a class": "class {name}:\n    pass",
    "another arity": "def {name}():\n    return 1",
    "nothing": "def {name}(*args):\n    pass",
    "a misspelt name": "def {name}(*args):\n    return troch.zeros(3)",
    "not implemented": "def {name}(*args):\n    note = 1\n    raise NotImplementedError(note)",
    "a random number": "import torch\ndef {name}(*args):\n    return torch.rand(3)",
    "compiled": "import torch\n@torch.compile(backend='eager')\ndef {name}(*args):\n    return args[0]",
    "an error": "def {name}(*args):\n    raise ValueError('no ' + str(len(args)))",
    "a partial": "import functools, torch\n{name} = functools.partial(torch.flatten)",
    "the ellipsis": "{name} = ...",
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_gets_the_verdict_of_check(kind, grader, tmp_path):
    for name in ("tensors.flatten", "tensors.read_strides", "autograd.loss_log"):
        exercise = load_exercise(name)
        source = NONSENSE[kind].format(name=exercise.name) + "\n"
        path = tmp_path / "submitted.py"
        path.write_text(source)
        row = next(row for row in grader.grade(path) if row.exercise == name)
        same(row, checked(exercise, tmp_path / "checked.py", source))


@pytest.mark.parametrize("value", ["'D'", "' d '", "'z'", "None", "('d',)"])
def test_choices_are_read_as_check_reads_them(value, grader, tmp_path):
    exercise = load_exercise("tensors.copy_or_view")
    assert isinstance(exercise, ChoiceExercise)
    path = tmp_path / "choice.py"
    path.write_text(f"choice = {value}\n")
    row = next(row for row in grader.grade(path) if row.exercise == exercise.id)
    same(row, checked(exercise, tmp_path / "checked.py", f"choice = {value}\n"))


def test_values_that_come_out_of_tensors_are_numbers(grader, tmp_path):
    path = tmp_path / "strides.py"
    path.write_text("x = torch.arange(20).reshape(4, 5)[:, 1::2].t()\nstrides = x.stride()\n")
    assert next(row for row in grader.grade(path) if row.exercise == "tensors.read_strides").outcome == "PASSED"


def test_one_exercise_of_each_lesson_passes_behind_the_protection(contained, tmp_path):
    """Each room of exercises has helpers of its own; they are all there for the probes."""
    first = {}
    for name in exercise_ids():
        if not isinstance(load_exercise(name), ValueExercise):
            first.setdefault(name.split(".")[0], name)
    chosen = [name for room, name in first.items() if room not in ("compilation", "clinic")]
    with Grader(chosen) as grader:
        for name in chosen:
            exercise = load_exercise(name)
            path = tmp_path / f"{name}.py"
            path.write_text(as_submitted(exercise, exercise.answer_reference))
            row = next(row for row in grader.grade(path) if row.exercise == name)
            assert row.outcome == "PASSED", row
        assert grader.starts == 1


# Rows.


def test_there_is_a_row_for_each_exercise_whatever_the_file_is(grader, tmp_path):
    ids = [exercise.id for exercise in grader.exercises]
    contents = {"a.ipynb": b"{", "b.ipynb": b"", "c.py": b"\x00\xff", "d.ipynb": b'{"cells": []}', "e.py": b"x = 1"}
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        rows = grader.grade(path, f"bob/{name}")
        assert [row.exercise for row in rows] == ids
        assert {row.submission for row in rows} == {f"bob/{name}"}
        assert {row.outcome for row in rows} == {"NOT_ATTEMPTED"}
        assert all(row.note for row in rows)
    rows = grader.grade(tmp_path / "missing.py")
    assert rows[0].submission == "missing.py"
    assert "cannot be read" in rows[0].note


def test_a_definition_that_fails_while_it_is_made_says_where(grader, notebook):
    rows = grader.grade(
        notebook(
            "import nothing_of_this_name\nSIZE = 1 / 0\ndef flatten_elements(x, n=SIZE):\n    return x.reshape(-1)"
        )
    )
    row = next(row for row in rows if row.exercise == "tensors.flatten")
    assert row.outcome == "ERROR"
    assert "stopped at `SIZE = 1 / 0` with ZeroDivisionError: division by zero" in row.diagnosis


def test_imports_that_are_missing_do_not_stop_an_answer(grader, notebook):
    rows = grader.grade(
        notebook(
            "import nothing_of_this_name as torch_", "def flatten_elements(x: Tensor):\n    return torch.flatten(x)"
        )
    )
    row = next(row for row in rows if row.exercise == "tensors.flatten")
    assert row.outcome == "PASSED"


def test_a_row_survives_its_dictionary():
    row = Row("a", "tensors.flatten", "WRONG", "d", "f", "w", "s", "e", "n", 1.5)
    assert Row.from_dict({**row.to_dict(), "more": 1}) == row
    with pytest.raises(ValueError, match="a row without exercise"):
        Row.from_dict({"submission": "a", "outcome": "PASSED"})
    with pytest.raises(ValueError, match="'GREAT' is no outcome"):
        Row("a", "b", "GREAT")


# The grader itself.


def test_a_spec_can_be_sent_elsewhere_and_names_its_exercises():
    spec = GraderSpec(("tensors.flatten",))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert len(LESSON) == 15
    assert set(LESSON) <= set(exercise_ids())


def test_unknown_exercises_are_refused_before_anything_starts(contained):
    with pytest.raises(UnknownExercise, match=r"Did you mean tensors\.flatten"):
        Grader(["tensors.flaten"])


def test_without_protection_there_is_no_grader_unless_told(monkeypatch, tmp_path):
    nothing = Protection("none", NONE)

    def no_protection(unprotected=False):
        if unprotected:
            return nothing
        raise Refused("nothing protects")

    monkeypatch.setattr(grading, "required", no_protection)
    with pytest.raises(Refused):
        Grader(["tensors.read_strides"])
    path = tmp_path / "a.py"
    path.write_text("import os\nstrides = (2, 5)\ndef flatten_elements(x):\n    os.fork()\n    return x.view(-1)\n")
    with Grader(["tensors.read_strides", "tensors.flatten"], unprotected=True) as grader:
        rows = grader.grade(path)
        assert [row.outcome for row in rows] == ["PASSED", "WRONG"]
        assert rows[1].wrong == "tensors.flatten/view_only"
        assert "No protection was active" in str(grader.protection)


def test_namespaces_contain_as_bubblewrap_does(contained, monkeypatch, tmp_path):
    from course.grading import sandbox

    found = next((each for each in sandbox._candidates() if each.name == "namespaces" and sandbox._works(each)), None)
    if found is None:
        pytest.skip("namespaces do not work here")
    monkeypatch.setattr(grading, "required", lambda unprotected: found)
    sources = {
        "PASSED": "strides = (2, 5)",
        "ERROR": "import os\nstrides = os._exit(1)",
        "WRONG": "import os\nstrides = (len(os.listdir('/proc/1/fd')), 0) if os.access('/proc/1/fd', 4) else (0, 0)",
    }
    with Grader(["tensors.read_strides"]) as grader:
        for outcome, source in sources.items():
            path = tmp_path / "a.py"
            path.write_text(source)
            assert grader.grade(path)[0].outcome == outcome
        assert grader.starts == 1

"""What must hold of the lesson sources, without running them."""

from __future__ import annotations

import builtins
import shutil
import symtable
from collections import Counter

import nbformat
import pytest

from course.curriculum import LESSONS
from course.exercises import exercise_ids, load_exercise
from course.publishing import build, outputs
from course.publishing.checkout import Checkout
from course.publishing.compare import problems
from course.publishing.source import generate


def by_name(lesson) -> str:
    return lesson.name


def defined_names(code: str) -> set[str]:
    """Return the names that a cell leaves behind."""
    table = symtable.symtable(code, "cell", "exec")
    return {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}


def free_names(code: str) -> set[str]:
    """Return the names that a cell needs from elsewhere, in functions too, without builtins."""
    top = symtable.symtable(code, "cell", "exec")
    names = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    tables = top.get_children()
    while tables:
        table = tables.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        tables += table.get_children()
    return names - defined_names(code) - set(vars(builtins))


def test_free_and_defined_names_are_told_apart():
    code = (
        "import a\nb: int = c\ndef f(x: D) -> E:\n    y = x\n    return [g(z, y, len) for z in a.h]\nwith i as j: pass"
    )
    assert defined_names(code) >= {"a", "b", "f", "j"}
    assert free_names(code) == {"c", "D", "E", "g", "i"}


def test_every_exercise_is_used_by_exactly_one_lesson(exercises_of):
    used = Counter(exercise for exercises in exercises_of.values() for exercise in exercises)
    assert used == Counter(exercise_ids())


@pytest.mark.parametrize("lesson", LESSONS, ids=by_name)
def test_every_exercise_has_one_stub_and_one_check(lesson, root):
    notebook = generate(lesson, Checkout(root))
    roles = Counter(tuple(cell.metadata["course"].values()) for cell in notebook.cells if "course" in cell.metadata)
    exercises = outputs.exercise_ids(notebook)
    expected = Counter((exercise, role) for exercise in exercises for role in ("task", "stub", "check"))
    assert roles == expected + Counter({("progress",): 1})


@pytest.mark.parametrize("lesson", LESSONS, ids=by_name)
def test_no_two_exercises_of_a_lesson_share_a_variable(lesson, exercises_of):
    """Checking again looks the answer up by its name."""
    names = Counter(load_exercise(exercise).name for exercise in exercises_of[lesson.number])
    assert set(names.values()) == {1}, names


@pytest.mark.parametrize("lesson", LESSONS, ids=by_name)
def test_stubs_and_references_use_only_what_earlier_cells_define(lesson, root):
    known: set[str] = set()
    tried = 0
    for cell in outputs.code_cells(generate(lesson, Checkout(root))):
        course = cell.metadata.get("course", {})
        if course:
            texts = [cell.source]
            if course["role"] == "stub":
                exercise = load_exercise(course["exercise"])
                texts += [exercise.solution_source(), *exercise.alternative_sources()]
                tried += 1
            for text in texts:
                assert free_names(text) <= known, f"{cell.id}: undefined names in\n{text}"
        known |= defined_names(cell.source)
    assert tried == len(outputs.exercise_ids(generate(lesson, Checkout(root))))


@pytest.mark.parametrize("lesson", LESSONS, ids=by_name)
def test_the_notebook_is_up_to_date(lesson, root):
    assert problems(lesson, Checkout(root)) == []


@pytest.fixture
def copy(root, tmp_path) -> Checkout:
    """A copy of the lesson sources, notebooks and exercises to change."""
    for folder in ("lessons", "notebooks", "course/exercises"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return Checkout(tmp_path)


@pytest.mark.parametrize("lesson", LESSONS, ids=by_name)
def test_a_touched_source_or_exercise_is_noticed_and_named(lesson, copy):
    lines: list[str] = []
    assert build.check([lesson], copy, say=lines.append) == 0
    source = copy.source(lesson)
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("# # ", "# # Another ", 1), encoding="utf-8")
    assert build.check([lesson], copy, say=lines.append) == 1
    assert f"{lesson.name}: cell {lesson.number}-001-text differs from its source in its text, line 1" in lines[-1]
    assert lines[-1].endswith(f"Run `course build {lesson.number}`.")
    source.write_text(text, encoding="utf-8")
    exercise = copy.exercise_file(outputs.exercise_ids(generate(lesson, copy))[0])
    exercise.write_text(exercise.read_text(encoding="utf-8") + "# touched\n", encoding="utf-8")
    assert build.check([lesson], copy, say=lines.append) == 1
    assert "an exercise changed" in lines[-1]


def compared(notebook, *, images: bool) -> str:
    """The notebook as text, without what may differ: measured outputs and, from another machine, pictures."""
    measured = [cell for cell in notebook.cells if "measured" in cell.metadata.get("tags", [])]
    assert measured
    for cell in measured:
        cell.outputs = []
    pictures = [output.data for cell in outputs.code_cells(notebook) for output in cell.outputs if "data" in output]
    for data in pictures:
        if not images and "image/png" in data:
            data["image/png"] = "a picture"
    return nbformat.writes(notebook)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS, ids=by_name)
def test_a_new_build_is_the_stored_notebook_but_for_measured_cells(lesson, copy, torch_is_verified):
    stored = nbformat.read(copy.notebook(lesson), as_version=4)
    lines: list[str] = []
    assert build.build([lesson], copy, force=True, say=lines.append) == 0, lines
    built = nbformat.read(copy.notebook(lesson), as_version=4)
    if torch_is_verified:
        assert compared(built, images=False) == compared(stored, images=False)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS[1:2], ids=by_name)
def test_two_builds_have_the_same_pictures(lesson, copy):
    texts = []
    for _ in range(2):
        assert build.build([lesson], copy, force=True, say=lambda line: None) == 0
        texts.append(compared(nbformat.read(copy.notebook(lesson), as_version=4), images=True))
    assert texts[0] == texts[1]

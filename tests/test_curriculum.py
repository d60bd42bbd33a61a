from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from course import curriculum
from course.curriculum import LESSONS, PROFILES, Lesson, UnknownLesson, lesson
from course.exercises import exercise_ids


def test_numbers_slugs_and_exercise_folders_are_unique():
    for field in ("number", "slug", "exercises"):
        values = [getattr(entry, field) for entry in LESSONS]
        assert len(set(values)) == len(values)
    assert [entry.number for entry in LESSONS] == sorted(entry.number for entry in LESSONS)


@pytest.mark.parametrize("entry", LESSONS, ids=lambda entry: entry.name)
def test_each_lesson_is_complete(entry, root):
    assert len(entry.number) == 2
    assert entry.number.isdigit()
    assert entry.minutes > 0
    assert entry.cpu_seconds in (40, 120)
    assert entry.parameters["device"] == "auto"
    assert entry.parameters["profile"] in PROFILES
    assert set(entry.prerequisites) <= {other.number for other in LESSONS if other.number < entry.number}
    assert (root / "lessons" / f"{entry.name}.py").is_file()
    assert (root / "course" / "exercises" / entry.exercises).is_dir()


@pytest.mark.parametrize("name", ["01", "1", "tensors_and_strides", "01_tensors_and_strides"])
def test_a_lesson_has_four_names(name):
    assert lesson(name).number == "01"


@pytest.mark.parametrize("name", ["", "99", "tensors", "001"])
def test_an_unknown_lesson_lists_the_valid_ones(name):
    with pytest.raises(UnknownLesson) as caught:
        lesson(name)
    assert (
        str(caught.value)
        == f"There is no lesson {name!r}. The lessons are: " + ", ".join(entry.name for entry in LESSONS) + "."
    )


def test_a_lesson_cannot_be_changed():
    entry = Lesson("01", "a", "A", 5, "a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.title = "B"
    with pytest.raises(TypeError):
        entry.parameters["device"] = "cuda"


def test_files_are_found_in_a_checkout(root):
    assert curriculum.checkout() == root
    assert curriculum.notebook_path(LESSONS[0]) == root / "notebooks" / f"{LESSONS[0].name}.ipynb"
    assert curriculum.recorded_path() == root / "lessons" / "recorded.json"


def test_files_are_found_in_an_installed_package(monkeypatch):
    monkeypatch.setattr(curriculum, "checkout", lambda: None)
    folder = Path(curriculum.__file__).parent / "_notebooks"
    assert curriculum.notebook_path(LESSONS[0]) == folder / f"{LESSONS[0].name}.ipynb"
    assert curriculum.recorded_path() == folder / "recorded.json"


def test_a_build_can_name_another_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(curriculum.NOTEBOOKS_VARIABLE, str(tmp_path))
    assert curriculum.notebook_path(LESSONS[0]).parent == tmp_path


def test_the_manifest_is_light():
    code = (
        "import sys, course.curriculum; print([name for name in ('torch', 'numpy', 'nbformat') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_readme_lists_the_lessons_of_the_manifest(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    counts = Counter(exercise.partition(".")[0] for exercise in exercise_ids())
    assert rows == [
        f"| [{e.number} {e.title}](notebooks/{e.name}.ipynb) | {e.minutes} | {counts[e.exercises]} |" for e in LESSONS
    ]

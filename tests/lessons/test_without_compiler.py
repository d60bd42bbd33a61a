"""Lessons that compile, on a machine without a C++ compiler: they run to their end, and say what they could not do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from course import curriculum
from course.publishing import guard

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="PATH is not how Windows finds a compiler")]


def printed_without_a_compiler(number: str, folder) -> str:
    lesson = curriculum.lesson(number)
    text = (curriculum.checkout() / "lessons" / f"{lesson.name}.py").read_text(encoding="utf-8")
    assert text.count('profile = "quick"') == 1
    source = folder / f"{lesson.name}.py"
    source.write_text(text.replace('profile = "quick"', 'profile = "smoke"'), encoding="utf-8")
    empty = folder / "bin"
    empty.mkdir()
    env = {name: value for name, value in os.environ.items() if name not in {"CXX", "CC", "TORCH_LOGS"}}
    env = guard.environment(env)
    env.update(PATH=str(empty), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", MPLBACKEND="Agg")
    env.update(COURSE_HOME=str(folder / "home"), PYTHONUTF8="1")
    result = subprocess.run(
        [sys.executable, str(source)], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


def test_lesson_09_says_what_it_could_not_measure(tmp_path):
    printed = printed_without_a_compiler("09", tmp_path)
    assert "speed of a tiny MLP: not measurable here" in printed
    assert "functions that inductor wrote: not measurable here" in printed
    assert printed.count("no C++ compiler here") == 8
    assert "the network of lesson 05 compiles: holds" in printed
    assert "does not hold" not in printed


@pytest.mark.parametrize("number", ["13", "14"])
def test_lessons_on_deployment_go_on(number, tmp_path):
    assert "no C++ compiler here" in printed_without_a_compiler(number, tmp_path)

"""What the tests of grading share: submissions to write, and one warm grader, since each costs a start of torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.played_grader import PlayedSpec

from course.grading.sandbox import protection
from course.grading.submission import Submission, find_submissions


def notebook_text(*cells: str | tuple[str, str], lesson: str | None = None) -> str:
    """A notebook's JSON. A cell is its source, or a pair of source and the exercise that its metadata names."""
    made = []
    for cell in cells:
        source, exercise = cell if isinstance(cell, tuple) else (cell, None)
        metadata = {"course": {"exercise": exercise, "role": "stub"}} if exercise else {}
        made.append(
            {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}
        )
    metadata = {"course": {"lesson": lesson}} if lesson else {}
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def notebook(tmp_path: Path) -> Callable[..., Path]:
    """Writes a notebook of these cells and returns its path."""

    def write(*cells: str | tuple[str, str], lesson: str | None = None, name: str = "answers.ipynb") -> Path:
        path = tmp_path / name
        path.write_text(notebook_text(*cells, lesson=lesson), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def contained() -> None:
    """Asks for a machine on which submissions can be contained."""
    if not protection().isolates:
        pytest.skip("neither bubblewrap nor Linux namespaces work here: nothing would contain hostile submissions")


@pytest.fixture(scope="session")
def secret() -> Iterator[str]:
    """A variable in the grader's environment."""
    os.environ["GRADERS_SECRET"] = "the-grader-s-own-password"
    yield os.environ["GRADERS_SECRET"]
    del os.environ["GRADERS_SECRET"]


@pytest.fixture(scope="session")
def grader(contained: None, secret: str) -> Iterator:
    """A warm grader for a few small exercises: a function, a value, a choice, one with a rule on the source, and one
    whose probes look at more than values."""
    from course.grading.grade import GraderSpec, Limits

    limits = Limits(patience=6.0, memory_bytes=2**29, all_memory_bytes=2**29, file_bytes=8 * 2**20)
    exercises = (
        "tensors.flatten",
        "tensors.read_strides",
        "tensors.copy_or_view",
        "autograd.by_hand",
        "autograd.loss_log",
    )
    with GraderSpec(exercises, limits).grader() as made:
        yield made


@pytest.fixture
def spec(tmp_path: Path) -> PlayedSpec:
    return PlayedSpec(log=str(tmp_path / "steps.log"))


@pytest.fixture
def hand_in(tmp_path: Path):
    """A function that writes submissions and returns all of them: NAME=what the played grader is to do."""
    folder = tmp_path / "handed_in"
    folder.mkdir()

    def write(**texts: str) -> list[Submission]:
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        return find_submissions(folder)

    return write

"""Every lesson as learners get it, under nbval: it runs to its end, and its stored outputs are true here."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course.curriculum import LESSONS, notebook_path
from course.publishing import outputs
from course.publishing.source import IGNORE_OUTPUT

pytestmark = pytest.mark.slow


def comparable(cell) -> bool:
    """Whether a cell has a stored output that nbval compares; it does not compare pictures."""
    if IGNORE_OUTPUT in cell.metadata.get("tags", []):
        return False
    kinds = {key for output in cell.outputs for key in output.get("data", {"text": ""})}
    return bool(kinds - {"image/png", "image/jpeg", outputs.WIDGET_VIEW})


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_stored_outputs_are_true(lesson, nbval, torch_is_verified, record_property):
    path = notebook_path(lesson)
    cells = outputs.code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    result = nbval(path, strict=torch_is_verified)
    assert result.code == 0, result.printed[-6000:]
    assert result.ran == list(range(len(cells)))
    wanted = [number for number, cell in enumerate(cells) if comparable(cell)] if torch_is_verified else []
    assert result.compared == wanted
    record_property("code_cells", len(cells))
    record_property("compared_cells", len(result.compared))
    print(f"{lesson.name}: {len(cells)} code cells ran, the outputs of {len(result.compared)} were compared")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_every_exercise_is_stored_as_not_attempted(lesson):
    notebook = nbformat.read(notebook_path(lesson), as_version=4)
    exercises = outputs.exercise_ids(notebook)
    assert exercises
    assert outputs.verdicts(notebook) == dict.fromkeys(exercises, "NOT_ATTEMPTED")


def test_nbval_notices_what_it_should(nbval, tmp_path):
    """The same call fails for a false output, a warning and a connection, and passes a cell that is not compared."""
    cells = [
        new_code_cell("1 + 1", outputs=[new_output("execute_result", {"text/plain": "3"}, execution_count=1)]),
        new_code_cell("import warnings; warnings.warn('hm')"),
        new_code_cell("import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"),
        new_code_cell("1 + 1", outputs=[new_output("execute_result", {"text/plain": "3"}, execution_count=4)]),
        new_code_cell("1 + 1", outputs=[new_output("execute_result", {"text/plain": "2"}, execution_count=5)]),
    ]
    for count, cell in enumerate(cells, 1):
        cell.execution_count = count
    cells[3].metadata["tags"] = [IGNORE_OUTPUT]
    folder = tmp_path / "stored"
    folder.mkdir()
    path = folder / "false.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    result = nbval(path)
    assert result.code == 1
    assert "2 passed" in result.printed
    assert "3 failed" in result.printed
    printed = re.sub(r"\x1b\[[\d;]*m", "", result.printed)
    assert "UserWarning: hm" in printed
    assert "Blocked: this code tried to reach 192.0.2.1" in printed
    assert result.compared == [0, 4]

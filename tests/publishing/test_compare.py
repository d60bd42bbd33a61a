from __future__ import annotations

import nbformat
import pytest

from course.publishing import build
from course.publishing.compare import problems
from course.publishing.files import write_notebook
from course.publishing.source import generate


@pytest.fixture
def up_to_date(tiny):
    """The tiny lesson with a notebook as a build would leave it, made without executing anything."""
    notebook = generate(tiny.lesson, tiny.checkout)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        cell.execution_count = count
    notebook.metadata["course"]["torch"] = "1.0"
    write_notebook(notebook, tiny.notebook)
    return tiny


def edit(tiny, change) -> list[str]:
    notebook = nbformat.read(tiny.notebook, as_version=4)
    change(notebook)
    nbformat.write(notebook, tiny.notebook)
    return problems(tiny.lesson, tiny.checkout)


def test_nothing_is_said_of_a_notebook_that_is_up_to_date(up_to_date):
    assert problems(up_to_date.lesson, up_to_date.checkout) == []
    assert build.check([up_to_date.lesson], up_to_date.checkout, say=up_to_date.lines.append) == 0
    assert up_to_date.lines == ["01_tiny: up to date"]


def test_an_edited_source_is_named_with_its_cell(up_to_date):
    up_to_date.replace("the end", "the very end")
    digest, cell = problems(up_to_date.lesson, up_to_date.checkout)
    assert digest.startswith("01_tiny: its source or an exercise changed")
    assert "cell 01-008-code differs from its source in its text, line 1" in cell
    assert cell.endswith("Run `course build 01`.")


def test_an_edited_exercise_is_noticed(up_to_date):
    up_to_date.checkout.exercise_file("tiny.double").write_text("# more probes\n", encoding="utf-8")
    (only,) = problems(up_to_date.lesson, up_to_date.checkout)
    assert "an exercise changed" in only


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda nb: nb.cells[4].update(source="def double(x):\n    return 2 * x"), "01-005-stub differs"),
        (lambda nb: nb.cells[4].update(id="mine"), "01-005-stub differs from its source in its id ('mine'"),
        (lambda nb: nb.cells[6].metadata.clear(), "01-007-code differs from its source in its metadata"),
        (lambda nb: nb.cells.pop(), "the notebook has 9 cells, its source makes 10"),
        (lambda nb: nb.cells.append(nbformat.v4.new_markdown_cell("mine")), "the notebook has 11 cells"),
        (lambda nb: nb.cells[4].update(execution_count=None), "cell 01-005-stub was not executed"),
        (lambda nb: nb.cells[4].update(execution_count=9), "cell 01-005-stub was executed out of order (as 9, not 3)"),
        (lambda nb: nb.metadata.update(widgets={}), "the notebook's metadata differ"),
        (lambda nb: nb.metadata.course.pop("torch"), "with which torch"),
        (lambda nb: nb.metadata.course.update(digest="0" * 16), f"digest {'0' * 16}, now"),
    ],
)
def test_each_difference_is_named(up_to_date, change, words):
    (only,) = edit(up_to_date, change)
    assert words in only


def test_a_missing_or_broken_notebook_is_named(up_to_date):
    up_to_date.notebook.write_text("{", encoding="utf-8")
    (broken,) = problems(up_to_date.lesson, up_to_date.checkout)
    assert "is not a valid notebook" in broken
    up_to_date.notebook.unlink()
    (missing,) = problems(up_to_date.lesson, up_to_date.checkout)
    assert "is missing" in missing


def test_files_without_a_lesson_are_named(up_to_date):
    (up_to_date.source.parent / "07_stray.py").touch()
    (up_to_date.notebook.parent / "07_stray.ipynb").touch()
    assert build.check([up_to_date.lesson], up_to_date.checkout, say=up_to_date.lines.append) == 2
    assert up_to_date.lines[1].startswith("lessons/07_stray.py belongs to no lesson")
    assert up_to_date.lines[2].startswith("notebooks/07_stray.ipynb belongs to no lesson")

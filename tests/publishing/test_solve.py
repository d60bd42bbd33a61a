from __future__ import annotations

import nbformat
import pytest

from course.publishing import PublishingError, UsageError
from course.publishing.files import write_notebook
from course.publishing.solve import solve, solved
from course.publishing.source import generate


def test_stubs_become_references_and_outputs_go(tiny):
    built = generate(tiny.lesson, tiny.checkout)
    built.cells[2].update(execution_count=2, outputs=[nbformat.v4.new_output("stream", text="old")])
    result = solved(built, tiny.checkout.load_exercise)
    nbformat.validate(result)
    assert result.cells[4].source == "def double(x):\n    return 2 * x"
    assert built.cells[4].source == "def double(x):\n    raise NotImplementedError"
    assert [cell.source for cell in result.cells if cell.id != "01-005-stub"] == [
        cell.source for cell in built.cells if cell.id != "01-005-stub"
    ]
    assert all(not cell.outputs and cell.execution_count is None for cell in result.cells if "outputs" in cell)


def test_an_existing_file_is_replaced_only_when_forced(tiny, tmp_path):
    write_notebook(generate(tiny.lesson, tiny.checkout), tiny.notebook)
    output = tmp_path / "mine.ipynb"
    output.write_text("my work", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        solve(tiny.notebook, output, load=tiny.checkout.load_exercise)
    assert output.read_text(encoding="utf-8") == "my work"
    solve(tiny.notebook, output, force=True, load=tiny.checkout.load_exercise)
    nbformat.validate(nbformat.read(output, as_version=4))


def test_a_missing_notebook_is_named(tiny, tmp_path):
    with pytest.raises(PublishingError, match="is missing"):
        solve(tiny.notebook, tmp_path / "x.ipynb")

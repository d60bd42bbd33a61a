"""`%load_ext course`: one box under a traceback, and a cell that fails as before."""

from __future__ import annotations

import atexit
import sys

import nbclient
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat import v4

import course
from course.notebook import extension

FAILS = "raise IndexError('Target 10 is out of bounds.')"


@pytest.fixture
def shell(shown, monkeypatch):
    # IPython puts a module of its own in its place, from which no process can be spawned.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    made = InteractiveShell()
    yield made
    # IPython would tidy up at the end of the process, when the tests' folders are gone.
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)


@pytest.fixture
def loaded(shell):
    shell.run_line_magic("load_ext", "course")
    return shell


def test_one_box_under_the_traceback(loaded, shown, capsys):
    result = loaded.run_cell(FAILS)
    assert isinstance(result.error_in_exec, IndexError)
    assert not result.success
    assert "Traceback" in capsys.readouterr().out
    (box,) = shown
    assert "[class-index-out-of-range]" in box.text
    assert 'class="course-explanation"' in box.html
    assert "05_cifar10_loop.ipynb#Losses-want-logits" in box.html
    assert "Fix" in box.text


@pytest.mark.parametrize(
    "code", ["1 + 1", "x = 1", "raise KeyboardInterrupt", "raise SystemExit", "undefined_name", "1 +", "import asyncio"]
)
def test_nothing_is_added(code, loaded, shown, capsys):
    loaded.run_cell(code)
    assert shown == []


def test_loading_twice_gives_one_box_and_unloading_restores(shell, shown, capsys):
    before = list(shell.events.callbacks["post_run_cell"])
    for _ in range(2):
        course.load_ipython_extension(shell)
    shell.run_cell(FAILS)
    assert len(shown) == 1
    course.unload_ipython_extension(shell)
    assert shell.events.callbacks["post_run_cell"] == before
    shell.run_cell(FAILS)
    assert len(shown) == 1
    course.unload_ipython_extension(shell)
    for _ in range(2):
        course.load_ipython_extension(shell)
        shell.run_cell(FAILS)
        course.unload_ipython_extension(shell)
    assert len(shown) == 3
    assert shell.events.callbacks["post_run_cell"] == before


def test_magics(shell, shown, capsys):
    for magic in ("load_ext", "reload_ext", "unload_ext", "load_ext"):
        shell.run_line_magic(magic, "course")
    shell.run_cell(FAILS)
    assert len(shown) == 1


def test_trouble_in_the_explanation_stays_hidden(loaded, shown, monkeypatch, capsys):
    def broken(error):
        raise RuntimeError("broken")

    monkeypatch.setattr("course.doctor.explain.explain", broken)
    result = loaded.run_cell(FAILS)
    assert isinstance(result.error_in_exec, IndexError)
    assert shown == []
    assert "broken" not in capsys.readouterr().out


def test_the_error_is_still_the_shell_s_last(loaded, shown, capsys):
    loaded.run_cell(FAILS)
    assert isinstance(loaded.run_cell("import sys; type(sys.last_value)").result, type)


def test_result_without_an_error():
    extension.after_cell(None)
    extension.after_cell(object())


@pytest.mark.slow
def test_cell_fails_in_a_kernel(tmp_path):
    notebook = v4.new_notebook(
        cells=[v4.new_code_cell("%load_ext course"), v4.new_code_cell(FAILS), v4.new_code_cell("2")]
    )
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    client = nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="Target 10 is out of bounds"):
        client.execute()
    outputs = notebook.cells[1].outputs
    assert [output.output_type for output in outputs] == ["error", "display_data"]
    assert "course-explanation" in outputs[1].data["text/html"]
    assert "[class-index-out-of-range]" in outputs[1].data["text/plain"]
    assert notebook.cells[2].outputs == []
    nbformat.validate(notebook)

from __future__ import annotations

import nbformat
import pytest

from course.publishing import build, execute, outputs

pytestmark = pytest.mark.slow


def built(tiny, **options) -> int:
    tiny.lines.clear()
    return build.build([tiny.lesson], tiny.checkout, say=tiny.lines.append, **options)


def without_measured(path) -> str:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if "measured" in cell.metadata.get("tags", []):
            cell.outputs = []
    return nbformat.writes(notebook)


def test_a_build_executes_and_a_rebuild_is_the_same_but_for_measured_cells(tiny):
    assert built(tiny) == 0
    notebook = nbformat.read(tiny.notebook, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4, 5, 6, 7]
    assert code[3].outputs[0].data["text/plain"] == "NOT_ATTEMPTED"
    assert set(notebook.metadata) == {"kernelspec", "language_info", "course"}
    assert set(notebook.metadata["course"]) == {"lesson", "digest", "torch"}
    assert build.check([tiny.lesson], tiny.checkout, say=tiny.lines.append) == 0

    before = without_measured(tiny.notebook), tiny.notebook.read_bytes()
    assert built(tiny) == 0
    assert tiny.lines == ["01_tiny: unchanged"]
    assert tiny.notebook.read_bytes() == before[1]
    assert built(tiny, force=True) == 0
    assert without_measured(tiny.notebook) == before[0]
    assert tiny.notebook.read_bytes() != before[1], "the clock stands still: this test compares nothing"
    assert list(tiny.notebook.parent.iterdir()) == [tiny.notebook]


def test_a_changed_source_is_built_again(tiny):
    built(tiny)
    tiny.replace("the end", "the very end")
    assert built(tiny) == 0
    assert "the very end, profile quick" in tiny.notebook.read_text(encoding="utf-8")


def test_a_failing_cell_is_named_and_the_old_notebook_stays(tiny):
    built(tiny)
    before = tiny.notebook.read_bytes()
    tiny.append("answer = 41\nraise ValueError('not 42')")
    assert built(tiny) == 1
    message = tiny.lines[-1]
    assert "cell 01-009-code raised ValueError: not 42" in message
    assert "answer = 41" in message
    assert tiny.notebook.read_bytes() == before


def test_a_kernel_that_dies_is_named(tiny):
    tiny.append("import os\nos._exit(3)")
    assert built(tiny) == 1
    assert "the kernel ended in cell 01-009-code by itself" in tiny.lines[-1]
    assert not tiny.notebook.exists()


def test_a_build_that_hangs_is_stopped(tiny, monkeypatch):
    monkeypatch.setattr(execute, "START_SECONDS", -396)
    tiny.append("while True:\n    pass")
    assert built(tiny) == 1
    assert "the kernel ended in cell 01-009-code after 4 s" in tiny.lines[-1]


@pytest.mark.parametrize(
    "code",
    [
        "print(object())",
        "import torch\nprint(torch.__file__)",
        "import os\nprint(os.getcwd() + '/')",
        "__file__ = 1\nlen",
    ],
)
def test_outputs_that_belong_to_this_machine_are_refused(tiny, code):
    tiny.append(code)
    portable = code.endswith("len")
    assert built(tiny) == (0 if portable else 1)
    if not portable:
        assert "the output of cell 01-009-code contains" in tiny.lines[-1]
        assert not tiny.notebook.exists()


def test_a_warning_is_an_error(tiny):
    tiny.append("import warnings\nwarnings.warn('look out')")
    assert built(tiny) == 1
    assert "raised UserWarning: look out" in tiny.lines[-1]


def test_a_widget_leaves_its_text_and_no_state(tiny):
    tiny.append("import ipywidgets\nipywidgets.IntSlider(value=3)")
    assert built(tiny) == 0
    notebook = nbformat.read(tiny.notebook, as_version=4)
    assert list(notebook.cells[-3].outputs[0].data) == ["text/plain"]
    assert "widgets" not in notebook.metadata


def test_the_kernel_finds_the_notebook_that_is_being_built(tiny):
    tiny.append(
        "import json\n"
        "from course import curriculum\n"
        "path = curriculum.notebooks_folder() / '01_tiny.ipynb'\n"
        "print(json.loads(path.read_text())['metadata']['course']['digest'])"
    )
    assert built(tiny) == 0
    notebook = nbformat.read(tiny.notebook, as_version=4)
    assert notebook.cells[-3].outputs[0].text.strip() == notebook.metadata["course"]["digest"]


def test_a_broken_source_is_reported(tiny):
    tiny.replace("# exercise: tiny.double", "# exercise: tiny.triple")
    assert built(tiny) == 1
    assert tiny.lines[-1].startswith("lessons/01_tiny.py:37: ")


def test_texts_keep_their_place_among_other_outputs():
    out = nbformat.v4.new_output
    picture = out("display_data", data={"text/plain": "a picture"})
    cell = nbformat.v4.new_code_cell(
        outputs=[out("stream", name="stdout", text=text) for text in ("a", "b\n")]
        + [picture]
        + [out("stream", name=name, text=name) for name in ("stdout", "stderr")]
    )
    outputs.store(cell)
    assert [o.get("text", "a picture") for o in cell.outputs] == ["ab\n", "a picture", "stdout", "stderr"]

"""What really arrives in a notebook: one kernel, one run, many looks at its outputs.

As other tools than ours run notebooks: nothing tells the kernel that nobody is in front of it.
"""

from __future__ import annotations

import base64
import json
import re

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

from course.publishing.kernels import OwnInterpreter
from course.publishing.outputs import WIDGET_VIEW

pytestmark = pytest.mark.slow

CELLS = {
    "begin": "import course, torch\nfrom course import begin, check, claim, hint, pitfall\nbegin('01')",
    "passed": 'check("tensors.flatten", lambda x: x.reshape(-1))',
    "kept": 'verdict = check("tensors.flatten", None)',
    "again": "verdict",
    "hint": 'hint("tensors.flatten")',
    "solution": 'course.solution("tensors.flatten")',
    "pitfall": 'with pitfall("view-of-noncontiguous", RuntimeError):\n    torch.arange(6).reshape(2, 3).t().view(6)',
    "helper": "def flat(x):\n    return x.view(6)",
    "in helper": 'with pitfall("view-of-noncontiguous", RuntimeError):\n    flat(torch.arange(6).reshape(2, 3).t())',
    "no pitfall": 'with pitfall("view-of-noncontiguous", RuntimeError):\n    torch.arange(6).view(6)',
    "claim": 'claim("elements", 6, equals=6)',
    "false claim": 'claim("elements", 6, equals=7)',
    "unknown exercise": 'check("tensors.flaten", None)',
    "unknown lesson": 'begin("77")',
    "other version": 'begin("01", digest="0000000000000000")',
    "strides": 'course.draw_strides(torch.arange(6).reshape(2, 3), highlight=(1, 0), title="x")',
    "explorer": "course.stride_explorer()",
    "too large": "course.draw_strides(torch.zeros(100))",
    "device": 'course.choose_device("cuda:99")',
    "progress": "course.progress()",
    "off": 'import os\nos.environ["COURSE_PROGRESS"] = "off"\ncheck("tensors.flatten", None)',
    "explorer off": "course.stride_explorer()",
    "pyplot": 'from matplotlib import pyplot\nfig, ax = pyplot.subplots()\ncourse.show_figure(fig, alt="empty")',
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """COURSE_HOME of the kernel."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def outputs(root, home, tmp_path_factory):
    """Outputs of every cell, by its name in CELLS."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    manager = AsyncKernelManager(
        kernel_spec_manager=OwnInterpreter(), transport="ipc", ip=str(tmp_path_factory.mktemp("kernel") / "ipc")
    )
    client = NotebookClient(
        notebook, km=manager, timeout=120, allow_errors=True, resources={"metadata": {"path": str(root)}}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COURSE_PROGRESS", raising=False)
        patch.setenv("COURSE_HOME", str(home))
        client.execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def error_lines(outputs):
    (error,) = [output for output in outputs if output.output_type == "error"]
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in error.traceback]


def test_begin_is_silent(outputs):
    assert outputs["begin"] == []
    assert outputs["helper"] == []


@pytest.mark.parametrize("name", ["passed", "kept", "again"])
def test_a_verdict_is_shown_exactly_once_in_a_cell(outputs, name):
    output, *strip = outputs[name]
    assert output.output_type == "display_data"
    assert set(output.data) == {"text/plain", "text/html", "application/vnd.course.verdict+json"}
    verdict = output.data["application/vnd.course.verdict+json"]
    assert verdict["exercise"] == "tensors.flatten"
    assert (verdict["verdict"] == "PASSED") == (name == "passed")
    assert "seconds" not in verdict
    # Of the buttons there is but the view, which nbval does not compare.
    assert [set(each.data) for each in strip] == [{WIDGET_VIEW}] * (name != "again")


def test_progress_is_shown(outputs):
    (output,) = outputs["progress"]
    assert output.data["text/plain"].startswith("Lesson 01: 1 of 15 exercises passed\n  still open: ")


def test_what_was_done_is_kept_in_one_file(outputs, home):
    (file,) = (home / "progress").iterdir()
    kept = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(each["event"], each.get("outcome")) for each in kept] == [
        ("check", "PASSED"),
        ("check", "ERROR"),
        ("hint", None),
        ("solution", None),
    ]


def test_switched_off_there_are_the_same_outputs_without_controls(outputs):
    (verdict,) = outputs["off"]
    assert verdict.data == outputs["kept"][0].data
    assert [each.data for each in outputs["explorer off"]] == [each.data for each in outputs["explorer"][:3]]


def test_a_kept_verdict_shows_the_same_again(outputs):
    assert outputs["again"][0].data == outputs["kept"][0].data


@pytest.mark.parametrize("name", ["hint", "solution"])
def test_help_has_text_and_html(outputs, name):
    (output,) = outputs[name]
    assert set(output.data) == {"text/plain", "text/html"}


@pytest.mark.parametrize(
    ("name", "line"),
    [("pitfall", "----> torch.arange(6).reshape(2, 3).t().view(6)"), ("in helper", "----> return x.view(6)")],
)
def test_a_pitfall_shows_the_line_of_the_cell(outputs, name, line):
    (output,) = outputs[name]
    assert set(output.data) == {"text/plain", "text/html", "application/vnd.course.pitfall+json"}
    assert line in output.data["text/plain"]


def test_a_claim(outputs):
    (output,) = outputs["claim"]
    assert output.data["application/vnd.course.claim+json"]["verdict"] == "holds"


def test_a_false_claim_is_shown_and_fails(outputs):
    shown, error = outputs["false claim"]
    assert shown.data["application/vnd.course.claim+json"]["verdict"] == "does not hold here"
    assert error.ename == "ClaimFailed"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("no pitfall", "PitfallMissing"),
        ("false claim", "ClaimFailed"),
        ("unknown exercise", "UnknownExercise"),
        ("unknown lesson", "UnknownLesson"),
        ("too large", "TooLargeToDraw"),
        ("device", "DeviceUnavailable"),
    ],
)
def test_errors_of_ours_are_one_line(outputs, name, kind):
    (line,) = error_lines(outputs[name])
    assert line.startswith(f"{kind}: ")
    assert "\n" not in line


def test_another_digest_is_said_if_there_is_one_installed(outputs):
    assert len(outputs["other version"]) <= 1
    for output in outputs["other version"]:
        assert "another version of the course" in output.data["text/plain"]
        assert "\n" not in output.data["text/plain"]


def test_a_picture_has_its_words_three_ways(outputs):
    picture, words = outputs["strides"]
    assert base64.b64decode(picture.data["image/png"]).startswith(b"\x89PNG")
    assert "x: A tensor of shape (2, 3)" in picture.data["text/plain"]
    assert "Marked: element [1, 0] in memory cell 3" in picture.metadata["image/png"]["alt"]
    assert "Marked: element [1, 0] in memory cell 3" in words.data["text/html"]
    assert "<details" in words.data["text/html"]


def test_the_explorer_has_picture_words_and_table_before_the_widget(outputs):
    picture, words, table, widget = outputs["explorer"]
    assert "image/png" in picture.data
    assert "text/html" in words.data
    assert "<table>" in table.data["text/html"]
    assert set(widget.data) == {WIDGET_VIEW}


def test_a_pyplot_figure_is_shown_once(outputs):
    assert sum("image/png" in output.get("data", {}) for output in outputs["pyplot"]) == 1


def test_nothing_else_is_written(outputs):
    streams = {name: outs for name, outs in outputs.items() if any(o.output_type == "stream" for o in outs)}
    assert streams == {}

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import nbformat
import pytest

from course import cli
from course.curriculum import LESSONS
from course.exercises import exercise_ids, load_exercise

ROOT = Path(__file__).resolve().parents[1]
RIGHT = (
    "import torch\nfrom torch import Tensor\n\nprint('noise')\n\n" + load_exercise("tensors.flatten").solution_source()
)
VERDICT_KEYS = {"exercise", "verdict", "fault", "wrong_answer", "diagnosis", "seen", "expected", "seconds"}


def course(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "course", *arguments], capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


@pytest.fixture
def answer(tmp_path):
    """A function that writes an answer's file and returns its path."""

    def write(code: str) -> str:
        path = tmp_path / "answer.py"
        path.write_text(code, encoding="utf-8")
        return str(path)

    return write


def fails(capsys, *arguments: str, code: int) -> str:
    """Run in this process; return the one sentence that it says on standard error."""
    try:
        result = cli.main(arguments)
    except SystemExit as error:
        result = error.code
    captured = capsys.readouterr()
    assert result == code
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.strip()


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.strip() == version("pytorch-course")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("nonsense",), "invalid choice: 'nonsense'"),
        (("build", "99"), "There is no lesson '99'. The lessons are: "),
        (("run", "99"), "There is no lesson '99'"),
        (("solve", "99", "-o", "x"), "There is no lesson '99'"),
        (("solve", "01"), "required: -o/--output"),
        (("build", "--check", "--force"), "keep one of them"),
        (("run", "--device", "tpu"), "'tpu' (choose from "),
        (("run", "--jobs", "0"), "'0' is not a whole number of at least 1"),
        (("run", "--jobs", "many"), "'many' is not a whole number of at least 1"),
        (("run", "--param", "steps=1"), "has no parameter 'steps'. Its parameters are: device, profile."),
        (("run", "--param", "steps"), "should look like name=value"),
        (("run", "--param", "profile=slow"), "It can be: smoke, quick, full."),
        (("run", "--full", "--param", "profile=quick"), "The profile is asked for twice"),
        (("run", "--record"), "add --full"),
        (("check", "tensors.flaten", "x.py"), "Did you mean tensors.flatten"),
        (("check", "tensors.flatten", "nowhere/x.py"), "nowhere/x.py cannot be read: No such file"),
        (("exercises", "--jsn"), "unrecognized arguments: --jsn"),
        (("lab", "99"), "There is no lesson '99'"),
        (("lab", "--port", "8899"), "Give an option of JupyterLab as one word: --port=8899."),
        (("lab", "--workspace", str(ROOT)), "belongs to the clone of the course"),
        (("lab", "--workspace", str(ROOT / "notebooks")), "holds the notebooks that the course brings"),
        (("lab", "--workspace", ""), "--workspace needs the name of a folder."),
        (("reset",), "required: LESSON"),
        (("reset", "99"), "There is no lesson '99'"),
        (("reset", "01", "flat"), "Lesson 01 has no exercise 'flat'. Its exercises are: tensors."),
        (("reset", "01", "--workspace", str(ROOT)), "belongs to the clone of the course"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(capsys, arguments, words):
    assert words in fails(capsys, *arguments, code=2)


def test_an_unusable_request_writes_no_report(tmp_path):
    course("run", "--param", "steps=1", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_exercises_are_counted(capsys):
    assert cli.main(["exercises", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == list(exercise_ids())
    for row in rows:
        exercise = load_exercise(row["id"])
        assert set(row) == {"id", "lesson", "title", "wrong_answers", "alternatives", "hints", "probes"}
        assert row["lesson"] in {lesson.number for lesson in LESSONS}
        assert row["wrong_answers"] == len(exercise.wrong_answers) > 0
        assert row["hints"] == len(exercise.hints) >= 2
    assert cli.main(["exercises"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(rows)
    assert all(row["id"] in line and row["title"] in line for row, line in zip(rows, lines, strict=True))


def test_a_right_answer_passes(answer):
    result = course("check", "tensors.flatten", answer(RIGHT), "--json")
    assert result.returncode == 0
    verdict = json.loads(result.stdout)
    assert set(verdict) == VERDICT_KEYS
    assert verdict["verdict"] == "PASSED"
    assert result.stderr == "noise\n"


def test_a_wrong_answer_is_diagnosed(answer):
    result = course("check", "tensors.flatten", answer("def flatten_elements(x):\n    return x.view(-1)\n"), "--json")
    assert result.returncode == 1
    verdict = json.loads(result.stdout)
    assert (verdict["verdict"], verdict["fault"]) == ("WRONG", "view-of-noncontiguous")
    assert verdict["wrong_answer"].startswith("tensors.flatten/")


def test_a_verdict_is_readable_without_json(answer, capsys):
    assert cli.main(["check", "tensors.flatten", answer("def flatten_elements(x):\n    return x.view(-1)\n")]) == 1
    assert capsys.readouterr().out.startswith("WRONG")


def test_the_stub_is_not_attempted(answer, capsys):
    code = "from torch import Tensor\n" + load_exercise("tensors.flatten").stub_source()
    assert cli.main(["check", "tensors.flatten", answer(code), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "NOT_ATTEMPTED"


@pytest.mark.parametrize(
    ("code", "diagnosis"),
    [
        ("x = 1\ny = 1 / 0\n", "answer.py stopped at line 2 with ZeroDivisionError: division by zero."),
        ("def f(:\n", "answer.py stopped at line 1 with SyntaxError: invalid syntax."),
        ("import sys\n\nsys.exit(3)\n", "answer.py stopped at line 3 with SystemExit: 3."),
        ("raise ValueError\n", "answer.py stopped at line 1 with ValueError."),
        ("import torch\n", "answer.py defines no 'flatten_elements'; call the answer to tensors.flatten that."),
    ],
)
def test_a_file_that_gives_no_answer_gets_a_sentence(answer, capsys, code, diagnosis):
    assert cli.main(["check", "tensors.flatten", answer(code), "--json"]) == 1
    captured = capsys.readouterr()
    verdict = json.loads(captured.out)
    assert (verdict["verdict"], verdict["diagnosis"]) == ("ERROR", diagnosis)
    assert captured.err == ""


def test_values_and_classes_can_be_answers_too(answer, capsys):
    exercise = load_exercise("tensors.read_strides")
    assert cli.main(["check", exercise.id, answer(exercise.solution_source())]) == 0
    assert capsys.readouterr().out.startswith("PASSED")


def test_a_solved_notebook_is_written_once(tmp_path, capsys):
    output = tmp_path / "solved.ipynb"
    assert cli.main(["solve", "01", "-o", str(output)]) == 0
    assert capsys.readouterr().out == f"{output}: lesson 01, every stub replaced by its reference.\n"
    notebook = nbformat.read(output, as_version=4)
    nbformat.validate(notebook)
    stubs = {
        cell.metadata["course"]["exercise"]: cell.source
        for cell in notebook.cells
        if cell.metadata.get("course", {}).get("role") == "stub"
    }
    assert stubs == {id: load_exercise(id).solution_source().strip() for id in stubs}
    assert set(stubs) == {id for id in exercise_ids() if id.startswith("tensors.")}
    output.write_text("my work", encoding="utf-8")
    assert "exists already" in fails(capsys, "solve", "01", "-o", str(output), code=2)
    assert output.read_text(encoding="utf-8") == "my work"
    assert cli.main(["solve", "01", "-o", str(output), "--force"]) == 0
    nbformat.validate(nbformat.read(output, as_version=4))


def test_a_place_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in fails(capsys, "solve", "01", "-o", str(tmp_path / "file" / "x.ipynb"), code=1)


def test_a_report_that_cannot_be_written_is_named(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("course.publishing.run.side_by_side", lambda *_, **__: None)
    assert "file" in fails(capsys, "run", "--device", "cpu", "--output", str(tmp_path / "file"), code=1)


def test_check_of_the_build_is_clean(capsys):
    assert cli.main(["build", "--check"]) == 0
    assert capsys.readouterr().out == "".join(f"{lesson.name}: up to date\n" for lesson in LESSONS)


def test_building_needs_the_sources(monkeypatch, capsys):
    monkeypatch.setattr("course.curriculum.checkout", lambda: None)
    assert "an installed package" in fails(capsys, "build", code=1)


@pytest.fixture
def started(monkeypatch) -> list[tuple]:
    """What `course lab` would have started."""
    calls = []

    def start(lesson, **options) -> int:
        calls.append((lesson and lesson.number, options))
        return 0

    monkeypatch.setattr("course.workspace.lab.start", start)
    return calls


@pytest.mark.parametrize(
    ("arguments", "lesson", "browser", "passed_on"),
    [
        ((), None, True, []),
        (("1",), "01", True, []),
        (("--no-browser", "tensors_and_strides"), "01", False, []),
        (("--port=8899", "01", "--allow-root"), "01", True, ["--port=8899", "--allow-root"]),
        (("--no-browser", "--IdentityProvider.token=x"), None, False, ["--IdentityProvider.token=x"]),
        (("02", "--", "--port", "8899"), "02", True, ["--port", "8899"]),
        (("--ip=::", "--", "--debug", "--"), None, True, ["--ip=::", "--debug", "--"]),
    ],
)
def test_what_jupyterlab_understands_is_passed_on(started, arguments, lesson, browser, passed_on):
    assert cli.main(["lab", *arguments, "--workspace", "w"] if "--" not in arguments else ["lab", *arguments]) == 0
    workspace = None if "--" in arguments else "w"
    assert started == [(lesson, {"workspace": workspace, "browser": browser, "arguments": passed_on})]


def test_lab_says_what_is_in_its_way(tmp_path, capsys):
    (tmp_path / "file").touch()
    for command in (("lab",), ("reset", "01")):
        said = fails(capsys, *command, "--workspace", str(tmp_path / "file"), code=1)
        assert str(tmp_path / "file") in said
        assert "--workspace DIR" in said


def test_a_lesson_is_reset(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = tmp_path / "02_autograd.ipynb"
    notebook.write_text("mine", encoding="utf-8")
    assert cli.main(["reset", "2", "--workspace", str(tmp_path)]) == 0
    (backup,) = (tmp_path / "backups").iterdir()
    assert backup.read_text(encoding="utf-8") == "mine"
    assert capsys.readouterr().out == f"02_autograd.ipynb is restored; yours is kept in backups{os.sep}{backup.name}.\n"
    # The folder holds copies now, so it need not be named in it.
    assert cli.main(["reset", "2"]) == 0
    assert capsys.readouterr().out == "02_autograd.ipynb is as it came; nothing was changed.\n"


def test_status_and_next(capsys):
    assert cli.main(["status"]) == 0
    table = capsys.readouterr().out
    assert all(lesson.title in table for lesson in LESSONS)
    assert cli.main(["status", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)
    assert cli.main(["next"]) == 0
    assert LESSONS[0].title in capsys.readouterr().out


def test_an_interrupt_is_no_traceback(monkeypatch, capsys):
    def interrupted(_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("course.cli.answers._exercises", interrupted)
    assert fails(capsys, "exercises", code=130) == "Interrupted."


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe under the command")
def test_a_reader_that_stops_reading_is_no_traceback():
    command = [sys.executable, "-m", "course", "exercises"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_the_command_line_is_light():
    code = "import sys, course.cli; print([name for name in ('torch', 'numpy', 'nbformat') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_console_script_is_the_same_command():
    script = Path(sys.executable).with_name("course.exe" if os.name == "nt" else "course")
    result = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == version("pytorch-course")

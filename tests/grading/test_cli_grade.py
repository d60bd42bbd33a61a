from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from support.played_grader import PlayedSpec, steps

from course import cli, curriculum
from course.exercises import exercise_ids, load_exercise
from course.grading import engine, grade, sandbox
from course.publishing.solve import solved

TESTS = Path(__file__).resolve().parents[1]
LESSON = curriculum.lesson("01")
IDS = [each for each in exercise_ids() if each.startswith("tensors.")]


@pytest.fixture
def played(tmp_path, monkeypatch) -> Path:
    """Grading is played by what submissions say; the file that tells of it."""
    log = tmp_path / "steps.log"
    log.touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(grade, "GraderSpec", lambda exercises, unprotected: PlayedSpec(str(log), exercises))
    engine.edition()
    return log


@pytest.fixture
def class_folder(tmp_path) -> Path:
    folder = tmp_path / "class"
    folder.mkdir()
    return folder


def hand_in(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def run(*arguments: object) -> int:
    try:
        return cli.main(["grade", *map(str, arguments)])
    except SystemExit as error:
        return error.code


def refused(capsys, *arguments: object) -> str:
    """The one sentence with which a request that makes no sense is refused."""
    assert run(*arguments) == cli.USAGE
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    return captured.err.strip()


def rows_of(path: Path) -> list[dict]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_class_is_graded_by_the_real_grader(tmp_path, class_folder):
    notebook = nbformat.read(curriculum.notebook_path(LESSON), as_version=4)
    for name, content in {"ada": solved(notebook), "bob": notebook}.items():
        (class_folder / name).mkdir()
        nbformat.write(content, class_folder / name / "01.ipynb")
    wrong = load_exercise("tensors.flatten").stub_source().replace("raise NotImplementedError", "return x.view(-1)")
    hand_in(class_folder, eve="import torch\nfrom torch import Tensor\n\n" + wrong)
    (class_folder / "fay.ipynb").write_text("{")
    command = [
        sys.executable,
        "-m",
        "course",
        "grade",
        class_folder,
        "--jobs",
        "1",
        "-o",
        tmp_path / "out" / "grades.csv",
    ]
    # Where there is no protection these answers, which are ours, may run without one.
    command += ["--unprotected"] * (sandbox.protection().name == "none")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "4 submissions, lesson 01."
    rows = rows_of(tmp_path / "out" / "grades.csv")
    names = ["ada/01.ipynb", "bob/01.ipynb", "eve.py", "fay.ipynb"]
    assert [(row["submission"], row["exercise"]) for row in rows] == [(name, each) for name in names for each in IDS]
    outcomes = {name: {r["exercise"]: r["outcome"] for r in rows if r["submission"] == name} for name in names}
    assert set(outcomes["ada/01.ipynb"].values()) == {"PASSED"}
    assert set(outcomes["bob/01.ipynb"].values()) == {"NOT_ATTEMPTED"}
    assert {each for each in IDS if outcomes["eve.py"][each] != "NOT_ATTEMPTED"} == {"tensors.flatten"}
    assert "PASSED" not in outcomes["fay.ipynb"].values()
    (flatten,) = [row for row in rows if row["submission"] == "eve.py" and row["exercise"] == "tensors.flatten"]
    assert (flatten["outcome"], flatten["fault"]) == ("WRONG", "view-of-noncontiguous")
    assert f"Protection: {sandbox.protection().sentence}" in done.stdout
    assert "view-of-noncontiguous" in done.stdout
    summary = json.loads((tmp_path / "out" / "grades-summary.json").read_text())
    assert summary["protection"] == {sandbox.protection().sentence: 4}
    assert [(each["id"], each["submissions"]) for each in summary["faults"]] == [("view-of-noncontiguous", 1)]


def test_what_is_done_is_said_line_by_line(played, class_folder, tmp_path, capsys):
    hand_in(class_folder, a="#", b="#", c="raise badly")
    assert run(class_folder, "--lesson", "01", "--jobs", 1, "-o", tmp_path / "grades.csv") == cli.FAILED
    assert capsys.readouterr().out.splitlines() == [
        "3 submissions, lesson 01.",
        "[1/3] a.py: 15 of 15 passed",
        "[2/3] b.py: 15 of 15 passed",
        "[3/3] c.py: not graded",
        "Protection: played",
        "No misunderstanding was recognised.",
        "The grader failed on 1 submission; grade again with --resume.",
        f"Grades: {tmp_path / 'grades.csv'}. Summary: {tmp_path / 'grades-summary.html'}.",
    ]
    assert len(rows_of(tmp_path / "grades.csv")) == 45


def test_resume_grades_what_is_new_and_another_format_reads_the_same_journal(played, class_folder, tmp_path, capsys):
    hand_in(class_folder, a="#", b="#")
    assert run(class_folder, "--lesson", "1", "-o", tmp_path / "grades.csv") == cli.OK
    hand_in(class_folder, c="#")
    capsys.readouterr()
    assert run(class_folder, "--lesson", "1", "-o", tmp_path / "grades.json", "--resume") == cli.OK
    assert capsys.readouterr().out.splitlines()[:3] == [
        "3 submissions, lesson 01.",
        "2 submissions graded by an earlier run.",
        "[3/3] c.py: 15 of 15 passed",
    ]
    assert steps(played)["begun"] == {"a.py": 1, "b.py": 1, "c.py": 1}
    assert len(json.loads((tmp_path / "grades.json").read_text())["rows"]) == 45
    # Without --resume a run that came to its end is done anew.
    assert run(class_folder, "--lesson", "1", "-o", tmp_path / "grades.csv") == cli.OK
    assert set(steps(played)["begun"].values()) == {2}


@pytest.mark.skipif(os.name != "posix", reason="interrupts a forked run by signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_an_interrupted_run_goes_on(played, class_folder, tmp_path, capfd, number):
    hand_in(class_folder, a="#", b="#", c="sleep 600", d="#")
    arguments = (class_folder, "--lesson", "01", "--jobs", 1, "-o", tmp_path / "grades.csv")
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = run(*arguments)
        finally:
            os._exit(code)
    while "c.py" not in steps(played)["begun"]:
        time.sleep(0.02)
    os.kill(child, number)
    _, status = os.waitpid(child, 0)
    if number == signal.SIGKILL:
        assert os.WTERMSIG(status) == number
    else:
        assert os.WEXITSTATUS(status) == cli.INTERRUPTED
        assert "Interrupted. 2 submissions graded; --resume goes on." in capfd.readouterr().out
    assert not (tmp_path / "grades.csv").exists()
    # Whoever forgets --resume does not lose what there is.
    assert run(*arguments) == cli.USAGE
    captured = capfd.readouterr().err
    assert "was interrupted after 2 submissions. Go on with --resume, or delete" in captured
    hand_in(class_folder, c="#")
    assert run(*arguments, "--resume") == cli.OK
    assert steps(played)["begun"] == {"a.py": 1, "b.py": 1, "c.py": 2, "d.py": 1}
    assert len(rows_of(tmp_path / "grades.csv")) == 60


def test_the_lesson_is_what_the_notebooks_say(played, class_folder, tmp_path, capsys):
    for number in ("01", "02"):
        path = curriculum.notebook_path(curriculum.lesson(number))
        (class_folder / path.name).write_bytes(path.read_bytes())
        if number == "01":
            assert run(class_folder, "-o", tmp_path / "grades.csv") == cli.OK
            assert capsys.readouterr().out.startswith("1 submission, lesson 01.\n")
    problem = refused(capsys, class_folder, "-o", tmp_path / "grades.csv")
    assert problem == "The submissions belong to several lessons: 01 (1), 02 (1). Add --lesson NN, once for each."
    assert run(class_folder, "--lesson", "02", "--lesson", "01", "-o", tmp_path / "both.csv") == cli.OK
    rooms = [row["exercise"].split(".")[0] for row in rows_of(tmp_path / "both.csv")]
    assert list(dict.fromkeys(rooms)) == ["autograd", "tensors"]


def test_requests_that_make_no_sense(class_folder, tmp_path, capsys):
    output = tmp_path / "grades.csv"
    assert "holds no .ipynb and no .py file" in refused(capsys, class_folder, "-o", output)
    hand_in(class_folder, a="x = 1\n")
    assert "should end in .csv or .json" in refused(capsys, class_folder, "-o", tmp_path / "grades.xlsx")
    assert "is no folder" in refused(capsys, tmp_path / "nowhere", "-o", output)
    assert "No submission says which lesson" in refused(capsys, class_folder, "-o", output)
    assert "There is no lesson '77'" in refused(capsys, class_folder, "--lesson", "77", "-o", output)
    assert "whole number" in refused(capsys, class_folder, "--jobs", "0", "-o", output)
    assert "--output" in refused(capsys, class_folder)
    both = (class_folder, "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1", "-o", output)
    assert "--jobs is for this machine" in refused(capsys, *both)
    assert not output.exists()


def test_without_a_protection_grading_is_refused_unless_told(played, class_folder, tmp_path, capsys, monkeypatch):
    none = sandbox.Protection("none", "Nothing protects this system.")
    monkeypatch.setattr(sandbox, "protection", lambda: none)
    hand_in(class_folder, a="#")
    arguments = (class_folder, "--lesson", "01", "-o", tmp_path / "grades.csv")
    problem = refused(capsys, *arguments)
    assert problem.startswith("Nothing protects this system. Answers of people whom you do not trust")
    assert "--unprotected" in problem
    assert run(*arguments, "--unprotected") == cli.OK


def test_an_output_that_cannot_be_written_is_said(played, class_folder, tmp_path, capsys):
    hand_in(class_folder, a="#")
    (tmp_path / "file").write_text("")
    assert run(class_folder, "--lesson", "01", "-o", tmp_path / "file" / "grades.csv") == cli.FAILED
    assert "cannot be written" in capsys.readouterr().err
    (tmp_path / "grades.csv").mkdir()
    assert run(class_folder, "--lesson", "01", "-o", tmp_path / "grades.csv") == cli.FAILED
    error = capsys.readouterr().err
    assert "cannot be written" in error
    assert "--resume" in error
    (tmp_path / "grades.csv").rmdir()
    assert run(class_folder, "--lesson", "01", "-o", tmp_path / "grades.csv", "--resume") == cli.OK
    assert steps(played)["begun"] == {"a.py": 1}


def test_a_scheduler_that_does_not_answer_is_said(played, class_folder, tmp_path, capsys, monkeypatch):
    pytest.importorskip("distributed", reason="the extra `grade` is not installed")
    monkeypatch.setattr("course.grading.cluster.CONNECT_SECONDS", 1.0)
    hand_in(class_folder, a="#")
    arguments = (class_folder, "--lesson", "01", "--scheduler", "tcp://127.0.0.1:1", "-o", tmp_path / "grades.csv")
    assert run(*arguments) == cli.FAILED
    captured = capsys.readouterr()
    assert captured.err.startswith("No scheduler answers at tcp://127.0.0.1:1")
    assert captured.err.count("\n") == 1

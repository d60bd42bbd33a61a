"""Lessons as assignments: what is written, and nbgrader itself releasing, checking and grading them."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock
from nbformat import NotebookNode

from course import cli
from course.curriculum import LESSONS, lesson, notebook_path
from course.exercises import load_exercise
from course.grading.submission import read_answers
from course.publishing import PublishingError, UsageError
from course.publishing.files import read_notebook, write_notebook
from course.publishing.nbgrader import BEGIN, CONFIG, CONFIG_NAME, END, VERIFIED, assignment, export
from course.publishing.outputs import exercise_ids
from course.publishing.source import generate

START = lesson("00")
GRADED = exercise_ids(read_notebook(notebook_path(START)))


def marks(cell: NotebookNode) -> dict:
    return cell.metadata.get("nbgrader", {})


def course(cell: NotebookNode) -> dict:
    return cell.metadata.get("course", {})


def cells_of(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """The cells that nbgrader knows, by its ids."""
    return {marks(cell)["grade_id"]: cell for cell in notebook.cells if marks(cell)}


# What is written.


@pytest.fixture
def written(tiny) -> Callable[..., list[str]]:
    """A function that exports the tiny lesson into a folder."""
    write_notebook(generate(tiny.lesson, tiny.checkout), tiny.notebook)

    def write(folder: Path, **options) -> list[str]:
        return export([tiny.lesson], folder, find=tiny.checkout.notebook, load=tiny.checkout.load_exercise, **options)

    return write


def test_an_exercise_becomes_task_answer_and_graded_check(tiny):
    built = generate(tiny.lesson, tiny.checkout)
    result = assignment(built, tiny.checkout.load_exercise)
    nbformat.validate(result)
    cells = cells_of(result)
    assert list(cells) == ["begin", "tiny-double-task", "tiny-double-answer", "tiny-double"]
    assert 'begin("01"' in cells["begin"].source
    assert cells["tiny-double-answer"].source == (
        f"def double(x):\n    raise NotImplementedError\n{BEGIN}\n\n\ndef double(x):\n    return 2 * x\n{END}"
    )
    assert 'check("tiny.double", double)' in cells["tiny-double"].source
    flags = {name: (m["grade"], m["solution"], m["locked"], m.get("points")) for name, m in map_marks(cells)}
    assert flags == {
        "begin": (False, False, True, None),
        "tiny-double-task": (False, False, True, None),
        "tiny-double-answer": (False, True, False, None),
        "tiny-double": (True, False, True, 1),
    }
    assert [cell.id for cell in result.cells] == [cell.id for cell in built.cells]
    assert built == generate(tiny.lesson, tiny.checkout)


def map_marks(cells: dict[str, NotebookNode]) -> list[tuple[str, dict]]:
    return [(name, marks(cell)) for name, cell in cells.items()]


def test_stored_outputs_are_left_out(tiny):
    built = generate(tiny.lesson, tiny.checkout)
    built.cells[2].update(execution_count=2, outputs=[nbformat.v4.new_output("stream", text="old")])
    result = assignment(built, tiny.checkout.load_exercise)
    assert all(not cell.outputs and cell.execution_count is None for cell in result.cells if "outputs" in cell)


def test_a_course_folder_is_written_and_written_again(written, tmp_path):
    folder = tmp_path / "new" / "course"
    first = written(folder)
    place = folder / "source" / "01_tiny" / "01_tiny.ipynb"
    assert first[0] == f"{place}: exercises: 1, points: 1"
    assert (folder / CONFIG_NAME).read_text(encoding="utf-8") == CONFIG
    before = place.read_bytes()
    assert written(folder)[1] == f"{folder / CONFIG_NAME}: kept as it was"
    assert place.read_bytes() == before


def test_an_edited_assignment_is_replaced_only_when_forced(written, tmp_path):
    written(tmp_path)
    place = tmp_path / "source" / "01_tiny" / "01_tiny.ipynb"
    original = place.read_bytes()
    notebook = read_notebook(place)
    notebook.cells[0].source = "# Mine"
    write_notebook(notebook, place)
    for edited in (place.read_bytes(), b"no notebook at all"):
        place.write_bytes(edited)
        with pytest.raises(UsageError, match=r"01_tiny\.ipynb exists already and differs .* --force"):
            written(tmp_path)
        assert place.read_bytes() == edited
    written(tmp_path, force=True)
    assert place.read_bytes() == original


def test_settings_of_the_instructor_are_kept(written, tmp_path):
    settings = tmp_path / CONFIG_NAME
    settings.write_text("c = get_config()\n", encoding="utf-8")
    line = written(tmp_path, force=True)[-1]
    assert "It lacks a line" in line
    assert 'c.ClearSolutions.code_stub = {"python": ""}' in line
    assert settings.read_text(encoding="utf-8") == "c = get_config()\n"


@pytest.mark.parametrize("line", [BEGIN, "# end solution is written END SOLUTION", "# BEGIN HIDDEN TESTS"])
def test_marks_of_nbgrader_in_a_lesson_are_refused(written, tiny, tmp_path, line):
    tiny.append(f"print(1)\n{line}")
    write_notebook(generate(tiny.lesson, tiny.checkout), tiny.notebook)
    with pytest.raises(PublishingError, match="01_tiny: the cell 01-009-code holds a line that nbgrader takes"):
        written(tmp_path / "course")
    assert not (tmp_path / "course").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("course", "99"), "There is no lesson '99'"),
        (("a_file", "00"), "a_file is a file. Name a folder"),
        ((), "required: DIR"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_sentence(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    Path("a_file").touch()
    try:
        code = cli.main(["export-nbgrader", *arguments])
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert words in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["a_file"]


def test_the_command_writes_the_lessons_that_are_named(capsys, tmp_path):
    assert cli.main(["export-nbgrader", str(tmp_path), "start_here"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(f"00_start_here.ipynb: exercises: {len(GRADED)}, points: {len(GRADED)}")
    assert lines[-1] == f"Next, in {tmp_path}: nbgrader generate_assignment 00_start_here"
    assert [path.name for path in (tmp_path / "source").iterdir()] == ["00_start_here"]


def test_course_grade_reads_the_same_notebooks(tmp_path):
    export([START], tmp_path)
    answers = read_answers(tmp_path / "source" / START.name / f"{START.name}.ipynb")
    assert (answers.problem, answers.lesson) == (None, START.number)
    assert set(GRADED) <= answers.found


def test_the_documentation_names_the_version(root):
    text = (root / "docs" / "nbgrader.md").read_text(encoding="utf-8")
    assert set(re.findall(r"nbgrader[= ]+([\d.]+\d)", text)) == {VERIFIED}


# nbgrader itself. It brings a JupyterLab and a database: it gets an environment of its own, made once. Kernels run in
# this interpreter, which has the course and torch.


@dataclass
class Nbgrader:
    """The installed nbgrader, and a course folder that it works in."""

    python: Path
    folder: Path
    kernels: Path
    home: Path

    def environment(self) -> dict[str, str]:
        # It calls its own `alembic`.
        return os.environ | {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
            "JUPYTER_PATH": str(self.kernels),
            "COURSE_HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
        }

    def __call__(self, *arguments: str, works: bool = True) -> str:
        """Run a command in the course folder; return all that it printed."""
        done = self._run(["-m", "nbgrader", *arguments])
        assert (done.returncode == 0) is works, done.stdout
        return done.stdout

    def api(self, code: str) -> object:
        """What a program in nbgrader's own environment prints as JSON."""
        done = self._run(["-c", code])
        assert done.returncode == 0, done.stdout
        return json.loads(done.stdout.splitlines()[-1])

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1800,
            check=False,
        )


@pytest.fixture(scope="session")
def nbgrader_python(root: Path) -> Path:
    """The interpreter of an environment with nbgrader; without a network it is skipped, in CI (CI=true) it fails."""
    folder = root / "build" / f"nbgrader-{VERIFIED}-{sys.implementation.cache_tag}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    complete = folder / "complete"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=1800):
        if not complete.exists():
            # constraints.txt is for Python 3.11 and newer.
            pins = ["-c", str(root / "constraints.txt")] if sys.version_info >= (3, 11) else []
            install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--retries", "2", *pins]
            for command in (
                [sys.executable, "-m", "venv", "--clear", folder],
                [*install, f"nbgrader=={VERIFIED}"],
            ):
                done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
                if done.returncode != 0:
                    reason = f"nbgrader {VERIFIED} could not be installed: {done.stderr.strip()[-500:]}"
                    if os.environ.get("CI") == "true":
                        pytest.fail(reason)
                    pytest.skip(reason)
            complete.touch()
    return python


@pytest.fixture(scope="module")
def released(nbgrader_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Nbgrader:
    """A course folder with all lessons, exported and released."""
    top = tmp_path_factory.mktemp("nbgrader")
    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    kernel = top / "jupyter" / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps(spec | {"display_name": "Python 3"}), encoding="utf-8")
    export(LESSONS, top / "course")
    nbgrader = Nbgrader(nbgrader_python, top / "course", top / "jupyter", top / "home")
    said = nbgrader("generate_assignment", "*")
    assert "WARNING" not in said
    assert "ERROR" not in said
    return nbgrader


VALIDATE = """
import json, pathlib, nbformat
from nbgrader.nbgraderformat import MetadataValidator
found = sorted(pathlib.Path().glob("*/*/*.ipynb"))
for path in found:
    MetadataValidator().validate_nb(nbformat.read(path, as_version=4))
print(json.dumps([path.as_posix() for path in found]))
"""


@pytest.mark.slow
def test_the_metadata_of_every_lesson_is_valid(released):
    expected = [f"{kind}/{one.name}/{one.name}.ipynb" for kind in ("release", "source") for one in LESSONS]
    assert released.api(VALIDATE) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize("one", LESSONS, ids=lambda one: one.number)
def test_a_release_shows_our_stubs_and_no_solution(released, one):
    built = read_notebook(notebook_path(one))
    notebook = read_notebook(released.folder / "release" / one.name / f"{one.name}.ipynb")
    cells = cells_of(notebook)
    ids = exercise_ids(built)
    stubs = {course(cell)["exercise"]: cell.source for cell in built.cells if course(cell).get("role") == "stub"}
    assert {name for name, cell in cells.items() if marks(cell)["grade"]} == {each.replace(".", "-") for each in ids}
    for each in ids:
        name = each.replace(".", "-")
        assert cells[f"{name}-answer"].source.rstrip() == stubs[each]
        task, check = cells[f"{name}-task"], cells[name]
        assert task.source.startswith("### Exercise: ")
        assert task.metadata["editable"] is task.metadata["deletable"] is False
        assert check.metadata["editable"] is check.metadata["deletable"] is False
        assert len(marks(check)["checksum"]) == 32
    assert [cell.source for cell in notebook.cells if not marks(cell)] == [
        cell.source for cell, mine in zip(built.cells, notebook.cells, strict=True) if not marks(mine)
    ]


@pytest.mark.slow
def test_nbgrader_finds_our_solutions_right(released):
    said = released("validate", f"source/{START.name}/{START.name}.ipynb")
    assert "Success! Your notebook passes all the tests." in said


# Grading. One lesson, each person's notebook is run once.

FAKE = """
class Passed:
    passed = True


def check(*_):
    return Passed()


verdict = Passed()
"""
COUNTS_TENSORS = "def count_trainable(model):\n    return len([p for p in model.parameters() if p.requires_grad])\n"
WRONG_COUNT = load_exercise("start.count_parameters").wrong_answers[0]
WRONG_CHOICE = next(wrong for wrong in load_exercise("start.hidden_state").wrong_answers if wrong.name == "a")

GRADES = """
import json
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print(json.dumps({
        submission.student.id: {
            "score": submission.score,
            "max_score": submission.max_score,
            "grades": {grade.name: [grade.score, grade.needs_manual_grade] for grade in submission.notebooks[0].grades},
            "comments": {comment.name: comment.comment for comment in submission.notebooks[0].comments},
        }
        for submission in book.find_assignment("LESSON").submissions
    }))
"""


# A learner's own cell, after which every cell writes to standard error.
NOISE = """
import sys

get_ipython().events.register("pre_run_cell", lambda info: print("a warning", file=sys.stderr))
"""


def answer(release: NotebookNode, exercise: str, code: str) -> None:
    cells_of(release)[f"{exercise.replace('.', '-')}-answer"].source = code


def right(release: NotebookNode) -> None:
    release.cells.insert(2, nbformat.v4.new_code_cell(NOISE))
    for each in GRADED:
        answer(release, each, load_exercise(each).solution_source())


def wrong(release: NotebookNode) -> None:
    """Wrong answers, and attempts to get points for them."""
    cells = cells_of(release)
    answer(release, "start.count_parameters", COUNTS_TENSORS)
    release.cells.insert(release.cells.index(cells["start-count_parameters"]), nbformat.v4.new_code_cell(FAKE))
    answer(release, "start.driver_fits", "def driver_fits(:\n")
    # The check says that all is well, and is worth more.
    cells["start-choose_device"].source = "assert True"
    cells["start-choose_device"].metadata["nbgrader"]["points"] = 100
    answer(release, "start.hidden_state", 'choice = "a"')
    answer(release, "start.read_the_error", "in_features = 1024")
    answer(release, "start.guarded_forward", "def guarded_forward(layer, x):\n    time.sleep(9999)\n")
    # Right, but nobody can tell.
    answer(release, "start.smoke_test", load_exercise("start.smoke_test").solution_source())
    release.cells.remove(cells["start-smoke_test"])


PEOPLE = {"right": right, "untouched": lambda release: None, "wrong": wrong}


@dataclass
class Graded:
    """What nbgrader said of each person: grades by id of cell, outputs of the same cells, the page of feedback."""

    log: str
    grades: dict[str, dict]
    notebooks: dict[str, dict[str, NotebookNode]]
    pages: dict[str, str]

    def said(self, person: str, exercise: str) -> str:
        """The error that the check of an exercise ended with, or ""."""
        cell = self.notebooks[person][exercise.replace(".", "-")]
        return "\n".join(output.evalue for output in cell.outputs if output.output_type == "error")


@pytest.fixture(scope="module")
def graded(released: Nbgrader) -> Graded:
    folder, name = released.folder, START.name
    release = read_notebook(folder / "release" / name / f"{name}.ipynb")
    for person, change in PEOPLE.items():
        notebook = copy.deepcopy(release)
        change(notebook)
        write_notebook(notebook, folder / "submitted" / person / name / f"{name}.ipynb")
    log = released("autograde", name)
    log += released("generate_feedback", name)
    paths = {person: Path(person, name, name) for person in PEOPLE}
    return Graded(
        log,
        released.api(GRADES.replace("LESSON", name)),
        {
            person: cells_of(read_notebook(folder / "autograded" / path.with_suffix(".ipynb")))
            for person, path in paths.items()
        },
        {
            person: (folder / "feedback" / path.with_suffix(".html")).read_text(encoding="utf-8")
            for person, path in paths.items()
        },
    )


@pytest.mark.slow
def test_right_answers_get_all_points(graded):
    mine = graded.grades["right"]
    assert (mine["score"], mine["max_score"]) == (len(GRADED), len(GRADED))
    assert [graded.said("right", each) for each in GRADED] == [""] * len(GRADED)
    assert f"(Score: {len(GRADED)}.0 / {len(GRADED)}.0)" in graded.pages["right"]
    assert all(f"PASSED  {each}: passed" in texts(graded, "right", each) for each in GRADED)


def texts(graded: Graded, person: str, exercise: str) -> str:
    """What the check of an exercise displays, as plain text."""
    cell = graded.notebooks[person][exercise.replace(".", "-")]
    return "\n".join(output.get("data", {}).get("text/plain", "") for output in cell.outputs)


@pytest.mark.slow
def test_an_untouched_release_gets_none_and_is_told_what_to_do(graded):
    mine = graded.grades["untouched"]
    assert (mine["score"], mine["max_score"]) == (0, len(GRADED))
    for each in GRADED:
        assert mine["grades"][each.replace(".", "-")] == [0, False]
        assert graded.said("untouched", each).startswith(f"NOT_ATTEMPTED  {each}: not attempted yet\n")
    assert set(mine["comments"].values()) == {"No response."}
    assert graded.pages["untouched"].count("not attempted yet") >= len(GRADED)


@pytest.mark.slow
def test_wrong_answers_get_none_and_their_diagnosis(graded):
    mine = graded.grades["wrong"]
    assert mine["score"] == 0
    for each, beginning, words in (
        ("start.count_parameters", "WRONG", WRONG_COUNT.message),
        ("start.driver_fits", "name 'driver_fits' is not defined", ""),
        ("start.hidden_state", "WRONG", WRONG_CHOICE.message),
        ("start.read_the_error", "WRONG", "expected: one integer"),
        ("start.guarded_forward", "TIMED_OUT", "Look for a loop that does not end."),
    ):
        assert mine["grades"][each.replace(".", "-")] == [0, False], each
        assert graded.said("wrong", each).startswith(beginning), each
        assert words in graded.said("wrong", each), each
    # nbconvert turns quotes and the like into entities, the first words of a sentence it leaves alone.
    assert WRONG_CHOICE.message.split(".")[0] in graded.pages["wrong"]


@pytest.mark.slow
def test_an_edited_check_is_put_back(graded):
    assert "Attribute 'checksum' for cell start-choose_device has changed" in graded.log
    assert "Attribute 'points' for cell start-choose_device has changed" in graded.log
    assert graded.grades["wrong"]["max_score"] == len(GRADED)
    assert graded.grades["wrong"]["grades"]["start-choose_device"] == [0, False]
    assert graded.said("wrong", "start.choose_device").startswith("NOT_ATTEMPTED")


@pytest.mark.slow
def test_a_deleted_check_is_left_to_a_person(graded):
    assert graded.grades["wrong"]["grades"]["start-smoke_test"] == [0, True]


@pytest.mark.slow
def test_grading_leaves_no_progress_and_no_buttons(graded, released):
    assert [path for path in released.home.rglob("*") if path.is_file()] == []
    for cells in graded.notebooks.values():
        mime_types = {
            kind for cell in cells.values() for output in cell.get("outputs", ()) for kind in output.get("data", ())
        }
        assert "application/vnd.jupyter.widget-view+json" not in mime_types

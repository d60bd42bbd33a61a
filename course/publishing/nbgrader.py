"""Lessons as assignments of nbgrader: answers to release without, checks that give points, task texts that stay.

nbgrader itself is not needed here: what it reads is metadata of cells and comments in them. An answer cell holds the
stub and below it our solution between nbgrader's marks; a release keeps the stub alone. A check cell raises what the
check says unless it passes. nbgrader puts cells that were locked back as they were before it grades.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

from nbformat import NotebookNode

from course import curriculum
from course.curriculum import Lesson
from course.exercises import load_exercise
from course.publishing import PublishingError, UsageError, files
from course.publishing.outputs import code_cells

# The version that the tests install, release and grade with.
VERIFIED = "0.9.6"
SCHEMA_VERSION = 3
POINTS = 1
CONFIG_NAME = "nbgrader_config.py"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
# What nbgrader looks for in every line of every cell.
MARKS = ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS", "MARK SCHEME", "AUTOTEST")
STUB_SETTING = 'c.ClearSolutions.code_stub = {"python": ""}'

CONFIG = f'''\
"""Settings of nbgrader for lessons of the PyTorch course, verified with nbgrader {VERIFIED}.

`course export-nbgrader` writes this file once and leaves it alone afterwards: it is yours to change.
"""

import os

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "pytorch-course"

# An answer cell holds the stub and our solution below it. In the release nothing takes the solution's place.
{STUB_SETTING}

# Seconds that one cell may take, a kernel to start, and an output to arrive, on a busy machine.
c.Execute.timeout = 300
c.Execute.startup_timeout = 300
c.Execute.iopub_timeout = 60

# nbgrader takes all points of a check during which anything went to standard error, be it a library's warning. Here
# only a check that raises loses its points; in return, feedback does not show what cells wrote to standard error.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = "."

# Buttons and the record of what was passed are for learners, not for a machine that grades.
os.environ["COURSE_PROGRESS"] = "off"
'''

_CHECK = """\
from course import check

verdict = {call}
assert verdict.passed, str(verdict)"""


def assignment(notebook: NotebookNode, load: Callable = load_exercise) -> NotebookNode:
    """Return a copy of a built notebook as the instructor's version of an assignment: solved, without outputs.

    Each exercise becomes a locked task, an answer cell and a check worth POINTS; the cell with `begin`, which imports
    what answers use, is locked too. Ids of cells come from ids of exercises, so grades outlive changes of the lesson.
    """
    result = copy.deepcopy(notebook)
    for cell in code_cells(result):
        cell.outputs, cell.execution_count = [], None
    for cell in result.cells:
        course = cell.metadata.get("course", {})
        grade_id = course.get("exercise", "").replace(".", "-")
        match course.get("role"):
            case "task":
                _mark(cell, f"{grade_id}-task", locked=True)
            case "stub":
                solution = load(course["exercise"]).solution_source().strip()
                # No line between stub and mark: it would stay behind in the release.
                cell.source = f"{cell.source.rstrip()}\n{BEGIN}\n\n\n{solution}\n{END}"
                _mark(cell, f"{grade_id}-answer", solution=True)
            case "check":
                cell.source = _CHECK.format(call=cell.source.strip())
                _mark(cell, grade_id, grade=True, locked=True)
            case None if cell.cell_type == "code" and 'begin("' in cell.source:
                _mark(cell, "begin", locked=True)
    return result


def _mark(
    cell: NotebookNode, grade_id: str, *, grade: bool = False, solution: bool = False, locked: bool = False
) -> None:
    cell.metadata["nbgrader"] = NotebookNode(
        schema_version=SCHEMA_VERSION, grade_id=grade_id, grade=grade, solution=solution, locked=locked, task=False
    )
    if grade:
        cell.metadata["nbgrader"]["points"] = POINTS


def export(
    lessons: Sequence[Lesson],
    folder: Path,
    *,
    force: bool = False,
    find: Callable[[Lesson], Path] = curriculum.notebook_path,
    load: Callable = load_exercise,
) -> list[str]:
    """Make `folder` nbgrader's course folder: settings and `source/LESSON/LESSON.ipynb` for each lesson.

    Returns lines that say what was written. Settings that are there are kept. Raises UsageError, before anything is
    written, when an assignment is there already and is not what would be written, unless `force`.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file. Name a folder for the assignments.")
    wanted = {_place(folder, lesson): _assignment_of(lesson, find(lesson), load) for lesson in lessons}
    changed = [path for path, notebook in wanted.items() if path.exists() and not _holds(path, notebook)]
    if changed and not force:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"{changed[0]}{others} exists already and differs from what would be written: it was edited, or the lesson "
            "has changed. Choose another folder, or add --force to replace it."
        )
    lines = []
    for path, notebook in wanted.items():
        files.write_notebook(notebook, path)
        checks = sum(cell.metadata.get("nbgrader", {}).get("grade", False) for cell in notebook.cells)
        lines.append(f"{path}: exercises: {checks}, points: {checks * POINTS}")
    return [*lines, _settings(folder / CONFIG_NAME)]


def _place(folder: Path, lesson: Lesson) -> Path:
    return folder / "source" / lesson.name / f"{lesson.name}.ipynb"


def _assignment_of(lesson: Lesson, path: Path, load: Callable) -> NotebookNode:
    notebook = assignment(files.read_notebook(path), load)
    for cell in notebook.cells:
        marks = sum(any(mark in line for mark in MARKS) for line in cell.source.splitlines())
        if marks != (2 if cell.metadata.get("nbgrader", {}).get("solution") else 0):
            raise PublishingError(
                f"{lesson.name}: the cell {cell.id} holds a line that nbgrader takes for its own mark."
            )
    return notebook


def _holds(path: Path, notebook: NotebookNode) -> bool:
    try:
        return files.read_notebook(path) == notebook
    except PublishingError:
        return False


def _settings(path: Path) -> str:
    if not path.exists():
        files.write_text(path, CONFIG)
        return f"{path}: settings for nbgrader {VERIFIED}"
    text = path.read_text(encoding="utf-8", errors="replace")
    if STUB_SETTING in text:
        return f"{path}: kept as it was"
    return f"{path}: kept as it was. It lacks a line without which releases do not show our stubs: {STUB_SETTING}"

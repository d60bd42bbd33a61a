"""Solved notebooks: every stub replaced by the exercise's reference."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode

from course.exercises import load_exercise
from course.publishing import UsageError, files
from course.publishing.outputs import code_cells


def solved(notebook: NotebookNode, load: Callable = load_exercise) -> NotebookNode:
    """Return a copy of a built notebook in which each stub cell holds the reference, without any outputs."""
    result = copy.deepcopy(notebook)
    for cell in code_cells(result):
        course = cell.metadata.get("course", {})
        if course.get("role") == "stub":
            cell.source = load(course["exercise"]).solution_source().strip()
        # The stored outputs belong to the stubs.
        cell.outputs = []
        cell.execution_count = None
    return result


def solve(notebook: Path, output: Path, *, force: bool = False, load: Callable = load_exercise) -> None:
    """Write the solved copy of `notebook` to `output`. Raises UsageError when `output` exists, unless `force`."""
    if output.exists() and not force:
        raise UsageError(f"{output} exists already. Choose another name, or add --force to replace it.")
    files.write_notebook(solved(files.read_notebook(notebook), load), output)

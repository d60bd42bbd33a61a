"""Restoring a lesson, or one exercise of it, in the learner's folder; what was there is kept in `backups/`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course.curriculum import Lesson
from course.workspace import files, servers, trust
from course.workspace.copies import copy_path, shipped_notebook
from course.workspace.files import RequestError, WorkspaceError
from course.workspace.manifest import Manifest
from course.workspace.notebooks import Notebook, source

_DEFINITION = re.compile(r"^(?:def|class) +(\w+)|^(\w+) *=(?!=)", re.MULTILINE)


def reset(
    workspace: Path,
    lesson: Lesson,
    exercise: str | None = None,
    *,
    shipped: Callable[[Lesson], Notebook] = shipped_notebook,
    sign: Callable[..., object] = trust.sign,
) -> list[str]:
    """Restore the copy of `lesson`, or in it the cell that answers `exercise`; return sentences about what was done.

    `exercise` is an id ("tensors.flatten"), its last part ("flatten") or the name that its answer defines.

    Raises RequestError for an exercise that the lesson does not have, and WorkspaceError when there is no copy, when
    its cell is not found, or when a file cannot be read or written. The copy is then as it was.
    """
    notebook = shipped(lesson)
    stub = None if exercise is None else _stub(notebook, lesson, exercise)
    path = copy_path(workspace, lesson)
    data = files.read(path)
    if data is None and (stub is not None or not workspace.is_dir()):
        raise WorkspaceError(
            f"There is no {path.name} in {workspace}. `course lab` copies it there; a folder of another name is given "
            "with --workspace DIR."
        )
    if stub is None:
        sentences = _reset_lesson(path, data, notebook)
        _remember(workspace, lesson, notebook)
        if data != notebook.data:
            sign(notebook)
    else:
        sentences = _reset_exercise(path, data, lesson, *stub, sign)
    if servers.serving(workspace):
        sentences.append("Where it is open in JupyterLab: File > Reload Notebook from Disk.")
    return sentences


def _reset_lesson(path: Path, data: bytes | None, shipped: Notebook) -> list[str]:
    if data == shipped.data:
        return [f"{path.name} is as it came; nothing was changed."]
    if data is None:
        if not files.create(path, shipped.data):
            raise WorkspaceError(f"{path} is a link that leads nowhere. Remove it, then start again.")
        return [f"{path.name} was missing and is restored."]
    backup = files.back_up(path, data)
    files.replace(path, shipped.data, instead_of=data)
    return [f"{path.name} is restored; yours is kept in {backup.relative_to(path.parent)}."]


def _reset_exercise(
    path: Path, data: bytes, lesson: Lesson, exercise: str, stub: dict[str, Any], sign: Callable[..., object]
) -> list[str]:
    mine = Notebook.parse(data)
    whole = f"`course reset {lesson.number}` restores the whole lesson and keeps yours in {files.BACKUPS}/."
    if mine is None:
        raise WorkspaceError(f"{path.name} is not a notebook any more; it is kept as it is. {whole}")
    cell, others = _find(mine, exercise, stub)
    if cell is None:
        raise WorkspaceError(
            f"The cell of {exercise} is not in {path.name}: it was deleted, or the notebook is of an earlier version "
            f"of the course. {whole}"
        )
    if source(cell) == source(stub):
        return [f"The cell of {exercise} in {path.name} is as it came; nothing was changed."]
    cell["source"] = stub["source"]
    cell["outputs"], cell["execution_count"] = [], None
    backup = files.back_up(path, data)
    restored = mine.dump()
    files.replace(path, restored, instead_of=data)
    sign(Notebook(restored, mine.content), like=Notebook.parse(data))
    kept = backup.relative_to(path.parent)
    sentences = [f"The cell of {exercise} in {path.name} is restored; the notebook as it was is kept in {kept}."]
    if others:
        sentences.append(f"Other cells that carry this exercise, copies of that cell, were left alone: {others}.")
    return sentences


def _stub(shipped: Notebook, lesson: Lesson, wanted: str) -> tuple[str, dict[str, Any]]:
    stubs = dict(shipped.of_exercise("stub"))
    by_id = [exercise for exercise in stubs if wanted in (exercise, exercise.split(".")[-1])]
    # Several exercises may ask for a `choice`.
    by_name = [exercise for exercise, cell in stubs.items() if wanted in _names(source(cell))]
    for found in (by_id, by_name):
        if len(found) == 1:
            return found[0], stubs[found[0]]
    there = ", ".join(stubs) or "none"
    raise RequestError(f"Lesson {lesson.number} has no exercise {wanted!r}. Its exercises are: {there}.")


def _find(mine: Notebook, exercise: str, stub: dict[str, Any]) -> tuple[dict[str, Any] | None, int]:
    """The cell that answers an exercise, and how many others there are: marked as such, else by id, else by name."""
    code = [cell for cell in mine.cells if cell.get("cell_type") == "code"]
    marked = [cell for found, cell in mine.of_exercise("stub") if found == exercise and cell in code]
    by_id = [cell for cell in code if stub.get("id") is not None and cell.get("id") == stub["id"]]
    if marked:
        # A cell that was copied or split carries the same mark, but another id.
        chosen = next((cell for cell in marked if cell in by_id), marked[0])
        return chosen, len(marked) - 1
    named = [cell for cell in code if set(_names(source(stub))) & set(_names(source(cell)))]
    # An id alone says little: another edition of the lesson gives it to another cell.
    chosen = next((cell for cell in named if cell in by_id), named[0] if len(named) == 1 else None)
    return chosen, 0


def _names(code: str) -> list[str]:
    """The names that a cell defines at its top level: functions, classes, variables."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        # Unfinished code, or magics of IPython.
        return [found for pair in _DEFINITION.findall(code) for found in pair if found]
    names = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def _remember(workspace: Path, lesson: Lesson, shipped: Notebook) -> None:
    manifest = Manifest.read(workspace)
    copy = manifest.of(lesson.name)
    copy.data, copy.text = shipped.bytes_digest, shipped.text_digest
    manifest.write()

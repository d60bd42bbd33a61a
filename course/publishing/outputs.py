"""Outputs of executed cells: made fit to be stored, and read back."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
VERDICT = "application/vnd.course.verdict+json"
CLAIM = "application/vnd.course.claim+json"

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_CELL_FILE = re.compile(r"ipykernel_\d+[/\\]\d+\.py")


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the code cells of a notebook in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def store(cell: NotebookNode) -> None:
    """Make outputs fit to be stored: pieces of one text in one, in the order in which all was shown, and no views of
    widgets, whose state is not stored."""
    kept: list[NotebookNode] = []
    for output in cell.outputs:
        data = output.get("data")
        if data is not None and WIDGET_VIEW in data:
            del data[WIDGET_VIEW]
            if not data:
                continue
        last = kept[-1] if kept else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            kept.append(output)
    cell.outputs = kept


def machine_traces(cell: NotebookNode, scratch: Path) -> list[str]:
    """Return what in a cell's outputs belongs to this machine or process: paths, kernel files, memory addresses.

    `scratch` is the folder in which the kernel ran.
    """
    folders = (scratch, Path(sys.prefix), Path(__file__).resolve().parents[2], Path.home())
    found = []
    for text in _texts(cell):
        found += [f"{folder}{os.sep}" for folder in folders if f"{folder}{os.sep}" in text]
        found += _CELL_FILE.findall(text) + _ADDRESS.findall(text)
    return found


def verdicts(notebook: NotebookNode) -> dict[str, str]:
    """Return the verdict that each exercise's check cell shows, by exercise id."""
    checks = [cell for cell in notebook.cells if cell.metadata.get("course", {}).get("role") == "check"]
    return {payload["exercise"]: payload["verdict"] for cell in checks for payload in _payloads(cell, VERDICT)}


def claims(notebook: NotebookNode) -> list[dict]:
    """Return the claims in order, with the keys of the report; infinities and NaN, which JSON has not, as None."""
    keys = ("name", "kind", "stated", "low", "high", "value", "unit", "verdict")
    found = [payload for cell in code_cells(notebook) for payload in _payloads(cell, CLAIM)]
    return [{key: _finite(payload.get(key)) for key in keys} for payload in found]


def exercise_ids(notebook: NotebookNode) -> list[str]:
    """Return the ids of the exercises that a notebook holds, in order."""
    cells = (cell.metadata.get("course", {}) for cell in notebook.cells)
    return [course["exercise"] for course in cells if course.get("role") == "check"]


def _payloads(cell: NotebookNode, mime: str) -> Iterator[dict]:
    for output in cell.outputs:
        if mime in output.get("data", {}):
            yield dict(output["data"][mime])


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _texts(cell: NotebookNode) -> Iterator[str]:
    for output in cell.outputs:
        yield output.get("text", "")
        for mime, value in output.get("data", {}).items():
            if isinstance(value, str) and not mime.startswith("image/"):
                yield value

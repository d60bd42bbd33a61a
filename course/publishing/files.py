"""Files that readers see old or new, and never half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.publishing import PublishingError


def read_notebook(path: Path) -> NotebookNode:
    """Read a built notebook. Raises PublishingError when it is missing or is no notebook."""
    if not path.is_file():
        raise PublishingError(f"The notebook {path} is missing.")
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except (ValueError, nbformat.ValidationError) as error:
        raise PublishingError(f"{path} is not a valid notebook: {str(error).splitlines()[0]}") from None
    return notebook


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Validate a notebook and write it."""
    nbformat.validate(notebook)
    write_text(path, nbformat.writes(notebook) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file through a temporary neighbour; the folder is made when it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # mkstemp makes files that only their owner reads.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise

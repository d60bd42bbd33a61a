"""Which folder is the learner's."""

from __future__ import annotations

import os
from pathlib import Path

from course import curriculum
from course.workspace import home, manifest
from course.workspace.files import RequestError

NAME = "pytorch-course"
# Where a clone keeps what it is made of.
_PARTS = ("benchmarks", "binder", "course", "lessons", "notebooks", "tests")


def choose(named: str | None = None) -> Path:
    """Return the learner's folder, as an absolute path: `named`, else the first of these.

    - the current folder, where it holds copies already (a terminal of JupyterLab starts there);
    - `notebooks` in $COURSE_HOME, where that is set;
    - `pytorch-course` in the home directory.

    The folder need not exist. Raises RequestError for a name that cannot be one, and for a folder in which the course
    itself lies: the notebooks there are built, and are not copies.
    """
    try:
        if named is not None:
            if not named.strip() or "\0" in named:
                raise RequestError("--workspace needs the name of a folder.")
            folder = Path(named).expanduser().absolute()
        elif manifest.path_in(Path.cwd()).is_file():
            folder = Path.cwd()
        elif os.environ.get(home.HOME_VARIABLE):
            folder = home.home() / "notebooks"
        else:
            folder = Path.home() / NAME
    except (RuntimeError, OSError) as error:
        # No home directory, or a current folder that was removed.
        raise RequestError(f"No folder was found for your copies ({error}). Name one with --workspace DIR.") from None
    _refuse_the_course_itself(folder)
    return folder


def _refuse_the_course_itself(folder: Path) -> None:
    resolved = folder.resolve()
    example = f"--workspace {Path('~', NAME)}"
    if resolved.is_relative_to(curriculum.notebooks_folder().resolve()):
        raise RequestError(
            f"{folder} holds the notebooks that the course brings; copies would be mixed up with them. "
            f"Choose another folder for yours, such as {example}."
        )
    for above in (resolved, *resolved.parents):
        inside = resolved.relative_to(above).parts[:1]
        if _is_clone(above) and (not inside or inside[0] in _PARTS):
            raise RequestError(
                f"{folder} belongs to the clone of the course in {above}: its notebooks are built from lessons/, and "
                f"an update of the clone would touch yours. Choose another folder, such as {example}."
            )


def _is_clone(folder: Path) -> bool:
    return all((folder / part).exists() for part in ("lessons", "pyproject.toml", "course/curriculum.py"))

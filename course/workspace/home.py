"""Where the learner's own files are. `COURSE_HOME` moves everything."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "COURSE_HOME"


def home() -> Path:
    """The folder of what a learner makes: $COURSE_HOME, else the user's data folder of this system.

    It need not exist. Raises RuntimeError where $COURSE_HOME starts with `~` and there is no home directory.
    """
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs

    return platformdirs.user_data_path("pytorch-course", appauthor=False)


def progress_folder() -> Path:
    """Where progress is kept: a file a kernel, see :mod:`course.workspace.records`."""
    return home() / "progress"


def readable(path: Path) -> str:
    """A path as text that every terminal and notebook takes: bytes that are no UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")

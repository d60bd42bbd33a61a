"""What the processes of a job leave for each other: files in one folder. The standard library alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

# The folder of a job. It also marks every process of the job: children inherit the environment.
FOLDER = "COURSE_JOB"
# The process that the next process of the job has to end with.
PARENT = "COURSE_JOB_PARENT"


def folder() -> Path | None:
    """The folder of the job that this process belongs to; None when it was started by hand."""
    return Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None


def write(path: Path, value: Any) -> None:
    """Write JSON so that a reader never sees half of it."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(value), encoding="utf-8")
    os.replace(part, path)


def read(path: Path) -> Any:
    """The JSON in a file, None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

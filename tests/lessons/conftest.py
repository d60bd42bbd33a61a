"""Running notebooks under nbval the way lessons are run: guarded, one thread, in a folder of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from course import curriculum
from course.publishing import outputs
from course.publishing.kernels import kernel_environment


@dataclass(frozen=True)
class Validation:
    """What nbval said: exit code, what it printed, cells run, and cells whose outputs it really compared."""

    code: int
    printed: str
    ran: list[int]
    compared: list[int]


def validate(notebook: Path, folder: Path, *, strict: bool) -> Validation:
    """Run a copy of `notebook` under nbval in `folder`; `strict` compares outputs with the stored ones."""
    copy = Path(shutil.copy(notebook, folder))
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    env = kernel_environment(folder, for_storing=True)
    env[curriculum.NOTEBOOKS_VARIABLE] = str(notebook.parent)
    # Behind the guard's folder, so that `-p nbval_record` finds the module next to this file.
    env["PYTHONPATH"] += f":{Path(__file__).parent}"
    env["NBVAL_RECORD"] = str(folder / "record.json")
    options = ["--nbval" if strict else "--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=300"]
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", "-p", "nbval_record", "-q"]
    result = subprocess.run(
        [*command, "-c", str(folder / "pytest.ini"), "--color=no", str(copy)],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    printed = result.stdout + result.stderr
    path = folder / "record.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"ran": [], "compared": []}
    return Validation(result.returncode, printed, record["ran"], record["compared"])


@pytest.fixture
def nbval(tmp_path):
    """`validate` with a folder of its own."""
    return lambda notebook, *, strict=True: validate(notebook, tmp_path, strict=strict)


@pytest.fixture(scope="session")
def exercises_of() -> dict[str, list[str]]:
    """The exercises of each lesson's built notebook, in order, by lesson number."""
    return {
        lesson.number: outputs.exercise_ids(nbformat.read(curriculum.notebook_path(lesson), as_version=4))
        for lesson in curriculum.LESSONS
    }

"""The import contract of pyproject.toml holds, and can be broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contract of `folder`/pyproject.toml on the package `folder`/course."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A copy of the package and its contract, to plant imports in."""
    shutil.copy(root / "pyproject.toml", tmp_path)
    shutil.copytree(root / "course", tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_no_room_imports_from_above(root: Path):
    done = lint_imports(root)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("room", "line", "broken"),
    [
        ("checking", "from course import exercises", "course.checking.planted -> course.exercises"),
        ("checking", "def late():\n    import course.curriculum", "course.checking.planted -> course.curriculum"),
        ("faults", "import course.curriculum", "course.faults.planted -> course.curriculum"),
    ],
    ids=["upwards", "between ground rooms, inside a function", "faults import nobody"],
)
def test_a_planted_import_breaks_the_contract(copy: Path, room: str, line: str, broken: str):
    (copy / "course" / room / "planted.py").write_text(line + "\n", encoding="utf-8")
    done = lint_imports(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert broken in done.stdout


def test_a_room_without_a_floor_breaks_the_contract(copy: Path):
    (copy / "course" / "attic").mkdir()
    (copy / "course" / "attic" / "__init__.py").touch()
    done = lint_imports(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "course.attic" in done.stdout

"""The wheel alone, in another place, carries the lessons and runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# Put at the end of the installed package, it leaves a file when a kernel imports that package.
WITNESS = """
import pathlib, sys
if "ipykernel.kernelapp" in sys.modules:
    pathlib.Path(__file__).with_name("imported-by-a-kernel").touch()
"""


def python(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter in `cwd` with extra environment variables."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without the network."""
    folder = tmp_path_factory.mktemp("dist")
    done = python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which only the wheel is installed; the dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("elsewhere")
    target = folder / "site"
    done = python("-m", "pip", "install", "--no-deps", "--no-index", "--target", str(target), str(wheel), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    with (target / "course/__init__.py").open("a", encoding="utf-8") as package:
        package.write(WITNESS)
    return folder


def test_it_carries_every_file_of_the_package(root: Path, wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        carried = set(archive.namelist())
    sources = {
        str(file.relative_to(root))
        for file in (root / "course").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "course/curriculum.py" in sources
    assert sources - carried == set()


def test_it_carries_the_notebooks_and_no_sources_of_lessons(root: Path, wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        carried = {name for name in archive.namelist() if name.startswith("course/_notebooks/")}
    expected = {f"course/_notebooks/{file.name}" for file in (root / "notebooks").glob("*.ipynb")}
    assert "course/_notebooks/01_tensors_and_strides.ipynb" in expected
    if (root / "lessons/recorded.json").exists():
        expected.add("course/_notebooks/recorded.json")
    assert carried == expected


def test_the_manifest_points_into_the_wheel(place: Path):
    code = "from course import curriculum as c; print(c.__file__, *map(c.notebook_path, c.LESSONS), sep='\\n')"
    done = python("-c", code, cwd=place, PYTHONPATH=str(place / "site"))
    assert done.returncode == 0, done.stderr
    module, *notebooks = map(Path, done.stdout.splitlines())
    assert module == place / "site/course/curriculum.py"
    assert notebooks
    assert all(path.is_file() and path.parent == place / "site/course/_notebooks" for path in notebooks)


@pytest.mark.parametrize("solved", [False, True], ids=["as shipped", "solved"])
def test_lesson_01_runs_there(place: Path, solved: bool):
    package = place / "site/course/__init__.py"
    package.with_name("imported-by-a-kernel").unlink(missing_ok=True)
    output = place / ("solved" if solved else "shipped")
    arguments = ["run", "01", "--output", str(output), "--param", "profile=smoke", *(["--solved"] if solved else [])]
    done = python("-m", "course", *arguments, cwd=place, PYTHONPATH=str(place / "site"), OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert package.with_name("imported-by-a-kernel").exists()
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    (lesson,) = report["lessons"]
    assert (lesson["lesson"], lesson["status"]) == ("01", "passed")
    assert set(lesson["exercises"].values()) == {"PASSED" if solved else "NOT_ATTEMPTED"}

"""What a reader of the repository meets: no path of our machines, and documents that name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# A home or working folder of some machine, on Unix or Windows, and the temporary names of a kernel's cells. A user
# called "me" is made up, for tests of how paths are shown.
MACHINE_PATH = re.compile(
    r"(?<![\w./])/(root|work|farm|(home|Users)/(?!me/)\w+)/|[A-Z]:\\+Users\\+(?!me\\)|ipykernel_[0-9]+/"
)
MAKE_CALL = re.compile(r"make ([a-z]+)")
COURSE_CALL = re.compile(r"(?:^|[\s`/])course ([a-z-]+)", re.MULTILINE)
GUIDES = ["README.md", "CONTRIBUTING.md"]
DOCUMENTS = [*GUIDES, "docs/grading.md", "docs/nbgrader.md"]


@pytest.fixture(scope="module")
def files(root: Path) -> list[Path]:
    """Every file of the repository that Git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [root / name for name in done.stdout.split("\0") if (root / name).is_file()]


def code_of(document: Path) -> str:
    """The code spans and blocks of a Markdown file, one a line."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return "\n".join(blocks + spans)


def test_machine_paths_are_recognised():
    slash = "/"
    for path in ("root/x", "home/ann/x", "Users/ann/x", "work/main/x"):
        assert MACHINE_PATH.search(f'File "{slash}{path}"')
    assert MACHINE_PATH.search("C:" + "\\Users\\ann")
    assert not MACHINE_PATH.search(f"{slash}home/me/x, tests/work/x, https://example.org/home/ann/, the/root/")


def test_no_file_names_a_path_of_some_machine(root: Path, files: list[Path]):
    assert root / "pyproject.toml" in files
    found = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if MACHINE_PATH.search(line):
                found.append(f"{file.relative_to(root)}:{number}: {line[:120]}")
    assert found == []


def test_tests_and_tools_leave_nothing_that_git_would_add(root: Path):
    products = ["reports/x", "report/x", "notebooks/.ipynb_checkpoints/x", ".venv/x", "dist/x", "mutants/x"]
    products += [".pytest_cache/x", ".ruff_cache/x", ".import_linter_cache/x", "course/__pycache__/x.pyc"]
    command = ["git", "check-ignore", "--no-index", *products]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == products


@pytest.mark.parametrize("name", GUIDES)
def test_documents_name_make_targets_that_exist(root: Path, name: str):
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = set(MAKE_CALL.findall(code_of(root / name)))
    assert named
    assert named - targets == set()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_name_course_commands_that_exist(root: Path, name: str):
    named = set(COURSE_CALL.findall(code_of(root / name)))
    assert named
    for command in sorted(named):
        done = subprocess.run(
            [sys.executable, "-m", "course", command, "--help"], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"course {command}: {done.stderr}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_between_files_lead_somewhere(root: Path, name: str):
    text = (root / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    missing = [link for link in links if "://" not in link and not (root / link).exists()]
    assert missing == []


def test_make_help_names_every_target_for_people(root: Path):
    done = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True)
    for target in ("lab", "test", "quick", "build", "lessons", "lint", "format", "clean"):
        assert f"make {target} " in done.stdout

""".ci/run: ends with the test runner's closing line and with make's exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BASH = shutil.which("bash")
BROWSER = "chromium fonts-dejavu-core"
MISSING = f"git python3 python3-venv g++ python3-dev bubblewrap {BROWSER}"


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A folder with .ci/run alone, and a `bin` folder for commands that stand in for the real ones."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(root / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "bin").mkdir()
    return tmp_path


def command(checkout: Path, name: str, script: str) -> None:
    """Put a shell script on the PATH of `run`."""
    file = checkout / "bin" / name
    file.write_text(f"#!{BASH}\n{script}\n", encoding="utf-8")
    file.chmod(0o755)


def run(checkout: Path, path: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CHROMIUM": "", "PATH": path, **more}
    script = checkout / ".ci/run"
    return subprocess.run([BASH, script], cwd="/", env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("closing", "status"),
    [("===== 3 passed, 1 skipped in 2.50s =====", 0), ("== 1 failed, 2 passed in 75.01s (0:01:15) ==", 2)],
    ids=["passing", "failing"],
)
def test_the_closing_line_of_pytest_comes_last(checkout: Path, closing: str, status: int):
    command(checkout, "make", f"echo '{closing}'; echo 'make: *** [test] Error'; exit {status}")
    done = run(checkout, f"{checkout / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == status
    assert done.stdout.splitlines()[-1] == closing


def test_a_failure_before_the_tests_is_said(checkout: Path):
    command(checkout, "make", "echo 'ruff: E501'; exit 2")
    done = run(checkout, f"{checkout / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "The tests did not start."


@pytest.fixture
def bare(checkout: Path) -> Path:
    """A PATH without make, git, a compiler, Python and a browser; apt-get only writes down what it was asked."""
    for name in ("dirname", "mkdir", "tee", "grep", "tail"):
        (checkout / "bin" / name).symlink_to(shutil.which(name))
    command(checkout, "apt-get", f'echo "$@" >> {checkout}/asked')
    return checkout


def test_only_missing_packages_are_installed(bare: Path):
    command(bare, "make", "echo '== 1 passed in 0.10s =='")
    done = run(bare, str(bare / "bin"))
    if os.geteuid() == 0:
        assert done.returncode == 0, done.stderr
        update, install = (bare / "asked").read_text(encoding="utf-8").splitlines()
        assert update.startswith("update")
        assert install.endswith(f"ca-certificates {MISSING}")
    else:
        assert done.returncode == 1
        assert f"missing: {MISSING}." in done.stderr
        assert not (bare / "asked").exists()


@pytest.mark.parametrize("name", ["chromium", "google-chrome"])
def test_a_browser_that_is_there_is_not_installed(bare: Path, name: str):
    command(bare, "make", "echo '== 1 passed in 0.10s =='")
    command(bare, name, "exit 0")
    done = run(bare, str(bare / "bin"))
    asked = (bare / "asked").read_text(encoding="utf-8") if os.geteuid() == 0 else done.stderr
    assert "python3-dev" in asked
    assert "chromium" not in asked


def test_a_browser_that_was_named_is_taken(bare: Path):
    command(bare, "make", "echo '== 1 passed in 0.10s =='")
    done = run(bare, str(bare / "bin"), CHROMIUM="/opt/some/browser")
    asked = (bare / "asked").read_text(encoding="utf-8") if os.geteuid() == 0 else done.stderr
    assert "chromium" not in asked


def test_tests_know_that_they_run_in_ci(checkout: Path):
    """There the tests that need a browser fail when it is missing instead of being skipped."""
    command(checkout, "make", "echo \"CI is $CI\"; echo '== 1 passed in 0.10s =='")
    assert "CI is true" in run(checkout, f"{checkout / 'bin'}:{os.environ['PATH']}", CI="").stdout

"""Without a browser its tests are skipped and the summary says so loudly; in CI they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(root: Path, path: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one test that needs a browser, with another PATH."""
    unset = ("CHROMIUM", "CI", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    test = "tests/browser/test_lessons.py::test_every_cell_runs"
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, test],
        cwd=root,
        env={**environment, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_missing_browser_is_said_loudly(root: Path, tmp_path: Path):
    """Also through xdist, whose workers see the tests and whose controller writes the summary."""
    done = run(root, str(tmp_path), "-n", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 skipped" in done.stdout
    assert "NOT TESTED IN A BROWSER" in done.stdout
    assert "no browser: none of chromium, chromium-browser, google-chrome" in done.stdout
    assert "apt-get install chromium" in done.stdout


def test_a_missing_browser_fails_in_ci(root: Path, tmp_path: Path):
    done = run(root, str(tmp_path), CI="true")
    assert done.returncode == 1
    assert "no browser: none of chromium" in done.stdout
    assert "NOT TESTED IN A BROWSER" not in done.stdout

"""What all tests share: the checkout, the versions that were verified, and a home of their own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]


def verified_versions() -> dict[str, str]:
    """The pins of constraints.txt: normalised name of the distribution to version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): pinned for name, pinned in pins}


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def pins() -> dict[str, str]:
    """The versions of constraints.txt, see `verified_versions`."""
    return verified_versions()


@pytest.fixture(scope="session")
def torch_is_verified(pins: dict[str, str]) -> bool:
    """Whether the installed torch is the one of constraints.txt: stored outputs are compared only there.

    A local version such as 2.14.1+cpu counts as 2.14.1.
    """
    return Version(version("torch")).public == pins["torch"]


@pytest.fixture(scope="session")
def reports(root: Path) -> Path:
    """The folder whose content CI keeps, also when tests fail. Git ignores it."""
    folder = root / "reports"
    folder.mkdir(exist_ok=True)
    return folder


# Few tests that take minutes. They begin first: last, they would keep one process busy while the others have ended.
LONG = (
    "tests/lessons/test_solved.py",
    "tests/lessons/",
    "tests/exercises/test_mutants.py",
    "tests/browser/",
    "tests/site/",
    "tests/grading/",
    "tests/publishing/",
)


def pytest_configure(config: pytest.Config) -> None:
    """Let interrupts through. A shell that runs this in the background has them ignored, by every child as well."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, file by file, see the Makefile."""
    items.sort(key=lambda item: next((i for i, long in enumerate(LONG) if item.nodeid.startswith(long)), len(LONG)))


OWN = ("COURSE_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
INHERITED = ("JUPYTER_PATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON", "VENV")


@pytest.fixture(autouse=True, scope="session")
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and the kernels that they start, away from the user's files and from the make that started them."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in OWN:
            patch.setenv(name, str(home / name.lower()))
        for name in INHERITED:
            patch.delenv(name, raising=False)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it when no browser looked at the lessons. Here, because of xdist only the top conftest sees the summary."""
    skipped = terminalreporter.stats.get("skipped", [])
    missed = [report for report in skipped if report.nodeid.startswith(("tests/browser/", "tests/site/"))]
    if missed:
        terminalreporter.section("NOT TESTED IN A BROWSER", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(missed)} tests were skipped: {missed[0].longrepr[2].removeprefix('Skipped: ')}.")
        terminalreporter.line("Install chromium (Debian: apt-get install chromium), or let $CHROMIUM name a browser.")

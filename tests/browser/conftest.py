"""A real browser: Debian's chromium, or the Chrome of the machine, driven by Playwright without a download."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# It needs no display, no GPU and no sandbox (which root does not get), and calls nobody on its own account.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """The browser: $CHROMIUM, or the first one on the PATH."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser. Without one the tests are skipped; in CI (CI=true) they fail."""
    found = find_chromium()
    if found is None:
        reason = f"no browser: none of {', '.join(NAMES)} is on the PATH, and $CHROMIUM is not set"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """One browser for the tests of a file; each context in it has a fresh profile."""
    # Far more than anything takes on a quiet machine; a passing test waits no longer than it has to.
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()

"""The site, built once for the tests of a process, and the browser of the other browser tests."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from browser.conftest import browser, chromium  # noqa: F401  (fixtures)

from course.publishing.checkout import Checkout
from course.publishing.site import NEEDED, Site, build_site

BASE_URL = "https://example.org/course/"


@pytest.fixture(scope="session")
def checkout() -> Checkout:
    return Checkout.here()


@pytest.fixture(scope="session")
def sphinx_is_there() -> None:
    """What builds the site is installed. If not, the tests are skipped; in CI (CI=true) they fail."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        reason = f"no site: {', '.join(missing)} not installed, see the extra `site`"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def built(checkout: Checkout, reports: Path, tmp_path_factory: pytest.TempPathFactory, sphinx_is_there: None) -> Site:
    """The site in a folder "course", as it would be published. reports/site.txt keeps what it took and holds."""
    built = build_site(checkout, tmp_path_factory.mktemp("site") / "course", base_url=BASE_URL)
    (reports / "site.txt").write_text(f"{built}\n", encoding="utf-8")
    print(built)
    return built

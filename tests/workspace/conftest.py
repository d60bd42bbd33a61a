from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from course.workspace import recorder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """COURSE_HOME of this test; nothing is there yet."""
    folder = tmp_path / "home of Zoë 例"
    monkeypatch.setenv("COURSE_HOME", str(folder))
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    return folder


@pytest.fixture
def kernel(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """This process looks like a learner's kernel that has recorded nothing; the list holds what it was told."""
    told: list[str] = []
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: object()))
    monkeypatch.setattr(recorder, "_writer", None)
    monkeypatch.setattr(recorder, "_told", False)
    monkeypatch.setattr(recorder, "_tell", told.append)
    return told

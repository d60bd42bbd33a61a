from __future__ import annotations

import pytest

from course.notebook import display


@pytest.fixture
def shown(monkeypatch):
    """What was displayed, in order, instead of being displayed."""
    everything: list[display.Shown] = []
    monkeypatch.setattr(display, "show", everything.append)
    return everything

from __future__ import annotations

import pytest

from course.training import progress as module
from course.training.progress import progress


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_items_pass_through(monkeypatch, disabled):
    monkeypatch.setenv("TQDM_DISABLE", disabled)
    assert list(progress(iter(range(5)), "counting")) == [0, 1, 2, 3, 4]


def test_short_work_shows_nothing(capfd):
    list(progress(range(1000), "short"))
    assert capfd.readouterr().err.strip() == ""


@pytest.mark.skipif("__import__('os').environ.get('TQDM_DISABLE') == '1'", reason="bars are switched off")
def test_long_work_shows_a_bar_with_its_label(capfd, monkeypatch):
    monkeypatch.setattr(module, "DELAY", 1e-9)
    for item in progress(range(3), "long"):
        __import__("time").sleep(0.15 if item < 2 else 0)
    assert "long" in capfd.readouterr().err

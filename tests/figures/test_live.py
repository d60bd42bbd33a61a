from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from course.figures import live


@pytest.fixture
def kernel(monkeypatch):
    """A kernel whose loop keeps what it is to call."""
    calls: list = []
    kernel = SimpleNamespace(io_loop=SimpleNamespace(add_callback=calls.append), calls=calls)
    monkeypatch.setattr(live, "_kernel", lambda: kernel)
    return kernel


def test_there_is_no_front_end_in_plain_python(monkeypatch):
    monkeypatch.delenv(live.VARIABLE, raising=False)
    assert not live.has_front_end()


@pytest.mark.parametrize(("value", "expected"), [(None, True), ("", True), ("off", False), (" OFF", False)])
def test_builds_and_runs_switch_controls_off(kernel, monkeypatch, value, expected):
    monkeypatch.delenv(live.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(live.VARIABLE, value)
    assert live.has_front_end() is expected


def test_requests_of_another_thread_wait_for_the_main_thread(kernel):
    done = []
    live.between_cells(lambda: done.append("main"))
    assert done == ["main"]
    thread = threading.Thread(target=live.between_cells, args=(lambda: done.append("later"),))
    thread.start()
    thread.join()
    assert done == ["main"]
    (waiting,) = kernel.calls
    waiting()
    assert done == ["main", "later"]


def test_without_a_loop_work_is_done_at_once(monkeypatch):
    monkeypatch.setattr(live, "_kernel", lambda: None)
    done = []
    thread = threading.Thread(target=live.between_cells, args=(lambda: done.append(1),))
    thread.start()
    thread.join()
    assert done == [1]

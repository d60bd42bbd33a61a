"""The forked child: what comes back, what stops it, and what it cannot touch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch

from course.checking import isolate
from course.checking.isolate import can_fork, run_in_process, run_isolated
from course.checking.observation import TensorSeen
from course.checking.state import global_state

needs_fork = pytest.mark.skipif(
    not can_fork(), reason="isolation needs fork on Linux without an initialised accelerator"
)


def test_messages_come_back_in_order():
    seen = TensorSeen((2,), "float32", b"\0" * 8)
    run = run_isolated(lambda: iter([1, "two", (3.0, None), seen]), deadline=5)
    assert run.messages == [1, "two", (3.0, None), seen]
    assert run.finished


@needs_fork
def test_a_deadline_ends_what_swallows_every_exception():
    def produce():
        yield "started"
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(10)

    start = time.monotonic()
    run = run_isolated(produce, deadline=0.3)
    assert run.timed_out
    assert run.messages == ["started"]
    assert time.monotonic() - start < 5


@needs_fork
@pytest.mark.parametrize(
    ("how", "ending"),
    [
        (lambda: os._exit(0), "exit code 0"),
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "killed by SIGSEGV"),
        (lambda: sys.exit(1), "failed with SystemExit: 1"),
        (lambda: 1 / 0, "failed with ZeroDivisionError: division by zero"),
    ],
)
def test_other_endings_are_named(how, ending):
    def produce():
        yield 1
        how()

    run = run_isolated(produce, deadline=5)
    assert run.messages == [1]
    assert run.ending == ending


@needs_fork
def test_a_closed_pipe_and_a_child_that_goes_on():
    def produce():
        os.closerange(3, 256)
        time.sleep(30)
        yield 1

    assert run_isolated(produce, deadline=0.3).timed_out


@needs_fork
def test_a_forked_grandchild_reports_nothing_and_does_not_survive():
    def produce():
        pid = os.fork()
        if pid == 0:
            time.sleep(0.1)
        yield pid

    run = run_isolated(produce, deadline=5)
    (pid,) = run.messages
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.02)
    pytest.fail("the grandchild still runs")


@needs_fork
def test_memory_is_limited():
    def produce():
        torch.ones(2**28)
        yield "more than allowed"

    run = run_isolated(produce, deadline=20, memory_bytes=2**28)
    assert run.messages == []
    assert "can't allocate memory" in run.ending


@needs_fork
def test_two_threads_in_the_parent_do_not_hang_the_child():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        a = torch.rand(300, 300, requires_grad=True)
        (a @ a).sum().backward()

        def produce():
            b = torch.rand(300, 300, requires_grad=True)
            (b @ b).sum().backward()
            yield torch.get_num_threads()

        assert run_isolated(produce, deadline=20).messages == [1]
    finally:
        torch.set_num_threads(threads)


@needs_fork
def test_a_message_cannot_run_code_in_the_parent():
    class Evil:
        def __reduce__(self):
            return os.getcwd, ()

    run = run_isolated(lambda: iter([Evil()]), deadline=5)
    assert run.messages == []
    assert "unreadable report" in run.ending


@needs_fork
def test_no_process_to_be_had(monkeypatch):
    def fork():
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(isolate.os, "fork", fork)
    assert "Cannot allocate memory" in run_isolated(lambda: iter([1]), deadline=1).ending


def test_in_process_state_is_restored():
    before = global_state()

    def produce():
        torch.manual_seed(7)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch.autograd.set_detect_anomaly(True)
        torch.set_default_device("meta")
        sys.setrecursionlimit(3000)
        print("not shown")
        yield 1

    assert run_in_process(produce).messages == [1]
    after = global_state()
    for key in before:
        assert repr(before[key]) == repr(after[key]), key


def test_open_files_do_not_pile_up():
    for _ in range(3):
        run_isolated(lambda: iter([1]), deadline=5)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(10):
        run_isolated(lambda: iter([1]), deadline=5)
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before


@needs_fork
def test_a_child_that_cannot_differentiate_hands_over_to_this_process(monkeypatch):
    monkeypatch.setattr(isolate, "backward_works", lambda: False)
    run = run_isolated(lambda: iter([os.getpid()]), deadline=5)
    assert run.finished
    assert run.messages == [os.getpid()]


@needs_fork
def test_a_process_that_has_traced_can_still_differentiate_in_a_child():
    code = (
        "import os, torch\n"
        "from course.checking import isolate\n"
        "torch.export.export(torch.nn.Linear(3, 2), (torch.zeros(2, 3),))\n"
        "torch.ones(1, requires_grad=True).exp().backward()\n"
        "run = isolate.run_isolated(lambda: iter([os.getpid()]), deadline=30)\n"
        "print(run.messages != [os.getpid()])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout.strip() == "True", result.stderr

"""Work on lessons side by side, each with a kernel of its own, and stop in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from course.curriculum import Lesson
from course.publishing.kernels import interrupt_all

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_JOBS = 4
# A lesson that takes this much wall time hangs: the start of a kernel, and many times its budget of CPU time.
START_SECONDS = 60
SECONDS_PER_CPU_SECOND = {"smoke": 10, "quick": 10, "full": 120}


def say_now(line: str) -> None:
    """Print a line of progress at once, also into a pipe."""
    print(line, flush=True)


def default_jobs() -> int:
    """Return how many lessons to run at once: one a core, at most MOST_JOBS, as each takes about 1 GB."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_JOBS, cores))


def time_limit(lesson: Lesson, profile: str = "quick") -> float:
    """Return after how many seconds of wall time a lesson is stopped."""
    return START_SECONDS + SECONDS_PER_CPU_SECOND[profile] * lesson.cpu_seconds


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, done: Callable[[Result], None]
) -> None:
    """Call `work(item)` in `jobs` threads and `done(result)` in this one, as results come.

    An interrupt (or an error of `work`) kills all kernels, waits for the threads and is raised again; results that
    came by then have been handed to `done`.
    """
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting: set[Future] = {pool.submit(work, item) for item in items}
        try:
            while waiting:
                # A timeout, because Windows delivers no interrupt to a thread that waits without one.
                finished, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in finished:
                    done(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            waiting = {future for future in waiting if not future.cancelled()}
            # Again and again: a thread may just now be starting its kernel.
            while waiting:
                interrupt_all()
                waiting = wait(waiting, timeout=0.2).not_done
            raise


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM, by which CI cancels a job, end a run as Ctrl-C does."""
    with _handler(signal.SIGTERM, signal.default_int_handler):
        yield


@contextlib.contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C for a moment."""
    with _handler(signal.SIGINT, signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handler(number: int, handler) -> Iterator[None]:
    # Python sets handlers in the main thread only; elsewhere signals do not arrive anyway.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, old)

"""A process that ends when the one that started it ends. The standard library alone: it runs before anything else."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.2


def end_with_parent(parent: int) -> None:
    """From now on SIGKILL ends this process as soon as its parent is gone; at once if it is gone already.

    parent: the process id that the parent has given itself. Linux sends the signal when the *thread* that started this
    process ends; elsewhere a thread looks at the parent five times a second.
    """
    if not (sys.platform.startswith("linux") and _ask_kernel()):
        threading.Thread(target=_watch, args=(parent,), daemon=True, name="tether").start()
    if os.getppid() != parent:  # it ended before the request was made
        _end()


def _ask_kernel() -> bool:
    import ctypes

    try:
        return ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    _end()


def _end() -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

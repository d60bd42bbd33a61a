"""The warm worker: behind the protection it imports torch once, and then forks a child for each job.

It never reads what a submission holds or says. A job's program and the descriptor for its observations come as open
files and go on to the child as they are, so nothing of one submission is in the memory of the next. What the worker
does itself is to watch (time, processes, memory, files), to end everything that a job started, to empty the folders,
and to tell the grader how it went.

Behind the protection it is process 1 of its own process namespace: its children cannot signal it, it is not dumpable
so that they can neither trace it nor read its memory, and one kill(-1) ends all that they left behind. Messages are
JSON over a socket, with the descriptors beside them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from course.grading import filters
from course.grading.sweeping import dirt, excess, files_in, processes, standing, sweep

STARTED_WITH = sorted(os.environ)  # before any library adds to it
WORK = "work"
MESSAGE_BYTES = 1 << 20
POLL_SECONDS = 0.05
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 36, 38


def main(control: int, isolated: bool, user: int | None) -> None:
    """Serve one grader until it hangs up.

    control: descriptor of a socket. isolated: whether this process is alone in a process namespace.
    user: whom to become before anything else; None to stay.
    """
    if isolated and os.getpid() != 1:
        raise SystemExit("The worker is not process 1 of a namespace of its own; it does not start.")
    _be_harmless(user, isolated)
    with socket.socket(fileno=control) as grader:
        import torch  # noqa: F401  # while the grader gets ready, too

        setup, _ = _receive(grader)
        try:
            _prepare(setup)
        except BaseException as error:
            _send(grader, {"failed": f"{type(error).__name__}: {error}"})
            return
        from course.grading.intact import baseline

        before = baseline()
        setup |= {"files": files_in(setup) if isolated else 0, "standing": standing()}
        gc.collect()
        gc.freeze()
        _send(grader, {"ready": _facts(isolated)})
        while True:
            message, files = _receive(grader)
            if "job" not in message:  # a request to stop one that has ended by now
                continue
            _send(grader, _job(message, files, grader, setup, isolated, before))


def _be_harmless(user: int | None, isolated: bool) -> None:
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None, use_errno=True)
        options = [(PR_SET_NO_NEW_PRIVS, 1)] + ([(PR_SET_DUMPABLE, 0)] if isolated else [(PR_SET_CHILD_SUBREAPER, 1)])
        for option, value in options:
            if libc.prctl(option, value, 0, 0, 0):
                raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
    if isolated and filters.is_known():
        filters.install()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if isolated else signal.SIG_DFL)


def _receive(grader: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, files, _, _ = socket.recv_fds(grader, MESSAGE_BYTES, 2)
    if not data:
        os._exit(0)  # the grader is gone; so is all that this process started
    return json.loads(data), files


def _send(grader: socket.socket, message: dict[str, Any]) -> None:
    grader.send(json.dumps(message).encode())


def _prepare(setup: dict[str, Any]) -> None:
    import torch

    from course.checking.forking import settle_autograd
    from course.exercises import load_exercise

    torch.set_num_threads(1)
    settle_autograd()
    for exercise in setup["exercises"]:
        load_exercise(exercise)
    for name in setup["modules"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    importlib.import_module("course.grading.answering")


def _facts(isolated: bool) -> dict[str, Any]:
    """What of the protection can be seen from inside."""
    facts: dict[str, Any] = {"pid": os.getpid(), "user": os.getuid()}
    with contextlib.suppress(OSError):
        with open("/proc/self/status") as status:
            lines = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
        facts["capabilities"] = int(lines["CapEff"], 16) | int(lines["CapPrm"], 16)
        facts["no_new_privileges"] = lines["NoNewPrivs"] == "1"
        facts["filtered"] = lines.get("Seccomp") == "2" or not filters.is_known()
    with contextlib.suppress(OSError):
        facts["interfaces"] = [name for _, name in socket.if_nameindex()]
    facts["processes"] = len(processes()) if isolated else None
    facts["writable"] = [path for path in ("/", "/usr", "/etc", "/dev", *sys.path) if os.access(path, os.W_OK)]
    facts["environment"] = STARTED_WITH
    return facts


# One job.


def _job(
    message: dict[str, Any], files: list[int], grader: socket.socket, setup: dict[str, Any], isolated: bool, before: Any
) -> dict[str, Any]:
    from course.grading.answering import take_part

    folder = os.path.join(setup["folder"], WORK)
    os.mkdir(folder, 0o700)
    try:
        pid = os.fork()
    except OSError as error:
        ended = f"no process could be started: {error.strerror}"
        return {"job": message["job"], "ended": ended, "why": None, "left": 0, "dirt": ended}
    if pid == 0:
        take_part(files[0], files[1], folder, before)
    for descriptor in files:
        os.close(descriptor)
    why, ended = _watch(pid, grader, setup, message, isolated)
    left = sweep(pid, isolated)
    return {
        "job": message["job"],
        "ended": ended,
        "why": why,
        "left": left,
        "dirt": dirt(setup, isolated, setup["standing"]),
    }


def _watch(
    pid: int, grader: socket.socket, setup: dict[str, Any], job: dict[str, Any], isolated: bool
) -> tuple[str | None, str]:
    """Wait for the child: why it has to be stopped, if it has, and how it ended. It is left to be reaped."""
    end = time.monotonic() + job["seconds"]
    with _ended(pid) as ended:
        while time.monotonic() < end:
            ready, _, _ = select.select([grader, *ended], [], [], POLL_SECONDS)
            if grader in ready:
                message, _ = _receive(grader)
                if message.get("stop") and message.get("number") == job["job"]:
                    return message["stop"], "stopped"
            result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if result is not None:
                return None, _ending(result)
            if isolated and (reason := excess(setup)):
                return reason, "stopped"
    return "time", "stopped"


@contextlib.contextmanager
def _ended(pid: int) -> Iterator[list[int]]:
    """A descriptor that is readable once the child has ended, where the system has such a thing."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield []
        return
    try:
        yield [descriptor]
    finally:
        os.close(descriptor)


def _ending(result: Any) -> str:
    if result.si_code == os.CLD_EXITED:
        return f"exit code {result.si_status}"
    try:
        return f"killed by {signal.Signals(result.si_status).name}"
    except ValueError:
        return f"killed by signal {result.si_status}"

"""What the worker does around a job: count what it uses, end all that it started, empty its folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from typing import Any


def processes() -> list[int]:
    """All processes of this namespace but this one."""
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def excess(setup: dict[str, Any]) -> str | None:
    running = processes()
    if len(running) > setup["limits"]["processes"]:
        return "processes"
    pages = 0
    for pid in running:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/statm") as statm:
                resident, shared = statm.read().split()[1:3]
            pages += int(resident) - int(shared)
    # What the child shares with this process is counted in each of them, so it is taken off once for each.
    own = _own_pages() * len(running)
    return "memory" if (pages - own) * os.sysconf("SC_PAGESIZE") > setup["limits"]["all_memory_bytes"] else None


def _own_pages() -> int:
    with open("/proc/self/statm") as statm:
        resident, shared = statm.read().split()[1:3]
    return int(resident) - int(shared)


def sweep(pid: int, isolated: bool) -> int:
    """End all that the job started; how many processes beside the child were still alive."""
    left = 0
    if isolated:
        alive = [each for each in processes() if each != pid and _is_alive(each)]
        left = len(alive)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        left = _kill_adopted()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    return left


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _kill_adopted() -> int:
    """Without a namespace: end the processes that came to this one when their parents ended."""
    killed = 0
    for _ in range(200):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                found = [int(pid) for pid in children.read().split()]
        except OSError:
            return killed
        if not found:
            return killed
        killed += len(found)
        for child in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return killed


def dirt(setup: dict[str, Any], isolated: bool) -> str | None:
    """Empty the folders; what cannot be removed, if anything: then this worker had better be replaced."""
    try:
        for folder in [setup["folder"], *(["/dev/shm"] if isolated else [])]:
            if not os.path.isdir(folder):
                continue
            for entry in os.scandir(folder):
                if folder == setup["folder"] and entry.name in setup["keep"]:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    _remove(entry.path)
                else:
                    os.unlink(entry.path)
        return "shared memory" if isolated and _shared_segments() else None
    except (OSError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"[:300]


def _remove(folder: str) -> None:
    try:
        shutil.rmtree(folder)
    except OSError:
        os.chmod(folder, 0o700)
        for where, folders, _ in os.walk(folder):
            for path in (os.path.join(where, name) for name in folders):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
        shutil.rmtree(folder)


def _shared_segments() -> bool:
    """Whether System V memory, semaphores or queues were left, which outlive the processes that made them."""
    for kind in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}") as table:
            if len(table.readlines()) > 1:
                return True
    return False

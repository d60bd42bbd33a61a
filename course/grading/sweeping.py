"""What the worker does around a job: count what it uses, end all that it started, empty its folders, look at itself."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import time
from typing import Any


def processes() -> list[int]:
    """All processes of this namespace but this one."""
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def excess(setup: dict[str, Any]) -> str | None:
    """What the processes of a job have too much of, if anything: "processes", "memory" or "files"."""
    running = processes()
    if len(running) > setup["limits"]["processes"]:
        return "processes"
    if files_in(setup) - setup["files"] > setup["limits"]["all_files"]:
        return "files"
    limit = setup["limits"]["all_memory_bytes"]
    resident = {pid: _resident(pid) for pid in running}
    if sum(resident.values()) <= limit:
        return None
    # Much of that may be the same pages, this process's own above all. To find out takes the kernel milliseconds.
    total = sum(_share(pid, held) for pid, held in resident.items())
    return "memory" if total - _resident(os.getpid()) > limit else None


def _resident(pid: int) -> int:
    """Bytes that a process holds in memory, files on a disk left out; what others hold, too, is counted in full."""
    try:
        with open(f"/proc/{pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return 1024 * sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem"))
    except (OSError, ValueError, LookupError):  # it has ended
        return 0


def _share(pid: int, resident: int) -> int:
    """The same, where a page of n processes counts an nth; all of it where the process lets nobody look."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            lines = dict(line.split(":", 1) for line in rollup if line.startswith("Pss_"))
        return 1024 * sum(int(lines[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem"))
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except (OSError, ValueError, LookupError):
        return resident


def files_in(setup: dict[str, Any]) -> int:
    """How many files there are in the folders that lie in memory behind the protection."""
    count = 0
    for folder in (setup["folder"], "/dev/shm"):
        with contextlib.suppress(OSError):
            space = os.statvfs(folder)
            count += space.f_files - space.f_ffree
    return count


def standing() -> dict[str, Any]:
    """What others may do and this process has: its limits, its priority, where it may run. A job must not change it."""
    found: dict[str, Any] = {}
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            with contextlib.suppress(OSError, ValueError):
                found[name] = resource.getrlimit(getattr(resource, name))
    found["priority"] = os.getpriority(os.PRIO_PROCESS, 0)
    if hasattr(os, "sched_getscheduler"):
        found["scheduler"] = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    if hasattr(os, "sched_getaffinity"):
        found["processors"] = os.sched_getaffinity(0)
    return found


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


def dirt(setup: dict[str, Any], isolated: bool, before: dict[str, Any]) -> str | None:
    """Empty the folders; what cannot be removed or put right, if anything: then this worker had better be replaced.

    before: how this process stood before any job.
    """
    try:
        now = standing()
        if changed := sorted(name for name in {*now, *before} if now.get(name) != before.get(name)):
            return f"another {', '.join(changed)} of the worker"
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

"""Cores, memory and disk, as far as this process may use them: a container often gives less than the machine has."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from course.data import places
from course.environment.report import Finding

GIB = 2**30
MEMORY_NEEDED, MEMORY_COMFORTABLE = 2 * GIB, 4 * GIB
DISK_NEEDED, DISK_COMFORTABLE = GIB // 2, 3 * GIB
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def judge_cores(machine: int, usable: float) -> Finding:
    """machine: cores it has; usable: cores' worth of time that this process gets, 1.5 in a limited container."""
    value = f"{_cores(usable)} for this process" + (f", of {machine} in the machine" if usable < machine else "")
    if usable < 2:
        remedy = "Everything runs; processes that load data beside the training bring no gain."
        return Finding("cores", value, "note", remedy)
    return Finding("cores", value)


def judge_memory(total: int, available: int, limit: int | None) -> Finding:
    """All in bytes. total and available: of the machine; limit: of the container (cgroup), None for none."""
    usable = total if limit is None else min(total, limit)
    value = f"{_gib(usable)} GiB"
    if usable < total:
        value += f" (a limit of the container; the machine has {_gib(total)} GiB)"
    value += f", {_gib(min(available, usable))} GiB free"
    if usable < MEMORY_NEEDED:
        remedy = (
            f"torch and a notebook need {_gib(MEMORY_NEEDED)} GiB: raise the container's limit or use a larger machine."
        )
        return Finding("memory", value, "problem", remedy)
    if usable < MEMORY_COMFORTABLE or available < MEMORY_NEEDED:
        remedy = "Close other programs, shut down notebooks that you no longer use, and keep batches small."
        return Finding("memory", value, "note", remedy)
    return Finding("memory", value)


def judge_disk(free: int) -> Finding:
    """free: bytes that can still be written where the course keeps its data."""
    value = f"{_gib(free)} GiB free for data, checkpoints and compiled code"
    if free < DISK_NEEDED:
        remedy = "Free some space, or let COURSE_HOME name a folder on another disk."
        return Finding("disk", value, "problem", remedy)
    if free < DISK_COMFORTABLE:
        return Finding("disk", value, "note", "Enough to start. `python -m pip cache purge` often frees gigabytes.")
    return Finding("disk", value)


def cores() -> Finding:
    machine = os.cpu_count() or 1
    usable: float = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine
    quota = cpu_quota()
    return judge_cores(machine, usable if quota is None else min(usable, quota))


def memory() -> Finding:
    import psutil

    now = psutil.virtual_memory()
    return judge_memory(now.total, now.available, memory_limit())


def disk() -> Finding:
    folder = places.home()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return judge_disk(shutil.disk_usage(folder).free)


def memory_limit() -> int | None:
    """The smallest memory limit of the cgroups this process is in, in bytes; None where there is none."""
    texts = [*_settings("", "memory.max"), *_settings("memory", "memory.limit_in_bytes")]
    # Version 1 says "no limit" by a number close to the largest one.
    limits = [int(text) for text in texts if text.isdigit() and int(text) < 2**60]
    return min(limits, default=None)


def cpu_quota() -> float | None:
    """How many cores' worth of time the cgroups of this process allow; None where there is no quota."""
    pairs = [text.split() for text in _settings("", "cpu.max")]
    for quota, period in zip(_settings("cpu", "cpu.cfs_quota_us"), _settings("cpu", "cpu.cfs_period_us"), strict=False):
        pairs.append([quota, period])
    return min((int(pair[0]) / int(pair[1]) for pair in pairs if pair[0].isdigit()), default=None)


def _settings(controller: str, file: str) -> Iterator[str]:
    """A setting of the process's cgroup and of all above it; controller: of cgroups version 1, "" for version 2."""
    if not sys.platform.startswith("linux") or not OWN_CGROUPS.is_file():
        return
    for line in OWN_CGROUPS.read_text(encoding="utf-8").splitlines():
        number, controllers, path = line.split(":", 2)
        if controller not in controllers.split(",") or (not controller and number != "0"):
            continue
        own = Path(path.lstrip("/"))
        for folder in (own, *own.parents):
            setting = CGROUPS / controller / folder / file
            if setting.is_file():
                yield setting.read_text(encoding="utf-8").strip()


def _cores(number: float) -> str:
    return f"{number:g} core{'' if number == 1 else 's'}"


def _gib(number: float) -> str:
    return f"{number / GIB:.1f}".removesuffix(".0")

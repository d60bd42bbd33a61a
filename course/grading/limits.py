"""What one submission may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    patience: wall time for one exercise, as a multiple of what `check` gives it; a busy machine needs more than one.
    job_seconds: wall time for all exercises of a submission together. cpu_seconds: the same in CPU time, for a process.
    memory_bytes: address space of a process beyond the worker's. all_memory_bytes: of all its processes together.
    file_bytes: size of a file. processes: how many at once, threads included. files: open at once.
    all_files: how many files and folders it may make.
    """

    patience: float = 2.0
    job_seconds: float = 900.0
    cpu_seconds: int = 300
    memory_bytes: int = 2 * 2**30
    all_memory_bytes: int = 3 * 2**30
    file_bytes: int = 64 * 2**20
    processes: int = 64
    files: int = 256
    all_files: int = 100_000

    def of_a_process(self) -> dict[str, int]:
        names = ("cpu_seconds", "memory_bytes", "file_bytes", "processes", "files")
        return {name: getattr(self, name) for name in names}

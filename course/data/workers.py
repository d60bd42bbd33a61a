"""Small datasets that show what worker processes do. Some are wrong on purpose; each says what is wrong.

They live in a module because a worker that is spawned imports what it needs by name, and cannot find what a
notebook's cell defines.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset, IterableDataset


class WorkerIds(Dataset[int]):
    """Each sample is the id of the process that read it; `calls` counts the samples read by this copy."""

    def __init__(self, size: int) -> None:
        self.size, self.calls = size, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        self.calls += 1
        return os.getpid()


class StoredGenerator(Dataset[tuple[int, int]]):
    """Wrong: draws from a generator that is made once and stored. The second number comes from NumPy's global one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, int]:
        return int(self.rng.integers(1000)), int(np.random.randint(1000))


class GlobalGenerator(StoredGenerator):
    """Right: draws from the global generator, which every worker seeds for itself."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        return int(np.random.randint(1000)), int(np.random.randint(1000))


class WholeStream(IterableDataset[int]):
    """Wrong with several workers: every copy yields all the numbers."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))


class SharedHandle(Dataset[int]):
    """Wrong with forked workers: the file is opened once, and all processes move the same file position.

    path: a file of one-byte records. pause: seconds between moving the position and reading.
    """

    def __init__(self, path: str | Path, pause: float = 0.001) -> None:
        self.path, self.pause = path, pause
        self.file: Any = open(path, "rb", buffering=0)  # noqa: SIM115  (kept open on purpose)

    def __len__(self) -> int:
        return os.path.getsize(self.path)

    def __getitem__(self, index: int) -> int:
        self.file.seek(index)
        time.sleep(self.pause)
        record = self.file.read(1)
        return record[0] if record else -1

    def close(self) -> None:
        self.file.close()


class SqliteRows(Dataset[tuple[int, str]]):
    """Right: the rows of a database table, read over a connection that each process opens for itself.

    path: an SQLite file with a table `samples` (id integer primary key from 0, text). A sample is (id, text).
    """

    @classmethod
    def create(cls, path: str | Path, texts: Iterable[str]) -> SqliteRows:
        """Write a new database with these texts, and return its rows."""
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE samples (id INTEGER PRIMARY KEY, text TEXT)")
            connection.executemany("INSERT INTO samples VALUES (?, ?)", enumerate(texts))
        return cls(path)

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._connections: dict[int, sqlite3.Connection] = {}
        with closing(sqlite3.connect(self.path)) as connection:
            (self.size,) = connection.execute("SELECT count(*) FROM samples").fetchone()

    def __len__(self) -> int:
        return int(self.size)

    def __getitem__(self, index: int) -> tuple[int, str]:
        row = self.connection().execute("SELECT id, text FROM samples WHERE id = ?", (index,)).fetchone()
        if row is None:
            raise IndexError(f"row {index} of {len(self)}")
        return int(row[0]), str(row[1])

    def connection(self) -> sqlite3.Connection:
        """The connection of the process that asks."""
        process = os.getpid()
        if process not in self._connections:
            self._connections[process] = sqlite3.connect(self.path)
        return self._connections[process]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connections": {}}

    def close(self) -> None:
        """Close the connection of this process."""
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

"""What has been graded so far: one line a submission, appended as soon as it is graded, so that nothing is done twice.

A run that is killed in the middle of a line loses that line's submission and no other. An entry counts for one content
of one submission, judged by one edition of the exercises: whatever has changed since is graded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FORMAT = 1
_BLOCK = 2**20


class JournalError(Exception):
    """Something about the journal that the user can mend; the message is one or more sentences for people."""


def submission_key(submission_id: str, path: Path, edition: str) -> str:
    """The digest of a submission's name and bytes and of the edition; a file that cannot be read has one too."""
    digest = hashlib.sha256()
    for part in (edition, submission_id):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        digest.update(f"unreadable: {error.errno}".encode())
    return digest.hexdigest()


def files_digest(paths: Iterable[Path], *words: str) -> str:
    """The digest of files' names and bytes and of some words: an edition."""
    digest = hashlib.sha256("\0".join(words).encode())
    for path in sorted(paths):
        data = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


class Journal:
    """The journal of one output file. Use it as a context manager; while it is open no other run may open it.

    entries: what earlier runs graded, by key; each has `rows` and whatever else `add` was given.
    interrupted: the run that wrote last did not come to its end.
    skipped: lines that could not be read, such as the one at which a run was killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        self.interrupted = False
        self.skipped = 0
        self._file: Any = None

    def __enter__(self) -> Journal:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b", buffering=0)
            self._lock()
            self._read()
        except OSError as error:
            self._close()
            raise JournalError(
                f"{self.path} cannot be written: {error.strerror}. It keeps what has been graded, so that an "
                "interrupted run can go on. Mend that, or choose another --output."
            ) from None
        except JournalError:
            self._close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._close()

    def start_over(self) -> None:
        """Forget all entries, also in the file."""
        self._file.truncate(0)
        self.entries.clear()
        self.interrupted, self.skipped = False, 0

    def add(self, key: str, entry: Mapping[str, Any]) -> None:
        """Keep an entry; once this returns it is on the disk."""
        self.entries[key] = dict(entry)
        self._append({"v": FORMAT, "key": key, **entry})

    def finish(self) -> None:
        """Keep that the run came to its end."""
        self._append({"v": FORMAT, "finished": True})
        self.interrupted = False

    def _append(self, line: Mapping[str, Any]) -> None:
        data = memoryview(json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise JournalError(
                f"{self.path} cannot be written: {error.strerror}. What was graded before is kept: mend that, "
                "then go on with --resume."
            ) from None

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        for line in data.split(b"\n"):
            if not line:
                continue
            try:
                entry = json.loads(line)
                version = entry.pop("v")
                if entry.pop("finished", False):
                    self.interrupted = False
                    continue
                key = entry.pop("key")
                usable = isinstance(entry["rows"], list)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                usable, version = False, FORMAT
            if usable and version == FORMAT:
                self.entries[key] = entry
                self.interrupted = True
            else:
                self.skipped += 1
                self.interrupted = True
        if data and not data.endswith(b"\n"):
            self._file.write(b"\n")

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows: two runs into one output are not told apart there
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(
                f"Another run is writing {self.path}. Wait for it to end, or choose another --output."
            ) from None
        except OSError:  # a file system without locks
            return

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

"""Files of the learner: written whole or not at all, and never over something that is not kept elsewhere."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

BACKUPS = "backups"


class WorkspaceError(Exception):
    """Something about the learner's folder that they can mend; the message is one or more sentences for people."""


class ChangedMeanwhile(WorkspaceError):
    """Another program wrote the file between reading and writing it; it is kept."""


class RequestError(WorkspaceError):
    """The request itself makes no sense (an unknown exercise, the clone as a workspace); the message says what does."""


def read(path: Path) -> bytes | None:
    """Return the content of a file, or None where there is none. Raises WorkspaceError when it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _said(error, path, "read") from None


def replace(path: Path, data: bytes, *, instead_of: bytes | None) -> None:
    """Write `data` over a file whose content was `instead_of` (None: the file was missing).

    Raises ChangedMeanwhile when the file has another content by now, WorkspaceError when it cannot be written; it is
    then as it was.
    """
    with _written(path, data) as temporary:
        if read(path) != instead_of:
            raise ChangedMeanwhile(f"{path} was changed by another program meanwhile; it is kept. Start again.")
        os.replace(temporary, path)


def write(path: Path, data: bytes) -> None:
    """Write a file of ours, whatever it was. Raises WorkspaceError when it cannot be written; it is then as it was."""
    with _written(path, data) as temporary:
        os.replace(temporary, path)


def create(path: Path, data: bytes) -> bool:
    """Write a new file; return False, and write nothing, where there is one of that name.

    Raises WorkspaceError when it cannot be written; there is then no file of that name.
    """
    with _written(path, data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:
            # A file system without links (FAT, some network drives) has no better way to take only a free name.
            if os.path.lexists(path):
                return False
            os.rename(temporary, path)
    return True


def back_up(path: Path, data: bytes, *, now: datetime | None = None) -> Path:
    """Keep `data`, the content of `path`, in the folder `backups` beside it, under a name with date and time.

    Raises WorkspaceError when that fails: then nothing may be written over `path`.
    """
    moment = f"{now or datetime.now():%Y-%m-%d %H.%M.%S}"
    number = 1
    while True:
        again = f" {number}" if number > 1 else ""
        backup = path.parent / BACKUPS / f"{path.stem} {moment}{again}{path.suffix}"
        if create(backup, data):
            return backup
        number += 1


def make_folder(path: Path) -> None:
    """Make a folder and those above it. Raises WorkspaceError, also where a new file cannot be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"x" * 4096)
    except OSError as error:
        raise _said(error, path, "written") from None


@contextlib.contextmanager
def _written(path: Path, data: bytes) -> Iterator[str]:
    """A temporary neighbour of `path` that holds `data`, with the permissions of the file that it may replace."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".course-", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        yield temporary
    except OSError as error:
        raise _said(error, path, "written") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        # What open() would have given a new file; there is no way to ask for the mask without setting it.
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask


def _said(error: OSError, path: Path, done: str) -> WorkspaceError:
    reason = error.strerror or type(error).__name__
    return WorkspaceError(
        f"{path} cannot be {done}: {reason}. Nothing of yours is lost. "
        "Mend that, or choose another folder with --workspace DIR."
    )

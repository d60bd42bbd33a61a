"""Writing a file whole or not at all: under another name first, to the disk, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be deleted anyway
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Sink]:
    """A file to write to; when the block ends, it takes the place of the one at the path, in one step.

    After an exception nothing has changed and no temporary file stays. Raises OSError that says how much was written.
    """
    # Renaming is atomic only within one file system: the temporary file lies beside the target.
    target = Path(os.path.realpath(path))
    sink = Sink(target)
    try:
        sink.open()
        yield sink
        sink.finish()
    except BaseException as error:
        # torch may put an error of its own in the place of the file's.
        cause = sink.error or error
        sink.discard()
        if isinstance(cause, OSError):
            raise _explained(cause, sink.count, path, target) from error
        if cause is not error:
            raise cause from error
        raise
    _sync_folder(target.parent)


class Sink:
    """A temporary file beside its target. It keeps its own error, and is locked until it is renamed or given up."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.file: FileIO | None = None
        self.error: BaseException | None = None
        self.count = 0

    def open(self) -> None:
        """Make the file."""
        while True:
            self.path = self.target.with_name(f".{self.target.name}.{secrets.token_hex(4)}.tmp")
            self.file = FileIO(self.path, "xb")
            lock(self.file)
            if fcntl is None or os.fstat(self.file.fileno()).st_nlink:  # else remove_orphans was faster
                return
            self.file.close()

    def write(self, data: Any) -> int:
        """Write all bytes of data, unbuffered, so that an error comes here and not when the file is closed."""
        assert self.file is not None
        view = memoryview(data).cast("B")
        length = len(view)
        try:
            while view:
                written = self.file.write(view)
                self.count += written
                view = view[written:]
        except BaseException as error:
            self.error = error
            raise
        return length

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def finish(self) -> None:
        """Bring the bytes to the disk, then give the file its name."""
        assert self.file is not None
        os.fsync(self.file.fileno())
        if fcntl is None:
            self.file.close()
        os.replace(self.path, self.target)
        self.file.close()

    def discard(self) -> None:
        """Close and delete the file."""
        if self.file is not None:
            self.file.close()
            with contextlib.suppress(OSError):
                self.path.unlink()


def lock(file: FileIO, *, wait: bool = True) -> bool:
    """Lock a file until it is closed or its process dies. False when another has it and wait is False."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        # Some network file systems have no locks. Then an orphan cannot be told from a file in the making.
        return wait and error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK)
    return True


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Run a block while no other process or thread runs such a block for the folder, where the system has locks."""
    if fcntl is None:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_UN)  # a process forked meanwhile has the file open, too
        os.close(number)


def remove_orphans(folder: Path, pattern: str) -> None:
    """Delete the temporary files that killed processes left; those being written are locked, and stay."""
    for path in folder.glob(f".{pattern}.*.tmp"):
        with contextlib.suppress(OSError), FileIO(path, "rb") as file:
            if lock(file, wait=False):
                if fcntl is None:
                    file.close()
                path.unlink()


def _explained(error: OSError, count: int, path: str | Path, target: Path) -> OSError:
    advice = {
        errno.ENOSPC: "free some space or keep fewer checkpoints",
        errno.EDQUOT: "free some of your quota or keep fewer checkpoints",
        errno.ENOENT: f"make the folder {target.parent} first",
    }.get(error.errno or 0, "see that the folder can be written to")
    before = "the file that was there is untouched" if target.is_file() else "there was no file before"
    message = f"cannot save a checkpoint: {error.strerror} after {count:,} bytes; {before}. To do: {advice}"
    return OSError(error.errno, message, str(path))


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the system can."""
    if os.name == "posix":
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(number)

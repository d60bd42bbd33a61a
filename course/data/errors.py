"""What is said when data are damaged, incomplete or out of reach."""

from __future__ import annotations

from pathlib import Path


class DataError(RuntimeError):
    """Data that cannot be used. The message names the file, what is there, what was expected and what to do.

    path: the file or folder it is about.
    """

    def __init__(self, path: str | Path, seen: str, *, expected: str, remedy: str) -> None:
        self.path = Path(path)
        self._parts = (seen, expected, remedy)
        super().__init__(f"{path}: {seen}.\nExpected: {expected}.\nWhat to do: {remedy}.")

    def __reduce__(self) -> tuple:
        seen, expected, remedy = self._parts
        return _rebuild, (self.path, seen, expected, remedy)

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def _rebuild(path: Path, seen: str, expected: str, remedy: str) -> DataError:
    return DataError(path, seen, expected=expected, remedy=remedy)


def no_access(path: str | Path, error: OSError, *, write: bool = False) -> DataError:
    """The DataError for a file or folder that the operating system does not let us read or write."""
    reason = error.strerror or str(error)
    if write:
        return DataError(
            path,
            f"cannot be written ({reason})",
            expected="a folder that you may write to, on a disk with free space",
            remedy="correct its permissions or free some space, or set COURSE_HOME to another folder",
        )
    return DataError(
        path,
        f"cannot be read ({reason})",
        expected="a file or folder that you may read",
        remedy="correct its permissions, or name another folder with root=... or COURSE_DATA",
    )

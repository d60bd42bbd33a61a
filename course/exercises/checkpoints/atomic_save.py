"""Lesson 07: a write that leaves either the old file or the new one."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from course.checking import Exercise
from course.exercises.checkpoints._files import Breaks, folder

exercise = Exercise(
    "checkpoints.atomic_save",
    title="Write so that no moment leaves half a file",
    task="""
        `save_atomically(state, path)` writes `state` with `torch.save`, so that under `path` there is always a whole
        file, the old or the new one, at whatever moment the program is killed.

        - Write a temporary file **in the same folder**. Bring its bytes to the disk (`os.fsync`), then let it take the
          name of `path` with `os.replace`.
        - If anything fails, also by Ctrl-C (`KeyboardInterrupt`, which is no `Exception`), the old file is as it was,
          no temporary file is left, and the error goes on to the caller.
        - `path` is a `str` or a `Path`. Other files in the folder, of whatever name, stay.
        """,
    hints=(
        "os.replace changes a name in one step, and only within one file system. What has to be true of the new file "
        "before it takes the name?",
        "Open the temporary file with 'wb', torch.save into it, flush it, os.fsync its file number, close it, "
        "os.replace. All of that in a try; on any BaseException remove the temporary file and raise again.",
    ),
)


@exercise.stub
def save_atomically(state: object, path: str | os.PathLike[str]) -> None:
    """Write state to path; at every moment path is the whole old file or the whole new one."""
    raise NotImplementedError


@exercise.reference
def written_then_renamed(state, path):
    temporary = f"{path}.part"
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


@exercise.alternative
def pickled_in_memory_first(state, path):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@exercise.alternative
def synced_after_closing(state, path):
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    done = False
    try:
        torch.save(state, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        done = True
    finally:
        if not done:
            temporary.unlink(missing_ok=True)


@exercise.wrong(
    "The file is opened under its own name: from then until the last byte the old checkpoint is gone and the new one "
    "is not there. A kill in between leaves a file that nobody can read."
)
def straight_to_the_path(state, path):
    torch.save(state, path)


@exercise.wrong(
    "The name changes before the bytes are on the disk: without os.fsync the system may write them later. After a "
    "power cut the name can point to an empty file."
)
def without_fsync(state, path):
    temporary = f"{path}.part"
    try:
        torch.save(state, temporary)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


@exercise.wrong(
    "os.fsync is called while bytes still wait in Python's own buffer: those are not on the disk. flush() hands them "
    "to the system, and only then fsync can bring them there."
)
def synced_before_the_flush(state, path):
    buffer, temporary = io.BytesIO(), f"{path}.part"
    torch.save(state, buffer)
    try:
        with open(temporary, "wb", buffering=1 << 24) as file:
            file.write(buffer.getvalue())
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


@exercise.wrong(
    "The temporary file lies in another folder. That may be another disk, and across disks a rename is a copy, which "
    "can be cut short like any other write."
)
def temporary_elsewhere(state, path):
    with tempfile.TemporaryDirectory() as other:
        temporary = os.path.join(other, "state.pt")
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        shutil.move(temporary, path)


@exercise.wrong(
    "The old file is removed before the new one takes its name. Between the two lines there is no checkpoint at all. "
    "os.replace overwrites by itself."
)
def removed_first(state, path):
    temporary = f"{path}.part"
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            os.remove(path)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


@exercise.wrong(
    "The old file is safe, but a failed write leaves its temporary file. A run that fails each hour fills the disk, "
    "and the next reader may take it for a checkpoint."
)
def leaves_its_temporary_file(state, path):
    temporary = f"{path}.part"
    with open(temporary, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@exercise.wrong(
    "`except Exception` does not see Ctrl-C and SystemExit: these are BaseExceptions. Just when someone stops the run "
    "in the middle of a write, the temporary file stays."
)
def cleans_up_after_exceptions_only(state, path):
    temporary = f"{path}.part"
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except Exception:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


@exercise.wrong(
    "The error ends here: the caller goes on as if the state had been saved, and finds out when it is needed. Clean "
    "up, then raise again."
)
def swallows_the_error(state, path):
    temporary = f"{path}.part"
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)


@exercise.wrong(
    "After a failure every temporary file in the folder is removed, also one that another program is just writing. "
    "Remove the one that this call has made."
)
def removes_all_temporary_files(state, path):
    path = Path(path)
    try:
        with open(path.with_name(f"{path.name}.{os.getpid()}.tmp"), "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except BaseException:
        for temporary in path.parent.glob("*.tmp"):
            temporary.unlink()
        raise


OLD, NEW = {"step": 1, "w": torch.ones(3)}, {"step": 2, "w": torch.zeros(70_000)}


class Watch:
    """Notes what reaches the disk and which names change, while it lasts."""

    def __init__(self, path: Path, fails: bool = False) -> None:
        self.path, self.fails = path, fails
        self.synced: dict[int, int] = {}  # inode -> size when it was last synced
        self.notes: list[dict[str, Any]] = []
        self.removals: list[bool] = []

    def fsync(self, file: Any) -> None:
        status = os.fstat(file if isinstance(file, int) else file.fileno())
        self.synced[status.st_ino] = status.st_size

    def renamed(self, original: Any) -> Any:
        def rename(source: Any, target: Any, *args: Any, **options: Any) -> Any:
            status = os.stat(source)
            if os.path.abspath(target) == str(self.path):
                self.notes.append(
                    {
                        "temporary file in the same folder": os.path.dirname(os.path.abspath(source))
                        == str(self.path.parent),
                        "some bytes brought to the disk before": status.st_ino in self.synced,
                        "all bytes brought to the disk before": self.synced.get(status.st_ino) == status.st_size,
                        "old file whole until then": same(torch.load(self.path), OLD) if self.path.exists() else None,
                        "new file whole by then": same(torch.load(source), NEW),
                    }
                )
                if self.fails:
                    raise PermissionError("the name cannot be changed")
            return original(source, target, *args, **options)

        return rename

    def __enter__(self) -> Watch:
        self.stack = ExitStack()
        replace, rename = self.renamed(os.replace), self.renamed(os.rename)
        for owner, name, function in (
            (os, "fsync", self.fsync),
            (os, "replace", replace),
            (os, "rename", rename),
            # Before Python 3.11 these two do not look up os.replace and os.rename when they are called.
            (Path, "replace", lambda path, target: replace(path, target)),
            (Path, "rename", lambda path, target: rename(path, target)),
        ):
            self.stack.enter_context(mock.patch.object(owner, name, function))
        return self

    def __exit__(self, *_: Any) -> None:
        self.stack.close()


def same(one: Any, other: Any) -> bool:
    return one["step"] == other["step"] and torch.equal(one["w"], other["w"])


def listing(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def prepared(place: Path) -> Path:
    """A folder as a run leaves it: an old checkpoint, and files that belong to others."""
    torch.save(OLD, place / "last.pt")
    for name in ("last.json", "last.pt.bak", "best.pt", "best.pt.tmp"):
        (place / name).write_text(name)
    return place / "last.pt"


@exercise.probe
def a_new_file(answer):
    with folder() as place:
        result = answer(NEW, str(place / "first.pt"))
        return result, listing(place), torch.load(place / "first.pt")["step"]


@exercise.probe
def over_an_old_file(answer):
    with folder() as place:
        path = prepared(place)
        answer(NEW, path)
        return listing(place), torch.load(path)["step"], (place / "last.pt.bak").read_text()


@exercise.probe
def a_relative_path(answer):
    here = os.getcwd()
    with folder() as place:
        try:
            os.chdir(place)
            with Watch(Path.cwd() / "last.pt") as watch:
                answer(NEW, "last.pt")
        finally:
            os.chdir(here)
        return listing(place), watch.notes


@exercise.probe
def the_order_of_things(answer):
    with folder() as place:
        path = prepared(place)
        with Watch(path) as watch:
            answer(NEW, path)
        return watch.notes


def interrupted(answer, error):
    """What is in the folder after a write that an error ended, and how the call ended."""
    with folder() as place:
        path = prepared(place)
        try:
            answer({"w": torch.zeros(70_000), "more": Breaks(error)}, path)
        except NotImplementedError:
            raise
        except BaseException as raised:
            ending = type(raised).__name__
        else:
            ending = "no error"
        try:
            old = torch.load(path)["step"]
        except Exception:
            old = "the file cannot be read"
        return ending, listing(place), old


@exercise.probe
def the_write_fails_in_the_middle(answer):
    return interrupted(answer, OSError("no space left on device"))


@exercise.probe
def stopped_in_the_middle(answer):
    return interrupted(answer, KeyboardInterrupt())


@exercise.probe
def the_name_cannot_be_changed(answer):
    with folder() as place:
        path = prepared(place)
        try:
            with Watch(path, fails=True):
                answer(NEW, path)
        except OSError:
            return "error", listing(place), path.exists() and torch.load(path)["step"]
        return "no error", listing(place), path.exists() and torch.load(path)["step"]


@exercise.probe
def the_folder_is_missing(answer):
    with folder() as place:
        try:
            answer(NEW, place / "missing" / "last.pt")
        except NotImplementedError:
            raise
        except (OSError, RuntimeError):
            return "an error", listing(place)
        return "no error", listing(place)


@exercise.probe
def the_temporary_file_cannot_be_opened(answer):
    """Whether the error that comes, if one does, is that of opening it."""

    def refused(*_, **__):
        raise PermissionError("no file can be made here")

    with folder() as place:
        path = prepared(place)
        try:
            with mock.patch("builtins.open", refused):
                answer(NEW, path)
        except OSError as error:
            return isinstance(error, PermissionError)
        return True

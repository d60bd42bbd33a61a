"""Recording: one line an event, in a file that only this process writes.

No lock and no shared file, so that several kernels, a kill at any moment and a home directory on a network are all
harmless. The file is opened for each line: a descriptor kept open would be shared with forked children, could be closed
by the learner's code, and would go on writing into a folder that was moved.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from course.workspace import home
from course.workspace.records import EVENTS, SUFFIX, Record, encode

SWITCH_VARIABLE = "COURSE_PROGRESS"

_ADVICE = {
    errno.ENOSPC: "Free some space on that disk",
    errno.EDQUOT: "Free some space on that disk",
    errno.ENOTDIR: f"A file is where a folder should be: move it, or set {home.HOME_VARIABLE} to a folder",
    errno.EEXIST: f"A file is where a folder should be: move it, or set {home.HOME_VARIABLE} to a folder",
}
_OTHER_ADVICE = f"Set {home.HOME_VARIABLE} to a folder that you may write to, then restart JupyterLab"


class _Writer:
    """What one process writes: the name of its file, the number of its records, the lines not written yet."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        # Process ids come back, and machines that share a home directory may use the same one.
        host = re.sub(r"[^A-Za-z0-9]+", "-", platform.node()).strip("-")[:40] or "host"
        self.kernel = f"{host}-{self.pid}-{secrets.token_hex(6)}"
        self._lock = threading.Lock()
        self._number = 0
        self._unwritten: list[bytes] = []
        self._torn = False

    def add(self, event: str, exercise: str, outcome: str | None) -> None:
        with self._lock:
            self._number += 1
            now = datetime.now(timezone.utc)
            record = Record(self.kernel, self._number, now, time.monotonic(), event, exercise, outcome)
            self._unwritten.append(encode(record))
            self._write(home.progress_folder() / f"{self.kernel}{SUFFIX}")

    def _write(self, path: Path) -> None:
        """Append what is not written yet; what fails stays for the next time."""
        descriptor = _opened(path)
        written = 0
        try:
            for line in self._unwritten:
                # After a line that was cut short, the next one begins on a line of its own.
                data = b"\n" + line if self._torn else line
                self._torn = True
                if os.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._torn = False
                written += 1
        except BaseException:
            del self._unwritten[:written]
            with contextlib.suppress(OSError):
                os.close(descriptor)
            raise
        # A network file system may report only here that it could not keep the lines; written again, they count once.
        os.close(descriptor)
        self._unwritten.clear()


_writer: _Writer | None = None
_told = False


def _print(sentence: str) -> None:
    print(sentence, file=sys.stderr)


_tell: Callable[[str], None] = _print


def on_problem(tell: Callable[[str], None]) -> None:
    """Let `tell` say that progress cannot be kept: one sentence, once a kernel. By default it is printed to stderr."""
    global _tell
    _tell = tell


def recording() -> bool:
    """Whether this process keeps progress: it runs IPython, and $COURSE_PROGRESS is not "off"."""
    if os.environ.get(SWITCH_VARIABLE, "").strip().lower() == "off":
        return False
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_shell is not None and get_shell() is not None


def record(event: str, exercise_id: str, *, outcome: str | None = None) -> None:
    """Keep that something happened with an exercise, where :func:`recording` says so.

    event: "check", with the verdict's outcome, such as "PASSED"; "hint"; "solution".

    Raises ValueError for another event or a check without an outcome, and nothing else: where the event cannot be
    kept, that is said once a kernel, and this process tries again at its next event.
    """
    if event not in EVENTS or (event == "check") is (outcome is None):
        raise ValueError(
            f"{event!r} with outcome {outcome!r}: the events are {', '.join(EVENTS)}, check has an outcome"
        )
    if not recording():
        return
    global _writer
    try:
        if _writer is None or _writer.pid != os.getpid():
            # A forked child has a file of its own, and leaves unwritten lines to its parent.
            _writer = _Writer()
        _writer.add(event, str(exercise_id), None if outcome is None else str(getattr(outcome, "value", outcome)))
    except Exception as error:
        _say_once(error)


def _opened(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o666)


def _say_once(error: Exception) -> None:
    global _told
    if _told:
        return
    _told = True
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    advice = _ADVICE.get(getattr(error, "errno", None), _OTHER_ADVICE)
    where = ""
    with contextlib.suppress(Exception):
        where = f" in {home.readable(home.progress_folder())}"
    with contextlib.suppress(Exception):
        _tell(
            f"Progress cannot be kept{where} ({reason}). The lesson goes on, and checks work as before. {advice}; "
            "this kernel tries again at its next check or hint."
        )

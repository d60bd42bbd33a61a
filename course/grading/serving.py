"""A grading process: it pays for the start of torch once, then grades one submission after the other.

Whoever starts it holds a `Remote`; both speak JSON, a line a message, over the process's standard input and output.
Each knows that the other is gone when the pipe ends, so that nobody is left behind when either is killed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from course.grading.row import Row

WATCH_SECONDS = 1.0


class Grades(Protocol):
    """What grades: see `course.grading.grade.Grader`."""

    def grade(self, path: Path, submission: str) -> list[Row]: ...

    def close(self) -> None: ...


class Spec(Protocol):
    """How to make one, wherever it is needed; can be pickled."""

    exercises: tuple[str, ...]

    def grader(self) -> Grades: ...


class GradingError(Exception):
    """No submission can be graded in this way; the message is one or more sentences for people."""


class GraderLost(Exception):
    """The grading process ended, or had to be stopped, before it answered; the message says how."""


class Stopped(Exception):
    """The grading process was closed while it was asked: the run is over."""


class Remote:
    """A grading process, started when it is first needed and again after it was lost.

    limit: wall seconds that one submission may take altogether; then the process is killed. It is a second net: the
    grader stops submissions by limits of its own.
    """

    def __init__(self, spec: Spec, *, limit: float) -> None:
        self._spec = base64.b64encode(pickle.dumps(spec)).decode()
        self._limit = limit
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self._guard = threading.Lock()
        self._talking = threading.Lock()
        self.starts = 0
        self.protection = ""

    def grade(self, path: Path, submission: str) -> list[Row]:
        """The rows of one submission. Raises GraderLost, GradingError when no grader can be made, and Stopped."""
        with self._talking:
            if self._process is None:
                self._start()
            answer = self._ask({"path": os.fspath(path), "submission": submission})
            if "problem" in answer:
                # Whatever broke in it, the next submission gets a new one.
                self._drop()
                raise GraderLost(answer["problem"])
        return [Row.from_dict(row) for row in answer["rows"]]

    def let_go(self) -> None:
        """Let the process end when it is done with what it does; it is asked nothing more."""
        with self._guard:
            self._closed = True
            process = self._process
        if process is not None:
            with contextlib.suppress(OSError, ValueError):
                process.stdin.close()

    def close(self, patience: float = 5.0) -> None:
        """End the process, by force after `patience` seconds; `grade` of another thread then raises Stopped."""
        self.let_go()
        process = self._process
        if process is not None:
            _end(process, patience)
            with self._talking, contextlib.suppress(OSError, ValueError):
                process.stdout.close()

    def _start(self) -> None:
        with self._guard:
            if self._closed:
                raise Stopped
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="ascii",
                env=_environment(),
                # Ctrl-C in a terminal is for the process that started the run.
                start_new_session=True,
            )
        self.starts += 1
        ready = self._ask({"spec": self._spec})
        if "refused" in ready:
            self._drop()
            raise GradingError(ready["refused"])
        self.protection = ready["protection"]

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        slow = threading.Event()

        def stop() -> None:
            slow.set()
            process.kill()

        watch = threading.Timer(self._limit, stop)
        watch.daemon = True
        watch.start()
        try:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            return json.loads(line)
        except (OSError, ValueError):
            code = self._drop()
            if self._closed:
                raise Stopped from None
            if slow.is_set():
                raise GraderLost(f"the grading process gave no answer within {self._limit:g} seconds") from None
            how = f"killed by signal {-code}" if code < 0 else f"with exit code {code}"
            raise GraderLost(f"the grading process ended ({how})") from None
        finally:
            watch.cancel()

    def _drop(self) -> int:
        with self._guard:
            process, self._process = self._process, None
        code = _end(process, 5.0)
        with contextlib.suppress(OSError, ValueError):
            process.stdout.close()
        return code


def _end(process: subprocess.Popen[str], patience: float) -> int:
    """Let a process end by itself, for it has others to end; kill it when it does not. Return its exit code."""
    with contextlib.suppress(OSError, ValueError):
        process.stdin.close()
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _environment() -> dict[str, str]:
    # One thread a process: several processes with a thread each are faster than several that compete.
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def _leave_with(parent: int) -> None:
    """End this process when its parent is gone, even in the middle of a submission: nobody waits for the answer."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


def serve() -> int:
    """Grade what standard input asks for, until it ends."""
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    # Nothing that a library prints may look like an answer, and no process that is started may hold the pipes.
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    with os.fdopen(source, encoding="ascii") as requests, os.fdopen(sink, "w", encoding="ascii") as answers:

        def answer(message: dict[str, Any]) -> None:
            answers.write(json.dumps(message) + "\n")
            answers.flush()

        first = requests.readline()
        if not first:
            return 0
        try:
            # From whoever started this process, never from a submission.
            grader = pickle.loads(base64.b64decode(json.loads(first)["spec"])).grader()
        except Exception as error:
            answer({"refused": str(error) or type(error).__name__})
            return 1
        answer({"protection": str(getattr(grader, "protection", ""))})
        try:
            for line in requests:
                request = json.loads(line)
                answer(_graded(grader, Path(request["path"]), request["submission"]))
        finally:
            grader.close()
    return 0


def _graded(grader: Grades, path: Path, submission: str) -> dict[str, Any]:
    try:
        return {"rows": [row.to_dict() for row in grader.grade(path, submission)]}
    except Exception as error:
        return {"problem": f"the grader failed with {type(error).__name__}: {error}"}


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        raise SystemExit(serve())

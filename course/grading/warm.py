"""The grader's side of the warm worker: start it behind the protection, give it jobs, read what comes back."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.grading import sandbox
from course.grading.limits import Limits
from course.grading.observing import HEADER, MAX_FRAME, TOKEN_BYTES, Malformed, decode_and_count
from course.grading.sandbox import Protection
from course.grading.stage import write_stage

BOOT = (
    "import sys, json; sys.path[:] = [sys.argv[1], *sys.path, *sys.argv[3:]]; "
    "from course.grading.worker import main; main(*json.loads(sys.argv[2]))"
)
START_SECONDS = 300.0
ANSWER_SECONDS = 60.0
REPORT_BYTES, REPORT_PARTS = 64 * 2**20, 1_000_000
CHUNK = 1 << 20
ONLY = set(sandbox.ENVIRONMENT) | {"PWD", "LC_CTYPE"}


class WorkerLost(Exception):
    """The worker ended or no longer answers; the message says what is known."""


@dataclass(frozen=True)
class Ending:
    """How a job ended. ended: "exit code 0", "killed by SIGSEGV", "stopped". why: what it was stopped for, if it was:
    "time", "memory", "processes", "files", or a reason of the grader's own. left: processes that outlived the child."""

    ended: str
    why: str | None = None
    left: int = 0
    seconds: float = 0.0


class Warm:
    """One worker process. A worker that is not clean after a job, or is lost, is replaced at the next job."""

    def __init__(
        self, protection: Protection, exercises: Sequence[str], modules: Sequence[str], limits: Limits
    ) -> None:
        self.protection, self.limits, self.starts = protection, limits, 0
        self._exercises, self._modules = list(exercises), list(modules)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: Any = None
        self._number = 0
        self.dirt: str | None = None  # why the last worker that had to be replaced was
        self._home = tempfile.TemporaryDirectory(prefix="grading-", ignore_cleanup_errors=True)
        self._shown = Path(self._home.name, "shown")
        self._folder = sandbox.FOLDER if protection.isolates else os.path.join(self._home.name, "folder")
        self._shown.mkdir()
        write_stage(self._shown, exercises)
        for path in (Path(self._home.name), *self._shown.rglob("*"), self._shown):
            path.chmod(0o755 if path.is_dir() else 0o644)  # the worker may be somebody else

    def start(self) -> None:
        """Start the worker, unless it runs. Raises WorkerLost with the end of its log."""
        if self._process is not None:
            return
        if not self.protection.isolates:
            os.makedirs(self._folder, exist_ok=True)
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            shown = sandbox.SHOWN if self.protection.isolates else str(self._shown)
            user = sandbox.user_inside(self.protection)
            given = json.dumps([theirs.fileno(), self.protection.isolates, user])
            command = [sys.executable, "-I", "-B", "-c", BOOT, shown, given, *sandbox.package_folders()]
            environment = dict(sandbox.ENVIRONMENT)
            if self.protection.isolates:
                command = sandbox.inside(self.protection, command, shown=self._shown)
            else:
                environment.update(HOME=self._folder, TMPDIR=self._folder, COURSE_HOME=self._folder)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._control = mine
        self.starts += 1
        self._say(
            {
                "exercises": self._exercises,
                "modules": self._modules,
                "folder": self._folder,
                "keep": sandbox.kept_in_folder() if self.protection.isolates else [],
                "limits": {name: getattr(self.limits, name) for name in ("processes", "all_memory_bytes", "all_files")},
            }
        )
        answer = self._hear(START_SECONDS)
        if "ready" not in answer:
            self._lose(f"The worker could not get ready: {answer.get('failed', 'no reason was given')}.")
        if self.protection.isolates and (open_doors := _open_doors(answer["ready"])):
            self.close(keep_home=True)
            raise sandbox.Refused(f"{self.protection.name} does not hold what it promises here: {open_doors}.")

    def run(self, job: dict[str, Any], limit: Callable[[], float], take: Callable[[Any], None]) -> Ending:
        """Run one job. Raises WorkerLost.

        limit: until when (monotonic seconds) to wait for the next message. take: is given each message; raises
        ValueError for one that must not be.
        """
        self.start()
        start, token = time.monotonic(), os.urandom(TOKEN_BYTES)
        self._number += 1
        reader, writer = os.pipe()
        stopped, stopping = None, 0.0
        try:
            with tempfile.TemporaryFile() as file:
                file.write(json.dumps({**job, "token": token.hex(), "limits": self.limits.of_a_process()}).encode())
                file.seek(0)
                message = json.dumps(
                    {"job": self._number, "seconds": self.limits.job_seconds + ANSWER_SECONDS}
                ).encode()
                self._send(message, [file.fileno(), writer])
            os.close(writer)
            writer = -1
            os.set_blocking(reader, False)
            frames = _Frames(token, take)
            while True:
                until = limit() if stopped is None else stopping + ANSWER_SECONDS
                left = until - time.monotonic()
                ready, _, _ = select.select([reader, self._control], [], [], max(0.0, min(left, 1.0)))
                reason = frames.read(reader) if reader in ready and stopped is None else None
                if frames.closed and stopped is None and reader in ready:
                    ready.remove(reader)
                    time.sleep(0.001)
                if left <= 0 and reason is None:
                    if stopped is not None:
                        self._lose("The worker did not stop a job.")
                    reason = "time"
                if reason is not None:
                    stopped, stopping = reason, time.monotonic()
                    self._say({"stop": reason, "number": self._number})
                if self._control in ready:
                    return self._ended(frames, reader, stopped, time.monotonic() - start)
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)

    def _ended(self, frames: _Frames, reader: int, stopped: str | None, seconds: float) -> Ending:
        answer = self._hear(ANSWER_SECONDS)
        if answer.get("job") != self._number:
            self._lose("The worker spoke of another job.")
        if stopped is None:
            stopped = frames.drain(reader)
        if answer["dirt"] is not None:
            self.replace(answer["dirt"])
        return Ending(answer["ended"], stopped or answer["why"], answer["left"], seconds)

    def replace(self, why: str) -> None:
        """End the worker; the next job gets another."""
        self.dirt = why
        self.close(keep_home=True)

    def close(self, *, keep_home: bool = False) -> None:
        """End the worker and all that it started."""
        process, self._process = self._process, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if process is not None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None
        if not self.protection.isolates:
            shutil.rmtree(self._folder, ignore_errors=True)
        if not keep_home:
            self._home.cleanup()

    def _say(self, message: dict[str, Any]) -> None:
        self._send(json.dumps(message).encode(), [])

    def _send(self, data: bytes, files: list[int]) -> None:
        try:
            socket.send_fds(self._control, [data], files)
        except OSError as error:
            self._lose(f"The worker is gone: {error.strerror}.")

    def _hear(self, seconds: float) -> dict[str, Any]:
        ready, _, _ = select.select([self._control], [], [], seconds)
        if not ready:
            self._lose("The worker does not answer.")
        try:
            data = self._control.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            self._lose("The worker ended.")
        return json.loads(data)

    def _lose(self, reason: str) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)  # it may still be writing why
            self._process.kill()
        with contextlib.suppress(OSError):
            size = self._log.seek(0, os.SEEK_END)
            self._log.seek(max(0, size - 2_000))
            tail = self._log.read().decode(errors="replace").strip()
            reason += f" The end of its log: {tail}" if tail else ""
        self.close(keep_home=True)
        raise WorkerLost(reason)


class _Frames:
    """Takes frames out of a pipe; a reason to stop the job where there is one."""

    def __init__(self, token: bytes, take: Callable[[Any], None]) -> None:
        self._token, self._take, self._buffer, self.closed = token, take, bytearray(), False
        self._total = self._parts = 0

    def read(self, reader: int) -> str | None:
        """Take what is in the pipe now, a limited amount."""
        try:
            data = os.read(reader, CHUNK)
        except BlockingIOError:
            return None
        self.closed = not data
        self._total += len(data)
        self._buffer += data
        if self._total > REPORT_BYTES:
            return "report"
        try:
            self._split()
        except (Malformed, ValueError) as error:
            return f"report: {error}"
        return None

    def drain(self, reader: int) -> str | None:
        """Take the rest; its writers are gone."""
        while not self.closed:
            before = self._total
            if reason := self.read(reader):
                return reason
            if self._total == before and not self.closed:
                return None
        return None

    def _split(self) -> None:
        while len(self._buffer) >= HEADER.size:
            token, size = HEADER.unpack_from(self._buffer)
            if token != self._token:
                raise Malformed("it wrote into the grader's channel")
            if size > MAX_FRAME:
                raise Malformed("a message that is too large")
            if len(self._buffer) < HEADER.size + size:
                return
            data = bytes(self._buffer[HEADER.size : HEADER.size + size])
            del self._buffer[: HEADER.size + size]
            message, parts = decode_and_count(data)
            self._parts += parts
            if self._parts > REPORT_PARTS:
                raise Malformed("it has too many parts")
            self._take(message)


def _open_doors(facts: dict[str, Any]) -> str | None:
    """What the worker sees that it should not, in words."""
    found = []
    if facts.get("pid") != 1 or facts.get("processes") != 0:
        found.append("other processes are visible")
    if facts.get("user", 0) == 0 or facts.get("capabilities") != 0 or not facts.get("no_new_privileges"):
        found.append("the worker has rights that it should not have")
    if not facts.get("filtered"):
        found.append("system calls are not filtered")
    if not set(facts.get("interfaces", ["?"])) <= {"lo"}:
        found.append(f"network interfaces {facts.get('interfaces')}")
    if facts.get("writable") != []:
        found.append(f"{facts.get('writable')} can be written to")
    if not set(facts.get("environment", ["?"])) <= ONLY:
        found.append("the environment is not empty")
    return "; ".join(found) or None

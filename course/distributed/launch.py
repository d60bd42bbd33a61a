"""Starting a job of several processes with torchrun, and ending it, whatever happens."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course.distributed import job
from course.distributed.cause import Cause, Ending, endings, find_cause, find_silent, signal_name

POLL_SECONDS = 0.1
LAST_WORDS_SECONDS = 3.0  # for the ranks to write down where they are
SWEEP_SECONDS = 10.0
# What the C++ runtime writes when an exception ends a process.
LAST_CPP_WORDS = re.compile(r"terminate called |\s*what\(\): ")
SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Result:
    """What a job that ended well left behind.

    exit_code: 0. lines: what the ranks printed, line by line, as it came. value: what rank 0 gave to
    `course.distributed.worker.report`, or None. seconds: wall time from start to end.
    """

    exit_code: int
    lines: tuple[str, ...]
    value: Any
    seconds: float


class LaunchError(RuntimeError):
    """A job that did not end well; the message names rank, exit code or signal, and the last line of the cause.

    rank: the rank that caused it, or None where no single rank did (a busy port, a script that is not there).
    exit_code: that rank's exit code, None where a signal or the time limit ended it. signal: name such as "SIGKILL".
    cause: the last line of the root cause, such as "ValueError: ...". lines: everything printed.
    """

    def __init__(self, cause: Cause, lines: tuple[str, ...] = ()) -> None:
        more = "" if not cause.line or cause.line in cause.text else f"; what came of it: {cause.line}"
        super().__init__(cause.text + more)
        self.rank, self.exit_code, self.signal, self.cause = cause.rank, cause.exit_code, cause.signal, cause.line
        self.lines = lines

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def torchrun(
    script_or_module: str | Path,
    *args: object,
    processes: int = 2,
    timeout: float = 120.0,
    port: int | None = None,
    echo: bool = True,
) -> Result:
    """Run a script on several processes of this machine, as `torchrun --standalone --nproc-per-node N` does.

    script_or_module: a path ending in .py, the name of a module, or the bare name of a program of
        `course.distributed.scripts` such as "gradients". args: its arguments, turned into text.
    processes: number of ranks; each has one thread. timeout: seconds until the job is ended.
    port: a TCP port of this machine for the ranks to meet at; None takes a free one.
    echo: print each line as it comes.

    A job in which a rank was aborted (SIGABRT) before any rank had printed a line or left by itself is started once
    more: gloo aborts a process when a connection is closed while it is being accepted (pytorch/gloo issue 514).

    Raises LaunchError, ValueError for processes < 1. No process stays behind: not after an error, an interrupt, nor
    when this process is killed (processes that a rank itself has started are then left alone).
    """
    if processes < 1:
        raise ValueError(f"a job needs at least one process, not {processes}")
    target = _target(script_or_module)
    if port is None:
        meeting = ["--standalone"]
    else:
        _check_port(port)
        meeting = ["--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    ranks = [*meeting, "--local-addr=127.0.0.1", f"--nproc-per-node={processes}"]
    command = [sys.executable, "-u", "-m", "course.distributed.agent", *ranks, "-m", "course.distributed.entry"]
    start = time.monotonic()
    for last_attempt in (False, True):
        with tempfile.TemporaryDirectory(prefix="course-job-", ignore_cleanup_errors=True) as name:
            folder, lines = Path(name), []
            code = _supervise([*command, target, *map(str, args)], folder, start + timeout, lines, echo)
            printed = tuple(lines)
            if code == 0:
                return Result(code, printed, job.read(folder / "result.json"), time.monotonic() - start)
            ends = endings(folder, processes)
            if code is None:
                raise LaunchError(find_silent(ends, timeout), printed)
            cause = _failure(code, folder, ends, port)
            before = list(itertools.takewhile(lambda line: not LAST_CPP_WORDS.match(line), printed))
            at_the_start = not before and all(each.ended is None or each.lost for each in ends)
            if last_attempt or cause.signal != "SIGABRT" or not at_the_start:
                raise LaunchError(_with_last_words(cause, printed), printed)
    raise AssertionError("the second attempt returns or raises")


def _with_last_words(cause: Cause, lines: tuple[str, ...]) -> Cause:
    """The cause with what the C++ runtime wrote at the end of the rank, if it was aborted."""
    words = " ".join(line.strip() for line in lines if LAST_CPP_WORDS.match(line))
    if cause.signal != "SIGABRT" or not words:
        return cause
    return replace(cause, text=f"{cause.text}: {words}", line=words)


def _target(script_or_module: str | Path) -> str:
    """The script's absolute path, or the module's name."""
    name = str(script_or_module)
    if name.endswith(".py"):
        path = Path(name).expanduser().resolve()
        if not path.is_file():
            raise LaunchError(Cause(f"there is no script {name}; give a path ending in .py, or a module's name"))
        return str(path)
    if "." not in name and (SCRIPTS / f"{name}.py").is_file():
        return f"course.distributed.scripts.{name}"
    try:
        found = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        programs = ", ".join(sorted(path.stem for path in SCRIPTS.glob("[!_]*.py")))
        raise LaunchError(Cause(f"there is no module {name!r}; programs that come with the course: {programs}"))
    return name


def _check_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OverflowError:
            raise LaunchError(Cause(f"port {port} is no TCP port; leave `port` out, and a free one is taken")) from None
        except OSError as error:
            raise LaunchError(_port_taken(port, error.strerror)) from None


def _port_taken(port: int, reason: str | None) -> Cause:
    return Cause(f"port {port} cannot be used ({reason}); leave `port` out, and a free one is taken", line=str(reason))


def _failure(code: int, folder: Path, ends: list[Ending], port: int | None) -> Cause:
    trouble = job.read(folder / "agent.json")
    if code < 0:
        name = signal_name(-code)
        return Cause(f"torchrun itself was ended by {name}", signal=name, line=f"ended by {name}")
    if port is not None and trouble and "EADDRINUSE" in trouble:
        return _port_taken(port, "Address already in use")
    if trouble:
        return Cause("torchrun could not run the job", exit_code=code, line=trouble.splitlines()[0])
    return find_cause(ends)


def _supervise(command: list[str], folder: Path, end: float, lines: list[str], echo: bool) -> int | None:
    """Run torchrun, collecting its lines; its exit code, None once `end` has passed. Nothing is left running."""
    process = subprocess.Popen(
        command,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=os.name == "posix",
        text=True,
        encoding="utf-8",
        errors="replace",
        bufsize=1,
    )
    arriving: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process, arriving), daemon=True, name="torchrun output")
    reader.start()
    try:
        while process.poll() is None:
            if time.monotonic() > end:
                _ask_where(process, folder)
                return None
            _take(arriving, lines, echo, POLL_SECONDS)
        return process.returncode
    finally:
        _sweep(process, folder)
        reader.join(SWEEP_SECONDS)
        _take(arriving, lines, echo, 0)
        if not reader.is_alive():
            process.stdout.close()


def _environment(folder: Path) -> dict[str, str]:
    env = {**os.environ, job.FOLDER: str(folder), job.PARENT: str(os.getpid())}
    env["OMP_NUM_THREADS"] = "1"  # ranks share the cores of one machine
    env.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # gloo would look for the address of the machine's name, which need not be one that can be reached.
    env.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        env.pop(name, None)  # those of a job that this process may itself belong to
    return env


def _read(process: subprocess.Popen, arriving: queue.SimpleQueue) -> None:
    with contextlib.suppress(ValueError, OSError):
        for line in process.stdout:
            arriving.put(line.rstrip("\n"))


def _take(arriving: queue.SimpleQueue, lines: list[str], echo: bool, seconds: float) -> None:
    """Move what has arrived to `lines`, after waiting at most `seconds` for a first line."""
    try:
        line = arriving.get(timeout=seconds) if seconds else arriving.get_nowait()
        while True:
            lines.append(line)
            if echo and not LAST_CPP_WORDS.match(line):
                print(line, flush=True)
            line = arriving.get_nowait()
    except queue.Empty:
        pass


def _ask_where(process: subprocess.Popen, folder: Path) -> None:
    """End the ranks so that each writes down where it was."""
    import psutil

    if os.name != "posix":
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGSTOP)  # torchrun is not to react to what happens to its ranks
    ranks = [one for one in members(folder) if one.pid != process.pid]
    for one in ranks:
        with contextlib.suppress(psutil.Error):
            one.terminate()
    psutil.wait_procs(ranks, timeout=LAST_WORDS_SECONDS)


def _sweep(process: subprocess.Popen, folder: Path) -> None:
    """Kill every process of the job until none is left."""
    import psutil

    with contextlib.suppress(ProcessLookupError):
        process.kill()  # first, so that it starts no further ranks
    process.wait()
    end = time.monotonic() + SWEEP_SECONDS
    while (alive := list(members(folder))) and time.monotonic() < end:
        for one in alive:
            with contextlib.suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(alive, timeout=1.0)


def members(folder: Path) -> Iterator[Any]:
    """The processes of a job (psutil.Process), also those that a rank has started: all inherit the mark."""
    import psutil

    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if one.environ().get(job.FOLDER) == str(folder) and one.status() != psutil.STATUS_ZOMBIE:
                yield one

"""Run code that may do anything in a forked child: one thread, a memory limit, a deadline, SIGKILL at the end.

A signal alone would not do: ``while True: try: ... except BaseException: pass`` swallows it. A child with two OpenMP
threads may hang after a fork, therefore the child computes with one. Where forking is impossible (no ``os.fork``, not
Linux, an accelerator already initialised) the code runs in this process, with global state restored afterwards, but
without deadline and memory limit.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import pickle
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from course.checking.forking import backward_works, can_fork, settle_autograd
from course.checking.observation import dump_message, load_message
from course.checking.state import preserved_state

HEADER = struct.Struct("!I")
ITEM, DONE, FAILED, UNFIT = "item", "done", "failed", "unfit"  # the kinds of message that a child sends
POLL_SECONDS = 0.05
MEMORY_BYTES = 2 * 2**30
MESSAGE_BYTES = 256 * 2**20

Produce = Callable[[], Iterator[Any]]

settle_autograd()


@dataclass
class Run:
    """Messages that the isolated code sent, and how it ended: "done", "timed out", or another reason in words."""

    messages: list[Any] = field(default_factory=list)
    ending: str = DONE

    @property
    def finished(self) -> bool:
        return self.ending == DONE

    @property
    def timed_out(self) -> bool:
        return self.ending == "timed out"


def run_isolated(produce: Produce, *, deadline: float, memory_bytes: int | None = None) -> Run:
    """Iterate ``produce()`` in a child and return the messages it yielded before it ended.

    produce: a generator function whose items are plain data and observations.
    deadline: wall seconds for the whole run.
    memory_bytes: address space that the child may take beyond what this process has now; MEMORY_BYTES where None.
    """
    if not can_fork():
        return run_in_process(produce)
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of forking beside other threads; the child uses none of them.
        warnings.filterwarnings("ignore", message=".*use of fork\\(\\).*", category=DeprecationWarning)
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reader)
            os.close(writer)
            return Run(ending=f"no process could be started: {error.strerror}")
    if pid == 0:
        try:
            os.close(reader)
            _child(produce, writer, MEMORY_BYTES if memory_bytes is None else memory_bytes)
        except BaseException as error:  # ours, not the answer's: those are observations
            _send(writer, (FAILED, f"{type(error).__name__}: {error}"))
        finally:
            os._exit(70)
    os.close(writer)
    try:
        run = _receive(reader, pid, time.monotonic() + deadline)
    finally:
        os.close(reader)
    return run_in_process(produce) if run.ending == UNFIT else run


def run_in_process(produce: Produce) -> Run:
    """The same in this process: global state is restored, but nothing can stop code that does not end."""
    run = Run()
    with preserved_state(), open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        for message in produce():
            run.messages.append(load_message(dump_message(message)))
    return run


def _child(produce: Produce, writer: int, memory_bytes: int) -> None:
    own_pid = os.getpid()
    os.setsid()
    gc.freeze()  # finalizers of the parent's objects must not run here
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    faulthandler.disable()  # the parent says how the child ended
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdin = os.fdopen(0)
    sys.stdout = sys.stderr = os.fdopen(1, "w")
    torch.set_num_threads(1)
    if not backward_works():
        _send(writer, (UNFIT, None))
        os._exit(0)
    _limit_memory(memory_bytes)
    items = ((ITEM, item) for item in produce())
    for message in itertools.chain(items, [(DONE, None)]):
        if os.getpid() != own_pid:  # the answer forked; only the original process reports
            os._exit(0)
        _send(writer, message)
    os._exit(0)


def _send(descriptor: int, message: Any) -> None:
    data = dump_message(message)
    view = memoryview(HEADER.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _limit_memory(extra: int) -> None:
    import resource

    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = now + extra
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _receive(reader: int, pid: int, end: float) -> Run:
    run, buffer, status = Run(ending="timed out"), bytearray(), None
    try:
        while (left := end - time.monotonic()) > 0:
            chunk = _read(reader, min(left, POLL_SECONDS))
            if not chunk and status is not None:
                run.ending = _reason(status)
                break
            buffer += chunk
            if ending := _take_messages(buffer, run.messages):
                run.ending = ending
                break
            if not chunk:
                # Once the child is gone one more read empties the pipe; a process that it left behind may hold it open.
                done, code = os.waitpid(pid, os.WNOHANG)
                status = code if done else None
    except (pickle.UnpicklingError, ValueError, TypeError, EOFError) as error:
        run.ending = f"an unreadable report: {error}"
    finally:
        _kill(pid, reaped=status is not None)
    return run


def _read(reader: int, seconds: float) -> bytes:
    """What is in the pipe, after waiting at most ``seconds`` for it; empty when nothing came or it was closed."""
    start = time.monotonic()
    ready, _, _ = select.select([reader], [], [], seconds)
    chunk = os.read(reader, 1 << 20) if ready else b""
    if ready and not chunk:  # closed: do not spin until the child has ended
        time.sleep(min(0.002, max(0.0, seconds - (time.monotonic() - start))))
    return chunk


def _take_messages(buffer: bytearray, items: list[Any]) -> str | None:
    """Move complete messages out of the buffer; how the run ended, once the child has said so."""
    while len(buffer) >= HEADER.size:
        (size,) = HEADER.unpack_from(buffer)
        if size > MESSAGE_BYTES:
            raise ValueError(f"a message of {size} bytes; at most {MESSAGE_BYTES} are read")
        if len(buffer) < HEADER.size + size:
            return None
        kind, content = load_message(bytes(buffer[HEADER.size : HEADER.size + size]))
        del buffer[: HEADER.size + size]
        if kind != ITEM:
            return f"failed with {content}" if kind == FAILED else kind
        items.append(content)
    return None


def _reason(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.WEXITSTATUS(status)}"


def _kill(pid: int, *, reaped: bool) -> None:
    """End the child and everything in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if not reaped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

"""Collectives inside one notebook or test: forked ranks in a fraction of a second, without torchrun."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from course.distributed.entry import last_line, lost_its_peer
from course.distributed.tether import end_with_parent

GRACE_SECONDS = 1.0  # after a first failure, for others to fail by a cause of their own


class RankError(RuntimeError):
    """A rank that raised, left or did not end in time. rank: which; cause: the last line of its error."""

    def __init__(self, text: str, rank: int, cause: str) -> None:
        super().__init__(text)
        self.rank, self.cause = rank, cause

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@dataclass
class _Rank:
    """One forked process as its parent sees it.

    message: what it sent, None until it closed its pipe; empty if it ended without a word. order: its place among those
    that closed their pipes. code: exit code, negative for a signal, None until its end has been noticed.
    """

    number: int
    pid: int
    pipe: int
    data: bytearray = field(default_factory=bytearray)
    message: dict[str, Any] | None = None
    code: int | None = None
    order: int = 0


def run_ranks(fn: Callable[..., Any], n: int, *args: Any, timeout: float = 30.0) -> list[Any]:
    """Call fn(rank, *args) on n forked processes that share a gloo group; return the n results by rank.

    fn: any function, also one defined in a cell. Inside, torch.distributed is ready (`dist.get_rank()`,
        `dist.all_reduce(...)`), with one thread a rank. It returns what can be pickled; tensors come back as copies,
        detached from their graph.
    n: number of ranks, at least 1. timeout: seconds until all ranks are ended.

    The ranks meet through a file, not a port. What they change stays in them: results are the return values. What they
    print goes to this process's standard output, line by line.
    Raises RankError when a rank raises, leaves early or does not end in time; NotImplementedError where processes
    cannot be forked (not Linux, or CUDA already initialised). No process stays.
    """
    import torch

    from course.checking.forking import settle_autograd

    if n < 1:
        raise ValueError(f"at least one rank is needed, not {n}")
    if not sys.platform.startswith("linux") or (torch.cuda.is_available() and torch.cuda.is_initialized()):
        raise NotImplementedError(
            "run_ranks forks, which works on Linux before CUDA is first used; here, run a script with torchrun"
        )
    settle_autograd()
    end = time.monotonic() + timeout
    ranks: list[_Rank] = []
    with tempfile.TemporaryDirectory(prefix="course-ranks-", ignore_cleanup_errors=True) as folder:
        try:
            for number in range(n):
                ranks.append(_start(fn, number, n, args, Path(folder, "meeting"), timeout))
            _collect(ranks, end)
            failure = _failure(ranks, timeout)
        finally:
            _kill(ranks)
    if failure is not None:
        raise failure
    return [rank.message["value"] for rank in ranks]


def _start(fn: Callable[..., Any], number: int, n: int, args: tuple, meeting: Path, timeout: float) -> _Rank:
    parent = os.getpid()
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of forking beside other threads; the child uses none of them.
        warnings.filterwarnings("ignore", message=".*use of fork\\(\\).*", category=DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(writer)
        return _Rank(number, pid, reader)
    code = 70
    try:
        os.setpgid(0, 0)
        end_with_parent(parent)
        os.close(reader)
        message = _child(fn, number, n, args, meeting, timeout)
        data = _dump(message)
        while data:
            data = data[os.write(writer, data) :]
        os.close(writer)
        if "value" in message:
            signal.pause()  # others may still need this rank's connections; the parent ends all together
        code = message.get("left", 1)
    finally:
        os._exit(code)  # without the parent's exit handlers


def _child(fn: Callable[..., Any], number: int, n: int, args: tuple, meeting: Path, timeout: float) -> dict[str, Any]:
    """Join the group and call the function; {"value": ...}, {"left": exit code} or {"error": ..., ...}."""
    import torch
    import torch.distributed as dist

    gc.freeze()  # finalizers of the parent's objects must not run here
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)
    faulthandler.disable()
    torch.set_num_threads(1)  # a child whose parent has used several hangs otherwise
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(1), "wb", 0), line_buffering=True, errors="replace")
    try:
        limit = timedelta(seconds=timeout)
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=number, world_size=n, timeout=limit)
        value = _detached(fn(number, *args))
        _dump({"value": value})  # what cannot be sent is an error of this rank
        return {"value": value}
    except SystemExit as leaving:
        return {"left": leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)}
    except BaseException as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
        place = f" (line {own[-1].lineno}, in {own[-1].name})" if own and own[-1].filename != __file__ else ""
        return {"error": last_line(error), "place": place, "lost": lost_its_peer(error)}


def _dump(message: dict[str, Any]) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(message, buffer)
    return buffer.getvalue()


def _load(data: bytearray) -> dict[str, Any]:
    import torch

    if not data:
        return {}
    try:
        # Written by a child of this process, which runs the same code: as trustworthy as the function itself.
        return torch.load(io.BytesIO(data), weights_only=False)
    except (RuntimeError, EOFError, pickle.UnpicklingError):
        return {}  # it ended in the middle of a word


def _detached(value: Any) -> Any:
    """The same without graphs, which cannot leave their process, and without the unused rest of a view's storage."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(map(_detached, value))
    if type(value) is dict:
        return {key: _detached(each) for key, each in value.items()}
    return value


def _collect(ranks: list[_Rank], end: float) -> None:
    """Read until every rank has sent its message, `end` has passed, or a while after one has failed."""
    pipes = {rank.pipe: rank for rank in ranks}
    while pipes and (left := end - time.monotonic()) > 0:
        for pipe in select.select(list(pipes), [], [], left)[0]:
            chunk = os.read(pipe, 1 << 20)
            rank = pipes[pipe]
            rank.data += chunk
            if not chunk:
                del pipes[pipe]
                rank.message, rank.order = _load(rank.data), len(ranks) - len(pipes)
                if "value" not in rank.message:
                    rank.code = os.waitstatus_to_exitcode(os.waitpid(rank.pid, 0)[1])
                    end = min(end, time.monotonic() + GRACE_SECONDS)


def _failure(ranks: list[_Rank], timeout: float) -> RankError | None:
    n = len(ranks)
    failed = sorted((rank for rank in ranks if rank.code is not None), key=lambda rank: rank.order)
    # Those that only miss another rank come last: they are not the cause if there is any other.
    for rank in sorted(failed, key=lambda rank: rank.message.get("lost", False)):
        if "error" in rank.message:
            error = rank.message["error"]
            return RankError(f"rank {rank.number} of {n} raised {error}{rank.message['place']}", rank.number, error)
        name = f"exit code {rank.code}" if rank.code >= 0 else signal.Signals(-rank.code).name
        return RankError(f"rank {rank.number} of {n} ended by {name} instead of returning a result", rank.number, name)
    silent = [rank.number for rank in ranks if rank.message is None]
    if not silent:
        return None
    who = f"rank {silent[0]} of {n}" if len(silent) == 1 else f"ranks {', '.join(map(str, silent))} of {n}"
    returned = [str(rank.number) for rank in ranks if rank.message is not None]
    others = f", while rank {', '.join(returned)} had returned" if returned else ""
    text = (
        f"{who} did not end within {timeout:g} s{others}; does every rank call the same collectives in the same order?"
    )
    return RankError(text, silent[0], "no answer")


def _kill(ranks: list[_Rank]) -> None:
    """End every rank with all that it has started, and take notice of its end."""
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(rank.pid, signal.SIGKILL)
        if rank.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank.pid, signal.SIGKILL)
            os.waitpid(rank.pid, 0)
        os.close(rank.pipe)

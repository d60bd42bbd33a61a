"""Which rank a failed job failed by. The rank that torchrun blames is often only the first that missed another."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from course.distributed import job


@dataclass(frozen=True)
class Cause:
    """What ended a job: see `LaunchError` for the fields; `text` is the sentence."""

    text: str
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    line: str = ""


@dataclass(frozen=True)
class Ending:
    """How one rank ended.

    code: exit code seen by torchrun, negative for a signal, None if torchrun saw none. ended: "raised" or "left", None
    if the rank had no time to write it. error: the last line. lost: the error only says that a peer is gone. at: where
    it was when it was told to end, "" if it was not told.
    """

    rank: int
    code: int | None = None
    ended: str | None = None
    error: str = ""
    lost: bool = False
    time: float = 0.0
    at: str = ""


def endings(folder: Path, processes: int) -> list[Ending]:
    """Read what the ranks and torchrun left in the folder of a job."""
    codes = job.read(folder / "failures.json") or {}
    found = []
    for rank in range(processes):
        record = job.read(folder / f"rank-{rank}.json") or {}
        found.append(
            Ending(
                rank,
                code=codes.get(str(rank), record.get("code")),
                ended=record.get("ended"),
                error=record.get("error", ""),
                lost=record.get("lost", False),
                time=record.get("time", 0.0),
                at=_position(folder / f"rank-{rank}.stack"),
            )
        )
    return found


def find_cause(ranks: list[Ending]) -> Cause:
    """The cause of a job that torchrun called failed, from how its ranks ended."""
    n = len(ranks)
    for each in ranks:
        # SIGTERM is what torchrun sends to those who are left, once one has failed.
        if each.code is not None and each.code < 0 and -each.code != signal.SIGTERM:
            return _killed(each, n)
    for each in sorted(ranks, key=lambda one: one.time):
        if each.ended == "raised" and not each.lost:
            return Cause(f"rank {each.rank} of {n} raised {each.error}", each.rank, 1, None, each.error)
        if each.ended == "left" and each.code:
            line = each.error or f"exit code {each.code}"
            return Cause(f"rank {each.rank} of {n} left with exit code {each.code}", each.rank, each.code, None, line)
    for each in ranks:
        if each.ended is None and each.code and each.code > 0:
            line = f"exit code {each.code}"
            return Cause(f"rank {each.rank} of {n} ended at once with {line}", each.rank, each.code, None, line)
    missed = min((each for each in ranks if each.lost), key=lambda one: one.time, default=None)
    line = _plain(missed.error) if missed else ""
    gone = [
        each for each in ranks if each.ended == "left" or (each.ended is None and each.code is None and not each.at)
    ]
    if gone:
        first = min(gone, key=lambda one: (one.ended is None, one.time))
        text = f"rank {first.rank} of {n} left early with exit code 0 while another rank still needed it"
        return Cause(text, first.rank, 0, None, line)
    patience_lost = any("timed out" in each.error.lower() for each in ranks if each.lost)
    for each in ranks:
        if each.code == -signal.SIGTERM and not patience_lost:
            return _killed(each, n)
    silent = [each for each in ranks if each.ended is None and not waits(each.at)]
    if silent:
        text = f"rank {silent[0].rank} of {n} did not take part in what the others waited for; it was {silent[0].at}"
        return Cause(text, silent[0].rank, None, None, line or silent[0].at)
    if missed:
        return Cause(f"rank {missed.rank} of {n} raised {missed.error}", missed.rank, 1, None, missed.error)
    return Cause("the job failed, and no rank wrote down why")


def find_silent(ranks: list[Ending], seconds: float) -> Cause:
    """The cause of a job that was ended because its time was up."""
    open_ranks = [each for each in ranks if each.ended is None]
    where = "; ".join(f"rank {each.rank} was {each.at or 'still starting'}" for each in open_ranks)
    text = f"the job did not end within {seconds:g} s and was stopped" + (f"; {where}" if where else "")
    left = next((each for each in ranks if each.ended == "left"), None)
    busy = next((each for each in open_ranks if not waits(each.at)), left or (open_ranks or [None])[0])
    return Cause(
        text, busy.rank if busy else None, None, None, (busy.at if busy else "") or f"did not end within {seconds:g} s"
    )


def _plain(error: str) -> str:
    """gloo's message without its source file, addresses and advice."""
    without_place = re.sub(r"\[\S*\.cc:\d+\] | \[\S*\]:\d+", "", error)
    return re.split(r"\. |, remote=", without_place)[0].rstrip(".")


def waits(at: str) -> bool:
    """Whether a position lies in torch.distributed: there a rank waits for others."""
    return "torch.distributed" in at


def _killed(each: Ending, n: int) -> Cause:
    name = signal_name(-each.code)
    why = " (the operating system does so when memory runs out)" if name == "SIGKILL" else ""
    if each.at and name != "SIGTERM":
        why = f"; it was {each.at}"
    return Cause(f"rank {each.rank} of {n} was ended by {name}{why}", each.rank, None, name, f"ended by {name}")


def signal_name(number: int) -> str:
    """`SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _position(path: Path) -> str:
    """Where a rank was, from the stack it wrote on SIGTERM: `at line 12 of train.py (in main)`."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    frames = re.findall(r'File "(.*?)", line (\d+) in (\S+)', text)
    if not frames:
        return ""
    own = [frame for frame in frames if "site-packages" not in frame[0] and "/torch/" not in frame[0]]
    file, line, name = (own or frames)[0]
    where = f"at line {line} of {Path(file).name} (in {name})"
    distributed = any("/torch/distributed/" in frame[0] for frame in frames[: frames.index((file, line, name))])
    return f"waiting in torch.distributed {where}" if distributed else where

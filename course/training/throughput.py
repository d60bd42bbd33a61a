"""Comparing loops: images per second and per CPU second, in interleaved rounds."""

from __future__ import annotations

import html
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course.training.table import html_table, text_table
from course.training.timing import quartiles

if TYPE_CHECKING:
    import torch


def cpu_seconds() -> float:
    """CPU seconds that this process and its children, the living and the ended, have used so far.

    User and system time of all threads. Children that have ended count once they have been waited for.
    """
    import psutil

    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        total += times.user + times.system
    return total


@dataclass(frozen=True)
class Rates:
    """What one loop did: one figure a round.

    seconds: wall seconds. cpu: CPU seconds, those of worker processes included. images: number processed in each round.
    """

    name: str
    images: int
    seconds: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def per_second(self) -> float:
        """Median images per second of wall time."""
        return statistics.median(self.images / seconds for seconds in self.seconds)

    @property
    def per_cpu_second(self) -> float:
        """Median images per second of CPU time."""
        return statistics.median(self.images / seconds for seconds in self.cpu)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Lower and upper quartile of the images per second."""
        return quartiles(tuple(self.images / seconds for seconds in self.seconds))


@dataclass(frozen=True)
class Throughput:
    """What :func:`compare_throughput` measured; reads as a table in a notebook and as text."""

    loops: tuple[Rates, ...]
    rounds: int
    threads: int
    device: str

    def __getitem__(self, name: str) -> Rates:
        for loop in self.loops:
            if loop.name == name:
                return loop
        raise KeyError(f"no loop {name!r}; the loops are {', '.join(loop.name for loop in self.loops)}")

    def ratios(self, name: str, base: str | None = None, *, cpu: bool = False) -> tuple[float, ...]:
        """Images per second (with `cpu`: per CPU second) over those of `base` (the first loop), round by round."""
        this, other = self[name], self[base] if base is not None else self.loops[0]
        seconds, against = (this.cpu, other.cpu) if cpu else (this.seconds, other.seconds)
        share = this.images / other.images
        return tuple(share * b / a for a, b in zip(seconds, against, strict=True))

    def ratio(self, name: str, base: str | None = None, *, cpu: bool = False) -> float:
        """Median of :meth:`ratios`: 2.0 means twice as many images per second as `base`."""
        return statistics.median(self.ratios(name, base, cpu=cpu))

    def rows(self) -> list[tuple[str, ...]]:
        """The table: loop, images per second with the middle half of the rounds, per CPU second, ratio to the first."""
        rows = [("loop", "images/s", "middle half", "images/CPU-s", f"relative to {self.loops[0].name}")]
        for loop in self.loops:
            low, high = loop.quartiles
            ratio = "1" if loop is self.loops[0] else self._relative(loop.name)
            rows.append(
                (
                    loop.name,
                    f"{loop.per_second:,.0f}",
                    f"{low:,.0f} to {high:,.0f}",
                    f"{loop.per_cpu_second:,.0f}",
                    ratio,
                )
            )
        return rows

    @property
    def conditions(self) -> str:
        """How it was measured, in a sentence."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.rounds} interleaved rounds on {self.device}, {threads}; medians, of the ratios within rounds too"

    def _relative(self, name: str) -> str:
        low, high = quartiles(self.ratios(name))
        return f"{self.ratio(name):.2f}  ({low:.2f} to {high:.2f})"

    def __str__(self) -> str:
        return f"{text_table(self.rows())}\n{self.conditions}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{html_table(self.rows())}\n<p>{html.escape(self.conditions)}</p>"


def compare_throughput(
    loops: Mapping[str, Callable[[int], object]],
    *,
    batches: int = 20,
    batch_size: int = 64,
    rounds: int = 5,
    warmup: int = 3,
    pause: float = 0.0,
) -> Throughput:
    """Run several loops against each other.

    loops: functions by name; ``loop(n)`` processes n batches. The table is relative to the first.
    batches: how many each loop processes in a round. batch_size: images in a batch.
    rounds: every round runs each loop once, forwards and backwards in turn, so that a slow phase of the machine falls
        on all of them. warmup: batches that each loop processes before the first round, not counted.
    pause: seconds to sleep before each run, so that worker processes of the last loop have filled their queues and
        rest. A queue is then full before and after the run: what is taken from it is also put into it meanwhile.

    Waits for accelerators before it reads the clock. Raises ValueError for no loop, and for batches or rounds below 1.
    """
    import torch

    if not loops:
        raise ValueError("compare_throughput needs at least one loop: {'name': function of a number of batches}")
    if batches < 1 or rounds < 1:
        raise ValueError(f"batches and rounds should be at least 1; they are {batches} and {rounds}")
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    for loop in loops.values():
        if warmup:
            loop(warmup)
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    cpu: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(rounds):
        for name in loops if number % 2 == 0 else reversed(loops):
            if pause:
                time.sleep(pause)
            wait_for(device)
            used, start = cpu_seconds(), time.perf_counter()
            loops[name](batches)
            wait_for(device)
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(cpu_seconds() - used)
    rates = tuple(Rates(name, batches * batch_size, tuple(seconds[name]), tuple(cpu[name])) for name in loops)
    return Throughput(rates, rounds, torch.get_num_threads(), str(device))


def wait_for(device: torch.device) -> None:
    """Return when all work that was given to an accelerator is done; at once for the CPU."""
    import torch

    if torch.device(device).type != "cpu":
        torch.accelerator.synchronize(device)

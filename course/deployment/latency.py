"""Latency as people feel it: single calls, interleaved, reported as p50, p95 and p99 with the number of threads."""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course.training.table import html_table, text_table
from course.training.timing import duration


@dataclass(frozen=True)
class Latency:
    """Seconds of single calls, in the order in which they were made."""

    name: str
    seconds: tuple[float, ...]

    def percentile(self, p: float) -> float:
        """The smallest of the measured times that at least p % of them do not exceed (the nearest rank), in seconds.

        No interpolation: it is a call that took place. With fewer than 100 calls the 99th is the slowest one.
        """
        if not 0 < p <= 100:
            raise ValueError(f"a percentile lies above 0 and at most at 100, not at {p}")
        return sorted(self.seconds)[math.ceil(p / 100 * len(self.seconds)) - 1]

    @property
    def mean(self) -> float:
        """Seconds of all calls over their number: what a bill adds up, and what no single caller waits."""
        return math.fsum(self.seconds) / len(self.seconds)

    @property
    def p50(self) -> float:
        return self.percentile(50)

    @property
    def p95(self) -> float:
        return self.percentile(95)

    @property
    def p99(self) -> float:
        return self.percentile(99)


@dataclass(frozen=True)
class Latencies:
    """What :func:`measure_latency` saw; reads as a table in a notebook and as text."""

    cases: tuple[Latency, ...]
    threads: int

    def __getitem__(self, name: str) -> Latency:
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(f"no case {name!r}; the cases are {', '.join(case.name for case in self.cases)}")

    def speedup(self, name: str, base: str | None = None) -> float:
        """p50 of `base` (the first case) over p50 of a case: 2.0 means twice as fast."""
        return (self[base] if base is not None else self.cases[0]).p50 / self[name].p50

    @property
    def conditions(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{len(self.cases[0].seconds)} calls of each in turn, {threads}"

    def table(self) -> list[list[str]]:
        head = ["case", "p50", "p95", "p99", f"{self.cases[0].name} / this"]
        rows = [[c.name, *map(duration, (c.p50, c.p95, c.p99)), f"{self.speedup(c.name):.2f}"] for c in self.cases]
        return [head, *rows]

    def __str__(self) -> str:
        return f"{text_table(self.table())}\n{self.conditions}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{html_table(self.table())}\n<p>{self.conditions}</p>"


def measure_latency(
    cases: Mapping[str, Callable[..., Any]],
    arguments: Sequence[Any] = (),
    *,
    calls: int = 50,
    warmup: int = 3,
    threads: int = 1,
) -> Latencies:
    """Time single calls of several functions, each in turn, without gradients.

    cases: what to call, by name. arguments: what each is called with. calls: timed calls of each case; warmup: calls
    before, which may compile and allocate. threads: what ``torch.set_num_threads`` is set to meanwhile; other runtimes
    take theirs from their own options. An accelerator is waited for before the clock is read. Garbage is not collected
    meanwhile. The order alternates, so that a slow phase of the machine falls on all cases.
    """
    if not cases:
        raise ValueError("measure_latency needs at least one case: {'name': function}")
    if calls < 1 or warmup < 0:
        raise ValueError(f"calls should be at least 1 and warmup at least 0, not {calls} and {warmup}")
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    with _quiet(threads):
        for name in order:
            for _ in range(warmup):
                cases[name](*arguments)
        for number in range(calls):
            for name in order if number % 2 == 0 else reversed(order):
                _wait()
                start = time.perf_counter()
                cases[name](*arguments)
                _wait()
                seconds[name].append(time.perf_counter() - start)
    return Latencies(tuple(Latency(name, tuple(times)) for name, times in seconds.items()), threads)


@contextlib.contextmanager
def _quiet(threads: int) -> Iterator[None]:
    before, collecting = torch.get_num_threads(), gc.isenabled()
    gc.collect()
    gc.disable()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(before)
        if collecting:
            gc.enable()


def _wait() -> None:
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()

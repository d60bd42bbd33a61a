"""Comparing the times of several pieces of code, in interleaved rounds."""

from __future__ import annotations

import html
import logging
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from course.training.table import html_table, text_table


@dataclass(frozen=True)
class Timing:
    """The times of one case: seconds a call, one figure a round."""

    name: str
    seconds: tuple[float, ...]
    calls: int
    """calls in each round"""

    @property
    def median(self) -> float:
        """Median seconds a call."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Lower and upper quartile of the seconds a call."""
        return quartiles(self.seconds)


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_times` measured; reads as a table in a notebook and as text.

    timings: one for each case, in the given order. rounds, threads: how they were measured.
    """

    timings: tuple[Timing, ...]
    rounds: int
    threads: int

    def __getitem__(self, name: str) -> Timing:
        for timing in self.timings:
            if timing.name == name:
                return timing
        raise KeyError(f"no case {name!r}; the cases are {', '.join(t.name for t in self.timings)}")

    def ratios(self, name: str, base: str | None = None) -> tuple[float, ...]:
        """Time of a case over the time of ``base`` (the first case), round by round."""
        against = self[base] if base is not None else self.timings[0]
        return tuple(a / b for a, b in zip(self[name].seconds, against.seconds, strict=True))

    def ratio(self, name: str, base: str | None = None) -> float:
        """Median of :meth:`ratios`: 2.0 means that the case takes twice as long as ``base``."""
        return statistics.median(self.ratios(name, base))

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The table: case, median, middle half of the rounds, time relative to the first case."""
        rows = [("case", "median", "middle half", f"relative to {self.timings[0].name}")]
        for timing in self.timings:
            low, high = timing.quartiles
            rows.append(
                (timing.name, duration(timing.median), f"{duration(low)} to {duration(high)}", self._relative(timing))
            )
        return rows

    @property
    def conditions(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return (
            f"{self.rounds} interleaved rounds, {threads}; medians of the rounds, also of the ratios within each round"
        )

    def _relative(self, timing: Timing) -> str:
        if timing is self.timings[0]:
            return "1"
        low, high = quartiles(self.ratios(timing.name))
        return f"{_ratio(self.ratio(timing.name))}  ({_ratio(low)} to {_ratio(high)})"

    def __str__(self) -> str:
        return f"{text_table(self.rows())}\n{self.conditions}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{html_table(self.rows())}\n<p>{html.escape(self.conditions)}</p>"


def compare_times(
    cases: Mapping[str, Callable[[], Any]], *, rounds: int = 9, min_run_time: float = 0.02, threads: int = 1
) -> Comparison:
    """Time several calls against each other.

    cases: what to call, by name; times are given relative to the first.
    rounds: how often each case is timed. Every round times each case once, forwards and backwards in turn, so
        that a slow phase of the machine falls on all of them.
    min_run_time: least seconds that one case runs in one round; more calls make up for short ones.
    threads: what ``torch.set_num_threads`` is set to meanwhile.

    Built on ``torch.utils.benchmark.Timer``, which warms up, waits for accelerators to finish before it reads the
    clock, switches garbage collection off and restores the number of threads. Measures and states; whether
    a difference matters is left to the reader.
    """
    if not cases:
        raise ValueError("compare_times needs at least one case: {'name': function}")
    if rounds < 1:
        raise ValueError(f"compare_times needs at least one round, not {rounds}")
    not_callable = [name for name, call in cases.items() if not callable(call)]
    if not_callable:
        raise TypeError(f"cases are functions to call without arguments; {not_callable[0]!r} is none")
    make_timer = _timer_class()
    timers = {name: make_timer("call()", globals={"call": call}, num_threads=threads) for name, call in cases.items()}
    calls = {name: _calls(timer, min_run_time) for name, timer in timers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    for number in range(rounds):
        for name in order if number % 2 == 0 else reversed(order):
            seconds[name].append(timers[name].timeit(calls[name]).median)
    timings = tuple(Timing(name, tuple(seconds[name]), calls[name]) for name in cases)
    return Comparison(timings, rounds, threads)


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _timer_class() -> Any:
    # Importing it makes torch log that there is no CUDA runtime, where a CUDA build finds none.
    logger = logging.getLogger("torch.utils.cpp_extension")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        from torch.utils.benchmark import Timer
    finally:
        logger.setLevel(level)
    return Timer


def _ratio(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _calls(timer: Any, min_run_time: float) -> int:
    """How many calls fill the time; finding out is the warm-up too."""
    once = timer.timeit(1).median
    if once < min_run_time:
        once = timer.timeit(max(1, min(1000, math.ceil(min_run_time / max(once, 1e-9))))).median
    return max(1, math.ceil(min_run_time / max(once, 1e-9)))


def quartiles(values: tuple[float, ...]) -> tuple[float, float]:
    """Lower and upper quartile; twice the value where there is only one."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high

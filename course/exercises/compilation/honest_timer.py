"""Lesson 09: the first call apart from the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from course.checking import Exercise

exercise = Exercise(
    "compilation.honest_timer",
    title="Time it honestly",
    task="""
        `time_calls(call, warmup, repeats, clock, wait)` returns two numbers: the seconds of the **first** call, and the
        **median** seconds of a call later on.

        - The first call is timed alone. It holds the compilation.
        - Then come `warmup` calls that no number contains. Calls after the first may compile again.
        - Then `repeats` calls, each timed alone.
        - `clock()` returns the seconds now. Read no other clock.
        - An accelerator works through a queue: `call()` returns before its work is done. `wait()` returns when the
          queue is empty. A time starts with an empty queue, and ends when the work of that call is done. There may be
          earlier work in the queue when `time_calls` is called.

        `call` is called `1 + warmup + repeats` times. `warmup` may be 0; `repeats` is at least 1.
        """,
    hints=(
        "Write a small function of your own that times one call: wait, read, call, wait, read. Use it for the first "
        "call and for the repeats.",
        "statistics.median takes a list of numbers. The warm-up calls stand between, in a loop of their own.",
    ),
)


@exercise.stub
def time_calls(
    call: Callable[[], object],
    warmup: int,
    repeats: int,
    clock: Callable[[], float],
    wait: Callable[[], object],
) -> tuple[float, float]:
    """Return (seconds of the first call, median seconds of a call after the first and the warm-up)."""
    raise NotImplementedError


@exercise.reference
def one_at_a_time(call, warmup, repeats, clock, wait):
    def seconds():
        wait()
        start = clock()
        call()
        wait()
        return clock() - start

    first = seconds()
    for _ in range(warmup):
        call()
    return first, statistics.median([seconds() for _ in range(repeats)])


@exercise.alternative
def all_and_then_a_slice(call, warmup, repeats, clock, wait):
    times = []
    for _ in range(1 + warmup + repeats):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    return times[0], statistics.median(times[1 + warmup :])


@exercise.wrong(
    "The first call and the warm-up are among the later times. The median of a few calls may be that of a compilation.",
    fault="warmup-in-timing",
)
def everything_together(call, warmup, repeats, clock, wait):
    times = []
    for _ in range(1 + warmup + repeats):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    return times[0], statistics.median(times)


@exercise.wrong(
    "There is no warm-up: the calls after the first are timed at once, and they may compile again. `warmup` calls come "
    "before the repeats and are in no number.",
    fault="warmup-in-timing",
)
def no_warmup(call, warmup, repeats, clock, wait):
    times = []
    for _ in range(1 + repeats):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    return times[0], statistics.median(times[1:])


@exercise.wrong(
    "The warm-up comes before everything, so that the compilation is in no number at all. The first call is asked for."
)
def warmup_first(call, warmup, repeats, clock, wait):
    times = []
    for _ in range(warmup):
        call()
    for _ in range(1 + repeats):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    return times[0], statistics.median(times[1:])


@exercise.wrong(
    "This is the mean of the later calls. One slow call, as comes on a busy machine, moves it; the median stays."
)
def mean(call, warmup, repeats, clock, wait):
    def seconds():
        wait()
        start = clock()
        call()
        wait()
        return clock() - start

    first = seconds()
    for _ in range(warmup):
        call()
    return first, statistics.mean([seconds() for _ in range(repeats)])


@exercise.wrong("The fastest call is returned. It shows what the machine can do at best, not what a call takes.")
def fastest(call, warmup, repeats, clock, wait):
    def seconds():
        wait()
        start = clock()
        call()
        wait()
        return clock() - start

    first = seconds()
    for _ in range(warmup):
        call()
    return first, min([seconds() for _ in range(repeats)])


@exercise.wrong(
    "Nothing waits for the end of the work. An accelerator's call returns when its work is in the queue: this is the "
    "time of asking, not that of the work."
)
def never_waits(call, warmup, repeats, clock, wait):
    def seconds():
        start = clock()
        call()
        return clock() - start

    first = seconds()
    for _ in range(warmup):
        call()
    return first, statistics.median([seconds() for _ in range(repeats)])


@exercise.wrong(
    "It waits only at the end of a time. Work that was in the queue before, earlier work or that of the warm-up, is "
    "counted as this call's."
)
def waits_only_after(call, warmup, repeats, clock, wait):
    def seconds():
        start = clock()
        call()
        wait()
        return clock() - start

    first = seconds()
    for _ in range(warmup):
        call()
    return first, statistics.median([seconds() for _ in range(repeats)])


@exercise.wrong(
    "All repeats are timed as one, and the total is divided. That is their mean, in which one slow call shows, and an "
    "accelerator may work on one while the next is asked for."
)
def total_divided(call, warmup, repeats, clock, wait):
    wait()
    start = clock()
    call()
    wait()
    first = clock() - start
    for _ in range(warmup):
        call()
    wait()
    start = clock()
    for _ in range(repeats):
        call()
    wait()
    return first, (clock() - start) / repeats


class Machine:
    """A clock, a queue and a function that is slow for its first calls; no second of it is real.

    asking: seconds until a call returns. work: seconds that its work takes, for each call in turn; the last one stays.
    pending: seconds of work in the queue at the start."""

    def __init__(self, asking, work, pending=0.0):
        self.asking, self.work, self.now, self.done, self.calls = asking, work, 1000.0, 1000.0 + pending, 0

    def clock(self):
        return self.now

    def call(self):
        self.now += self.asking
        work = self.work[min(self.calls, len(self.work) - 1)]
        self.done = max(self.done, self.now) + work
        self.calls += 1

    def wait(self):
        self.now = max(self.now, self.done)


def run(answer, machine, warmup, repeats):
    first, later = answer(machine.call, warmup, repeats, machine.clock, machine.wait)
    return first, later, f"{machine.calls} calls"


@exercise.probe
def slow_first_calls(answer):
    return run(answer, Machine(0.0, [32.0, 8.0, 8.0, 0.5]), 2, 3)


@exercise.probe
def a_disturbed_call(answer):
    return run(answer, Machine(0.125, [16.0, 4.0, 0.5, 0.25, 9.0, 0.75]), 1, 5)


@exercise.probe
def a_queue_with_earlier_work(answer):
    return run(answer, Machine(0.125, [4.0, 1.0, 1.0, 1.0, 0.5, 2.0, 0.75, 1.0], pending=64.0), 3, 4)


@exercise.probe
def without_warmup(answer):
    return run(answer, Machine(0.25, [2.0, 0.5, 3.0, 1.0]), 0, 1)


@exercise.probe
def everything_at_asking(answer):
    return run(answer, Machine(0.5, [0.0]), 4, 2)

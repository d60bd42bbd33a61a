"""Lesson 14: honest latency of one call, on a device that may still be working."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

from course.checking import Exercise

exercise = Exercise(
    "inference.latency_report",
    title="Honest latency",
    task="""
        `latency_report(call, clock, wait, calls, warmup)` times single calls of `call()` and returns a dict with the
        keys `"p50"`, `"p95"` and `"p99"`, in the seconds of `clock`.

        - `clock()` returns the time in seconds. Use it, and no other clock.
        - `wait()` returns when the device has finished everything that was started. `call()` may return before.
        - First come `warmup` calls (0 or more) that are not timed; then `calls` calls (1 or more), each timed alone.
        - Nothing that the device still does for an earlier call may fall into a time.
        - A percentile is the **nearest rank**: the smallest measured time that at least p % of the calls do not
          exceed. It is a time that was measured, never one between two.
        """,
    hints=(
        "Four things happen around one timed call: two readings of the clock and two waits. In which order? What is "
        "the device doing when the first clock is read?",
        "wait, clock, call, wait, clock. Sort the differences; the nearest rank of p is math.ceil(p * calls / 100), "
        "counted from 1.",
    ),
)


@exercise.stub
def latency_report(
    call: Callable[[], object], clock: Callable[[], float], wait: Callable[[], object], calls: int, warmup: int
) -> dict[str, float]:
    """Return {"p50", "p95", "p99"} in seconds of `calls` single calls after `warmup` calls that are not timed."""
    raise NotImplementedError


@exercise.reference
def wait_on_both_sides(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    return {f"p{p}": times[math.ceil(p * calls / 100) - 1] for p in (50, 95, 99)}


@exercise.alternative
def one_loop(call, clock, wait, calls, warmup):
    times = []
    for number in range(-warmup, calls):
        wait()
        before = clock()
        call()
        wait()
        after = clock()
        if number >= 0:
            times.append(after - before)
    report = {}
    for p in (99, 95, 50):
        report[f"p{p}"] = min(t for t in times if 100 * sum(other <= t for other in times) >= p * calls)
    return report


@exercise.wrong("This is the mean, three times. It is neither what most callers wait, nor what the unlucky ones do.")
def the_mean(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    wait()
    start = clock()
    for _ in range(calls):
        call()
    wait()
    mean = (clock() - start) / calls
    return {"p50": mean, "p95": mean, "p99": mean}


@exercise.wrong(
    "Nobody waits for the device between the call and the second reading of the clock. What is measured is how long it "
    "takes to hand over the work, not to do it."
)
def never_waits(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        start = clock()
        call()
        times.append(clock() - start)
    times.sort()
    return {f"p{p}": times[math.ceil(p * calls / 100) - 1] for p in (50, 95, 99)}


@exercise.wrong(
    "The device is waited for after the call but not before the first one. It is busy with the warm-up calls still, "
    "and that time falls into the first measurement: into p95 and p99."
)
def waits_only_after(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    return {f"p{p}": times[math.ceil(p * calls / 100) - 1] for p in (50, 95, 99)}


@exercise.wrong(
    "The warm-up calls are timed with the others. They compile and allocate, which later calls do not do.",
    fault="warmup-in-timing",
)
def warm_up_counts(call, clock, wait, calls, warmup):
    times = []
    for _ in range(calls + warmup):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    return {f"p{p}": times[math.ceil(p * len(times) / 100) - 1] for p in (50, 95, 99)}


@exercise.wrong(
    "There are no warm-up calls: the first timed calls are the slow ones of a cold start.", fault="warmup-in-timing"
)
def no_warm_up(call, clock, wait, calls, warmup):
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    return {f"p{p}": times[math.ceil(p * calls / 100) - 1] for p in (50, 95, 99)}


@exercise.wrong(
    "The percentiles are interpolated: with few calls they are times that no call took. The nearest rank is asked for."
)
def interpolates(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    report = {}
    for p in (50, 95, 99):
        place = p / 100 * (calls - 1)
        low = int(place)
        high = min(low + 1, calls - 1)
        report[f"p{p}"] = times[low] + (place - low) * (times[high] - times[low])
    return report


@exercise.wrong(
    "The rank is one too late: ranks count from 1 and indices from 0. Of 100 calls p95 is the 95th, at index 94."
)
def one_rank_late(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    return {f"p{p}": times[min(calls - 1, p * calls // 100)] for p in (50, 95, 99)}


@exercise.wrong(
    "The rank is rounded down, so that fewer than p % of the calls stay within it. Of 10 calls p95 is the 10th."
)
def rounds_down(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    return {f"p{p}": times[max(0, p * calls // 100 - 1)] for p in (50, 95, 99)}


@exercise.wrong("The times were never sorted: this is the time of a certain call, not a percentile.")
def not_sorted(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    return {f"p{p}": times[math.ceil(p * calls / 100) - 1] for p in (50, 95, 99)}


@exercise.wrong("p50 is statistics.median, which of an even number of calls is the middle between two of them.")
def median_between_two(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    report = {f"p{p}": times[math.ceil(p * calls / 100) - 1] for p in (95, 99)}
    return {"p50": statistics.median(times), **report}


@exercise.wrong("The slowest call stands for p99. Of more than 100 calls one percent may be slower than p99.")
def slowest_is_p99(call, clock, wait, calls, warmup):
    for _ in range(warmup):
        call()
    times = []
    for _ in range(calls):
        wait()
        start = clock()
        call()
        wait()
        times.append(clock() - start)
    times.sort()
    return {"p50": times[math.ceil(calls / 2) - 1], "p95": times[math.ceil(0.95 * calls) - 1], "p99": times[-1]}


class Device:
    """A device with a clock of its own: a call hands its work over in a moment; it is done while one waits."""

    def __init__(self, work, launch=0.25):
        self.work, self.launch = list(work), launch
        self.now, self.pending, self.made = 1000.0, 0.0, 0

    def call(self):
        self.now += self.launch
        self.pending += self.work[self.made % len(self.work)]
        self.made += 1

    def wait(self):
        self.now += self.pending
        self.pending = 0.0

    def clock(self):
        return self.now


def run(answer, work, calls, warmup, launch=0.25):
    device = Device(work, launch)
    report = answer(device.call, device.clock, device.wait, calls, warmup)
    return report, f"{device.made} calls"


@exercise.probe
def one_call(answer):
    return run(answer, [64.0, 2.0], 1, 1)


@exercise.probe
def without_warm_up(answer):
    return run(answer, [3.0, 1.0, 2.0], 3, 0)


@exercise.probe
def ten_calls(answer):
    return run(answer, [512.0, 256.0, *(float(n * n) for n in (3, 1, 10, 7, 9, 2, 8, 4, 6, 5))], 10, 2)


@exercise.probe
def two_slow_calls_of_twenty(answer):
    return run(answer, [100.0] * 3 + [2.0] * 9 + [54.0] + [3.0] * 8 + [10.0, 2.0], 20, 3)


@exercise.probe
def a_hundred_calls(answer):
    return run(answer, [float((37 * n) % 101) for n in range(1, 101)], 100, 0)


@exercise.probe
def two_hundred_calls(answer):
    return run(answer, [1000.0, *(float((37 * n) % 211) for n in range(1, 201))], 200, 1)


@exercise.probe
def work_without_a_queue(answer):
    return run(answer, [0.0], 7, 2, launch=0.5)

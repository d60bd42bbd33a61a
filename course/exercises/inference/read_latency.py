"""Lesson 14: mean and percentiles of a list of times."""

from __future__ import annotations

import math

from course.checking import ValueExercise

exercise = ValueExercise(
    "inference.read_latency",
    title="What the mean says, and what people wait",
    name="latency",
    expects="a tuple of four numbers in milliseconds: mean, p50, p95, p99",
    task="""
        Twenty calls were timed, in milliseconds: eighteen took 2, one took 10, one took 54.

        Set `latency` to a tuple of four numbers in milliseconds: mean, p50, p95 and p99. A percentile is the **nearest
        rank**: the smallest of the measured times that at least p % of the calls do not exceed. Work it out by hand.
        """,
    hints=(
        "The mean is the sum over 20. For a percentile sort the times, and count calls from the shortest: how many are "
        "95 % of twenty?",
        "The rank is p / 100 times 20, rounded up to a whole number: the 10th time, the 19th, and for p99 the one "
        "after that. Ranks count from 1.",
    ),
)


@exercise.reference
def by_hand():
    return (5.0, 2.0, 10.0, 54.0)


@exercise.alternative
def by_ranks():
    return (sum([2] * 18 + [10, 54]) / 20, *(([2] * 18 + [10, 54])[math.ceil(p * 20 / 100) - 1] for p in (50, 95, 99)))


@exercise.wrong(
    "p95 is one rank too late. `times[int(0.95 * 20)]` is index 19, the 20th time, because indices count from 0. 19 of "
    "20 calls are 95 % already."
)
def one_rank_late():
    return (5, 2, 54, 54)


@exercise.wrong(
    "p95 and p99 lie between two measured times: that is interpolation, which numpy and torch do by default. No call "
    "took that long. The nearest rank is a call that took place."
)
def interpolated():
    return (5, 2, 12.2, 45.64)


@exercise.wrong(
    "p95 and p99 are one rank too early: 18 of 20 calls are 90 %, and 19 of 20 are 95 %. The rank is rounded up."
)
def one_rank_early():
    return (5, 2, 2, 10)


@exercise.wrong("Mean and p50 have changed places. Half of the calls take no longer than p50.")
def mean_and_median_swapped():
    return (2, 5, 10, 54)


@exercise.wrong("These are seconds. The task asks for milliseconds.")
def in_seconds():
    return (0.005, 0.002, 0.010, 0.054)


@exercise.wrong("p50 is not the mean. It is the 10th of the sorted times; two slow calls do not move it.")
def median_is_the_mean():
    return (5, 5, 10, 54)


@exercise.wrong(
    "The mean counts all twenty calls, not each different time once: the sum is 18 times 2, plus 10 and 54."
)
def mean_of_different_times():
    return (22, 2, 10, 54)

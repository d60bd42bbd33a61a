from __future__ import annotations

import math
import random

import pytest

from course.distributed.costs import (
    Link,
    all_reduce_seconds,
    calibrate,
    crossover_bytes,
    efficiency,
    forecast,
    ring_seconds,
    step_time,
    tree_seconds,
)

LINK = Link(alpha=1e-4, beta=1e-9)
SIZES = (4, 4096, 65536, 1048576, 4194304)


def measured(link, workers=2, algorithm="ring"):
    return [(size, all_reduce_seconds(size, workers, link, algorithm)) for size in SIZES]


def test_a_message_costs_latency_and_bytes():
    assert LINK.message_seconds(1e6) == pytest.approx(1.1e-3)
    assert LINK.bandwidth == pytest.approx(1e9)
    assert Link(1e-4, 0.0).bandwidth == math.inf


def test_ring_by_hand():
    # 4 workers: 6 messages of a quarter of 4 MB.
    assert ring_seconds(4e6, 4, LINK) == pytest.approx(6 * (1e-4 + 1e-3))


def test_tree_by_hand():
    # 5 workers: 3 levels, up and down, each with all 4 MB.
    assert tree_seconds(4e6, 5, LINK) == pytest.approx(6 * (1e-4 + 4e-3))
    assert tree_seconds(4e6, 8, LINK) == tree_seconds(4e6, 5, LINK)


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_one_worker_sends_nothing(algorithm):
    assert all_reduce_seconds(1e9, 1, LINK, algorithm) == 0
    assert efficiency(0.1, 1e9, 1, LINK, algorithm) == 1


def test_bytes_of_a_ring_are_bounded_and_its_latency_is_not():
    no_latency, no_bytes = Link(0, 1e-9), Link(1e-4, 0)
    assert 1.99e-3 < ring_seconds(1e6, 1024, no_latency) < 2e-3
    assert ring_seconds(1e6, 1024, no_bytes) == pytest.approx(2 * 1023 * 1e-4)
    assert tree_seconds(1e6, 1024, no_bytes) == pytest.approx(20 * 1e-4)


@pytest.mark.parametrize("workers", [4, 8, 64, 1000])
def test_at_the_crossover_both_take_equally_long(workers):
    size = crossover_bytes(workers, LINK)
    assert ring_seconds(size, workers, LINK) == pytest.approx(tree_seconds(size, workers, LINK))
    assert tree_seconds(size / 2, workers, LINK) < ring_seconds(size / 2, workers, LINK)
    assert ring_seconds(size * 2, workers, LINK) < tree_seconds(size * 2, workers, LINK)


def test_crossover_at_the_edges():
    assert crossover_bytes(2, LINK) == 0
    assert crossover_bytes(3, LINK) == 0
    assert crossover_bytes(8, Link(1e-4, 0)) == math.inf
    assert crossover_bytes(8, Link(0, 1e-9)) == 0
    with pytest.raises(ValueError, match="two workers"):
        crossover_bytes(1, LINK)


@pytest.mark.parametrize(("workers", "algorithm"), [(2, "ring"), (5, "ring"), (2, "tree"), (6, "tree")])
def test_calibrate_finds_the_link_that_made_the_times(workers, algorithm):
    link = calibrate(measured(LINK, workers, algorithm), workers, algorithm)
    assert link.alpha == pytest.approx(LINK.alpha)
    assert link.beta == pytest.approx(LINK.beta)


def test_calibrate_takes_the_median_of_equal_sizes():
    points = measured(LINK)
    link = calibrate([*points, *points, *((size, 50 * seconds) for size, seconds in points)])
    assert (link.alpha, link.beta) == pytest.approx((LINK.alpha, LINK.beta))


def test_calibrate_gives_a_size_that_is_far_off_little_weight():
    points = measured(LINK)
    points[2] = (points[2][0], 4 * points[2][1])
    link = calibrate(points)
    assert link.alpha == pytest.approx(LINK.alpha, rel=0.1)
    assert link.beta == pytest.approx(LINK.beta, rel=0.1)


def test_calibrate_bears_noise():
    noise = random.Random(0)
    points = [(size, seconds * noise.uniform(0.8, 1.25)) for size, seconds in measured(LINK) for _ in range(5)]
    link = calibrate(points)
    assert link.alpha == pytest.approx(LINK.alpha, rel=0.25)
    assert link.beta == pytest.approx(LINK.beta, rel=0.25)


@pytest.mark.parametrize("points", [[(4, 1e-3), (4e6, 1e-4)], [(1e6, 1e-4), (2e6, 1e-3)]], ids=["falling", "steep"])
def test_calibrated_numbers_are_positive_whatever_was_measured(points):
    link = calibrate(points)
    assert link.alpha > 0
    assert link.beta > 0


@pytest.mark.parametrize(
    ("points", "workers", "message"),
    [
        ([(4, 1.0), (4, 2.0)], 2, "two sizes"),
        ([], 2, "two sizes"),
        ([(4, 0.0), (8, 1.0)], 2, "seconds > 0"),
        ([(4, math.nan), (8, 1.0)], 2, "seconds > 0"),
        ([(4, 1.0), (8, 1.0)], 1, "one worker"),
    ],
)
def test_calibrate_refuses(points, workers, message):
    with pytest.raises(ValueError, match=message):
        calibrate(points, workers)


def test_what_overlaps_is_hidden():
    communication = ring_seconds(4e6, 8, LINK)
    assert step_time(0.01, 4e6, 8, LINK) == pytest.approx(0.01 + communication)
    assert step_time(0.01, 4e6, 8, LINK, overlap=0.5) == pytest.approx(0.01 + communication - 0.005)
    assert step_time(1.0, 4e6, 8, LINK, overlap=0.5) == 1.0
    assert efficiency(1.0, 4e6, 8, LINK, overlap=0.5) == 1.0
    assert efficiency(communication, 4e6, 8, LINK) == pytest.approx(0.5)


def test_forecast_has_a_row_for_each_pair():
    rows = forecast(0.02, 4e6, LINK, overlap=0.25)
    assert [row.workers for row in rows] == [n for n in (1, 2, 8, 64, 1024) for _ in range(2)]
    assert [row.algorithm for row in rows[:4]] == ["ring", "tree", "ring", "tree"]
    for row in rows:
        assert row.communication == all_reduce_seconds(4e6, row.workers, LINK, row.algorithm)
        assert row.seconds == step_time(0.02, 4e6, row.workers, LINK, row.algorithm, overlap=0.25)
        assert row.efficiency == pytest.approx(0.02 / row.seconds)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Link(-1, 0),
        lambda: Link(0, math.nan),
        lambda: all_reduce_seconds(1, 2, LINK, "star"),
        lambda: ring_seconds(1, 0, LINK),
        lambda: tree_seconds(-1, 2, LINK),
        lambda: step_time(-1, 1, 2, LINK),
        lambda: step_time(1, 1, 2, LINK, overlap=1.5),
        lambda: efficiency(0, 1, 2, LINK),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match="not"):
        wrong()

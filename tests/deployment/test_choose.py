"""choose: the rule, its ties, its reasons, and what is nearest when nothing fits."""

from __future__ import annotations

import pytest
import torch

from course.deployment.choose import NothingFits, choose
from course.deployment.latency import Latencies, Latency
from course.deployment.variants import Judgement, Result


def judgement(**variants):
    """name=(p50 in ms, accuracy, bytes) or with a p95 behind."""
    latencies = {
        batch: Latencies(
            tuple(
                Latency(name, (v[0] * batch / 1000,) * 18 + ((v[3] if len(v) > 3 else v[0]) * batch / 1000,) * 2)
                for name, v in variants.items()
            ),
            threads=1,
        )
        for batch in (1, 64)
    }
    results = tuple(
        Result(name, (), v[2], {b: seen[name].p50 for b, seen in latencies.items()}, v[1], torch.full((2,), v[1]), 1.0)
        for name, v in variants.items()
    )
    return Judgement(results, latencies, ("a", "b"), 100)


def test_the_fastest_wins():
    choice = choose(judgement(eager=(2, 0.9, 400), fast=(1, 0.9, 400)))
    assert choice.name == "fast"
    assert choice.reason == "2 keep all limits, this is the fastest of them, 1 ms at batch 1"
    assert choice.rejected == {}


def test_each_limit():
    table = judgement(eager=(2, 0.9, 400), fast=(1, 0.88, 500), small=(3, 0.8, 100))
    assert choose(table, max_points_lost=1).name == "eager"
    assert choose(table, max_points_lost=2).name == "fast"  # at the limit is within it
    assert choose(table, max_points_lost=None, max_bytes=100).name == "small"
    assert choose(table, max_points_lost=None, max_bytes=400).name == "eager"
    assert choose(table, max_points_lost=None, min_accuracy=0.88).name == "fast"
    assert choose(table, max_points_lost=None, min_accuracy=0.89).name == "eager"
    assert choose(table, max_points_lost=None, max_latency=0.001).name == "fast"


def test_why_the_others_are_not_chosen():
    choice = choose(judgement(eager=(2, 0.9, 400), fast=(1, 0.85, 500)), max_bytes=450)
    assert choice.reason == "the only one that keeps all limits; 2 ms at batch 1"
    words = "500 bytes instead of at most 450; 5.0 points of accuracy lost instead of at most 1.0"
    assert choice.rejected == {"fast": words}
    assert str(choice).splitlines() == [f"eager: {choice.reason}", f"not fast: {words}"]


def test_the_limit_of_time_holds_for_the_tail():
    table = judgement(eager=(2, 0.9, 400), spiky=(1, 0.9, 400, 9))
    assert choose(table).name == "spiky"
    choice = choose(table, max_latency=0.003)
    assert choice.name == "eager"
    assert choice.rejected == {"spiky": "p95 of 9 ms instead of at most 3 ms"}


def test_equally_fast_ones_are_told_apart_by_accuracy_then_bytes_then_order():
    table = judgement(a=(1.04, 0.9, 400), b=(1, 0.89, 100), c=(1.02, 0.9, 300), d=(1.06, 0.95, 1))
    choice = choose(table)
    assert choice.name == "c"
    assert "a, b are equally fast, within 5 %, and of the most accurate this has the fewest bytes" in choice.reason
    assert choose(judgement(a=(1.04, 0.9, 400), b=(1, 0.89, 100))).reason.count("most accurate") == 1
    same = choose(judgement(a=(1, 0.9, 400), b=(1, 0.9, 400)))
    assert same.name == "a"
    assert "b is equally fast, within 5 %, equally accurate and of equal size, and this comes first" in same.reason


def test_the_batch_that_was_asked_for():
    table = judgement(eager=(2, 0.9, 400), fast=(1, 0.9, 400))
    assert "64 ms at batch 64" in choose(table, batch=64).reason
    with pytest.raises(ValueError, match="batch 8 was not timed; the judgement has 1, 64"):
        choose(table, batch=8)


def test_nothing_fits_names_the_nearest():
    table = judgement(eager=(2, 0.9, 400), fast=(1.1, 0.9, 400), small=(5, 0.5, 1))
    with pytest.raises(NothingFits, match=r"none of the 3 .* nearest is fast: p95 of 1.1 ms instead of at most 1 ms"):
        choose(table, max_latency=0.001)


def test_fewer_missed_limits_are_nearer():
    table = judgement(one=(9, 0.9, 100), two=(1.1, 0.9, 110))
    with pytest.raises(NothingFits, match="nearest is one"):
        choose(table, max_latency=0.001, max_bytes=100)


def test_limits_of_zero():
    with pytest.raises(NothingFits, match="instead of at most 0"):
        choose(judgement(eager=(2, 0.9, 400)), max_bytes=0, max_latency=0)
    assert choose(judgement(eager=(2, 0.9, 400)), max_points_lost=0).name == "eager"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"min_accuracy": 85}, "a share from 0 to 1, such as 0.85, not 85"),
        ({"max_latency": -1}, "max_latency should be at least 0"),
        ({"max_bytes": -1}, "max_bytes should be"),
        ({"max_points_lost": float("nan")}, "max_points_lost should be"),
    ],
)
def test_limits_that_cannot_be_meant(limits, message):
    with pytest.raises(ValueError, match=message):
        choose(judgement(eager=(2, 0.9, 400)), **limits)

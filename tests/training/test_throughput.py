from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch

from course.training.throughput import Rates, Throughput, compare_throughput, cpu_seconds, wait_for


@pytest.fixture
def comparison():
    slow = Rates("slow", 100, (1.0, 2.0, 4.0), (2.0, 4.0, 8.0))
    fast = Rates("fast <b>", 100, (0.5, 0.5, 1.0), (1.0, 1.0, 4.0))
    return Throughput((slow, fast), rounds=3, threads=1, device="cpu")


def test_rates_and_ratios(comparison):
    assert comparison["slow"].per_second == 50
    assert comparison["slow"].per_cpu_second == 25
    assert comparison["slow"].quartiles == (37.5, 75)
    assert comparison.ratios("fast <b>") == (2.0, 4.0, 4.0)
    assert comparison.ratio("fast <b>") == 4.0
    assert comparison.ratio("fast <b>", cpu=True) == 2.0
    assert comparison.ratio("slow", base="fast <b>") == 0.25


def test_ratio_counts_images_not_rounds():
    loops = (Rates("a", 100, (1.0,), (1.0,)), Rates("b", 300, (2.0,), (2.0,)))
    assert Throughput(loops, 1, 1, "cpu").ratio("b") == 1.5


def test_text_and_html_hold_the_same_content(comparison):
    text, page = str(comparison), comparison._repr_html_()
    for content in ("images/CPU-s", "38 to 75", "relative to slow", "4.00  (3.00 to 4.00)", "3 interleaved rounds"):
        assert content in text
        assert content in page
    assert "fast &lt;b&gt;" in page
    assert "<b>" not in page
    with pytest.raises(KeyError, match="the loops are slow, fast"):
        comparison["nope"]


def test_loops_are_interleaved_forwards_and_backwards():
    calls = []
    loops = {name: (lambda n, name=name: calls.append((name, n))) for name in "abc"}
    result = compare_throughput(loops, batches=2, rounds=3, warmup=1, batch_size=5)
    assert calls[:3] == [("a", 1), ("b", 1), ("c", 1)]
    assert "".join(name for name, _ in calls[3:]) == "abc" + "cba" + "abc"
    assert {n for _, n in calls[3:]} == {2}
    assert [loop.images for loop in result.loops] == [10, 10, 10]
    assert all(len(loop.seconds) == len(loop.cpu) == 3 for loop in result.loops)


def test_without_warmup_nothing_runs_before_the_rounds():
    calls = []
    compare_throughput({"a": calls.append}, batches=2, rounds=1, warmup=0)
    assert calls == [2]


def test_a_slower_loop_has_fewer_images_a_second():
    loops = {"slow": lambda n: time.sleep(0.02 * n), "fast": lambda n: time.sleep(0.002 * n)}
    result = compare_throughput(loops, batches=2, rounds=3, warmup=0)
    assert result.ratio("fast") > 2


@pytest.mark.parametrize(
    ("loops", "options"), [({}, {}), ({"a": print}, {"batches": 0}), ({"a": print}, {"rounds": 0})]
)
def test_nothing_to_measure_is_refused(loops, options):
    with pytest.raises(ValueError, match="at least"):
        compare_throughput(loops, **options)


SPIN = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def test_cpu_seconds_count_work_and_not_sleep():
    start = cpu_seconds()
    time.sleep(0.2)
    asleep = cpu_seconds() - start
    start = cpu_seconds()
    sum(range(8_000_000))
    assert asleep < 0.1 < cpu_seconds() - start


def test_cpu_seconds_count_children_that_live_and_that_have_ended():
    start = cpu_seconds()
    child = subprocess.Popen([sys.executable, "-c", f"{SPIN}\ninput()"], stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + 60
        while (alive := cpu_seconds() - start) < 0.5 and time.monotonic() < end:
            time.sleep(0.05)
        assert alive >= 0.5
    finally:
        child.communicate(b"\n")
    assert cpu_seconds() - start >= 0.5


def test_waiting_for_the_cpu_returns_at_once():
    assert wait_for(torch.device("cpu")) is None

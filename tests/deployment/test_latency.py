"""measure_latency: counts, order, percentiles; never how long something took."""

from __future__ import annotations

import gc

import pytest
import torch

from course.deployment.latency import Latencies, Latency, measure_latency


@pytest.mark.parametrize(("p", "rank"), [(50, 50), (95, 95), (99, 99), (100, 100), (0.5, 1)])
def test_percentile_is_a_measured_time(p, rank):
    assert Latency("a", tuple(float(n) for n in range(100, 0, -1))).percentile(p) == rank


def test_percentiles_of_few_calls():
    latency = Latency("a", (3.0, 1.0, 2.0))
    assert (latency.p50, latency.p95, latency.p99) == (2.0, 3.0, 3.0)


@pytest.mark.parametrize("p", [0, -1, 101])
def test_percentile_out_of_range(p):
    with pytest.raises(ValueError, match="a percentile lies above 0"):
        Latency("a", (1.0,)).percentile(p)


def test_cases_are_called_in_turn_after_their_warm_up():
    calls = []
    seen = measure_latency(
        {"a": lambda x: calls.append(("a", x)), "b": lambda x: calls.append(("b", x))}, (7,), calls=3, warmup=1
    )
    assert [name for name, _ in calls] == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert {x for _, x in calls} == {7}
    assert [len(case.seconds) for case in seen.cases] == [3, 3]


def test_threads_gradients_and_garbage_are_put_back():
    threads = torch.get_num_threads()
    seen = {}

    def look():
        seen.update(threads=torch.get_num_threads(), grad=torch.is_grad_enabled(), gc=gc.isenabled())

    measure_latency({"look": look}, calls=1, threads=1)
    assert seen == {"threads": 1, "grad": False, "gc": False}
    assert (torch.get_num_threads(), torch.is_grad_enabled(), gc.isenabled()) == (threads, True, True)


def test_state_is_put_back_after_an_error():
    def fail():
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        measure_latency({"fail": fail}, calls=1)
    assert gc.isenabled()
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("cases", "options", "message"),
    [({}, {}, "at least one case"), ({"a": int}, {"calls": 0}, "calls should be at least 1")],
)
def test_bad_requests(cases, options, message):
    with pytest.raises(ValueError, match=message):
        measure_latency(cases, **options)


def test_speed_up_and_table():
    seen = Latencies((Latency("slow", (0.004, 0.004)), Latency("fast", (0.002, 0.002))), threads=1)
    assert seen.speedup("fast") == 2
    assert seen.speedup("slow", base="fast") == 0.5
    assert seen.table()[2] == ["fast", "2 ms", "2 ms", "2 ms", "2.00"]
    assert str(seen).endswith("2 calls of each in turn, 1 thread")
    assert "2 calls of each in turn" in seen._repr_html_()
    with pytest.raises(KeyError, match="the cases are slow, fast"):
        seen["none"]


def test_the_mean_is_no_percentile():
    seen = Latency("one slow call", (0.001,) * 19 + (0.021,))
    assert seen.mean == pytest.approx(0.002)
    assert (seen.p50, seen.p95, seen.p99) == (0.001, 0.001, 0.021)

from __future__ import annotations

import logging
import time

import pytest
import torch

from course.training.timing import Comparison, Timing, compare_times, duration


@pytest.fixture
def comparison():
    return Comparison(
        (Timing("base", (1.0, 2.0, 3.0), 5), Timing("twice <b>", (2.0, 4.0, 9.0), 5)), rounds=3, threads=1
    )


def test_medians_quartiles_and_ratios(comparison):
    assert comparison["base"].median == 2.0
    assert comparison["base"].quartiles == (1.5, 2.5)
    assert comparison.ratios("twice <b>") == (2.0, 2.0, 3.0)
    assert comparison.ratio("twice <b>") == 2.0
    assert comparison.ratio("base", base="twice <b>") == 0.5


def test_text_and_html_hold_the_same_content(comparison):
    text, page = str(comparison), comparison._repr_html_()
    for content in ("2 s", "1.5 s to 2.5 s", "relative to base", "3 interleaved rounds, 1 thread"):
        assert content in text
        assert content in page
    assert "twice &lt;b&gt;" in page
    assert "<b>" not in page


def test_unknown_case_names_the_cases(comparison):
    with pytest.raises(KeyError, match="the cases are base, twice"):
        comparison["nope"]


def test_rounds_are_interleaved_and_alternate():
    order = []
    cases = {name: (lambda name=name: (order.append(name), time.sleep(0.002))) for name in "abc"}
    result = compare_times(cases, rounds=4, min_run_time=0.001)
    # Each timing of a round calls its case a few times in a row; what follows the warm-up is compared.
    runs = [name for number, name in enumerate(order) if number == 0 or order[number - 1] != name]
    assert "".join(runs).endswith("abcba" + "bcba")
    assert [len(timing.seconds) for timing in result.timings] == [4, 4, 4]


def test_slower_code_has_a_larger_ratio():
    result = compare_times(
        {"short": lambda: time.sleep(0.001), "long": lambda: time.sleep(0.01)}, rounds=3, min_run_time=0.002
    )
    assert result["short"].median >= 0.001
    assert result["long"].median >= 0.01
    assert result.ratio("long") > 2


def test_calls_fill_the_round():
    result = compare_times({"tiny": lambda: None}, rounds=1, min_run_time=0.01)
    assert result["tiny"].calls > 1000
    assert result["tiny"].quartiles == (result["tiny"].median,) * 2


def test_threads_are_set_and_restored():
    before = torch.get_num_threads()
    seen = set()
    compare_times({"threads": lambda: seen.add(torch.get_num_threads())}, rounds=1, min_run_time=1e-4, threads=2)
    assert seen == {2}
    assert torch.get_num_threads() == before


def test_levels_of_loggers_are_left_alone():
    logger = logging.getLogger("torch.utils.cpp_extension")
    before = logger.level
    compare_times({"nothing": lambda: None}, rounds=1, min_run_time=1e-4)
    assert logger.level == before


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (({},), ValueError, "at least one case"),
        (({"a": 3},), TypeError, "'a' is none"),
    ],
)
def test_wrong_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        compare_times(*arguments)


def test_no_rounds():
    with pytest.raises(ValueError, match="at least one round, not 0"):
        compare_times({"a": lambda: None}, rounds=0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 µs"), (7e-9, "7 ns")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_waits_for_the_gpu():
    x = torch.rand(4096, 4096, device="cuda")
    result = compare_times({"small": lambda: x[:64, :64] @ x[:64, :64], "large": lambda: x @ x}, rounds=3)
    assert result.ratio("large") > 5

"""judge: accuracy, agreement and losses follow from the predictions; times are only counted."""

from __future__ import annotations

import pytest
import torch

from course.deployment.variants import Variant, judge

TARGETS = torch.arange(200) % 2
IMAGES = torch.stack([torch.full((1, 2, 2), float(t)) for t in TARGETS])


def right(x):
    return torch.nn.functional.one_hot(x[:, 0, 0, 0].long(), 2).float()


def always_zero(x):
    return torch.tensor([[1.0, 0.0]]).expand(len(x), 2)


@pytest.fixture
def judgement():
    variants = [Variant("float", right, 100), Variant("broken", always_zero, 40, ("fc",))]
    return judge(variants, IMAGES, TARGETS, ("even", "odd"), calls={1: 2, 64: 1})


def test_accuracy_and_agreement(judgement):
    assert judgement["float"].accuracy == 1
    assert judgement["broken"].accuracy == 0.5
    assert judgement["broken"].agreement == 0.5
    assert judgement.points_lost("broken") == 50
    assert judgement["broken"].per_class.tolist() == [1, 0]
    assert judgement.worst_class("broken") == ("odd", 100)


def test_times_have_both_batch_sizes_and_all_variants(judgement):
    assert list(judgement.latencies) == [1, 64]
    assert [case.name for case in judgement.latencies[1].cases] == ["float", "broken"]
    assert judgement["broken"].latency[64] == judgement.latencies[64]["broken"].p50


def test_table_says_it_all(judgement):
    head, first, second = judgement.table()
    assert head == ["variant", "layers changed", "bytes", "batch 1", "batch 64", "accuracy", "agrees", "worst class"]
    assert first[-3:] == ["100.0 %", "100.0 %", "none lost"]
    assert second[:3] == ["broken", "1", "40"]
    assert second[-3:] == ["50.0 %", "50.0 %", "odd -100.0"]
    assert "200 images" in judgement.conditions
    assert judgement.conditions in str(judgement)


def test_a_class_without_images_loses_nothing():
    judged = judge(
        [Variant("float", right, 1), Variant("same", right, 1)],
        IMAGES,
        TARGETS,
        ("even", "odd"),
        calls={1: 1},
    )
    assert judged.table()[2][-1] == "none lost"


def test_unknown_variant_names_those_there_are(judgement):
    with pytest.raises(KeyError, match="the variants are float, broken"):
        judgement["int8"]


def test_nothing_to_judge():
    with pytest.raises(ValueError, match="at least one variant"):
        judge([], IMAGES, TARGETS, ("a", "b"))


def test_several_calls_in_a_row_are_one_turn():
    count = {1: 0, 64: 0}

    def counted(x):
        if len(x) in count:
            count[len(x)] += 1
        return right(x)

    judged = judge([Variant("float", counted, 1)], IMAGES, TARGETS, ("a", "b"), calls={1: 2, 64: 1}, in_a_row={1: 5})
    assert count[1] == (2 + 3) * 5  # two turns after three that warm up
    assert count[64] == 3 + 1 + 3  # 200 images are three batches of 64 and a shorter one
    assert len(judged.latencies[1].cases[0].seconds) == 2
    assert "2 calls of each in turn, 1 thread, 5 in a row" in judged.conditions
    assert "1 calls of each in turn, 1 thread;" in judged.conditions

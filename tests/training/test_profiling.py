from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from course.training.profiling import PARTS, busy_share, forward_flop, operations, parts_of, profile_steps
from course.training.reference_loop import conv_net, repeated


def test_the_parts_of_each_step_but_the_first_are_in_the_profile():
    taken = []

    def source(count):
        for _ in range(count):
            taken.append(1)
            yield torch.zeros(2, 3, 32, 32), torch.tensor([0, 1])

    parts = parts_of(profile_steps(source, conv_net(), 2))
    assert tuple(parts) == PARTS
    assert len(taken) == 3
    for spans in parts.values():
        assert len(spans) == 2
    in_order = [parts[name][number] for number in range(2) for name in PARTS]
    assert in_order[0][0] == 0
    for (start, length), (later, _) in itertools.pairwise(in_order):
        assert length >= 0
        assert start + length <= later + 1e-6


def test_operations_are_counted_by_name():
    x = torch.ones(3, requires_grad=True)
    counts = operations(lambda: (x * x).sum().backward())
    assert counts["aten.mul"] == 3
    assert counts["aten.sum"] == 1
    assert counts["aten.never"] == 0


def test_a_number_that_is_fetched_is_counted():
    x = torch.ones(3)
    assert operations(lambda: x.sum().item())["aten._local_scalar_dense"] == 1
    assert operations(lambda: x.sum())["aten._local_scalar_dense"] == 0


def test_only_a_cuda_device_has_a_share():
    assert busy_share(lambda count: pytest.fail("it was run"), 3, torch.device("cpu")) is None


def test_flop_of_a_linear_layer_and_of_the_reference_network():
    layer = nn.Linear(5, 7)
    assert forward_flop(layer, (3, 5)) == 2 * 3 * 5 * 7
    assert forward_flop(conv_net()) == 2 * (32 * 32 * 32 * 27 + 64 * 16 * 16 * 288 + 4096 * 10)


def test_a_repeated_batch_is_the_same_one():
    given = torch.zeros(1), torch.zeros(1)
    assert all(pair is given for pair in repeated(given)(3))

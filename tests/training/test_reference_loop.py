from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from course.training.reference_loop import (
    DrawnOrder,
    conv_net,
    loader_source,
    loading,
    repeated,
    resized,
    training,
    with_threads,
)


def batch(count: int = 4):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, 32, 32, generator=generator), torch.arange(count) % 10


def test_an_order_has_as_many_indices_as_are_wanted():
    order = DrawnOrder(10)
    assert list(order) == []
    order.wanted = 7
    drawn = list(order)
    assert len(order) == len(drawn) == len(set(drawn)) == 7
    order.wanted = 25
    drawn = list(order)
    assert len(drawn) == 25
    assert sorted(drawn[:20]) == sorted(2 * list(range(10)))


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_loader_gives_as_many_batches_as_are_wanted_again_and_again(workers):
    source = loader_source(TensorDataset(torch.arange(10)), workers, batch_size=4)
    for count in (2, 1, 3):
        assert [len(numbers) for (numbers,) in source(count)] == [4] * count


def test_the_nets_have_the_same_weights_and_give_the_same_logits():
    images, _ = batch()
    assert torch.equal(conv_net()(images), conv_net(pool_first=True)(images))
    assert sum(parameter.numel() for parameter in conv_net().parameters()) == 60_362


@pytest.mark.parametrize("fused", [None, True])
def test_a_loop_trains_as_many_steps_as_it_is_told(fused):
    images, targets = batch()
    net, plain = conv_net(), conv_net()
    training(repeated((images, targets)), net, fused=fused)(3)
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(plain(images), targets).backward()
        optimizer.step()
    for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-3)


def test_loading_takes_every_batch():
    seen = []
    loading(lambda count: (seen.append(number) for number in range(count)))(5)
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("size", "sizes"), [(2, [2] * 6), (4, [4] * 3), (12, [12])])
def test_other_sizes_process_as_many_images(size, sizes):
    net, seen = conv_net(), []
    net.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    resized(batch(4), size, net)(3)
    assert seen == sizes


def test_threads_are_set_meanwhile_and_set_back():
    before, seen = torch.get_num_threads(), []

    def loop(count: int) -> None:
        seen.append((count, torch.get_num_threads()))
        raise RuntimeError("a loop that breaks")

    with pytest.raises(RuntimeError, match="breaks"):
        with_threads(2, loop)(5)
    assert seen == [(5, 2)]
    assert torch.get_num_threads() == before

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course.distributed.ranks import run_ranks
from course.distributed.ring import chunk_bounds, ring_all_reduce, ring_steps, simulate_ring


def numbers(rank, length, dtype=torch.float64):
    return torch.arange(length, dtype=dtype) * (rank + 1) + rank


@pytest.mark.parametrize(("length", "n"), [(12, 4), (13, 4), (3, 5), (0, 3), (7, 1)])
def test_chunks_cover_the_range_evenly(length, n):
    bounds = chunk_bounds(length, n)
    assert len(bounds) == n
    assert [i for start, end in bounds for i in range(start, end)] == list(range(length))
    sizes = [end - start for start, end in bounds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_what_a_rank_sends_is_what_its_neighbour_expects(n):
    plans = [ring_steps(rank, n) for rank in range(n)]
    for rank in range(n):
        assert len(plans[rank]) == 2 * (n - 1)
        for (sent, _, _), (_, expected, _) in zip(plans[rank], plans[(rank + 1) % n], strict=True):
            assert sent == expected


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [0, 1, 2, 13])
def test_a_real_ring_sums_as_torch_does(n, length):
    def both(rank):
        by_ring, by_torch = numbers(rank, length), numbers(rank, length)
        ring_all_reduce(by_ring)
        dist.all_reduce(by_torch)
        return by_ring, by_torch

    for by_ring, by_torch in run_ranks(both, n):
        assert torch.equal(by_ring, by_torch)
        assert torch.equal(by_torch, sum(numbers(rank, length) for rank in range(n)))


def test_shapes_strides_and_types():
    def reduced(rank):
        transposed = numbers(rank, 15, torch.int64).reshape(3, 5).t()
        leaf = torch.full((2, 2), float(rank), requires_grad=True)
        column = torch.zeros(4, 3)
        column[:, 1] = rank + 1
        scalar = torch.tensor(float(rank))
        for each in (transposed, leaf, column[:, 1], scalar):
            ring_all_reduce(each)
        return transposed, leaf, column, scalar, transposed.stride()

    for transposed, leaf, column, scalar, stride in run_ranks(reduced, 3):
        assert torch.equal(transposed, sum(numbers(rank, 15, torch.int64) for rank in range(3)).reshape(3, 5).t())
        assert stride == (1, 5)
        assert leaf.tolist() == [[3.0, 3.0], [3.0, 3.0]]
        assert column.tolist() == [[0.0, 6.0, 0.0]] * 4
        assert scalar.item() == 3.0


def test_a_group_of_some_ranks():
    def reduced(rank):
        group = dist.new_group([1, 2])
        x = torch.full((5,), float(rank))
        if rank:
            ring_all_reduce(x, group)
        return x

    assert [x.tolist() for x in run_ranks(reduced, 3)] == [[0.0] * 5, [3.0] * 5, [3.0] * 5]


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_the_simulation_counts_messages_and_bytes(n):
    length = 24 * n
    tensors = [numbers(rank, length).reshape(n, 24) for rank in range(n)]
    before = [tensor.clone() for tensor in tensors]
    trace = simulate_ring(tensors)
    assert trace.messages == (2 * (n - 1),) * n
    assert trace.sent_bytes == (2 * (n - 1) * 24 * 8,) * n  # 2(n-1)/n of the bytes
    assert len(trace.results) == n
    for result in trace.results:
        assert torch.equal(result, sum(before))
    assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))


def test_an_uneven_simulation_sends_as_much_in_all():
    tensors = [numbers(rank, 13) for rank in range(4)]
    trace = simulate_ring(tensors)
    assert sum(trace.sent_bytes) == 2 * 3 * 13 * 8
    assert all(torch.equal(result, sum(tensors)) for result in trace.results)


def test_chunks_without_elements_are_not_sent():
    trace = simulate_ring([numbers(rank, 2) for rank in range(4)])
    assert sum(trace.messages) == 2 * 3 * 2
    assert trace.results[3].tolist() == [6.0, 16.0]


def test_simulated_tensors_have_to_be_alike():
    with pytest.raises(ValueError, match="same shape and dtype"):
        simulate_ring([torch.zeros(2), torch.zeros(3)])
    with pytest.raises(ValueError, match="at least one"):
        simulate_ring([])

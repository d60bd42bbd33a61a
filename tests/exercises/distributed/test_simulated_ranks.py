"""The ranks that probes play with threads behave as processes of torch.distributed do."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course.distributed.ranks import run_ranks
from course.exercises.distributed._ranks import Communicator, RanksDisagree, RanksStuck, SimulatedDDP, as_ranks

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="real ranks are forked")


def numbers(rank: int) -> torch.Tensor:
    return torch.tensor([rank + 1.0, 10.0 * rank, -1.0])


def reduce_with(op: Any) -> Callable[[int], torch.Tensor]:
    def main(rank: int) -> torch.Tensor:
        mine = numbers(rank)
        dist.all_reduce(mine, op=op)
        return mine

    return main


def reduce_to_one(rank: int) -> torch.Tensor | None:
    mine = numbers(rank)
    dist.reduce(mine, dst=1)
    return mine if rank == 1 else None  # what the others hold is not defined


def later(rank: int) -> torch.Tensor:
    mine = numbers(rank)
    work = dist.all_reduce(mine, async_op=True)
    work.wait()
    return mine


def broadcast(rank: int) -> torch.Tensor:
    mine = numbers(rank)
    dist.broadcast(mine, src=2)
    return mine


def gather(rank: int) -> list[torch.Tensor]:
    parts = [torch.zeros(3) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, numbers(rank))
    return parts


def gather_objects(rank: int) -> list[Any]:
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, {"rank": dist.get_rank()})
    dist.barrier()
    return parts


CALLS = {
    "sum": reduce_with(dist.ReduceOp.SUM),
    "max": reduce_with(dist.ReduceOp.MAX),
    "min": reduce_with(dist.ReduceOp.MIN),
    "product": reduce_with(dist.ReduceOp.PRODUCT),
    "reduce": reduce_to_one,
    "async": later,
    "broadcast": broadcast,
    "all_gather": gather,
    "objects": gather_objects,
}


@needs_fork
@pytest.mark.parametrize("name", CALLS)
def test_collectives_do_what_real_ones_do(name):
    played, _ = as_ranks(lambda rank, world: CALLS[name](rank), 3)
    real = run_ranks(CALLS[name], 3)
    assert str(played) == str(real)


def gradients(wrap: Callable[[nn.Module], Any], way: str, rank: int) -> list[torch.Tensor]:
    network = nn.Linear(2, 1)
    for parameter in network.parameters():
        nn.init.constant_(parameter, 0.5)  # played ranks are threads, and share the generator
    ddp = wrap(network)
    first, second = numbers(rank)[None, :2], numbers(rank + 5)[None, :2]
    if way == "module":
        ddp.module(first).sum().backward()
    elif way == "no_sync around both":
        with ddp.no_sync():
            ddp(first).sum().backward()
    elif way == "no_sync around backward":
        loss = ddp(first).sum()
        with ddp.no_sync():
            loss.backward()
    elif way == "accumulated":
        with ddp.no_sync():
            ddp(first).sum().backward()
        ddp(second).square().sum().backward()
    else:
        ddp(first).sum().backward()
    return [parameter.grad for parameter in network.parameters()]


@needs_fork
@pytest.mark.parametrize("way", ["plain", "module", "no_sync around both", "no_sync around backward", "accumulated"])
def test_the_played_ddp_averages_when_the_real_one_does(way):
    played, _ = as_ranks(lambda rank, world: gradients(lambda net: SimulatedDDP(net, world), way, rank), 2)
    real = run_ranks(lambda rank: gradients(DistributedDataParallel, way, rank), 2)
    torch.testing.assert_close(played, real)


def test_ranks_that_wait_for_each_other_are_told_so():
    with pytest.raises(RanksStuck, match="rank 0 waits in recv, rank 1 waits in recv"):
        as_ranks(lambda rank, world: Communicator(world).recv(1 - rank), 2)


def test_a_rank_that_stays_away_is_noticed():
    with pytest.raises(RanksStuck, match="rank 0 waits in barrier, rank 1 has ended"):
        as_ranks(lambda rank, world: dist.barrier() if rank == 0 else None, 2)


def test_different_calls_are_noticed():
    with pytest.raises(RanksDisagree, match=r"shape \(1,\).* and .*shape \(2,\)"):
        as_ranks(lambda rank, world: dist.all_reduce(torch.zeros(rank + 1)), 2)


def test_an_error_of_a_rank_comes_before_what_came_of_it():
    def main(rank: int, world: Any) -> None:
        if rank == 1:
            raise KeyError("mine")
        dist.barrier()

    with pytest.raises(KeyError, match="mine"):
        as_ranks(main, 3)


def test_sent_tensors_are_copies_and_counted():
    def main(rank: int, world: Any) -> list[float] | None:
        comm = Communicator(world)
        if rank == 1:
            return comm.recv(0).tolist()
        tensor = torch.ones(3)
        comm.send(tensor, 1)
        tensor.zero_()
        return None

    results, world = as_ranks(main, 2)
    assert results == [None, [1.0, 1.0, 1.0]]
    assert world.sent == [[(1, 3)], []]


def test_torch_distributed_is_itself_again():
    before = dist.all_reduce, dist.is_initialized
    as_ranks(lambda rank, world: None, 2)
    assert (dist.all_reduce, dist.is_initialized) == before

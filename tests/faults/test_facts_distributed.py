"""What the catalogue says of several processes, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from course.distributed.ranks import run_ranks
from course.faults import FAULTS


@contextmanager
def alone() -> Iterator[None]:
    """A process group of this process alone."""
    with TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{Path(folder, 'meeting')}", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


class TwoHeads(nn.Module):
    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(2, 1), nn.Linear(2, 1)
        self.unused.requires_grad_(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


def second_step_raises(model: nn.Module, **options: bool) -> bool:
    with alone():
        ddp = DistributedDataParallel(model, **options)
        ddp(torch.ones(3, 2)).sum().backward()
        try:
            ddp(torch.ones(3, 2)).sum().backward()
        except RuntimeError as error:
            return "parameters that were not used" in str(error)
    return False


def order(epoch: int | None = None, rank: int = 0) -> list[int]:
    sampler = DistributedSampler(range(20), num_replicas=2, rank=rank, seed=5)
    if epoch is not None:
        sampler.set_epoch(epoch)
    return list(sampler)


def drawn(epoch: int) -> list[int]:
    return torch.randperm(20, generator=torch.Generator().manual_seed(5 + epoch)).tolist()


def refused(shuffle: bool) -> bool:
    sampler = DistributedSampler(range(4), num_replicas=2, rank=0)
    try:
        DataLoader(range(4), sampler=sampler, shuffle=shuffle)
    except ValueError as error:
        return "mutually exclusive with shuffle" in str(error)
    return False


def padded(count: int, ranks: int) -> list[int]:
    samplers = [DistributedSampler(range(count), num_replicas=ranks, rank=rank, shuffle=False) for rank in range(ranks)]
    return sorted(number for sampler in samplers for number in sampler)


def strided(count: int, ranks: int) -> list[int]:
    return sorted(number for rank in range(ranks) for number in range(rank, count, ranks))


def missing_variables(monkeypatch: pytest.MonkeyPatch) -> bool:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="environment variable RANK expected"):
        dist.init_process_group("gloo")
    return not dist.is_initialized()


def slope(through: str) -> Callable[[int], float]:
    def main(rank: int) -> float:
        model = nn.Linear(1, 1, bias=False)
        nn.init.ones_(model.weight)
        ddp = DistributedDataParallel(model)
        called = {"ddp": ddp, "module": ddp.module}[through]
        called(torch.tensor([[1.0 + 2.0 * rank]])).sum().backward()
        return model.weight.grad.item()

    return main


def noise(knows_the_rank: bool) -> bool:
    """Whether two ranks draw the same, after weights from the same seed."""

    def main(rank: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(7)
        weights = nn.Linear(3, 3).weight
        if knows_the_rank:
            torch.manual_seed(7 * 2 + rank)
        return weights, torch.rand(5)

    (first, one), (second, other) = run_ranks(main, 2)
    assert torch.equal(first, second)
    return torch.equal(one, other)


def accuracies() -> tuple[list[float], list[float]]:
    """Rank r has 1 + 2r samples, of which r are right: of each rank alone, and reduced."""

    def main(rank: int) -> tuple[float, float]:
        right, count = rank, 1 + 2 * rank
        both = torch.tensor([right, count], dtype=torch.float64)
        dist.all_reduce(both)
        return right / count, (both[0] / both[1]).item()

    own, reduced = zip(*run_ranks(main, 3), strict=True)
    return list(own), list(reduced)


FACTS: dict[str, list[Callable[[], bool]]] = {
    "ddp-unused-parameters": [
        lambda: second_step_raises(TwoHeads()),
        lambda: not second_step_raises(TwoHeads(), find_unused_parameters=True),
        lambda: not second_step_raises(TwoHeads(frozen=True)),
        lambda: not second_step_raises(TwoHeads().used),
    ],
    "sampler-set-epoch": [
        lambda: order() == order() == order(0) == drawn(0)[::2],
        lambda: order(1) == drawn(1)[::2] != order(0),
        lambda: sorted(order(3) + order(3, rank=1)) == list(range(20)),
    ],
    "sampler-and-shuffle": [lambda: refused(shuffle=True) and not refused(shuffle=False)],
    "sampler-duplicates-in-metric": [
        lambda: padded(5, 4) == [0, 0, 1, 1, 2, 2, 3, 4],
        lambda: padded(8, 4) == strided(8, 4) == list(range(8)),
        lambda: strided(5, 4) == list(range(5)),
    ],
    "not-launched-with-torchrun": [],  # it changes the environment: a test of its own, below
    "ddp-forward-bypassed": [
        lambda: run_ranks(slope("ddp"), 2) == [2.0, 2.0],
        lambda: run_ranks(slope("module"), 2) == [1.0, 3.0],
    ],
    "same-seed-on-all-ranks": [lambda: noise(knows_the_rank=False) and not noise(knows_the_rank=True)],
    "metric-not-reduced": [
        lambda: accuracies() == ([0.0, 1 / 3, 2 / 5], [3 / 9] * 3),
    ],
}

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="several ranks inside a test need fork")


def test_every_fault_of_the_distributed_lesson_is_tried():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if (entry.topic, entry.lesson) == ("distributed", "11")}


def test_every_fault_of_the_distributed_lesson_is_explained():
    for fault_id in FACTS:
        entry = FAULTS[fault_id]
        assert entry.why, fault_id
        assert entry.fix, fault_id
        assert entry.section, fault_id


@needs_fork
@pytest.mark.parametrize("fault_id", [fault_id for fault_id, facts in FACTS.items() if facts])
def test_facts(fault_id):
    failed = [number for number, fact in enumerate(FACTS[fault_id], start=1) if not fact()]
    assert failed == []


def test_without_torchrun_the_variables_are_missing(monkeypatch):
    assert missing_variables(monkeypatch)


def test_a_file_is_enough_for_one_process(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with alone():
        assert dist.get_world_size() == 1

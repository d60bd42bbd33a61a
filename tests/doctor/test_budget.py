"""What an examination costs: it stays inside its budget, and takes memory and time of the order of a few steps.

Run with ``-s`` to see the figures.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset, TensorDataset

from course.doctor import examine


class PeakMemory(TorchDispatchMode):
    """The most bytes of tensors that were alive at one time, beyond those that were there before."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, Tensor) and not value.is_sparse:
                self._note(value.untyped_storage())
        return result

    def _note(self, storage: Any) -> None:
        place = storage._cdata
        if place in self._seen:
            return
        self._seen.add(place)
        size = storage.nbytes()
        self.now += size
        self.peak = max(self.peak, self.now)

        def gone() -> None:
            self._seen.discard(place)
            self.now -= size

        weakref.finalize(storage, gone)


def measured(function: Callable[[], object]) -> tuple[float, int]:
    """Seconds, the faster of two, and peak bytes of a call."""
    function()
    start = time.perf_counter()
    function()
    seconds = time.perf_counter() - start
    with PeakMemory() as memory:
        function()
    return seconds, memory.peak


def perceptron() -> tuple[nn.Module, Tensor, Tensor]:
    net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return net, torch.randn(64, 256), torch.randint(0, 10, (64,))


def convolutions() -> tuple[nn.Module, Tensor, Tensor]:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 10))
    return net, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


@pytest.mark.parametrize("make", [perceptron, convolutions])
def test_time_and_memory_relative_to_a_training_step(make: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    net, inputs, target = make()
    optimizer = torch.optim.Adam(net.parameters())
    loader = DataLoader(TensorDataset(inputs.repeat(4, *[1] * (inputs.ndim - 1)), target.repeat(4)), len(inputs))
    state = sum(p.numel() * p.element_size() for p in net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(inputs), target).backward()
        optimizer.step()

    step_seconds, step_peak = measured(step)
    seconds, peak = measured(lambda: examine(net, loader, nn.CrossEntropyLoss(), optimizer, budget_s=10))
    print(
        f"\n{make.__name__}: a step {step_seconds * 1e3:.1f} ms, {step_peak / 2**20:.1f} MiB; an examination "
        f"{seconds * 1e3:.0f} ms ({seconds / step_seconds:.0f} steps), {peak / 2**20:.1f} MiB "
        f"({peak / step_peak:.1f} times a step's, {peak / state:.1f} times the parameters)"
    )
    # Parameters, gradients and two moments are copied once; a step is watched with one more copy of the parameters.
    assert peak < 4 * step_peak + 8 * state
    assert seconds < 400 * step_seconds + 2


class SlowData(Dataset):
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(0.02)
        return torch.randn(4), torch.tensor(index % 2)


def slow_step(batch: object) -> None:
    time.sleep(0.3)


def endless() -> None:
    layer = nn.Linear(2, 2)
    while True:
        time.sleep(0.005)
        layer(torch.zeros(1, 2))


@pytest.mark.parametrize(
    "arguments",
    [
        {"step": slow_step, "loader": [torch.zeros(2)] * 3},
        {"evaluate": endless},
        {"step": lambda batch: endless(), "loader": [torch.zeros(2)] * 3, "evaluate": endless},
        {"model": nn.Linear(4, 2), "loader": DataLoader(SlowData(), batch_size=8), "loss_fn": F.cross_entropy},
        {"model": nn.Linear(4, 2), "val_loader": DataLoader(SlowData(), batch_size=8)},
    ],
    ids=["slow step", "endless evaluation", "endless everything", "slow data", "slow held-out data"],
)
def test_the_budget_is_kept(arguments: dict[str, Any]) -> None:
    start = time.perf_counter()
    report = examine(**arguments, budget_s=1)
    spent = time.perf_counter() - start
    # One call that had begun is waited for: a batch of 0.16 s, a step of 0.3 s.
    assert spent < 1 + 1.5
    assert report.worst() == [], report
    assert report.seconds <= spent


def test_what_did_not_fit_in_is_listed() -> None:
    report = examine(evaluate=endless, step=lambda: endless(), budget_s=0.2)
    assert "budget" in report.text
    assert report.not_examined


def test_a_tiny_budget_is_no_error() -> None:
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    report = examine(net, [(torch.randn(4, 4), torch.zeros(4).long())], F.cross_entropy, optimizer, budget_s=1e-4)
    assert report.findings == []
    assert report.not_examined

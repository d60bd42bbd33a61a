"""The reference loop of lesson 10 in parts that can be exchanged: sources of batches, layers, and the loop itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

Batch = tuple[Tensor, Tensor]
Source = Callable[[int], Iterable[Batch]]
"""Where batches come from: ``source(n)`` gives n of them."""


class DrawnOrder(Sampler[int]):
    """A random order of the next ``wanted`` indices below ``size``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.wanted = 0

    def __iter__(self) -> Iterator[int]:
        epochs = -(-self.wanted // self.size)
        order = torch.cat([torch.randperm(self.size) for _ in range(epochs)]) if epochs else torch.empty(0)
        return iter(order[: self.wanted].tolist())

    def __len__(self) -> int:
        return self.wanted


def loader_source(dataset: Dataset, workers: int, batch_size: int = 64) -> Source:
    """Batches through a DataLoader whose workers stay alive from one call to the next.

    The loader is given an order for exactly as many batches as are wanted. So its queues are empty before and after,
    and each batch is made while the clock runs: of an endless loader, the first batches would have been made before.
    """
    order = DrawnOrder(len(dataset))  # type: ignore[arg-type]
    loader = DataLoader(dataset, batch_size, sampler=order, num_workers=workers, persistent_workers=workers > 0)

    def source(count: int) -> Iterable[Batch]:
        order.wanted = batch_size * count
        return loader

    return source


def repeated(batch: Batch) -> Source:
    """The same batch again and again: what is left of a loop when loading costs nothing."""
    return lambda count: itertools.repeat(batch, count)


def conv_net(*, pool_first: bool = False, seed: int = 0) -> nn.Sequential:
    """conv32 - ReLU - pool - conv64 - ReLU - pool - linear, with pooling before ReLU on demand; the default layout."""
    torch.manual_seed(seed)
    after = [nn.MaxPool2d(2), nn.ReLU()] if pool_first else [nn.ReLU(), nn.MaxPool2d(2)]
    first, second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
    return nn.Sequential(first, *after, second, *after, nn.Flatten(), nn.Linear(64 * 8 * 8, 10))


def training(source: Source, model: nn.Module, *, fused: bool | None = None) -> Callable[[int], None]:
    """A loop to measure: ``loop(n)`` trains the model on n batches of a source, where the model is, with Adam."""
    model.train()
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=1e-3, fused=fused)

    def loop(count: int) -> None:
        for inputs, targets in source(count):
            inputs, targets = inputs.to(device), targets.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()

    return loop


def loading(source: Source) -> Callable[[int], None]:
    """The same loop without anything to compute."""

    def loop(count: int) -> None:
        for _ in source(count):
            pass

    return loop


def resized(batch: Batch, size: int, model: nn.Module) -> Callable[[int], None]:
    """A loop in batches of another size, for measuring: ``loop(n)`` trains on n times as many images as `batch` has.

    n times the images of the batch should be a multiple of size; what does not fill a batch is left out.
    """
    images, targets = batch
    copies = -(-size // len(targets))
    chunk = torch.cat([images] * copies)[:size], torch.cat([targets] * copies)[:size]
    loop = training(repeated(chunk), model)
    return lambda count: loop(count * len(targets) // size)


def with_threads(number: int, loop: Callable[[int], None]) -> Callable[[int], None]:
    """The loop on a number of threads; the number that was set before is set again afterwards."""

    def on_threads(count: int) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            loop(count)
        finally:
            torch.set_num_threads(before)

    return on_threads

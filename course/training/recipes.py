"""Whole training runs of CIFAR-10 as stated, repeatable configurations: what it takes to pass an accuracy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from course.training.loop import evaluating
from course.training.networks import fast_network, fast_recipe
from course.training.throughput import cpu_seconds, wait_for


class SizedBatches(Protocol):
    """Batches of (inputs, targets) whose number is known."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]: ...


@dataclass(frozen=True)
class Recipe:
    """A configuration of :func:`fast_network` and its training; `seed` makes a run repeatable on one machine.

    goal: the accuracy on CIFAR-10's test images that it is for. widths: of the three blocks. padding: pixels by which
    images are shifted at most.
    """

    goal: float
    widths: tuple[int, int, int]
    epochs: int
    batch_size: int = 256
    padding: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """What one epoch left behind.

    accuracy: on the test images, the mean of the logits of each image and of its mirror image decides.
    cpu, seconds: CPU and wall seconds of training since the start; those of evaluation are left out.
    """

    number: int
    accuracy: float
    cpu: float
    seconds: float


RECIPES = {
    "75 %": Recipe(goal=0.75, widths=(32, 64, 64), epochs=4),
    "85 %": Recipe(goal=0.85, widths=(64, 128, 128), epochs=8),
}


def train_recipe(
    recipe: Recipe,
    batches: SizedBatches,
    test_batches: Iterable[tuple[Tensor, Tensor]],
    sample: Tensor,
    *,
    after_epoch: Callable[[Epoch], object] | None = None,
    autocast: torch.dtype | None = None,
    compiled: bool = False,
) -> tuple[nn.Module, list[Epoch]]:
    """Train as the recipe says, on the device of `sample`; return the network and one entry an epoch.

    batches: of (inputs, targets) for training, shuffled and augmented, `len` of them an epoch, to iterate over once an
        epoch; `course.data.alternating.AlternatingBatches` with the recipe's batch size and padding. test_batches: the
        same of the test images, as they are. sample: a few thousand normalised training images (N, 3, 32, 32).
    after_epoch is given each entry as it comes. autocast: dtype for `torch.autocast`, such as bfloat16. compiled: pass
        the network through `torch.compile`, which counts as training.
    """
    device = sample.device
    start, used = time.perf_counter(), cpu_seconds()
    torch.manual_seed(recipe.seed)
    network = fast_network(sample.cpu(), recipe.widths).to(device)
    optimizer, scheduler, loss_fn = fast_recipe(network, recipe.epochs * len(batches))
    model = torch.compile(network) if compiled else network
    lower = partial(torch.autocast, device.type, dtype=autocast) if autocast is not None else nullcontext
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - used
    epochs = []
    for number in range(1, recipe.epochs + 1):
        start, used = time.perf_counter(), cpu_seconds()
        model.train()
        for inputs, targets in batches:
            optimizer.zero_grad()
            with lower():
                loss = loss_fn(model(inputs), targets)
            loss.backward()
            optimizer.step()
            scheduler.step()
        wait_for(device)
        seconds += time.perf_counter() - start
        cpu += cpu_seconds() - used
        with lower():
            accuracy = accuracy_with_mirror(network, test_batches)
        epochs.append(Epoch(number, accuracy, cpu, seconds))
        if after_epoch is not None:
            after_epoch(epochs[-1])
    return network, epochs


def accuracy_with_mirror(network: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Share of images that are recognised, by the sum of the logits of each image and its mirror image.

    batches: of (inputs, targets), inputs as the network takes them.
    """
    right = count = 0
    with evaluating(network):
        for inputs, targets in batches:
            logits = network(inputs).float() + network(inputs.flip(3)).float()
            right, count = right + (logits.argmax(1) == targets).sum(), count + len(targets)
    return float(right / count)

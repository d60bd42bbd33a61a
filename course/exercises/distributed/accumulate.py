"""Lesson 11: accumulate gradients and communicate once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.distributed._ranks import SimulatedDDP, as_ranks

exercise = Exercise(
    "distributed.accumulate",
    title="Accumulate, communicate once",
    task="""
        `accumulate(ddp, optimizer, batches, loss_fn)` makes **one** update from several micro-batches of equal size.
        `ddp` is a `DistributedDataParallel` model, `batches` a list of pairs (inputs, targets), one at least, and
        `loss_fn(outputs, targets)` a mean over samples.

        - The gradient is that of the mean loss over all samples of all ranks.
        - Gradients are averaged over the ranks once, with the last micro-batch. For all others `ddp.no_sync()`, a
          context manager, keeps them on the rank.
        - Gradients from before the call do not count.

        Return the mean loss of this rank's micro-batches as a float.
        """,
    hints=(
        "DDP decides in the forward pass whether the following backward pass will communicate. What has to stand "
        "inside no_sync(), and for which micro-batches?",
        "For all but the last batch: with ddp.no_sync(), forward and backward of the loss divided by the number of "
        "micro-batches. The last one the same outside of it, then one optimizer step.",
    ),
)


@exercise.stub
def accumulate(
    ddp: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[tuple[Tensor, Tensor]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
) -> float:
    """Make one update from all micro-batches, with one averaging over the ranks; return this rank's mean loss."""
    raise NotImplementedError


@exercise.reference
def last_one_synchronised(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    total = 0.0
    for number, (inputs, targets) in enumerate(batches, start=1):
        keep = ddp.no_sync() if number < len(batches) else contextlib.nullcontext()
        with keep:
            loss = loss_fn(ddp(inputs), targets) / len(batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@exercise.alternative
def two_parts(ddp, optimizer, batches, loss_fn):
    *early, (last_inputs, last_targets) = batches
    for parameter in ddp.parameters():
        parameter.grad = None
    losses = []
    with ddp.no_sync():
        for inputs, targets in early:
            losses.append(loss_fn(ddp(inputs), targets))
            (losses[-1] / len(batches)).backward()
    losses.append(loss_fn(ddp(last_inputs), last_targets))
    (losses[-1] / len(batches)).backward()
    optimizer.step()
    return sum(loss.item() for loss in losses) / len(losses)


@exercise.alternative
def gradients_scaled_at_the_end(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad(set_to_none=False)
    losses = []
    with contextlib.ExitStack() as local:
        local.enter_context(ddp.no_sync())
        for number, (inputs, targets) in enumerate(batches):
            if number == len(batches) - 1:
                local.close()
            loss = loss_fn(ddp(inputs), targets)
            loss.backward()
            losses.append(loss.item())
    for parameter in ddp.parameters():
        if parameter.grad is not None:
            parameter.grad /= len(batches)
    optimizer.step()
    return sum(losses) / len(losses)


@exercise.wrong(
    "Every micro-batch averages its gradients over the ranks. The update is right, and the communication costs as "
    "often as there are micro-batches."
)
def every_batch_communicates(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in batches:
        loss = loss_fn(ddp(inputs), targets) / len(batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@exercise.wrong(
    "All micro-batches are inside no_sync(), so nothing is ever averaged: each rank takes a step of its own, and their "
    "weights drift apart without an error."
)
def nothing_communicates(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    total = 0.0
    with ddp.no_sync():
        for inputs, targets in batches:
            loss = loss_fn(ddp(inputs), targets) / len(batches)
            loss.backward()
            total += loss.item()
    optimizer.step()
    return total


@exercise.wrong(
    "Only backward() is inside no_sync(). DDP has decided before that, in the forward pass, so every micro-batch "
    "communicates all the same."
)
def only_backward_inside(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    total = 0.0
    for number, (inputs, targets) in enumerate(batches, start=1):
        loss = loss_fn(ddp(inputs), targets) / len(batches)
        with ddp.no_sync() if number < len(batches) else contextlib.nullcontext():
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@exercise.wrong(
    "The losses are not divided by the number of micro-batches, so the gradient is that of their sum: a step as many "
    "times too large.",
    fault="accumulation-not-scaled",
)
def not_scaled(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    losses = []
    for number, (inputs, targets) in enumerate(batches, start=1):
        with ddp.no_sync() if number < len(batches) else contextlib.nullcontext():
            loss = loss_fn(ddp(inputs), targets)
            loss.backward()
        losses.append(loss.item())
    optimizer.step()
    return sum(losses) / len(losses)


@exercise.wrong(
    "`ddp.module` is called instead of `ddp`. The wrapped network knows nothing of other ranks: no gradient is "
    "averaged, and the ranks drift apart.",
    fault="ddp-forward-bypassed",
)
def around_the_wrapper(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in batches:
        loss = loss_fn(ddp.module(inputs), targets) / len(batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@exercise.wrong(
    "The first micro-batch communicates and the later ones do not: what they add stays on the rank. It has to be the "
    "last, when everything has been added up."
)
def the_first_one_communicates(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    total = 0.0
    for number, (inputs, targets) in enumerate(batches):
        with ddp.no_sync() if number else contextlib.nullcontext():
            loss = loss_fn(ddp(inputs), targets) / len(batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@exercise.wrong("Gradients from before the call are still there and are added to.", fault="missing-zero-grad")
def old_gradients_stay(ddp, optimizer, batches, loss_fn):
    total = 0.0
    for number, (inputs, targets) in enumerate(batches, start=1):
        with ddp.no_sync() if number < len(batches) else contextlib.nullcontext():
            loss = loss_fn(ddp(inputs), targets) / len(batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@exercise.wrong(
    "The optimizer steps after every micro-batch: several small updates, most of them from this rank's gradients "
    "alone, instead of one."
)
def a_step_for_each(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    total = 0.0
    for number, (inputs, targets) in enumerate(batches, start=1):
        with ddp.no_sync() if number < len(batches) else contextlib.nullcontext():
            loss = loss_fn(ddp(inputs), targets) / len(batches)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total


@exercise.wrong("What is returned is the loss of the last micro-batch, not the mean of all.")
def last_loss_returned(ddp, optimizer, batches, loss_fn):
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(batches, start=1):
        with ddp.no_sync() if number < len(batches) else contextlib.nullcontext():
            loss = loss_fn(ddp(inputs), targets)
            (loss / len(batches)).backward()
    optimizer.step()
    return loss.item()


def _batches(rank, count, size=2):
    numbers = torch.arange(float(count * size * 3)).reshape(count, size, 3) / 10 - rank
    return [(part, part.sum(1, keepdim=True).sin()) for part in numbers]


def _quantile_loss(outputs, targets):
    """Too low costs three times as much as too high."""
    return torch.maximum(3 * (targets - outputs), outputs - targets).mean()


def _run(answer, ranks, count, steps=1, momentum=0.0, stale=False):
    """Losses, number of averaged gradients, whether no_sync() was used where it has to be, and weights of each rank."""

    def main(rank, world):
        ddp, optimizer = models[rank](world), None
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=momentum)
        if stale:
            for parameter in ddp.parameters():
                parameter.grad = torch.ones_like(parameter)
        losses = [answer(ddp, optimizer, _batches(rank + step, count), F.mse_loss) for step in range(steps)]
        return losses, ddp.averaged, count == 1 or ddp.entered > 0, ddp

    def builder():
        torch.manual_seed(4)
        network = nn.Linear(3, 1)
        return lambda world: SimulatedDDP(network, world)

    models = [builder() for _ in range(ranks)]
    return as_ranks(main, ranks)[0]


@exercise.probe
def two_ranks_and_three_batches(answer):
    return _run(answer, 2, 3)


@exercise.probe
def two_ranks_and_two_batches(answer):
    return _run(answer, 2, 2)


@exercise.probe
def one_batch(answer):
    return _run(answer, 2, 1)


@exercise.probe
def three_updates_with_momentum(answer):
    return _run(answer, 3, 2, steps=3, momentum=0.9)


@exercise.probe
def gradients_from_before(answer):
    return _run(answer, 2, 2, stale=True)


@exercise.probe
def one_rank_alone(answer):
    return _run(answer, 1, 4)


@exercise.probe
def another_loss(answer):
    def main(rank, world):
        ddp = models[rank](world)
        optimizer = torch.optim.Adam(ddp.parameters(), lr=0.1)
        return answer(ddp, optimizer, tuple(_batches(rank, 3)), _quantile_loss), ddp.averaged, ddp

    def builder():
        torch.manual_seed(9)
        network = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
        return lambda world: SimulatedDDP(network, world)

    models = [builder(), builder()]
    return as_ranks(main, 2)[0]

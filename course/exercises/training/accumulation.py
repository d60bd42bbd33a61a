"""Lesson 05: accumulation over micro-batches, with some of them skipped."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.checking import Exercise
from course.checking.steps import watched_steps

exercise = Exercise(
    "training.accumulation",
    title="Accumulate, and skip what is broken",
    task="""
        A large batch does not fit into memory, so its gradient is put together from `every` micro-batches.
        `train_accumulated(model, optimizer, batches, every)` goes through micro-batches `(inputs, targets)`, all of one
        size, and trains with cross-entropy.

        - A micro-batch whose inputs hold a NaN or an infinite number is skipped, as if it were not in `batches`: the
          model does not see it.
        - Only one micro-batch is in the network at a time: its `backward()` comes before the next forward pass.
        - The optimizer steps after each `every` micro-batches that were used, with the gradient of the **mean** loss
          over all their samples.
        - Micro-batches left at the end, fewer than `every`, make a step of their own, again with their mean.
        - Gradients that are left from before do not count. Return the number of steps, an `int`.

        `batches` may be a generator; with no usable micro-batch there is no step.
        """,
    hints=(
        "If the step is taken when (i + 1) % every == 0, what happens when the micro-batch with that number is skipped "
        "by `continue`? Count what was used, not what came.",
        "The mean over k equal micro-batches is the sum of their losses divided by k. For the group at the end k is "
        "smaller, so it helps to know a group before its first backward(): collect the usable micro-batches first.",
    ),
)


@exercise.stub
def train_accumulated(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[tuple[Tensor, Tensor]], every: int
) -> int:
    """Train with one optimizer step for each `every` usable micro-batches; return the number of steps."""
    raise NotImplementedError


@exercise.reference
def by_groups(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        group = usable[start : start + every]
        optimizer.zero_grad()
        for inputs, targets in group:
            (F.cross_entropy(model(inputs), targets) / len(group)).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.alternative
def by_scaling_the_gradient(model, optimizer, batches, every):
    def step(count):
        for parameter in model.parameters():
            parameter.grad /= count
        optimizer.step()
        optimizer.zero_grad()

    optimizer.zero_grad()
    steps = pending = 0
    for inputs, targets in batches:
        if torch.isfinite(inputs).all():
            F.cross_entropy(model(inputs), targets).backward()
            pending += 1
        if pending == every:
            step(pending)
            steps, pending = steps + 1, 0
    if pending:
        step(pending)
    return steps + (pending > 0)


@exercise.wrong(
    "The losses are not divided by the number of micro-batches. Their gradients add up to `every` times the mean: the "
    "learning rate is that much larger than it says.",
    fault="accumulation-not-scaled",
)
def sum_instead_of_mean(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        optimizer.zero_grad()
        for inputs, targets in usable[start : start + every]:
            F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "The step hangs on the number of the micro-batch, and `continue` jumps over it: when the micro-batch with that "
    "number is skipped, the step is lost, and two groups become one. Count the micro-batches that were used."
)
def step_lost_by_continue(model, optimizer, batches, every):
    steps = 0
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(batches, 1):
        if not inputs.isfinite().all():
            continue
        (F.cross_entropy(model(inputs), targets) / every).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    if any(p.grad is not None for p in model.parameters()):
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "The group at the end is divided by `every`, although it holds fewer micro-batches. Its step is too short.",
    fault="accumulation-not-scaled",
)
def last_group_divided_by_every(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        optimizer.zero_grad()
        for inputs, targets in usable[start : start + every]:
            (F.cross_entropy(model(inputs), targets) / every).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong("The micro-batches left at the end are computed and never used: their gradient waits for a step.")
def last_group_dropped(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable) - every + 1, every):
        optimizer.zero_grad()
        for inputs, targets in usable[start : start + every]:
            (F.cross_entropy(model(inputs), targets) / every).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "The gradients are cleared before each micro-batch, so that only the last one of a group is in the step. Clear "
    "them once for each group."
)
def cleared_for_each_micro_batch(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        group = usable[start : start + every]
        for inputs, targets in group:
            optimizer.zero_grad()
            (F.cross_entropy(model(inputs), targets) / len(group)).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "The gradients are never cleared. Within a group they are meant to add up; from one group to the next they are "
    "not.",
    fault="missing-zero-grad",
)
def never_cleared(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        group = usable[start : start + every]
        for inputs, targets in group:
            (F.cross_entropy(model(inputs), targets) / len(group)).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "Nothing is skipped. One NaN in the inputs makes the loss NaN, the gradient NaN and, after the step, every weight "
    "NaN.",
    fault="nonfinite-data",
)
def nothing_skipped(model, optimizer, batches, every):
    pairs = list(batches)
    steps = 0
    for start in range(0, len(pairs), every):
        group = pairs[start : start + every]
        optimizer.zero_grad()
        for inputs, targets in group:
            (F.cross_entropy(model(inputs), targets) / len(group)).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong("There is a step after each micro-batch: that is training with small batches, not accumulation.")
def a_step_for_each_micro_batch(model, optimizer, batches, every):
    steps = 0
    for inputs, targets in batches:
        if inputs.isfinite().all():
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            steps += 1
    return steps


@exercise.wrong(
    "The loss decides what is skipped. Then the model has already seen the broken inputs: the running statistics of "
    "BatchNorm are NaN from then on. And a layer such as tanh makes a finite loss of an infinite input, whose gradient "
    "is NaN all the same. Look at the inputs.",
    fault="nonfinite-data",
)
def the_loss_decides(model, optimizer, batches, every):
    optimizer.zero_grad()
    steps, pending = 0, 0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs), targets)
        if loss.isfinite():
            loss.backward()
            pending += 1
        if pending == every:
            for parameter in model.parameters():
                parameter.grad /= pending
            optimizer.step()
            optimizer.zero_grad()
            steps, pending = steps + 1, 0
    if pending:
        for parameter in model.parameters():
            parameter.grad /= pending
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "The losses of a group are collected and go backward together. Until then the graphs of all its micro-batches are "
    "alive, so it takes the memory of the large batch that does not fit. Go backward after each micro-batch.",
    fault="out-of-memory",
)
def one_backward_for_the_group(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        losses = [F.cross_entropy(model(inputs), targets) for inputs, targets in usable[start : start + every]]
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "The micro-batches of a group are joined to one batch. That is the large batch which does not fit into memory.",
    fault="out-of-memory",
)
def joined_to_a_large_batch(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        inputs, targets = (torch.cat(parts) for parts in zip(*usable[start : start + every]))
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        steps += 1
    return steps


@exercise.wrong(
    "The learning rate is divided in place of the gradient. For plain SGD that comes to the same; an optimizer such as "
    "Adam hardly feels the size of its gradients, and its steps get too short.",
    fault="accumulation-not-scaled",
)
def learning_rate_divided(model, optimizer, batches, every):
    usable = [pair for pair in batches if pair[0].isfinite().all()]
    steps = 0
    for start in range(0, len(usable), every):
        group = usable[start : start + every]
        optimizer.zero_grad()
        for inputs, targets in group:
            F.cross_entropy(model(inputs), targets).backward()
        for settings in optimizer.param_groups:
            settings["lr"] /= len(group)
        optimizer.step()
        for settings in optimizer.param_groups:
            settings["lr"] *= len(group)
        steps += 1
    return steps


def micro_batches(n, broken=()):
    torch.manual_seed(10)
    pairs = [(torch.randn(2, 3), torch.tensor([i % 4, (i + 1) % 4])) for i in range(n)]
    for number, value in broken:
        pairs[number][0][1, 2] = value
    return pairs


def trained(answer, batches, every, stale=0.0):
    torch.manual_seed(11)
    model = nn.Linear(3, 4)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, stale)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with watched_steps(model, optimizer) as record:
        steps = answer(model, optimizer, batches, every)
    return steps, record.events.count("step"), model


@exercise.probe
def two_full_groups(answer):
    return trained(answer, micro_batches(4), 2)


@exercise.probe
def a_short_group_at_the_end(answer):
    return trained(answer, micro_batches(5), 3)


@exercise.probe
def skipped_where_the_step_would_be(answer):
    return trained(answer, micro_batches(6, broken=[(1, torch.nan)]), 2)


@exercise.probe
def skipped_in_the_middle_of_a_group(answer):
    return trained(answer, micro_batches(7, broken=[(1, torch.inf), (3, torch.nan)]), 3)


@exercise.probe
def a_generator_with_gradients_left_from_before(answer):
    return trained(answer, iter(micro_batches(3)), 2, stale=3.0)


@exercise.probe
def one_micro_batch_a_step(answer):
    return trained(answer, micro_batches(3), 1)


@exercise.probe
def nothing_usable(answer):
    return trained(answer, micro_batches(2, broken=[(0, torch.nan), (1, -torch.inf)]), 2, stale=1.0)


@exercise.probe
def broken_inputs_that_the_loss_does_not_show(answer):
    torch.manual_seed(12)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return answer(model, optimizer, micro_batches(4, broken=[(2, torch.inf)]), 2), model


@exercise.probe
def running_statistics(answer):
    torch.manual_seed(13)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return answer(model, optimizer, micro_batches(5, broken=[(1, torch.nan)]), 2), model


@exercise.probe
def another_optimizer(answer):
    torch.manual_seed(14)
    model = nn.Linear(3, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return answer(model, optimizer, micro_batches(5), 2), model


@exercise.probe
def one_micro_batch_in_the_network_at_a_time(answer):
    model, most, waiting, sizes = nn.Linear(3, 4), 0, 0, set()

    def came_back(gradient):
        nonlocal waiting
        waiting -= 1

    def seen(module, inputs, output):
        nonlocal most, waiting
        sizes.add(len(inputs[0]))
        if output.requires_grad:
            waiting += 1
            most = max(most, waiting)
            output.register_hook(came_back)

    model.register_forward_hook(seen)
    answer(model, torch.optim.SGD(model.parameters(), lr=0.1), micro_batches(5), 3)
    return most, sizes

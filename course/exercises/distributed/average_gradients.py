"""Lesson 11: what DDP does with the gradients, by hand."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from course.checking import Exercise
from course.exercises.distributed._ranks import as_ranks

exercise = Exercise(
    "distributed.average_gradients",
    title="Average the gradients by hand",
    task="""
        Each rank has run `backward()` on its own batch, with a plain `nn.Module`, no DDP. `average_gradients(model)`
        makes of the gradients what DDP would: afterwards `p.grad` of every parameter that requires a gradient is the
        **mean** of the gradients of all ranks, on every rank.

        A parameter without a gradient on some rank (a layer that this rank's batch did not use) counts as zeros there,
        and has a gradient afterwards like all others. Frozen parameters (`requires_grad` False) keep none. The weights
        stay as they are. Return nothing. `dist`, which is `torch.distributed`, is initialised.
        """,
    hints=(
        "Every rank must make the same collective calls, with tensors of the same shape, in the same order. A rank "
        "that skips a parameter shifts all its later calls by one.",
        "Walk over model.parameters(); where grad is None on a parameter that requires it, set zeros_like first; then "
        "all_reduce the gradient and divide it by the number of ranks.",
    ),
)


@exercise.stub
def average_gradients(model: nn.Module) -> None:
    """Replace the gradient of each parameter of model by its mean over all ranks."""
    raise NotImplementedError


@exercise.reference
def one_by_one(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


@exercise.alternative
def one_bucket(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    parts = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in parameters]
    bucket = torch.cat(parts) / dist.get_world_size()
    dist.all_reduce(bucket)
    for parameter, part in zip(parameters, bucket.split([p.numel() for p in parameters])):
        parameter.grad = part.reshape(parameter.shape).clone()


@exercise.alternative
def all_at_once_and_wait(model):
    works = []
    for _, p in sorted(model.named_parameters()):
        if not p.requires_grad:
            continue
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        works.append(dist.all_reduce(p.grad, async_op=True))
    for work in works:
        work.wait()
    for p in model.parameters():
        if p.requires_grad:
            p.grad.div_(dist.get_world_size())


@exercise.wrong(
    "The gradients are summed, not averaged. DDP divides by the number of ranks; without that the step grows with "
    "every rank that joins."
)
def the_sum(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)


@exercise.wrong(
    "A rank whose parameter has no gradient skips the call. Its next call then meets another parameter's on the other "
    "ranks: an error at best, a wait without end or wrong numbers at worst. Let it take part with zeros.",
    fault="ddp-unused-parameters",
)
def skips_what_has_no_gradient(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


@exercise.wrong(
    "The weights are averaged, and the gradients stay each rank's own. The ranks start from equal weights, so this "
    "changes nothing; after the next step they differ."
)
def averages_the_weights(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


@exercise.wrong(
    "Rank 0's gradients are sent to everyone. The ranks stay equal, but the other ranks have worked for nothing: the "
    "batch is rank 0's alone."
)
def rank_0_decides(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.broadcast(parameter.grad, 0)


@exercise.wrong(
    "The mean is divided by the number of ranks that had a gradient. DDP divides by all ranks: who did not use the "
    "layer counts as zero."
)
def mean_over_those_that_have_one(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            users = torch.tensor(float(parameter.grad is not None))
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(users)
            dist.all_reduce(parameter.grad)
            parameter.grad /= users.clamp(min=1)


@exercise.wrong(
    "Frozen parameters get a gradient of zeros. An optimizer with weight decay or momentum would move them from now on."
)
def frozen_too(model):
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


@exercise.wrong(
    "The reduction is started with async_op=True and nobody waits for it. What is divided is this rank's own "
    "gradient, or one half summed."
)
def does_not_wait(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad, async_op=True)
            parameter.grad /= dist.get_world_size()


class _Branches(nn.Module):
    """A trunk, and one of two heads, chosen by the rank."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.left, self.right = nn.Linear(3, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, head):
        x = self.trunk(x)
        return self.left(x) if head == "left" else self.right(x) if head == "right" else x


def _network() -> _Branches:
    torch.manual_seed(3)
    return _Branches()


def _batch(rank):
    return torch.arange(6.0).reshape(2, 3) * (rank + 1) - rank


def _run(answer, heads, frozen=()):
    def main(rank, world):
        model = models[rank]
        for name in frozen:
            getattr(model, name).requires_grad_(False)
        model(_batch(rank), heads[rank]).square().mean().backward()
        returned = answer(model)
        return returned, {name: p.grad for name, p in model.named_parameters()}, model

    models = [_network() for _ in heads]
    return as_ranks(main, len(heads))[0]


@exercise.probe
def two_ranks(answer):
    return _run(answer, ["left", "left"], frozen=["right"])


@exercise.probe
def each_rank_uses_another_head(answer):
    return _run(answer, ["left", "right"])


@exercise.probe
def one_of_three_uses_a_head(answer):
    return _run(answer, ["none", "right", "none"])


@exercise.probe
def a_frozen_trunk(answer):
    return _run(answer, ["right", "left", "right"], frozen=["trunk"])


@exercise.probe
def one_rank_alone(answer):
    return _run(answer, ["left"])


@exercise.probe
def called_twice_in_two_steps(answer):
    def main(rank, world):
        model = models[rank]
        for step in range(2):
            model.zero_grad()
            model(_batch(rank + step), "left").square().mean().backward()
            answer(model)
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
        return model

    models = [_network(), _network()]
    return as_ranks(main, 2)[0]

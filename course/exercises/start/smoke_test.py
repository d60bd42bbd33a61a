"""Lesson 00: the test that comes before any real run."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "start.smoke_test",
    title="A smoke test",
    task="""
        `smoke_test(model, x, y, loss_fn, optimizer, steps=5)` trains a model on one small batch, and returns one word
        that says how it went and the losses that it saw, as a list of Python floats.

        Only the model and the optimizer may change; `x` and `y` stay as they are.

        1. Compute `out = model(x)` once. If `out` and `y` have a different number of samples (the size of axis 0),
           return `("shapes", [])` and train nothing.
        2. Compute the loss `loss_fn(model(x), y)` before the first step and after each of the `steps` training steps,
           so `steps + 1` times, always on this batch. Each step clears the gradients, and goes backward from the loss
           that was computed last.
        3. As soon as a loss is NaN or infinite, return `("not finite", losses)`. `losses` holds the ones before it, not
           the bad one itself.
        4. At the end return `("ok", losses)` if the last loss is smaller than the first, else
           `("not falling", losses)`.
        """,
    hints=(
        "Write it in the order of the task: one forward for the shapes, then a loop that computes the loss one "
        "more time than it steps. What is `float('nan') >= 1.0`?",
        "`torch.isfinite(loss)` is False for NaN and for infinities. Ask it before you compare: every comparison "
        "with NaN is False, so a bad last loss slips through a test for rising. Of the four usual lines, all but "
        "the forward are left out in the last round.",
    ),
)


@exercise.stub
def smoke_test(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    steps: int = 5,
) -> tuple[str, list[float]]:
    """Train model on the one batch (x, y) for a few steps.

    Returns "ok", "shapes", "not finite" or "not falling", and the losses."""
    raise NotImplementedError


@exercise.reference
def by_one_loop(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ("ok" if losses[-1] < losses[0] else "not falling"), losses


@exercise.alternative
def by_steps_and_a_last_look(model, x, y, loss_fn, optimizer, steps=5):
    if model(x).shape[0] != y.shape[0]:
        return "shapes", []
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        if not math.isfinite(loss.item()):
            return "not finite", losses
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        last = loss_fn(model(x), y).item()
    if not math.isfinite(last):
        return "not finite", losses
    losses.append(last)
    return "not falling" if last >= losses[0] else "ok", losses


@exercise.wrong(
    "Gradients are never cleared, so every step goes along the sum of all earlier gradients. Over five steps the "
    "loss may still fall, and the test then passes a loop that trains another way than it should.",
    fault="missing-zero-grad",
)
def never_cleared(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        if step < steps:
            loss.backward()
            optimizer.step()
    return ("ok" if losses[-1] < losses[0] else "not falling"), losses


@exercise.wrong(
    "The gradients are cleared between backward() and step(), so step() finds none and changes nothing: every model "
    "is reported as not falling.",
    fault="zero-grad-before-step",
)
def cleared_too_late(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        if step < steps:
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
    return ("ok" if losses[-1] < losses[0] else "not falling"), losses


@exercise.wrong(
    "NaN is let through. Every comparison with NaN is False, so a test for a loss that has risen does not see it, "
    "and the answer is ok. Whether the losses are finite has to be asked first."
)
def nan_passes(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ("not falling" if losses[-1] >= losses[0] else "ok"), losses


@exercise.wrong(
    "A loss that stays the same counts as falling here. A model whose parameters nobody trains has exactly that: the "
    "same loss at every step. Smaller has to mean smaller.",
    fault="step-missing",
)
def staying_is_falling(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ("ok" if losses[-1] <= losses[0] else "not falling"), losses


@exercise.wrong(
    "The whole shapes of output and targets are compared. Class scores of shape (N, C) with targets of shape (N,) are "
    "the usual case and quite right; only the number of samples has to agree."
)
def whole_shapes_compared(model, x, y, loss_fn, optimizer, steps=5):
    if model(x).shape != y.shape:
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ("ok" if losses[-1] < losses[0] else "not falling"), losses


@exercise.wrong(
    "The loss after the last step is missing: each loss here was computed before its step changed anything. With one "
    "step the first loss would be compared with itself."
)
def last_step_unseen(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return ("ok" if losses[-1] < losses[0] else "not falling"), losses


@exercise.wrong(
    "The shapes are not looked at. A broadcasting loss such as the squared error accepts one sample for many and "
    "gives a number that falls nicely; nothing else in the test would find that.",
    fault="broadcast-outer-product",
)
def shapes_unchecked(model, x, y, loss_fn, optimizer, steps=5):
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ("ok" if losses[-1] < losses[0] else "not falling"), losses


@exercise.wrong(
    "The last loss is compared with the one just before it. A run that climbed to ten times its first loss and "
    "came down a little at the end would pass; the task compares with the very first loss."
)
def compared_with_the_step_before(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            return "not finite", losses
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ("ok" if losses[-1] < losses[-2] else "not falling"), losses


@exercise.wrong(
    "The list ends with the loss that is not finite. The task asks for the losses before it: whoever plots the list or "
    "takes its minimum gets numbers."
)
def bad_loss_in_the_list(model, x, y, loss_fn, optimizer, steps=5):
    if len(model(x)) != len(y):
        return "shapes", []
    losses = []
    for step in range(steps + 1):
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        if not loss.isfinite():
            return "not finite", losses
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ("ok" if losses[-1] < losses[0] else "not falling"), losses


def a_model(inputs: int = 3, outputs: int = 1) -> nn.Linear:
    """A linear model of known weights."""
    model = nn.Linear(inputs, outputs)
    with torch.no_grad():
        model.weight.copy_(torch.sin(torch.arange(inputs * outputs) + 1.0).reshape(outputs, inputs))
        model.bias.zero_()
    return model


def a_batch(inputs: int = 3, samples: int = 8) -> tuple[Tensor, Tensor]:
    x = torch.cos(torch.arange(samples * inputs) * 0.7).reshape(samples, inputs)
    return x, x.sum(1, keepdim=True)


def outcome(
    answer: Callable[..., object], model: nn.Module, x: Tensor, y: Tensor, loss_fn: Callable, lr: float, *steps: int
) -> tuple[object, list[Tensor], Tensor, Tensor]:
    """What the answer says, and afterwards the parameters, and the batch, which stays as it was."""
    verdict = answer(model, x, y, loss_fn, torch.optim.SGD(model.parameters(), lr=lr), *steps)
    return verdict, [parameter.detach().clone() for parameter in model.parameters()], x, y


@exercise.probe
def a_sound_model(answer):
    return outcome(answer, a_model(), *a_batch(), F.mse_loss, 0.1)


@exercise.probe
def class_scores(answer):
    x, y = a_batch()
    return outcome(answer, a_model(outputs=4), x, (y.flatten() > 0).long(), F.cross_entropy, 0.5, 3)


@exercise.probe
def more_samples_than_targets(answer):
    x, y = a_batch()
    return outcome(answer, a_model(), x, y[:1], F.mse_loss, 0.1)


@exercise.probe
def a_learning_rate_too_high(answer):
    return outcome(answer, a_model(), *a_batch(), F.mse_loss, 3.0)


@exercise.probe
def nothing_is_trained(answer):
    return outcome(answer, a_model(), *a_batch(), F.mse_loss, 0.0)


@exercise.probe
def targets_with_nan(answer):
    x, y = a_batch()
    y[3] = math.nan
    return outcome(answer, a_model(), x, y, F.mse_loss, 0.1)


@exercise.probe
def overflow_in_the_last_step(answer):
    return outcome(answer, a_model(), *a_batch(), F.mse_loss, 1e30, 1)


@exercise.probe
def one_step(answer):
    return outcome(answer, a_model(), *a_batch(), F.mse_loss, 0.1, 1)


@exercise.probe
def climbs_first_and_falls_then(answer):
    model = a_model()
    optimizer = Turning(model.parameters(), lr=0.5, maximize=True)
    return answer(model, *a_batch(), F.mse_loss, optimizer), model.weight.detach().clone()


@exercise.probe
def falls_first_and_climbs_then(answer):
    model = a_model()
    optimizer = Turning(model.parameters(), lr=0.05)
    return answer(model, *a_batch(), F.mse_loss, optimizer, 4), model.weight.detach().clone()


@exercise.probe
def gradients_from_before(answer):
    model, (x, y) = a_model(), a_batch()
    (100 * F.mse_loss(model(x), y)).backward()
    return outcome(answer, model, x, y, F.mse_loss, 0.1, 2)


class Turning(torch.optim.SGD):
    """Goes the other way from its second step on: slowly if that is downhill, fast if it is uphill."""

    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            if group.setdefault("turned", False) is False:
                group.update(turned=True, maximize=not group["maximize"], lr=0.01 if group["maximize"] else 0.5)

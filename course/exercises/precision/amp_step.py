"""Lesson 08: one step with scaling, clipping and accumulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.checking import Exercise
from course.checking.steps import watched_steps

exercise = Exercise(
    "precision.amp_step",
    title="One step with a scaler, clipping and accumulation",
    task="""
        `amp_step(model, optimizer, scaler, micro_batches, max_norm)` makes **one** step of mixed precision out of
        several micro-batches: a list of pairs `(inputs, targets)`, all of the same size, `targets` being floats of the
        shape of the model's output. Everything lies on the CPU.

        - Gradients left from earlier must not count.
        - The forward pass runs under autocast with float16. The loss is `F.mse_loss`, averaged over all samples of all
          micro-batches.
        - The norm of all **true** gradients together, not of the scaled ones, is clipped at `max_norm`.
        - The optimizer steps through `scaler` (a `torch.amp.GradScaler`), and not at all if a gradient is infinite.
          The scale is updated once.
        - Return the mean loss, not scaled, as a Python `float`.
        """,
    hints=(
        "Which calls belong to each micro-batch, and which to the step? zero_grad, autocast, loss, scale, backward, "
        "unscale_, clip, step, update: sort them into two lists.",
        "For each micro-batch: forward under autocast, the loss divided by their number, and backward() of what "
        "`scaler.scale` returns. Once, after all of them: unscale_, clip_grad_norm_, step, update, the first and the "
        "third with the optimizer.",
    ),
)


@exercise.stub
def amp_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    micro_batches: Sequence[tuple[Tensor, Tensor]],
    max_norm: float,
) -> float:
    """Make one step of float16 mixed precision from all micro-batches, clipped at max_norm; return the mean loss."""
    raise NotImplementedError


@exercise.reference
def unscale_clip_step_update(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.alternative
def divides_the_gradients(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", torch.half):
            loss = F.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        total += float(loss)
    scaler.unscale_(optimizer)
    for parameter in model.parameters():
        parameter.grad /= len(micro_batches)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total / len(micro_batches)


@exercise.alternative
def clips_by_hand(model, optimizer, scaler, micro_batches, max_norm):
    losses = []
    model.zero_grad()
    for inputs, targets in micro_batches:
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            outputs = model(inputs)
        losses.append(F.mse_loss(outputs.float(), targets))
        scaler.scale(losses[-1].div(len(micro_batches))).backward()
    scaler.unscale_(optimizer)
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    for gradient in gradients:
        gradient.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    scaler.step(optimizer)
    scaler.update()
    return float(torch.stack([loss.detach() for loss in losses]).mean())


@exercise.wrong(
    "The clip sees scaled gradients: their norm is thousands of times too large, so nearly everything is clipped away. "
    "unscale_ has to come first.",
    fault="clip-before-unscale",
)
def clip_before_unscale(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong(
    "unscale_ runs for each micro-batch. It may run once between two updates: the second call raises, and the "
    "gradients of the first micro-batch would be divided twice.",
    fault="unscale-twice",
)
def unscale_each_micro_batch(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer=optimizer)
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong(
    "update() is missing. The scaler still stands in this step: the next unscale_ or step raises.",
    fault="scaler-update-missing",
)
def no_update(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer=optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    return total


@exercise.wrong(
    "optimizer.step() was called directly. It knows nothing of infinite gradients and puts them into the weights; "
    "the step of the scaler is left out then."
)
def steps_directly(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    scaler.update()
    return total


@exercise.wrong(
    "The loss is not divided by the number of micro-batches, so the gradients are their sum: as many times too large "
    "as there are micro-batches.",
    fault="accumulation-not-scaled",
)
def not_divided(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        total += loss.item() / len(micro_batches)
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong(
    "The gradients are cleared before each micro-batch: only the last one is in the step. Clear them once, at the "
    "start."
)
def cleared_each_time(model, optimizer, scaler, micro_batches, max_norm):
    total = 0.0
    for inputs, targets in micro_batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong("Gradients from earlier are still there and go into this step.", fault="missing-zero-grad")
def never_cleared(model, optimizer, scaler, micro_batches, max_norm):
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong(
    "There is a step and an update for each micro-batch. That is training with small batches: the scale may change in "
    "the middle, and nothing is accumulated."
)
def step_each_micro_batch(model, optimizer, scaler, micro_batches, max_norm):
    total = 0.0
    for inputs, targets in micro_batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    return total


@exercise.wrong(
    "The forward pass runs in float32: without autocast there is no mixed precision, and nothing for the scaler to "
    "save."
)
def no_autocast(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong(
    "The loss is not scaled before backward, and unscale_ divides all the same: the gradients are too small by the "
    "scale, and what underflows is lost.",
    fault="gradient-underflow",
)
def never_scaled(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        loss.backward()
        scaler.scale(loss)
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong("The scaled loss is returned. People read losses, and the scale changes them from step to step.")
def returns_the_scaled_loss(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = scaler.scale(F.mse_loss(model(inputs), targets) / len(micro_batches))
        loss.backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong(
    "Each parameter is clipped for itself. The task clips the norm of all gradients together, which keeps their "
    "direction."
)
def each_parameter_for_itself(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    for parameter in model.parameters():
        torch.nn.utils.clip_grad_norm_([parameter], max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong(
    "Only the first of the optimizer's groups of parameters is clipped, and the norm is that of this group alone."
)
def the_first_group_only(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total


@exercise.wrong("Nothing is clipped. One large gradient moves the weights as far as it likes.")
def not_clipped(model, optimizer, scaler, micro_batches, max_norm):
    optimizer.zero_grad()
    total = 0.0
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(inputs), targets) / len(micro_batches)
        scaler.scale(loss).backward()
        total += loss.item()
    scaler.step(optimizer)
    scaler.update()
    return total


class Recorded(torch.amp.GradScaler):
    """A scaler that notes what is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__("cpu", **options)
        self.calls: list[str] = []

    def unscale_(self, optimizer: Any) -> None:
        self.calls.append("unscale_")
        super().unscale_(optimizer)

    def step(self, optimizer: Any, *args: Any, **options: Any) -> Any:
        self.calls.append("step")
        return super().step(optimizer, *args, **options)

    def update(self, new_scale: Any = None) -> None:
        self.calls.append("update")
        super().update(new_scale)


def batches(n, size=1.0):
    torch.manual_seed(4)
    return [(size * torch.randn(4, 3), size * torch.randn(4, 2)) for _ in range(n)]


def trained(answer, groups, max_norm, scale=256.0, stale=None, interval=2000):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    groups_of_parameters = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.25}]
    optimizer = torch.optim.SGD(groups_of_parameters, lr=0.5)
    scaler = Recorded(init_scale=scale, growth_interval=interval)
    outputs = set()
    handle = model.register_forward_hook(lambda module, inputs, output: outputs.add(str(output.dtype)))
    if stale is not None:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, stale)
    losses = []
    with watched_steps(model, optimizer) as record:
        for group in groups:
            losses.append(answer(model, optimizer, scaler, group, max_norm))
    handle.remove()
    order = [call for call in scaler.calls if call in ("step", "update")]
    return losses, outputs, order, record.events.count("step"), scaler.get_scale(), model


@exercise.probe
def one_micro_batch(answer):
    return trained(answer, [batches(1)], 1e6)


@exercise.probe
def four_micro_batches(answer):
    """A power of two: dividing before or after backward then rounds alike."""
    return trained(answer, [batches(4)], 1e6)


@exercise.probe
def clipped(answer):
    return trained(answer, [batches(2)], 0.05)


@exercise.probe
def two_steps(answer):
    return trained(answer, [batches(2), batches(2)], 1.0)


@exercise.probe
def gradients_from_before(answer):
    return trained(answer, [batches(2)], 1e6, stale=3.0)


@exercise.probe
def small_gradients(answer):
    return trained(answer, [batches(2, size=2e-4)], 1e6, scale=2.0**14)


@exercise.probe
def scale_too_large(answer):
    return trained(answer, [batches(2), batches(2)], 1.0, scale=2.0**26)


@exercise.probe
def an_infinite_target(answer):
    broken = batches(2)
    broken[0][1][0, 0] = torch.inf
    _, outputs, order, steps, scale, model = trained(answer, [broken], 1.0)
    return outputs, order, steps, scale, model


@exercise.probe
def the_scale_grows(answer):
    return trained(answer, [batches(2)] * 4, 0.5, scale=16.0, interval=2)

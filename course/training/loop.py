"""The training loop: one epoch, an evaluation, and the two in turn. Small enough to read, plain enough to take home."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.training.best import BestWeights
from course.training.checkpoint.manager import CheckpointManager
from course.training.checkpoint.run_state import RunState
from course.training.history import History
from course.training.metrics import WeightedMean, accuracy
from course.training.progress import progress

Batches = Iterable[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Score:
    """Means over all samples of a pass through the data."""

    loss: float
    accuracy: float


class LossNotFinite(ArithmeticError):
    """The mean loss of an epoch became NaN or infinite; going on would only waste time."""


def train_epoch(
    model: nn.Module,
    batches: Batches,
    optimizer: torch.optim.Optimizer,
    *,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    batch_scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    max_norm: float | None = None,
) -> Score:
    """One pass of training over batches of (inputs, targets); the model's mode is "train" afterwards.

    loss_fn(logits, targets) is a mean over the batch. batch_scheduler is stepped after each optimizer step. max_norm
    clips the norm of all gradients together. Raises LossNotFinite after an epoch whose mean loss is NaN or infinite.
    """
    device = next(model.parameters()).device
    loss_mean, accuracy_mean = WeightedMean(), WeightedMean()
    model.train()
    for inputs, targets in progress(batches, "training"):
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        logits = model(inputs)
        loss = loss_fn(logits, targets)
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        if batch_scheduler is not None:
            batch_scheduler.step()
        loss_mean.add(loss, len(targets))
        accuracy_mean.add(accuracy(logits, targets), len(targets))
    if loss_mean.count and not math.isfinite(loss_mean.value):
        raise LossNotFinite(f"the mean loss is {loss_mean.value}; try a learning rate ten times smaller")
    return Score(loss_mean.value, accuracy_mean.value)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every submodule has the mode that it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def evaluate(model: nn.Module, batches: Batches) -> Score:
    """Cross-entropy and accuracy over batches of (inputs, targets), each sample counted once."""
    logits, targets = predict(model, batches)
    return Score(F.cross_entropy(logits, targets).item(), accuracy(logits, targets).item())


def predict(model: nn.Module, batches: Batches) -> tuple[Tensor, Tensor]:
    """Logits (N, C) and targets (N,) of all batches, in their order, on the model's device."""
    device = next(model.parameters()).device
    logits, targets = [], []
    with evaluating(model):
        for inputs, labels in progress(batches, "evaluating"):
            logits.append(model(inputs.to(device)))
            targets.append(labels.to(device))
    return torch.cat(logits), torch.cat(targets)


def fit(
    model: nn.Module,
    train_batches: Batches,
    held_out_batches: Batches,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    *,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    epoch_scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    batch_scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    max_norm: float | None = None,
    best: BestWeights | None = None,
    history: History | None = None,
    after_epoch: Callable[[History], object] | None = None,
    checkpoints: CheckpointManager | None = None,
    generators: Mapping[str, Any] | Iterable[Any] = (),
) -> History:
    """Train for some epochs; after each, evaluate on held-out data and note both.

    train_batches, held_out_batches: what can be iterated over once an epoch, such as a DataLoader or
        ``ImageTensors.batches(...)``; not a generator, which is used up after one.
    loss_fn is used for training; held-out loss is always cross-entropy, so that runs can be compared.
    epoch_scheduler is stepped once after each epoch, batch_scheduler after each step of the optimizer.
    best keeps the weights of the epoch with the highest held-out accuracy. history: one to append to.
    after_epoch(history) is called after each epoch, to draw or to log.
    checkpoints: save after each epoch, with the held-out accuracy as the score. When its folder holds a checkpoint,
        the run goes on from there up to the same number of epochs: with model, optimizer, schedulers, best, history,
        global random generators, and train_batches where they are a ResumableBatches; after_epoch is called once
        first. generators: those that train_batches draw from, to be saved as well (see RunState). Without them, order
        and augmentation are not those of the uninterrupted run.

    Returns the history with columns epoch, loss, accuracy (means over the epoch, while the weights moved),
    held_out_loss, held_out_accuracy (at its end), lr (of its last step) and seconds (of training alone).
    """
    history = History() if history is None else history
    rows = len(history)
    run = None
    if checkpoints is not None:
        others = {"batch_scheduler": batch_scheduler, "best": best}
        run = RunState(
            model,
            optimizer,
            scheduler=epoch_scheduler,
            order=train_batches if hasattr(train_batches, "load_state_dict") else None,
            history=history,
            generators=generators,
            others={name: part for name, part in others.items() if part is not None},
        )
        if checkpoints.resume(run) is not None and after_epoch is not None:
            after_epoch(history)
    for _ in range(epochs - (len(history) - rows)):
        start = time.perf_counter()
        trained = train_epoch(
            model,
            train_batches,
            optimizer,
            loss_fn=loss_fn,
            batch_scheduler=batch_scheduler,
            max_norm=max_norm,
        )
        seconds = time.perf_counter() - start
        held_out = evaluate(model, held_out_batches)
        history.append(
            loss=trained.loss,
            accuracy=trained.accuracy,
            held_out_loss=held_out.loss,
            held_out_accuracy=held_out.accuracy,
            lr=optimizer.param_groups[0]["lr"],
            seconds=seconds,
        )
        if epoch_scheduler is not None:
            epoch_scheduler.step()
        if best is not None:
            best.update(model, held_out.accuracy, epoch=len(history))
        if checkpoints is not None and run is not None:
            checkpoints.save(run, step=len(history), score=held_out.accuracy)
        if after_epoch is not None:
            after_epoch(history)
    return history

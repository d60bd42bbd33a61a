"""Lesson 05: loss and accuracy over held-out batches."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.checking import Exercise

exercise = Exercise(
    "training.evaluate",
    title="An evaluation that leaves no trace",
    task="""
        `evaluate_batches(model, batches)` goes through `batches`, pairs `(inputs, targets)`, once, and returns a pair
        of Python floats: the mean cross-entropy and the share of right predictions, **over all samples**. The last
        batch may be smaller than the others. `batches` may be a generator, and holds at least one sample.

        - The model works in evaluation mode, and no graph is recorded.
        - Afterwards it has the mode that it came in, what was frozen is still frozen, and recording is on or off as it
          was before.

        Example: a batch of 3 with one right, and a batch of 1 with none right, have the accuracy 1/4.
        """,
    hints=(
        "Two switches are independent of each other: model.eval() changes what layers such as dropout do, "
        "torch.no_grad() stops recording. You need both.",
        "Add up sums over samples (reduction='sum' for the loss) and the number of samples, and divide once at the "
        "end. model.training tells the mode; model.train(flag) sets it.",
    ),
)


@exercise.stub
def evaluate_batches(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Return mean cross-entropy and accuracy over all samples; the model's mode is the same afterwards."""
    raise NotImplementedError


@exercise.reference
def by_sums(model, batches):
    was_training = model.training
    model.eval()
    loss, right, samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(inputs)
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(1) == targets).sum().item()
            samples += len(targets)
    model.train(was_training)
    return loss / samples, right / samples


@exercise.alternative
def by_joining_the_batches(model, batches):
    mode = model.training
    model.train(False)
    with torch.inference_mode():
        pairs = [(model(inputs), targets) for inputs, targets in batches]
        logits = torch.cat([pair[0] for pair in pairs])
        targets = torch.cat([pair[1] for pair in pairs])
        loss = F.cross_entropy(logits, targets).item()
        share = (logits.argmax(-1) == targets).double().mean().item()
    model.train(mode)
    return loss, share


@exercise.alternative
def by_weighted_means(model, batches):
    mode = model.training
    model.eval()
    total, right, count = 0.0, 0.0, 0
    for inputs, targets in batches:
        size = targets.numel()
        with torch.no_grad():
            logits = model(inputs)
        total += F.cross_entropy(logits, targets).item() * size
        right += (logits.argmax(dim=1) == targets).float().mean().item() * size
        count += size
    model.train(mode)
    return total / count, right / count


@exercise.wrong(
    "The model is evaluated in the mode that it came in. In training mode dropout drops, BatchNorm uses the statistics "
    "of the batch, and its running statistics learn from the held-out data.",
    fault="eval-mode-missing",
)
def mode_not_changed(model, batches):
    loss, right, samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(inputs)
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(1) == targets).sum().item()
            samples += len(targets)
    return loss / samples, right / samples


@exercise.wrong(
    "The model stays in evaluation mode. If nobody calls train() again, all the training after the first evaluation "
    "runs without dropout and with frozen BatchNorm statistics.",
    fault="train-mode-not-restored",
)
def left_in_evaluation_mode(model, batches):
    model.eval()
    loss, right, samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(inputs)
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(1) == targets).sum().item()
            samples += len(targets)
    return loss / samples, right / samples


@exercise.wrong(
    "The model is put in training mode at the end whatever mode it came in. A model that was handed over for use, in "
    "evaluation mode, would start dropping again. Restore what was there."
)
def always_left_in_training_mode(model, batches):
    model.eval()
    loss, right, samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(inputs)
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(1) == targets).sum().item()
            samples += len(targets)
    model.train()
    return loss / samples, right / samples


@exercise.wrong(
    "The means of the batches are averaged, so a sample of a small last batch counts more than the others. Weight each "
    "batch by its number of samples, or add up sums.",
    fault="mean-of-batch-means",
)
def mean_of_the_batch_means(model, batches):
    was_training = model.training
    model.eval()
    losses, shares = [], []
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(inputs)
            losses.append(F.cross_entropy(logits, targets).item())
            shares.append((logits.argmax(1) == targets).double().mean().item())
    model.train(was_training)
    return sum(losses) / len(losses), sum(shares) / len(shares)


@exercise.wrong(
    "A graph is recorded: eval() does not switch that off. The numbers are right, and the memory for a backward pass "
    "that never comes is held for every batch."
)
def graph_recorded(model, batches):
    was_training = model.training
    model.eval()
    loss, right, samples = 0.0, 0, 0
    for inputs, targets in batches:
        logits = model(inputs)
        loss += F.cross_entropy(logits, targets, reduction="sum").item()
        right += (logits.argmax(1) == targets).sum().item()
        samples += len(targets)
    model.train(was_training)
    return loss / samples, right / samples


@exercise.wrong(
    "argmax runs over the batch here: it tells which sample scores highest in each class. The classes are axis 1.",
    fault="argmax-wrong-axis",
)
def argmax_over_the_batch(model, batches):
    was_training = model.training
    model.eval()
    loss, right, samples = 0.0, 0, 0
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(inputs)
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(0) == targets).sum().item()
            samples += len(targets)
    model.train(was_training)
    return loss / samples, right / samples


@exercise.wrong(
    "The sum over the samples is divided by the number of batches. Both means are to be over samples: divide by their "
    "number."
)
def divided_by_the_number_of_batches(model, batches):
    was_training = model.training
    model.eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(inputs)
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(1) == targets).sum().item()
            count += 1
    model.train(was_training)
    return loss / count, right / count


@exercise.wrong(
    "Recording is switched off by hand and on again at the end. Whoever calls this inside torch.no_grad() gets a graph "
    "from then on, and an exception in the middle leaves recording off. The context manager restores what was there."
)
def recording_switched_on_again(model, batches):
    was_training = model.training
    model.eval()
    loss, right, samples = 0.0, 0, 0
    torch.set_grad_enabled(False)
    for inputs, targets in batches:
        logits = model(inputs)
        loss += F.cross_entropy(logits, targets, reduction="sum").item()
        right += (logits.argmax(1) == targets).sum().item()
        samples += len(targets)
    torch.set_grad_enabled(True)
    model.train(was_training)
    return loss / samples, right / samples


@exercise.wrong(
    "The parameters are frozen and thawed again, all of them: a layer that was frozen before trains from then on. "
    "torch.no_grad() stops the recording and leaves the parameters alone."
)
def all_parameters_thawed(model, batches):
    was_training = model.training
    model.eval().requires_grad_(False)
    loss, right, samples = 0.0, 0, 0
    for inputs, targets in batches:
        logits = model(inputs)
        loss += F.cross_entropy(logits, targets, reduction="sum").item()
        right += (logits.argmax(1) == targets).sum().item()
        samples += len(targets)
    model.train(was_training).requires_grad_(True)
    return loss / samples, right / samples


class Watched(nn.Module):
    """A small classifier that notes whether a graph was recorded."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layers = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
        self.recorded = []

    def forward(self, x):
        logits = self.layers(x)
        self.recorded.append(logits.requires_grad)
        return logits


def samples(n):
    torch.manual_seed(3)
    return torch.randn(n, 2) * 2, torch.arange(n) % 3


def evaluated(answer, batches, training):
    model = Watched().train(training)
    result = answer(model, batches)
    return result, model, model.recorded


@exercise.probe
def batches_of_unequal_size(answer):
    inputs, targets = samples(7)
    return evaluated(answer, list(zip(inputs.split(3), targets.split(3))), training=True)


@exercise.probe
def as_many_samples_as_classes(answer):
    inputs, targets = samples(6)
    return evaluated(answer, list(zip(inputs.split(3), targets.split(3))), training=True)


@exercise.probe
def model_in_evaluation_mode(answer):
    inputs, targets = samples(5)
    return evaluated(answer, list(zip(inputs.split(4), targets.split(4))), training=False)


@exercise.probe
def a_generator(answer):
    inputs, targets = samples(9)
    return evaluated(answer, zip(inputs.split(4), targets.split(4)), training=True)


@exercise.probe
def one_batch_of_one_sample(answer):
    inputs, targets = samples(1)
    return evaluated(answer, [(inputs, targets + 1)], training=True)


@exercise.probe
def called_where_nothing_is_recorded(answer):
    inputs, targets = samples(4)
    modes = []
    for recording in (False, True):
        with torch.set_grad_enabled(recording):
            result, _, _ = evaluated(answer, [(inputs, targets)], training=True)
            modes.append(torch.is_grad_enabled())
    return result, modes


@exercise.probe
def a_frozen_layer(answer):
    inputs, targets = samples(5)
    model = Watched()
    model.layers[0].requires_grad_(False)
    result = answer(model, [(inputs, targets)])
    return result, [parameter.requires_grad for parameter in model.parameters()], model.recorded

"""Lesson 02: keep the losses of an epoch without keeping their graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise
from course.exercises.autograd._graphs import alive, witnessed

exercise = Exercise(
    "autograd.loss_log",
    title="Log losses without leaking the graph",
    task="""
        Write the class `LossLog`, which a training loop uses like this:

        ```python
        log = LossLog()
        for x, y in batches:
            loss = loss_fn(model(x), y)
            log.add(loss, len(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(log.mean())
        ```

        - `add(loss, n)` notes the mean loss of a batch of `n` samples; `loss` is a tensor without axes.
        - `mean()` returns the mean over all samples noted so far, as a Python `float`: a batch of 30 counts three
          times as much as a batch of 10. It may be asked at any time, once something was added, and again later.
        - The log keeps no graph alive. Once the loop has let go of a loss, everything that was saved for its
          backward is free, whether or not backward was called.
        - `add` leaves the loss as it is: `loss.backward()` works afterwards. And the log is a record: if somebody
          changes the loss in place later, `mean()` does not change.
        """,
    hints=(
        "A graph lives as long as something refers to it, and every tensor that has a grad_fn does. What form of the "
        "number has no grad_fn?",
        "Two numbers are enough: a weighted sum, and how many samples there were. If you keep tensors instead of "
        "Python numbers, ask of each one whether it shares memory with the loss.",
    ),
)


@exercise.stub
class LossLog:
    """The mean loss over all samples seen so far. Keeps numbers, not graphs."""

    def __init__(self) -> None:
        raise NotImplementedError

    def add(self, loss: Tensor, n: int) -> None:
        """Note the mean loss, shape (), of n samples."""
        raise NotImplementedError

    def mean(self) -> float:
        """Return the mean loss over all samples noted so far."""
        raise NotImplementedError


@exercise.reference
class BySumAndCount:
    """The mean loss over all samples seen so far."""

    def __init__(self):
        self.total = 0.0
        self.count = 0

    def add(self, loss, n):
        """Note the mean loss, shape (), of n samples."""
        self.total += n * loss.item()
        self.count += n

    def mean(self):
        """Return the mean loss over all samples noted so far."""
        return self.total / self.count


@exercise.alternative
class ByDetachedTotal:
    """Stays on the device of the losses until somebody asks."""

    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, loss, n):
        self.total = self.total + n * loss.detach()
        self.count += n

    def mean(self):
        return float(self.total) / self.count


@exercise.alternative
class ByListOfPairs:
    """Keeps every loss, as a copy of its own."""

    def __init__(self):
        self.entries = []

    def add(self, loss, n):
        self.entries.append((loss.detach().clone(), n))

    def mean(self):
        return sum(loss.item() * n for loss, n in self.entries) / sum(n for _, n in self.entries)


@exercise.wrong(
    "The total is a tensor with a grad_fn: it was added up from losses that still hang on their graphs, and keeps all "
    "of them alive. Memory grows with every batch. Take the number out of the loss before you add it.",
    fault="graph-retained-in-log",
)
class TotalWithGraph:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, loss, n):
        self.total = self.total + loss * n
        self.count += n

    def mean(self):
        return (self.total / self.count).item()


@exercise.wrong(
    "The list holds the losses themselves, and each loss holds its graph. It also holds their memory: a loss that is "
    "changed in place later changes in the list. Take the number out before you keep it.",
    fault="graph-retained-in-log",
)
class ListOfLosses:
    def __init__(self):
        self.entries = []

    def add(self, loss, n):
        self.entries.append((loss, n))

    def mean(self):
        return sum(loss.item() * n for loss, n in self.entries) / sum(n for _, n in self.entries)


@exercise.wrong(
    "No graph is kept, but detach() shares memory with the loss: when the loss is changed in place later, the log "
    "changes too. A record needs a number, or a copy."
)
class ListOfDetached:
    def __init__(self):
        self.entries = []

    def add(self, loss, n):
        self.entries.append((loss.detach(), n))

    def mean(self):
        return sum(loss.item() * n for loss, n in self.entries) / sum(n for _, n in self.entries)


@exercise.wrong(
    "detach_() cuts the learner's own loss off its graph, in place. The backward() of the training loop then has "
    "nothing to go through. Without the underscore you get another tensor, and the loss stays as it is.",
    fault="graph-cut",
)
class DetachesTheLoss:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, loss, n):
        self.total += loss.detach_().item() * n
        self.count += n

    def mean(self):
        return self.total / self.count


@exercise.wrong(
    "The sum is a plain number, but the last loss itself is kept as well, and with it its whole graph: one batch's "
    "saved tensors stay in memory for as long as the log does.",
    fault="graph-retained-in-log",
)
class KeepsTheLastLoss:
    def __init__(self):
        self.total, self.count, self.last = 0.0, 0, None

    def add(self, loss, n):
        self.last = loss
        self.total += loss.item() * n
        self.count += n

    def mean(self):
        return self.total / self.count


@exercise.wrong(
    "Every batch counts the same here, whatever its size. The last batch of an epoch is mostly smaller; its samples "
    "would weigh more than the others."
)
class UnweightedMean:
    def __init__(self):
        self.losses = []

    def add(self, loss, n):
        self.losses.append(loss.item())

    def mean(self):
        return sum(self.losses) / len(self.losses)


@exercise.wrong(
    "The mean is right, but it is a tensor: it prints and compares as one, and stays on its device. The task asks for "
    "a Python float."
)
class MeanAsTensor:
    def __init__(self):
        self.total, self.count = torch.zeros(()), 0

    def add(self, loss, n):
        self.total = self.total + loss.detach() * n
        self.count += n

    def mean(self):
        return self.total / self.count


@exercise.wrong(
    "detach() shares memory with the loss, and mul_ writes there: the loss of the training loop is now n times as "
    "large as it was. Without the underscore the product is a tensor of its own."
)
class WritesIntoTheLoss:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, loss, n):
        self.total += loss.detach().mul_(n).item()
        self.count += n

    def mean(self):
        return self.total / self.count


@exercise.wrong(
    "Each loss is rounded before it is added. The mean then is off by up to half a unit of the last digit that was "
    "kept. Round when you print."
)
class RoundsTheLosses:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, loss, n):
        self.total += round(loss.item(), 2) * n
        self.count += n

    def mean(self):
        return self.total / self.count


@exercise.wrong(
    "The log lives in the class, not in the object: making a second log throws away what the first one noted. What "
    "__init__ sets on self belongs to one log alone."
)
class OneListForAll:
    entries: list[tuple[float, int]] = []  # noqa: RUF012  (shared by all instances: that is the mistake)

    def __init__(self):
        self.entries.clear()

    def add(self, loss, n):
        self.entries.append((loss.item(), n))

    def mean(self):
        return sum(loss * n for loss, n in self.entries) / sum(n for _, n in self.entries)


class Epoch:
    """Losses with a witness in each graph, as a training loop would make them."""

    def __init__(self) -> None:
        self.weight = torch.ones((), requires_grad=True)
        self.witnesses: list[object] = []

    def loss(self, value: float) -> Tensor:
        loss, witness = witnessed(self.weight * value)
        self.witnesses.append(witness)
        return loss

    def graphs(self) -> int:
        return alive(self.witnesses)


@exercise.probe
def weighted_mean(answer):
    log, epoch = answer(), Epoch()
    means = []
    for value, n in ((4.03125, 30), (-2.0, 10), (0.5078125, 8)):
        log.add(epoch.loss(value), n)
        means.append(log.mean())
    return means, log.mean()


@exercise.probe
def graphs_alive_without_backward(answer):
    log, epoch = answer(), Epoch()
    for value in (1.0, 2.0, 3.0):
        log.add(epoch.loss(value), 2)
    return {"graphs alive": epoch.graphs(), "mean": log.mean()}


@exercise.probe
def graphs_alive_after_backward(answer):
    log, epoch = answer(), Epoch()
    for value in (1.0, 2.0, 3.0):
        loss = epoch.loss(value)
        log.add(loss, 5)
        loss.backward()
    del loss
    return {"graphs alive": epoch.graphs(), "gradient": epoch.weight.grad, "mean": log.mean()}


@exercise.probe
def loss_changed_in_place_later(answer):
    log, epoch = answer(), Epoch()
    loss = epoch.loss(6.0)
    log.add(loss, 4)
    with torch.no_grad():
        loss /= 3
    return log.mean()


@exercise.probe
def loss_stays_attached(answer):
    log, epoch = answer(), Epoch()
    loss = epoch.loss(2.0)
    log.add(loss, 3)
    return {"loss": loss.detach(), "it still has a graph": loss.requires_grad and loss.grad_fn is not None}


@exercise.probe
def two_logs(answer):
    first, second, epoch = answer(), answer(), Epoch()
    first.add(epoch.loss(1.0), 3)
    second.add(epoch.loss(9.0), 1)
    return first.mean(), second.mean()

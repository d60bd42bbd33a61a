"""Lesson 07: a running mean of the weights, which is saved beside them."""

from __future__ import annotations

import copy

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "checkpoints.ema",
    title="Averaged weights",
    task="""
        `WeightAverage(decay)` keeps an exponential moving average of a model's weights. Such weights are often better
        than the last ones, and are what is saved for use.

        - `update(model)`: the first call takes the **parameters** as they are. Each later one sets
          average = decay · average + (1 − decay) · parameter.
        - **Buffers** are not averaged: every call takes them as they are now (a running mean is an average already,
          and a counter is an integer).
        - `copy_to(model)` puts averages and buffers into a model of the same kind, in place; its parameters stay the
          same objects.

        The average shares no memory with any model and records no graph, however long the run. `update` leaves the
        model as it is.
        """,
    hints=(
        "An average that starts from zeros is too small for a long time. And what follows the model when it trains on: "
        "a tensor of its state dict, or a copy of it?",
        "First call: a deep copy of the state dict. Later: for names in dict(model.named_parameters()) use "
        "lerp_(parameter, 1 - decay), for the others copy_, all of it under no_grad. copy_to is load_state_dict.",
    ),
)


@exercise.stub
class WeightAverage:
    """An exponential moving average of parameters; buffers are those of the last update."""

    def __init__(self, decay: float) -> None:
        raise NotImplementedError

    def update(self, model: nn.Module) -> None:
        """Take the model's weights into the average."""
        raise NotImplementedError

    def copy_to(self, model: nn.Module) -> None:
        """Put the average into a model, in place."""
        raise NotImplementedError


@exercise.reference
class AverageOfAState:
    def __init__(self, decay):
        self.decay, self.average = decay, None

    @torch.no_grad()
    def update(self, model):
        if self.average is None:
            self.average = copy.deepcopy(model.state_dict())
        parameters = dict(model.named_parameters())
        for name, tensor in model.state_dict().items():
            if name in parameters:
                self.average[name].lerp_(tensor, 1 - self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model):
        model.load_state_dict(self.average)


@exercise.alternative
class ByAveragedModel:
    def __init__(self, decay):
        self.function, self.averaged = torch.optim.swa_utils.get_ema_multi_avg_fn(decay), None

    def update(self, model):
        if self.averaged is None:
            self.averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=self.function)
        self.averaged.update_parameters(model)

    def copy_to(self, model):
        model.load_state_dict(self.averaged.module.state_dict())


@exercise.alternative
class ListsOfTensors:
    def __init__(self, decay):
        self.decay, self.parameters, self.buffers = decay, [], []

    def update(self, model):
        now = [parameter.detach() for parameter in model.parameters()]
        before = self.parameters or now
        self.parameters = [self.decay * a + (1 - self.decay) * b for a, b in zip(before, now)]
        self.buffers = [buffer.clone() for buffer in model.buffers()]

    def copy_to(self, model):
        with torch.no_grad():
            for mine, kept in zip([*model.parameters(), *model.buffers()], [*self.parameters, *self.buffers]):
                mine.copy_(kept)


@exercise.wrong(
    "The average starts from zeros. After the first update it holds a small part of the weights, and with a decay of "
    "0.999 it stays too small for thousands of steps."
)
class StartsFromZero:
    def __init__(self, decay):
        self.decay, self.average = decay, None

    @torch.no_grad()
    def update(self, model):
        parameters = dict(model.named_parameters())
        if self.average is None:
            self.average = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
        for name, tensor in model.state_dict().items():
            if name in parameters:
                self.average[name].lerp_(tensor, 1 - self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model):
        model.load_state_dict(self.average)


@exercise.wrong(
    "decay and 1 - decay are swapped: the average forgets at the rate at which it should keep, and nearly equals the "
    "last weights."
)
class DecaySwapped:
    def __init__(self, decay):
        self.decay, self.average = decay, None

    @torch.no_grad()
    def update(self, model):
        parameters = dict(model.named_parameters())
        if self.average is None:
            self.average = copy.deepcopy(model.state_dict())
        for name, tensor in model.state_dict().items():
            if name in parameters:
                self.average[name].lerp_(tensor, self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model):
        model.load_state_dict(self.average)


@exercise.wrong(
    "The buffers stay those of the first update. Averaged weights with the running statistics of an untrained network "
    "are another network."
)
class BuffersOfTheFirstUpdate:
    def __init__(self, decay):
        self.decay, self.average = decay, None

    @torch.no_grad()
    def update(self, model):
        if self.average is None:
            self.average = copy.deepcopy(model.state_dict())
        for name, parameter in model.named_parameters():
            self.average[name].lerp_(parameter, 1 - self.decay)

    def copy_to(self, model):
        model.load_state_dict(self.average)


@exercise.wrong(
    "Floating-point buffers are averaged as well. The task takes them as they are: a running mean is an average "
    "already, and averaging it again makes it lag."
)
class BuffersAveragedToo:
    def __init__(self, decay):
        self.decay, self.average = decay, None

    @torch.no_grad()
    def update(self, model):
        if self.average is None:
            self.average = copy.deepcopy(model.state_dict())
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                self.average[name].lerp_(tensor, 1 - self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model):
        model.load_state_dict(self.average)


@exercise.wrong(
    "The first update keeps the model's own tensors. The average then is the model: both change together.",
    fault="state-dict-aliased",
)
class SharesTheModelsMemory:
    def __init__(self, decay):
        self.decay, self.average = decay, None

    @torch.no_grad()
    def update(self, model):
        if self.average is None:
            self.average = dict(model.state_dict())
            return
        parameters = dict(model.named_parameters())
        for name, tensor in model.state_dict().items():
            if name in parameters:
                self.average[name].lerp_(tensor, 1 - self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model):
        model.load_state_dict(self.average)


@exercise.wrong(
    "The average is computed from parameters that require gradients, so every update adds to a graph that reaches back "
    "to the first one. The numbers are right; memory grows with every step.",
    fault="graph-retained-in-log",
)
class RecordsAGraph:
    def __init__(self, decay):
        self.decay, self.average, self.buffers = decay, None, {}

    def update(self, model):
        now = dict(model.named_parameters())
        if self.average is None:
            self.average = {name: parameter.clone() for name, parameter in now.items()}
        else:
            self.average = {
                name: self.decay * self.average[name] + (1 - self.decay) * parameter for name, parameter in now.items()
            }
        self.buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}

    def copy_to(self, model):
        model.load_state_dict({name: tensor.detach() for name, tensor in (self.average | self.buffers).items()})


@exercise.wrong(
    "copy_to gives the model new Parameter objects, made of the average itself. An optimizer still holds the old ones, "
    "and a step on the new ones would change the average.",
    fault="optimizer-misses-parameters",
)
class HandsOverItsTensors:
    def __init__(self, decay):
        self.decay, self.average = decay, None

    @torch.no_grad()
    def update(self, model):
        parameters = dict(model.named_parameters())
        if self.average is None:
            self.average = copy.deepcopy(model.state_dict())
        for name, tensor in model.state_dict().items():
            if name in parameters:
                self.average[name].lerp_(tensor, 1 - self.decay)
            else:
                self.average[name].copy_(tensor)

    def copy_to(self, model):
        model.load_state_dict(self.average, assign=True)


def network(number=0):
    """A network with a parameter, a running mean and a counter, which hold numbers that depend on `number`."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        for i, tensor in enumerate(model.state_dict().values()):
            tensor.copy_(torch.full(tensor.shape, 10 * number + i) + torch.arange(tensor.numel()).reshape(tensor.shape))
    return model


def averaged(answer, decay, numbers):
    average = answer(decay)
    for number in numbers:
        average.update(network(number))
    target = network(50)
    average.copy_to(target)
    return target


@exercise.probe
def one_update(answer):
    return averaged(answer, 0.75, [1])


@exercise.probe
def three_updates(answer):
    return averaged(answer, 0.75, [1, 5, 2])


@exercise.probe
def a_long_memory(answer):
    return averaged(answer, 0.999, [1, 2, 3, 4])


@exercise.probe
def no_memory(answer):
    return averaged(answer, 0.0, [1, 2])


def trained(model, steps=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.tensor([[1.0, 2.0], [0.0, -1.0]])).sum().backward()
        optimizer.step()


@exercise.probe
def the_model_trains_on(answer):
    model, average, target = network(1), answer(0.5), network(2)
    average.update(model)
    trained(model, steps=3)
    average.copy_to(target)
    before = copy.deepcopy(target)
    average.update(model)
    average.copy_to(target)
    return before, target


@exercise.probe
def the_model_stays_as_it_is(answer):
    model, average = network(1), answer(0.5)
    model.eval()
    model[0].bias.requires_grad_(False)
    average.update(network(2))
    model(torch.ones(1, 2)).sum().backward()
    average.update(model)
    return model, [(parameter.requires_grad, parameter.grad) for parameter in model.parameters()]


@exercise.probe
def a_frozen_layer_and_evaluation(answer):
    average = answer(0.5)
    for number in (1, 2):
        model = network(number).eval()
        model[0].requires_grad_(False)
        average.update(model)
    target = network(9)
    average.copy_to(target)
    return target, [parameter.requires_grad for parameter in target.parameters()]


@exercise.probe
def the_target_trains_on(answer):
    average, target = answer(0.5), network(9)
    average.update(network(1))
    average.copy_to(target)
    trained(target, steps=3)
    average.copy_to(target)
    return target


@exercise.probe
def parameters_stay_the_same_objects(answer):
    average, target = answer(0.5), network(9)
    before = [id(parameter) for parameter in target.parameters()]
    average.update(network(1))
    average.copy_to(target)
    return before == [id(parameter) for parameter in target.parameters()]


def tensors_in(value, depth=0):
    """Every tensor that an object keeps in attributes, containers and modules."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
        yield from value.buffers()
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth + 1)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from tensors_in(item, depth + 1)


@exercise.probe
def nothing_is_recorded(answer):
    average, model = answer(0.5), network(1)
    for _ in range(3):
        average.update(model)
    return [tensor.grad_fn is None for tensor in tensors_in(vars(average))].count(False)


@exercise.probe
def two_averages(answer):
    first, second, target = answer(0.5), answer(0.75), network(9)
    for number in (1, 2, 3):
        first.update(network(number))
        second.update(network(2 * number))
    first.copy_to(target)
    return target

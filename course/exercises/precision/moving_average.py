"""Lesson 08: an average that moves."""

from __future__ import annotations

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "precision.moving_average",
    title="A bfloat16 average that moves",
    task="""
        `WeightAverage(model, decay)` keeps an exponential moving average of the parameters of a model, whatever their
        dtype, and starts at their values.

        - `update(model)`: each average becomes `decay * average + (1 - decay) * parameter`. After a thousand updates
          with `decay=0.999` towards a constant it must have covered 63 % of the way, also for a model in bfloat16.
        - `copy_to(model)`: write the averages into the parameters, in place, each in the parameter's own dtype. The
          averages go on afterwards as if nothing had happened.

        What is kept must not follow the model, and no graph may be kept. Buffers are not averaged.
        """,
    hints=(
        "0.001 of a weight is less than half a step of bfloat16. In which dtype do both the average and the sum have "
        "to be?",
        "Keep a float32 copy of each parameter, detached and cloned. `lerp_` with a float32 version of the parameter "
        "and the weight 1 - decay updates it; `copy_` casts back, and needs no_grad on a parameter.",
    ),
)


@exercise.stub
class WeightAverage:
    """A moving average of a model's parameters that moves in any dtype."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        raise NotImplementedError

    def update(self, model: nn.Module) -> None:
        """Move each average towards its parameter by the share 1 - decay."""
        raise NotImplementedError

    def copy_to(self, model: nn.Module) -> None:
        """Write the averages into the model's parameters, in their dtypes."""
        raise NotImplementedError


@exercise.reference
class InFloat32:
    def __init__(self, model, decay):
        self.decay = decay
        self.averages = [p.detach().to(torch.float32, copy=True) for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.lerp_(parameter.detach().float(), 1 - self.decay)

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


@exercise.alternative
class InFloat64ByName:
    def __init__(self, model, decay):
        self.decay = decay
        self.averages = {name: p.detach().double().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.averages[name] = self.decay * self.averages[name] + (1 - self.decay) * p.double()

    @torch.no_grad()
    def copy_to(self, model):
        for name, p in model.named_parameters():
            p.copy_(self.averages[name].to(p.dtype))


@exercise.alternative
class OneFlatVector:
    def __init__(self, model, decay):
        self.decay, self.vector = decay, self.read(model)

    def read(self, model):
        return torch.cat([p.detach().float().flatten() for p in model.parameters()])

    def update(self, model):
        self.vector = self.decay * self.vector + (1 - self.decay) * self.read(model)

    def copy_to(self, model):
        parts = self.vector.split([p.numel() for p in model.parameters()])
        for part, p in zip(parts, model.parameters()):
            p.detach().copy_(part.reshape(p.shape))


@exercise.wrong(
    "The average has the dtype of the parameter. In bfloat16 the small step towards the parameter rounds to nothing, "
    "and the average stays where it began.",
    fault="half-accumulator",
)
class InTheParametersDtype:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.detach().clone() for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.mul_(self.decay).add_(parameter.detach(), alpha=1 - self.decay)

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


@exercise.wrong(
    "The sum is computed in float32, and then stored in the parameter's dtype again. That last rounding takes away "
    "what the sum had gained: the store has to be float32 too.",
    fault="half-accumulator",
)
class RoundedBackEachTime:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.detach().clone() for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.copy_(average.float().lerp(parameter.detach().float(), 1 - self.decay))

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


@exercise.wrong(
    "The product `(1 - decay) * parameter` is computed in the parameter's dtype and rounded there. The average moves, "
    "and ends at a place that is off by up to half a step of bfloat16 and more. Cast first, multiply then.",
    fault="half-accumulator",
)
class MultipliedInHalf:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.detach().float().clone() for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.mul_(self.decay).add_((1 - self.decay) * parameter.detach())

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


@exercise.wrong(
    "`detach().float()` of a float32 tensor is that tensor: the average is the parameter itself and follows it. Clone "
    "it."
)
class FollowsAFloat32Model:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.detach().float() for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.lerp_(parameter.detach().float(), 1 - self.decay)

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


@exercise.wrong(
    "The weights are swapped: the average takes the share `decay` of the new value and nearly forgets its past."
)
class SwappedWeights:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.detach().float().clone() for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.lerp_(parameter.detach().float(), self.decay)

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


@exercise.wrong("The average starts at 0, not at the parameters' values. Early on it is far too small.")
class StartsAtZero:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [torch.zeros_like(p, dtype=torch.float32) for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.lerp_(parameter.detach().float(), 1 - self.decay)

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


@exercise.wrong(
    "`parameter.data = average` makes the parameter float32, and lets the model write into the average from then on. "
    "Copy the values in place.",
)
class HandsOutItsAverages:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.detach().float().clone() for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.lerp_(parameter.detach().float(), 1 - self.decay)

    def copy_to(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            parameter.data = average


@exercise.wrong(
    "The whole state_dict is averaged, with its buffers. The running statistics of BatchNorm were replaced as well, "
    "and the task leaves buffers alone."
)
class BuffersToo:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [t.float().clone() for t in model.state_dict().values()]

    def update(self, model):
        for average, tensor in zip(self.averages, model.state_dict().values()):
            average.lerp_(tensor.float(), 1 - self.decay)

    def copy_to(self, model):
        for average, tensor in zip(self.averages, model.state_dict().values()):
            tensor.copy_(average)


@exercise.wrong(
    "After copy_to the average goes on from the rounded parameters. In bfloat16 the small steps are lost again, as "
    "soon as someone looks at the average between them."
)
class GoesOnFromTheCopy:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.detach().float().clone() for p in model.parameters()]

    def update(self, model):
        for average, parameter in zip(self.averages, model.parameters()):
            average.lerp_(parameter.detach().float(), 1 - self.decay)

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)
                average.copy_(parameter)


@exercise.wrong(
    "Nothing is detached and no_grad is missing, so each update adds to a graph that reaches back to the first one. "
    "Memory grows with every step."
)
class KeepsTheGraph:
    def __init__(self, model, decay):
        self.decay, self.averages = decay, [p.float().clone() for p in model.parameters()]

    def update(self, model):
        pairs = zip(self.averages, model.parameters())
        self.averages = [average.lerp(parameter.float(), 1 - self.decay) for average, parameter in pairs]

    def copy_to(self, model):
        with torch.no_grad():
            for average, parameter in zip(self.averages, model.parameters()):
                parameter.copy_(average)


def network(dtype, norm=False):
    torch.manual_seed(8)
    layers = [nn.Linear(2, 3), nn.BatchNorm1d(3)] if norm else [nn.Linear(2, 3)]
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.fill_(1.0 + number)
    return model.to(dtype)


def move(model, by):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by)


def content(model):
    return [(str(t.dtype), t.detach().float().clone()) for t in model.state_dict().values()]


def covered(answer, dtype, steps, decay, by=1.0, norm=False):
    """Towards a constant: where the average is after some steps, read through copy_to."""
    model = network(dtype, norm)
    average = answer(model, decay)
    move(model, by)
    for _ in range(steps):
        average.update(model)
    average.copy_to(model)
    return content(model)


def graphs(kept):
    """How many tensors in what an object keeps belong to a graph."""
    if isinstance(kept, torch.Tensor):
        return int(kept.grad_fn is not None)
    if isinstance(kept, nn.Module):
        return sum(graphs(t) for t in kept.state_dict(keep_vars=True).values())
    if isinstance(kept, dict):
        return sum(graphs(value) for value in kept.values())
    return sum(graphs(value) for value in kept) if isinstance(kept, (list, tuple)) else 0


@exercise.probe
def no_graph_is_kept(answer):
    model = network(torch.float32)
    average = answer(model, 0.5)
    average.update(model)
    return graphs(vars(average)) == 0


@exercise.probe
def a_thousand_steps_in_bfloat16(answer):
    return covered(answer, torch.bfloat16, 1000, 0.999)


@exercise.probe
def a_few_steps_in_float32(answer):
    return covered(answer, torch.float32, 3, 0.5)


@exercise.probe
def no_update(answer):
    return covered(answer, torch.bfloat16, 0, 0.9)


@exercise.probe
def float16(answer):
    return covered(answer, torch.float16, 400, 0.998, by=0.25)


@exercise.probe
def read_in_float32(answer):
    """The averages of a bfloat16 model, read with float32 parameters: rounding on the way shows."""
    model, wide = network(torch.bfloat16), network(torch.float32)
    average = answer(model, 0.99)
    move(model, 0.3359375)
    for _ in range(50):
        average.update(model)
    average.copy_to(wide)
    return content(wide)


@exercise.probe
def buffers_stay(answer):
    model = network(torch.float32, norm=True)
    average = answer(model, 0.5)
    model[1].running_mean.fill_(5.0)
    move(model, 1.0)
    average.update(model)
    average.copy_to(model)
    return content(model)


@exercise.probe
def goes_on_after_a_copy(answer):
    model = network(torch.float32)
    average = answer(model, 0.5)
    states = []
    for _ in range(3):
        move(model, 1.0)
        average.update(model)
        average.copy_to(model)
        states.append(content(model))
    return states


@exercise.probe
def copies_between_small_steps_in_bfloat16(answer):
    model, target = network(torch.bfloat16), network(torch.bfloat16)
    average = answer(model, 0.99)
    move(model, 0.5)
    for _ in range(50):
        average.update(model)
        average.copy_to(target)
    return content(target)


@exercise.probe
def a_frozen_parameter(answer):
    model = network(torch.float32).requires_grad_(False)
    average = answer(model, 0.5)
    move(model, 1.0)
    average.update(model)
    move(model, 1.0)
    average.copy_to(model)
    return content(model)


@exercise.probe
def a_model_that_trains_on(answer):
    model = network(torch.bfloat16)
    average = answer(model, 0.5)
    parameters = [id(p) for p in model.parameters()]
    move(model, 2.0)
    average.update(model)
    move(model, 100.0)
    average.copy_to(model)
    model(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    same = parameters == [id(p) for p in model.parameters()]
    return content(model), same, all(p.is_leaf and p.requires_grad for p in model.parameters())

"""Lesson 05, build it: SGD with momentum, equal to torch's."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "training.sgd_momentum",
    title="Build it: SGD with momentum",
    task="""
        Write an optimizer that does what `torch.optim.SGD(parameters, lr, momentum)` does. For each parameter p with
        the gradient g, and a velocity v of its own that starts at 0:

        v becomes momentum · v + g, then p becomes p - lr · v

        - `MomentumSGD(parameters, lr, momentum)`: `parameters` may be a generator, as `model.parameters()` is. The
          attribute `lr` can be changed between steps, and holds from then on.
        - `zero_grad()` sets every `.grad` to None. `step()` changes the parameters in place; one whose `.grad` is None
          stays as it is, and so does its velocity.
        - Use tensor operations, not `torch.optim`.
        """,
    hints=(
        "A generator can be gone through once. And an update in place of a leaf that requires grad is refused while "
        "autograd records: lesson 02 has the way out.",
        "Make lists of parameters and of velocities (zeros_like). step() runs under torch.no_grad(), and changes v and "
        "p with the methods that end in an underscore. The learning rate multiplies v when p moves, and is no part of "
        "v.",
    ),
)


@exercise.stub
class MomentumSGD:
    """SGD with momentum: v <- momentum * v + g, p <- p - lr * v."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float) -> None:
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to None."""
        raise NotImplementedError

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        raise NotImplementedError


@exercise.reference
class VelocityOfEachParameter:
    def __init__(self, parameters, lr, momentum):
        self.parameters = list(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                p.sub_(self.lr * v)


@exercise.alternative
class VelocitiesByParameter:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = tuple(parameters), lr, momentum
        self.velocity = {}

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        for p in self.parameters:
            if p.grad is None:
                continue
            old = self.velocity.get(p)
            self.velocity[p] = p.grad.clone() if old is None else self.momentum * old + p.grad
            with torch.no_grad():
                p += -self.lr * self.velocity[p]


@exercise.wrong("The velocity is missing: each step follows the last gradient alone. This is plain SGD.")
class NoVelocity:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr = list(parameters), lr

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            if p.grad is not None:
                p.sub_(self.lr * p.grad)


@exercise.wrong(
    "The gradient is multiplied by 1 - momentum, as in a running average. torch's SGD adds the whole gradient; with "
    "its argument dampening it would do what you wrote."
)
class RunningAverage:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_((1 - self.momentum) * p.grad)
                p.sub_(self.lr * v)


@exercise.wrong(
    "The learning rate is part of the velocity here. While it is constant that is the same; after a schedule lowers "
    "it, the old velocity still moves with the old rate."
)
class RateInsideTheVelocity:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(self.lr * p.grad)
                p.sub_(v)


@exercise.wrong(
    "The result is a new tensor that replaces the parameter in the optimizer's own list. The model still holds the old "
    "one, and never moves.",
    fault="parameter-rebound",
)
class NewTensors:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for i, p in enumerate(self.parameters):
            if p.grad is not None:
                self.velocities[i] = self.momentum * self.velocities[i] + p.grad
                p = p - self.lr * self.velocities[i]


@exercise.wrong(
    "autograd records this update, and refuses it: a parameter is a leaf that requires grad. Optimizers step under "
    "torch.no_grad().",
    fault="inplace-on-leaf",
)
class RecordedUpdate:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                p.add_(v, alpha=-self.lr)


@exercise.wrong(
    "The parameters are not kept in a list. model.parameters() is a generator: it is used up after the first walk "
    "through it, and from then on there is nothing to update."
)
class UsedUpGenerator:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = iter(parameters), lr, momentum
        self.velocity = {}

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            if p.grad is not None:
                self.velocity[p] = self.momentum * self.velocity.get(p, 0) + p.grad
                p.sub_(self.lr * self.velocity[p])


@exercise.wrong(
    "Parameters without a gradient are not skipped: None cannot be added. A frozen or unused parameter has no "
    "gradient, and that is no error."
)
class NoneNotSkipped:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            v.mul_(self.momentum)
            v.add_(p.grad)
            p.sub_(self.lr * v)


@exercise.wrong(
    "The velocity is the live gradient tensor, not a copy. zero_grad() or the next backward() changes it behind your "
    "back, and changing it changes .grad."
)
class VelocityIsTheGradient:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocity = {}

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            if p.grad is not None:
                self.velocity[p] = p.grad.add_(self.momentum * self.velocity.get(p, 0))
                p.sub_(self.lr * self.velocity[p])


@exercise.wrong("The parameters move along the gradient, uphill: the loss grows. Subtract the velocity.")
class Uphill:
    def __init__(self, parameters, lr, momentum):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                p.add_(self.lr * v)


@exercise.wrong(
    "The first velocity is the gradient tensor itself, not a copy. If the next backward() adds to it, because nobody "
    "called zero_grad(), it changes the velocity behind your back."
)
class FirstGradientItself(VelocityOfEachParameter):
    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, lr, momentum)
        self.velocity = {}

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            if p.grad is not None:
                old = self.velocity.get(p)
                self.velocity[p] = p.grad if old is None else self.momentum * old + p.grad
                p.sub_(self.lr * self.velocity[p])


@exercise.wrong(
    "The velocities are kept by shape, so two parameters of the same shape share one. Every parameter has a velocity "
    "of its own."
)
class OneForEachShape(VelocityOfEachParameter):
    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, lr, momentum)
        by_shape = {p.shape: torch.zeros_like(p) for p in self.parameters}
        self.velocities = [by_shape[p.shape] for p in self.parameters]


@exercise.wrong(
    "The parameter gets new memory at each step. The object is the same, so the model trains, but whatever shares its "
    "memory, such as a NumPy array or a view that was taken before, keeps the old values. Change it in place.",
    fault="data-bypasses-autograd",
)
class NewMemory(VelocityOfEachParameter):
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                p.data = p.data - self.lr * v


@exercise.wrong(
    "The velocities are float32, whatever dtype the parameters have. In float64 most of the digits are lost: make them "
    "with zeros_like."
)
class VelocityInSinglePrecision(VelocityOfEachParameter):
    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, lr, momentum)
        self.velocities = [torch.zeros(p.shape) for p in self.parameters]


@exercise.wrong(
    "Recording is switched off by hand and on again at the end. If it was off before, the caller gets a graph from "
    "then on. The context manager torch.no_grad() restores what was there."
)
class RecordingSwitchedOn(VelocityOfEachParameter):
    def step(self):
        torch.set_grad_enabled(False)
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                p.sub_(self.lr * v)
        torch.set_grad_enabled(True)


def network():
    torch.manual_seed(8)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


INPUTS = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]])


def backward(model, factor=1.0):
    (factor * model(INPUTS) - 1).square().mean().backward()


def state(model):
    return [p.detach().clone() for p in model.parameters()]


@exercise.probe
def two_steps(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.1, 0.9)
    states = []
    for _ in range(2):
        optimizer.zero_grad()
        backward(model)
        optimizer.step()
        states.append(state(model))
    return states


@exercise.probe
def a_list_of_parameters(answer):
    model = network()
    optimizer = answer(list(model.parameters()), 0.25, 0.5)
    for factor in (1.0, 2.0, 0.5):
        optimizer.zero_grad()
        backward(model, factor)
        optimizer.step()
    return state(model)


@exercise.probe
def the_rate_changes(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.2, 0.9)
    for lr in (0.2, 0.02, 0.1):
        optimizer.lr = lr
        optimizer.zero_grad()
        backward(model)
        optimizer.step()
    return state(model)


@exercise.probe
def a_frozen_layer(answer):
    model = network()
    model[0].requires_grad_(False)
    optimizer = answer(model.parameters(), 0.1, 0.9)
    for _ in range(2):
        optimizer.zero_grad()
        backward(model)
        optimizer.step()
    return state(model)


@exercise.probe
def gradients_are_left_alone_by_a_step(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.1, 0.9)
    for _ in range(2):
        optimizer.zero_grad()
        backward(model)
        optimizer.step()
    return [p.grad.clone() for p in model.parameters()]


@exercise.probe
def zero_grad_leaves_none(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.1, 0.9)
    backward(model)
    optimizer.zero_grad()
    return [p.grad is None for p in model.parameters()]


@exercise.probe
def a_gradient_that_is_missing_once(answer):
    p, q = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([3.0]))
    optimizer = answer([p, q], 0.1, 0.5)
    for uses_both in (True, False, True):
        optimizer.zero_grad()
        (p.square().sum() + (q.square().sum() if uses_both else 0)).backward()
        optimizer.step()
    return p.detach(), q.detach()


@exercise.probe
def gradients_that_add_up(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.1, 0.5)
    for _ in range(3):
        backward(model)
        optimizer.step()
    return state(model)


@exercise.probe
def parameters_of_the_same_shape(answer):
    p, q = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([3.0, -1.0]))
    optimizer = answer([p, q], 0.1, 0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (p.square().sum() + 2 * q.square().sum()).backward()
        optimizer.step()
    return p.detach(), q.detach()


@exercise.probe
def a_view_of_a_parameter(answer):
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    view, optimizer = p.detach(), answer([p], 0.1, 0.5)
    p.square().sum().backward()
    optimizer.step()
    return view


@exercise.probe
def double_precision(answer):
    seen = []
    for optimizer in (answer, torch.optim.SGD):
        p = nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
        made = optimizer([p], 0.1, 0.9)
        for step in range(3):
            made.zero_grad()
            (p * (step + 0.1)).sin().sum().backward()
            made.step()
        seen.append(p.detach())
    return torch.allclose(*seen, rtol=1e-10, atol=0.0)


@exercise.probe
def recording_is_left_as_it_was(answer):
    model, modes = network(), []
    optimizer = answer(model.parameters(), 0.1, 0.9)
    backward(model)
    for recording in (False, True):
        with torch.set_grad_enabled(recording):
            optimizer.step()
            modes.append(torch.is_grad_enabled())
    return modes

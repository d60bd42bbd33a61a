"""Lesson 05, build it: Adam, equal to torch's."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "training.adam",
    title="Build it: Adam",
    task="""
        Write an optimizer that does what `torch.optim.Adam(parameters, lr, betas, eps)` does. For each parameter p with
        the gradient g, in step t = 1, 2, 3, ... (m and v start at 0, `betas` is the pair b1, b2):

        m becomes b1 · m + (1 - b1) · g, and v becomes b2 · v + (1 - b2) · g²

        p becomes p - lr · m̂ / (√v̂ + eps), where m̂ = m / (1 - b1ᵗ) and v̂ = v / (1 - b2ᵗ)

        `zero_grad()` sets every `.grad` to None. A parameter never has a gradient or always has one; one without stays
        as it is. Use tensor operations, not `torch.optim`.
        """,
    hints=(
        "Without the two corrections m and v are too small in the first steps, because they start at 0. Which t has "
        "the first step?",
        "Count the steps once for each call of step(), before the loop over the parameters. Keep m and v as running "
        "sums without the corrections; these are made anew at each step. eps stands outside of the root.",
    ),
    rtol=1e-4,
    atol=1e-6,
)


@exercise.stub
class PlainAdam:
    """Adam: steps of about lr in each coordinate, from running means of the gradient and of its square."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], eps: float) -> None:
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Set the gradient of every parameter to None."""
        raise NotImplementedError

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        raise NotImplementedError


@exercise.reference
class TwoRunningMeans:
    def __init__(self, parameters, lr, betas, eps):
        self.parameters = list(parameters)
        self.lr, self.eps = lr, eps
        self.b1, self.b2 = betas
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.parameters]
        self.t = 0

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p, (m, v) in zip(self.parameters, self.moments):
            if p.grad is not None:
                m.mul_(self.b1).add_((1 - self.b1) * p.grad)
                v.mul_(self.b2).add_((1 - self.b2) * p.grad**2)
                root = (v / (1 - self.b2**self.t)).sqrt()
                p.sub_(self.lr * m / (1 - self.b1**self.t) / (root + self.eps))


@exercise.alternative
class StateByParameter:
    def __init__(self, parameters, lr, betas, eps):
        self.parameters, self.lr, self.betas, self.eps = list(parameters), lr, betas, eps
        self.state = {p: (0, torch.zeros_like(p), torch.zeros_like(p)) for p in self.parameters}

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        b1, b2 = self.betas
        with torch.no_grad():
            for p in self.parameters:
                if p.grad is None:
                    continue
                t, m, v = self.state[p]
                t, m, v = t + 1, torch.lerp(p.grad, m, b1), b2 * v + (1 - b2) * p.grad.square()
                self.state[p] = (t, m, v)
                p.addcdiv_(m / (1 - b1**t), (v / (1 - b2**t)).sqrt() + self.eps, value=-self.lr)


class _Adam:
    """What the wrong answers share; each overrides what it gets wrong."""

    def __init__(self, parameters, lr, betas, eps):
        self.parameters, self.lr, self.eps = list(parameters), lr, eps
        self.b1, self.b2 = betas
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.t = 0

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p, m, v in zip(self.parameters, self.means, self.squares):
            if p.grad is not None:
                m.mul_(self.b1).add_((1 - self.b1) * p.grad)
                v.mul_(self.b2).add_((1 - self.b2) * p.grad**2)
                self.move(p, m, v)


@exercise.wrong(
    "The corrections are missing. m and v start at 0 and are far too small at first; because v is smaller still, the "
    "first steps are several times too long."
)
class NoCorrections(_Adam):
    def move(self, p, m, v):
        p.sub_(self.lr * m / (v.sqrt() + self.eps))


@exercise.wrong("eps stands inside the root. There it acts like its root, thousands of times larger than it is meant.")
class EpsInsideTheRoot(_Adam):
    def move(self, p, m, v):
        root = (v / (1 - self.b2**self.t) + self.eps).sqrt()
        p.sub_(self.lr * m / (1 - self.b1**self.t) / root)


@exercise.wrong(
    "The corrections are those of the first step in every step. They have to fade: the exponent is the number of the "
    "step."
)
class CorrectionsOfTheFirstStep(_Adam):
    def move(self, p, m, v):
        p.sub_(self.lr * m / (1 - self.b1) / ((v / (1 - self.b2)).sqrt() + self.eps))


@exercise.wrong(
    "The root is missing: the step is divided by the mean square, not by its root, so that small gradients make "
    "enormous steps."
)
class NoRoot(_Adam):
    def move(self, p, m, v):
        p.sub_(self.lr * m / (1 - self.b1**self.t) / (v / (1 - self.b2**self.t) + self.eps))


@exercise.wrong("The last gradient is used in place of its running mean m. That is RMSprop with a correction.")
class GradientInPlaceOfItsMean(_Adam):
    def move(self, p, m, v):
        p.sub_(self.lr * p.grad / ((v / (1 - self.b2**self.t)).sqrt() + self.eps))


@exercise.wrong(
    "The steps are counted from 0. Then 1 - b**t is 0 in the first step, the result is NaN or infinite, and with it "
    "all the parameters.",
    fault="division-by-zero",
)
class CountedFromZero(_Adam):
    def move(self, p, m, v):
        t = self.t - 1
        root = (v / torch.tensor(1 - self.b2**t)).sqrt()
        p.sub_(self.lr * m / torch.tensor(1 - self.b1**t) / (root + self.eps))


@exercise.wrong(
    "The count goes up once for each parameter, not once a step: later parameters get the corrections of later steps."
)
class CountedForEachParameter(_Adam):
    def move(self, p, m, v):
        root = (v / (1 - self.b2**self.t)).sqrt()
        p.sub_(self.lr * m / (1 - self.b1**self.t) / (root + self.eps))
        self.t += 1


@exercise.wrong(
    "The two betas are exchanged: the first belongs to the mean of g, the second to the mean of its square."
)
class BetasExchanged(_Adam):
    def __init__(self, parameters, lr, betas, eps):
        super().__init__(parameters, lr, betas[::-1], eps)

    def move(self, p, m, v):
        root = (v / (1 - self.b2**self.t)).sqrt()
        p.sub_(self.lr * m / (1 - self.b1**self.t) / (root + self.eps))


@exercise.wrong(
    "The running means are kept by shape, so two parameters of the same shape share them. Every parameter has an m and "
    "a v of its own."
)
class OneForEachShape(_Adam):
    def __init__(self, parameters, lr, betas, eps):
        super().__init__(parameters, lr, betas, eps)
        by_shape = {p.shape: (m, v) for p, m, v in zip(self.parameters, self.means, self.squares)}
        self.means = [by_shape[p.shape][0] for p in self.parameters]
        self.squares = [by_shape[p.shape][1] for p in self.parameters]

    def move(self, p, m, v):
        root = (v / (1 - self.b2**self.t)).sqrt()
        p.sub_(self.lr * m / (1 - self.b1**self.t) / (root + self.eps))


@exercise.wrong(
    "The running means are float32, whatever dtype the parameters have. In float64 most of the digits are lost: make "
    "them with zeros_like."
)
class MeansInSinglePrecision(_Adam):
    def __init__(self, parameters, lr, betas, eps):
        super().__init__(parameters, lr, betas, eps)
        self.means = [torch.zeros(p.shape) for p in self.parameters]
        self.squares = [torch.zeros(p.shape) for p in self.parameters]

    def move(self, p, m, v):
        root = (v / (1 - self.b2**self.t)).sqrt()
        p.sub_(self.lr * m / (1 - self.b1**self.t) / (root + self.eps))


@exercise.wrong(
    "The running means carry a graph: they were made from the parameters outside of no_grad, and every step adds a "
    "node. Memory grows from step to step, and nobody will ever go backward through it.",
    fault="graph-retained-in-log",
)
class MeansWithAGraph(_Adam):
    def __init__(self, parameters, lr, betas, eps):
        super().__init__(parameters, lr, betas, eps)
        self.means = [p * 0 for p in self.parameters]
        self.squares = [p * 0 for p in self.parameters]

    def step(self):
        self.t += 1
        for i, p in enumerate(self.parameters):
            if p.grad is not None:
                self.means[i] = self.b1 * self.means[i] + (1 - self.b1) * p.grad
                self.squares[i] = self.b2 * self.squares[i] + (1 - self.b2) * p.grad**2
                with torch.no_grad():
                    root = (self.squares[i] / (1 - self.b2**self.t)).sqrt()
                    p.sub_(self.lr * self.means[i] / (1 - self.b1**self.t) / (root + self.eps))


def network():
    torch.manual_seed(9)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


INPUTS = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]])


def states(answer, lr, betas, eps, steps, model=None):
    """The parameters after each step."""
    model = network() if model is None else model
    optimizer = answer(model.parameters(), lr, betas, eps)
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        ((1 + step) * model(INPUTS) - 1).square().mean().backward()
        optimizer.step()
        seen.append([p.detach().clone() for p in model.parameters()])
    return seen


@exercise.probe
def the_first_step(answer):
    return states(answer, 0.1, (0.9, 0.999), 1e-8, steps=1)


@exercise.probe
def five_steps(answer):
    return states(answer, 0.05, (0.8, 0.95), 1e-8, steps=5)


@exercise.probe
def a_large_eps(answer):
    return states(answer, 0.1, (0.9, 0.99), 0.5, steps=3)


@exercise.probe
def a_frozen_layer(answer):
    model = network()
    model[0].requires_grad_(False)
    return states(answer, 0.1, (0.9, 0.99), 1e-4, steps=2, model=model)


@exercise.probe
def zero_grad_leaves_none(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.1, (0.9, 0.99), 1e-8)
    model(INPUTS).sum().backward()
    optimizer.zero_grad()
    return [p.grad is None for p in model.parameters()]


@exercise.probe
def gradients_are_left_alone_by_a_step(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.1, (0.9, 0.99), 1e-8)
    model(INPUTS).sum().backward()
    optimizer.step()
    return [p.grad.clone() for p in model.parameters()]


@exercise.probe
def parameters_of_the_same_shape(answer):
    torch.manual_seed(10)
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    return states(answer, 0.1, (0.9, 0.99), 1e-8, steps=3, model=model)


@exercise.probe
def double_precision(answer):
    seen = []
    for optimizer in (answer, torch.optim.Adam):
        p = nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
        made = optimizer([p], 0.1, (0.9, 0.99), 1e-8)
        for step in range(3):
            made.zero_grad()
            (p * (step + 0.1)).sin().sum().backward()
            made.step()
        seen.append(p.detach())
    return torch.allclose(*seen, rtol=1e-10, atol=0.0)


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in([*value.keys(), *value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


@exercise.probe
def no_graph_is_kept(answer):
    model = network()
    optimizer = answer(model.parameters(), 0.1, (0.9, 0.99), 1e-8)
    for _ in range(2):
        optimizer.zero_grad()
        model(INPUTS).square().mean().backward()
        optimizer.step()
    return any(tensor.grad_fn is not None for tensor in tensors_in(vars(optimizer)))

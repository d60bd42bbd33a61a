"""Small exercises of every kind, for the tests of the checking machinery itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import ChoiceExercise, Exercise, ValueExercise, no_call, no_python_loop
from course.checking.steps import watched_steps

HINTS = ("A direction.", "Nearly there.")


def text(title: str) -> dict[str, object]:
    return {"title": title, "task": f"{title}.", "hints": HINTS}


flatten = Exercise("demo.flatten", **text("Flatten"), compare=("value", "shape", "dtype", "sharing"))


@flatten.stub
def flatten_elements(x: Tensor) -> Tensor:
    """Return the elements in row-major order."""
    raise NotImplementedError


@flatten.reference
def by_reshape(x):
    return x.reshape(-1)


@flatten.alternative
def by_contiguous_view(x):
    return x.contiguous().view(-1)


@flatten.wrong("view() re-labels memory.", fault="view-of-noncontiguous")
def view_only(x):
    return x.view(-1)


@flatten.wrong("clone() always copies.")
def always_copies(x):
    return x.clone().reshape(-1)


@flatten.probe
def transposed():
    return torch.arange(6).reshape(2, 3).t()


@flatten.probe
def row_major():
    return torch.arange(8.0).reshape(2, 4)


total = Exercise(
    "demo.total", **text("Total"), compare=("value", "gradients"), requires=(no_python_loop, no_call("cumsum"))
)


@total.stub
def total_of(x: Tensor, weight: float = 1.0) -> Tensor:
    raise NotImplementedError


@total.reference
def by_sum(x, weight=1.0):
    return weight * x.sum()


@total.wrong("A loop is slow.")
def by_loop(x, weight=1.0):
    result = torch.zeros(())
    for item in x:
        result = result + weight * item
    return result


@total.wrong("detach() cuts the graph.")
def detached(x, weight=1.0):
    return weight * x.detach().sum()


@total.probe
def three_numbers():
    return torch.tensor([1.0, -2.0, 4.0], requires_grad=True)


@total.probe
def weighted():
    return torch.tensor([1.0, -2.0, 4.0], requires_grad=True), 0.5


strides = ValueExercise("demo.strides", **text("Strides"), name="strides", expects="a tuple of two integers")


@strides.reference
def row_major_strides():
    return (4, 1)


@strides.wrong("Those are column-major strides.")
def column_major_strides():
    return (1, 4)


choice = ChoiceExercise(
    "demo.choice",
    **text("Choice"),
    name="choice",
    choices={"a": "one", "b": "two", "c": "three"},
    right="b",
    wrong={"a": "Too few.", "c": "Too many."},
    faults={"a": "uint8-overflow"},
)

scaled = Exercise("demo.scaled", **text("A module with a scale"))


@scaled.stub
class Scaled(nn.Module):
    """Multiplies its input by a learnable scale that starts at one."""

    def __init__(self):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


@scaled.reference
class WithParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * x


@scaled.wrong("A plain tensor is no parameter.", fault="tensor-not-buffer")
class WithTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(())

    def forward(self, x):
        return self.scale * x


@scaled.wrong("forward() reads a scale that nothing has set.")
class WithoutScale(nn.Module):
    def forward(self, x):
        return self.scale * x


@scaled.probe
def registered_names(answer):
    return [name for name, _ in answer().named_parameters()]


@scaled.probe
def forward_of_numbers(answer):
    return answer()(torch.arange(3.0))


coin = Exercise("demo.coin", **text("A fair coin"), random=True)


@coin.stub
def flip(n: int) -> Tensor:
    raise NotImplementedError


@coin.reference
def by_randint(n):
    return torch.randint(2, (n,))


@coin.wrong("The coin is not fair.")
def biased(n):
    return (torch.rand(n) < 0.6).long()


@coin.probe
def mean_of_many(answer):
    flips = answer(10_000).float()
    # Six standard deviations of the mean of 10,000 fair flips.
    return abs(flips.mean().item() - 0.5) < 6 * 0.5 / 100, sorted(set(flips.tolist()))


train_step = Exercise("demo.train_step", **text("One training step"))


@train_step.stub
def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    raise NotImplementedError


@train_step.reference
def zero_backward_clip_step(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


@train_step.alternative
def step_then_zero(model, optimizer, x, y):
    nn.functional.mse_loss(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


@train_step.wrong("Gradients add up.", fault="missing-zero-grad")
def never_zeroed(model, optimizer, x, y):
    nn.functional.mse_loss(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


@train_step.wrong("Clipping comes before step().", fault="clip-after-step")
def clip_after_step(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


@train_step.wrong("zero_grad() wipes the gradients before step().", fault="zero-grad-before-step")
def zero_before_step(model, optimizer, x, y):
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.zero_grad()
    optimizer.step()


@train_step.probe
def two_steps(answer):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[5.0], [-7.0]])
    with watched_steps(model, optimizer) as record:
        answer(model, optimizer, x, y)
        answer(model, optimizer, -2 * x.flip(1), y)
    order = [event for event in record.events if event != "zero_grad"]
    return order, [p.detach().clone() for p in model.parameters()]


DEMOS = [flatten, total, strides, choice, scaled, coin, train_step]

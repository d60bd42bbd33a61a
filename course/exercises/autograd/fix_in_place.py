"""Lesson 02: repair an in-place bug without giving up the memory that in-place operations save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from course.checking import Exercise
from course.exercises.autograd._graphs import numbers

exercise = Exercise(
    "autograd.fix_in_place",
    title="Fix the in-place bug, and no more",
    task="""
        `gated_loss(x, w, b)` takes `x`, shape `(N, D)`, `w`, shape `(D, K)`, and `b`, shape `(K,)`. It saves memory by
        working in place, and its value is right. But `backward()` of its result raises. Repair it:

        - value and gradients (of `x`, `w` and `b`) are those of the formula in its docstring;
        - the forward pass makes at most six new tensors of shape `(N, K)`, the square at the end counted: one more than
          now. Operations that do no harm in place stay in place; replacing all of them, or cloning before each, makes
          more.

        Run the cell as it is and call `backward()` first. The message says of which operation a result was
        overwritten.
        """,
    hints=(
        "For each in-place line ask: does an earlier operation need, for its derivative, the number that is "
        "overwritten here? The result of a matrix product is not needed by the product. Is the result of tanh?",
        "The derivative of tanh is 1 - tanh ** 2, so tanh keeps its result; sigmoid does as well. A product keeps its "
        "two factors. Only one of the three in-place lines writes into something that is kept.",
    ),
)


@exercise.stub
def gated_loss(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Return the mean of (2 * tanh(h) * sigmoid(h) - 1) ** 2, where h = x @ w + b; shape ()."""
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h)
    act *= 2
    out = act * gate
    out -= 1
    return out.square().mean()


@exercise.reference
def by_one_new_tensor(x, w, b):
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h)
    out = 2 * act * gate
    out -= 1
    return out.square().mean()


@exercise.alternative
def by_doubling_the_product(x, w, b):
    h = x @ w
    h += b
    out = torch.tanh(h) * torch.sigmoid(h)
    out *= 2
    out -= 1
    return out.square().mean()


@exercise.alternative
def by_one_clone(x, w, b):
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h).clone()
    act *= 2
    out = act * gate
    out -= 1
    return (out**2).mean()


@exercise.wrong(
    ".data hides the write from autograd: no error any more, but backward computes with the overwritten numbers, and "
    "the gradients are wrong. The error was the better of the two.",
    fault="data-bypasses-autograd",
)
def hidden_by_data(x, w, b):
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h)
    act.data *= 2
    out = act * gate
    out -= 1
    return out.square().mean()


@exercise.wrong(
    "This silences the error by cutting tanh off the graph. The value is right; the gradient lacks the path through "
    "tanh.",
    fault="graph-cut",
)
def tanh_detached(x, w, b):
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h).detach()
    act *= 2
    out = act * gate
    out -= 1
    return out.square().mean()


@exercise.wrong(
    "All in-place operations are gone. Value and gradients are right, but the forward pass makes more new tensors "
    "than allowed. Two of the three in-place lines do no harm."
)
def nothing_in_place(x, w, b):
    h = x @ w
    h = h + b
    gate = torch.sigmoid(h)
    act = torch.tanh(h)
    act = act * 2
    out = act * gate
    out = out - 1
    return out.square().mean()


@exercise.wrong(
    "A clone before each in-place line costs what the in-place lines were to save. Find the one line whose target is "
    "kept for backward."
)
def cloned_before_each(x, w, b):
    h = (x @ w).clone()
    h += b
    gate = torch.sigmoid(h).clone()
    act = torch.tanh(h).clone()
    act *= 2
    out = (act * gate).clone()
    out -= 1
    return out.square().mean()


@exercise.wrong(
    "The line that raised is gone, and the factor 2 with it. The value has changed.",
)
def without_doubling(x, w, b):
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h)
    out = act * gate
    out -= 1
    return out.square().mean()


@exercise.wrong(
    "no_grad does not help here: the write still changes the tensor that tanh has kept, its version counter says so, "
    "and backward refuses. And a doubling that autograd does not see would be missing in the gradient.",
    fault="inplace-on-saved",
)
def under_no_grad(x, w, b):
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h)
    with torch.no_grad():
        act *= 2
    out = act * gate
    out -= 1
    return out.square().mean()


@exercise.wrong(
    "The doubling has moved to the gate, and the trouble with it: sigmoid keeps its result just as tanh does. Look for "
    "a tensor that nothing has kept.",
    fault="inplace-on-saved",
)
def gate_doubled(x, w, b):
    h = x @ w
    h += b
    gate = torch.sigmoid(h)
    act = torch.tanh(h)
    gate *= 2
    out = act * gate
    out -= 1
    return out.square().mean()


class _NewTensors(TorchFunctionMode):
    """Counts the pieces of memory that operations make for results of one size."""

    def __init__(self, numel: int) -> None:
        super().__init__()
        self.numel = numel
        self.kept: dict[int, Tensor] = {}  # kept, so that no memory is used twice

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.numel() == self.numel:
            place = result.untyped_storage().data_ptr()
            if place not in known:
                self.kept.setdefault(place, result)
        return result


ALLOWED = 6


def observed(answer: Callable[..., Tensor], x: Tensor, w: Tensor, b: Tensor) -> dict[str, object]:
    before = [t.clone() for t in (x, w, b)]
    leaves = [t.requires_grad_() for t in (x, w, b)]
    with _NewTensors(x.shape[0] * w.shape[1]) as new:
        loss = answer(*leaves)
    loss.backward()
    made = len(new.kept)
    return {
        "value": loss.detach(),
        "gradients": [t.grad for t in leaves],
        "inputs unchanged": all(map(torch.equal, before, leaves)),
        "new tensors of shape (N, K), the square counted": f"at most {ALLOWED}" if made <= ALLOWED else str(made),
    }


@exercise.probe
def small_numbers(answer):
    return observed(answer, numbers(3, 2), numbers(2, 5, start=4.0), numbers(5, start=6.0))


@exercise.probe
def larger_numbers(answer):
    return observed(answer, 3 * numbers(5, 4, start=2.0), 2 * numbers(4, 6, start=7.0), numbers(6, start=3.0))


@exercise.probe
def one_row(answer):
    return observed(answer, numbers(1, 3, start=9.0), numbers(3, 2, start=8.0), numbers(2, start=5.0))


@exercise.probe
def no_bias(answer):
    return observed(answer, numbers(4, 3, start=1.0), numbers(3, 7, start=2.0), torch.zeros(7, dtype=torch.float64))

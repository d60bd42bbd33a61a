"""Lesson 02: the gradient of any scalar function, without a trace left behind."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import grad

from course.checking import Exercise
from course.exercises.autograd._graphs import numbers

exercise = Exercise(
    "autograd.gradient_of",
    title="The gradient of any function",
    task="""
        `gradient_of(f, x)` takes a function `f` from a tensor to a tensor without axes, built from differentiable
        operations, and a floating tensor `x` of any shape. It returns the gradient of `f` at `x`: shape and dtype of
        `x`, not attached to a graph. It is exact, not a difference quotient.

        The call leaves no trace:

        - `x` keeps its `requires_grad` and its `.grad`, whatever they were, and `x` may be a leaf or a result;
        - `f` may use parameters of its own, and their `.grad` stays as it was;
        - `f` is called once, and the numbers of `x` are not copied: what `f` gets shares the memory of `x`.

        Example: for `f = lambda v: (v ** 2).sum()` and `x = [1, 2]` the result is `[2, 4]`.
        """,
    hints=(
        "You need a leaf that has the numbers of x and is not x. Which method gives a tensor without history that "
        "shares memory?",
        "backward() adds to .grad of every leaf that it meets, those inside f too. torch.autograd.grad returns the "
        "gradients that you ask for, as a tuple, and touches no .grad.",
    ),
)


@exercise.stub
def gradient_of(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the gradient of the scalar function f at x, shape and dtype of x, without a graph.

    x, its .grad and the .grad of what f uses stay as they are; f is called once, on the memory of x."""
    raise NotImplementedError


@exercise.reference
def by_grad_of_a_new_leaf(f, x):
    leaf = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(f(leaf), leaf)
    return gradient


@exercise.alternative
def by_backward_into_one_leaf(f, x):
    leaf = x.detach()
    leaf.requires_grad = True
    f(leaf).backward(inputs=[leaf])
    return leaf.grad


@exercise.alternative
def by_vector_jacobian_product(f, x):
    leaf = x.detach().requires_grad_(True)
    value = f(leaf)
    (gradient,) = torch.autograd.grad(value, [leaf], grad_outputs=torch.ones_like(value))
    return gradient


@exercise.alternative
def by_torch_func(f, x):
    return grad(f)(x.detach()).detach()


@exercise.wrong(
    "This works on x itself: x starts to require gradients, and .grad returns what was there before plus the new "
    "gradient. If x is a result of other operations it has no .grad at all. Use a leaf of your own.",
    fault="nonleaf-parameter",
)
def by_backward_on_x(f, x):
    x.requires_grad_()
    f(x).backward()
    return x.grad


@exercise.wrong(
    "The gradient with respect to x is right, but backward() also adds to .grad of every other leaf that f uses: "
    "somebody's parameters now hold a gradient that they did not ask for."
)
def by_backward_into_all_leaves(f, x):
    leaf = x.detach().requires_grad_()
    f(leaf).backward()
    return leaf.grad


@exercise.wrong(
    "The result still hangs on a graph, as create_graph=True asks for, and as torch.func does where f uses parameters: "
    "it keeps everything alive that was saved on the way. That is needed for second derivatives only."
)
def with_a_graph(f, x):
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf, create_graph=True)[0]


@exercise.wrong(
    "The numbers of x are copied before f sees them, which for a large x costs as much memory again. detach() alone "
    "gives a tensor without history over the same memory."
)
def of_a_copy(f, x):
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf)[0]


@exercise.wrong(
    "This is a difference quotient: it calls f once for each element and more, and is right to a few digits only. "
    "Autograd gives the exact derivative from one call."
)
def by_difference_quotient(f, x):
    step, at_x, start = 1e-3, f(x.detach()), x.detach().flatten()
    moved = start + step * torch.eye(len(start), dtype=x.dtype)
    return torch.stack([(f(row.reshape(x.shape)) - at_x).detach() / step for row in moved]).reshape(x.shape)


@exercise.wrong("This has the opposite sign: it is the direction in which f falls, not its gradient.")
def direction_of_descent(f, x):
    leaf = x.detach().requires_grad_()
    return -torch.autograd.grad(f(leaf), leaf)[0]


def memory(tensor: Tensor) -> int | None:
    """Where a tensor's numbers lie; None for the wrappers of torch.func, which do not tell."""
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return None


def observed(answer: Callable[..., Tensor], x: Tensor) -> dict[str, object]:
    """The gradient of a function without symmetry, and everything that the call may have touched."""
    weight = numbers(*x.shape, start=3.0).to(x.dtype).requires_grad_()
    calls, places, before = [], [], x.detach().clone()

    def f(v: Tensor) -> Tensor:
        calls.append(v.shape)
        places.append(memory(v) in (memory(x), None))
        return (weight * v.exp() + v**3 * v.sin()).sum()

    gradient = answer(f, x)
    return {
        "gradient": gradient.detach(),
        "the result has a graph": gradient.requires_grad,
        "x as before": torch.equal(x.detach(), before),
        "x.requires_grad": x.requires_grad,
        "x.grad": x.grad if x.is_leaf else None,
        "weight.grad": weight.grad,
        "calls of f": len(calls),
        "f saw the memory of x": all(places),
    }


@exercise.probe
def plain_tensor(answer):
    return observed(answer, numbers(3))


@exercise.probe
def matrix_in_single_precision(answer):
    return observed(answer, numbers(2, 3, start=4.0).float())


@exercise.probe
def leaf_that_holds_a_gradient(answer):
    x = numbers(2, start=5.0).requires_grad_()
    x.grad = torch.tensor([10.0, 20.0], dtype=torch.float64)
    return observed(answer, x)


@exercise.probe
def result_of_other_operations(answer):
    return observed(answer, numbers(2, start=6.0).requires_grad_() * 2)


@exercise.probe
def without_axes(answer):
    return observed(answer, numbers(1, start=2.0)[0])

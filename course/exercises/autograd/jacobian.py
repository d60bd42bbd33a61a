"""Lesson 02: a Jacobian from vector-Jacobian products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from course.checking import Exercise
from course.exercises.autograd._graphs import numbers

exercise = Exercise(
    "autograd.jacobian",
    title="A Jacobian, row by row",
    task="""
        `jacobian(f, x)` takes a function `f` from a tensor of shape `(n,)` to a tensor of shape `(m,)`, and `x`,
        floating, shape `(n,)`. It returns the matrix of all partial derivatives at `x`, shape `(m, n)`, the dtype of
        `x`, without a graph: `J[i, j]` is the derivative of `f(x)[i]` with respect to `x[j]`.

        `f` is expensive: call it once. `x` keeps its `requires_grad` and its `.grad`.

        Example: for `f = lambda v: torch.stack([v[0] * v[1], v[1], v.sum()])` and `x = [2, 5]` the result is
        `[[5, 2], [0, 1], [1, 1]]`.
        """,
    hints=(
        "One pass of backward computes v @ J for one vector v. Which v picks out row i of J?",
        "torch.autograd.grad(y, leaf, v) gives the product. The graph is needed again for the next row, which has to "
        "be said. Stack the rows at the end.",
    ),
)


@exercise.stub
def jacobian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the derivatives of f at x (n,) as a matrix (m, n), m being the number of results of f.

    f is called once; x and its .grad stay as they are."""
    raise NotImplementedError


@exercise.reference
def by_unit_vectors(f, x):
    leaf = x.detach().requires_grad_()
    y = f(leaf)
    rows = []
    for unit in torch.eye(len(y)):
        (row,) = torch.autograd.grad(y, leaf, unit, retain_graph=True)
        rows.append(row)
    return torch.stack(rows)


@exercise.alternative
def by_single_results(f, x):
    leaf = x.detach().clone().requires_grad_()
    rows = []
    for result in f(leaf):
        rows.append(torch.autograd.grad(result, leaf, retain_graph=True)[0])
    return torch.stack(rows)


@exercise.alternative
def by_the_library(f, x):
    return torch.autograd.functional.jacobian(f, x.detach())


@exercise.alternative
def by_backward_and_clearing(f, x):
    leaf = x.detach().requires_grad_()
    y = f(leaf)
    matrix = torch.empty(len(y), len(leaf), dtype=x.dtype)
    for i in range(len(y)):
        leaf.grad = None
        y[i].backward(inputs=[leaf], retain_graph=True)
        matrix[i] = leaf.grad
    return matrix


@exercise.wrong(
    "Rows and columns are exchanged: J[i, j] belongs to result i and input j. Each product v @ J is one row, so the "
    "products are stacked along the first axis."
)
def transposed(f, x):
    leaf = x.detach().requires_grad_()
    y = f(leaf)
    units = torch.eye(len(y), dtype=y.dtype)
    return torch.stack([torch.autograd.grad(y, leaf, unit, retain_graph=True)[0] for unit in units], dim=1)


@exercise.wrong(
    "This is one product with a vector of ones: the sum of all rows, shape (n,). To see the rows one by one, each "
    "needs a product of its own.",
    fault="backward-of-nonscalar",
)
def sum_of_the_rows(f, x):
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(f(leaf).sum(), leaf)[0]


@exercise.wrong(
    "This is right only where result i depends on nothing but input i, as with exp or relu. Then the Jacobian is "
    "diagonal and one pass gives the diagonal. In general every result may depend on every input."
)
def diagonal_only(f, x):
    leaf = x.detach().requires_grad_()
    return torch.diag(torch.autograd.grad(f(leaf).sum(), leaf)[0])


@exercise.wrong(
    "backward() adds to .grad. Without clearing it between the rows, row i is the sum of the rows up to i.",
    fault="missing-zero-grad",
)
def accumulated_rows(f, x):
    leaf = x.detach().requires_grad_()
    y = f(leaf)
    rows = []
    for i in range(len(y)):
        y[i].backward(inputs=[leaf], retain_graph=True)
        rows.append(leaf.grad.clone())
    return torch.stack(rows)


@exercise.wrong(
    "f is called again for every row. The results are right, and m times the work is done. One forward pass will do "
    "if its graph is kept for the next row: retain_graph=True.",
    fault="backward-twice",
)
def forward_for_every_row(f, x):
    rows = []
    for i in range(len(f(x.detach()))):
        leaf = x.detach().requires_grad_()
        rows.append(torch.autograd.grad(f(leaf)[i], leaf)[0])
    return torch.stack(rows)


@exercise.wrong(
    "The graph is freed by the first product, and the second one fails. retain_graph=True keeps it.",
    fault="backward-twice",
)
def without_retaining(f, x):
    leaf = x.detach().requires_grad_()
    y = f(leaf)
    units = torch.eye(len(y), dtype=y.dtype)
    return torch.stack([torch.autograd.grad(y, leaf, unit)[0] for unit in units])


def observed(answer: Callable[..., Tensor], f: Callable[[Tensor], Tensor], x: Tensor) -> dict[str, object]:
    calls = []

    def counted(v: Tensor) -> Tensor:
        calls.append(v.shape)
        return f(v)

    before, numbers_before = x.requires_grad, x.detach().clone()
    result = answer(counted, x)
    return {
        "jacobian": result,
        "the result has a graph": result.requires_grad,
        "calls of f": len(calls),
        "x.requires_grad as before": x.requires_grad == before,
        "x.grad": x.grad if x.is_leaf else None,
        "x as before": torch.equal(x.detach(), numbers_before),
    }


def mixing(v: Tensor) -> Tensor:
    return torch.stack([v[0] * v[1] ** 2, v.exp().sum(), v[0] / (2 + v[-1])])


@exercise.probe
def more_results_than_inputs(answer):
    return observed(answer, mixing, numbers(2))


@exercise.probe
def as_many_results_as_inputs(answer):
    return observed(answer, mixing, numbers(3, start=2.0))


@exercise.probe
def fewer_results_than_inputs(answer):
    return observed(answer, mixing, numbers(5, start=3.0).float())


@exercise.probe
def one_by_one(answer):
    return observed(answer, lambda v: 2 * v.sin() * v, numbers(3, start=4.0))


@exercise.probe
def one_result(answer):
    return observed(answer, lambda v: (v**3).sum()[None], numbers(2, start=5.0))


@exercise.probe
def leaf_that_holds_a_gradient(answer):
    x = numbers(2, start=6.0).requires_grad_()
    x.grad = torch.tensor([10.0, 20.0], dtype=torch.float64)
    return observed(answer, mixing, x)

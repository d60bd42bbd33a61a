"""Lesson 02: the gradient of a linear model's squared error, derived by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise, no_call
from course.exercises.autograd._graphs import numbers

exercise = Exercise(
    "autograd.by_hand",
    title="Gradients by hand",
    task="""
        A linear model predicts `x @ w + b`; its loss is the mean squared error against `y`:

        $$L(w, b) = \\frac1N \\sum_{n=1}^{N} (x_n \\cdot w + b - y_n)^2$$

        `loss_gradients(w, b, x, y)` takes `w`, shape `(D,)`, `b`, shape `()`, `x`, shape `(N, D)`, and `y`, shape
        `(N,)`, all of one floating dtype, with N at least 1. Return the tuple `(dL/dw, dL/db)`, shapes `(D,)` and
        `()`, from the formula that you derive on paper: no `backward`, no `grad`.

        Example: for `w = [2]`, `b = 0`, `x = [[1], [3]]` and `y = [1, 1]` the predictions are 2 and 6, and the
        gradients are `[16]` and `6`.
        """,
    hints=(
        "Call the difference between prediction and target of row n the residual r_n. By the chain rule the "
        "derivative of r_n squared is a factor, times r_n, times the derivative of r_n. What is the last one with "
        "respect to w, and with respect to b?",
        "dL/db is the mean of all 2 r_n. dL/dw is the mean of all 2 r_n x_n: a product of the transposed x with the "
        "residuals adds the rows up.",
    ),
    requires=(no_call("backward", "grad", "vjp", "jacobian", "jacrev"),),
)


@exercise.stub
def loss_gradients(w: Tensor, b: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of mean((x @ w + b - y) ** 2) with respect to w, shape (D,), and b, shape ().

    x has shape (N, D), y has shape (N,)."""
    raise NotImplementedError


@exercise.reference
def by_transposed_product(w, b, x, y):
    residual = x @ w + b - y
    return 2 * x.t() @ residual / len(y), 2 * residual.mean()


@exercise.alternative
def by_mean_over_rows(w, b, x, y):
    slope = 2 * (x @ w + b - y)
    return (slope[:, None] * x).mean(0), slope.mean()


@exercise.alternative
def by_einsum(w, b, x, y):
    slope = (torch.einsum("nd,d->n", x, w) + b - y) * 2 / x.shape[0]
    return torch.einsum("n,nd->d", slope, x), slope.sum()


@exercise.wrong("The derivative of a square is twice its base times the derivative of the base. The factor is missing.")
def without_the_factor(w, b, x, y):
    residual = x @ w + b - y
    return x.t() @ residual / len(y), residual.mean()


@exercise.wrong(
    "The sign is the other way round. The residual is prediction minus target: where the prediction is too large, "
    "a larger b makes the loss larger still, so dL/db is positive there. Its negative is the direction of descent."
)
def in_direction_of_descent(w, b, x, y):
    residual = y - (x @ w + b)
    return 2 * x.t() @ residual / len(y), 2 * residual.mean()


@exercise.wrong(
    "These are the gradients of the sum of the squared errors. The loss is their mean, so that the gradient does not "
    "grow with the number of rows."
)
def of_the_sum(w, b, x, y):
    residual = x @ w + b - y
    return 2 * x.t() @ residual, 2 * residual.sum()


@exercise.wrong(
    "The gradient of w is right. b is added in every row, so it meets every residual; their mean is taken for w "
    "here, but not for b."
)
def bias_over_a_sum(w, b, x, y):
    residual = x @ w + b - y
    return 2 * x.t() @ residual / len(y), 2 * residual.sum()


@exercise.wrong(
    "The mean is taken over x and over the residuals one by one, and then multiplied. The mean of a product is not "
    "the product of the means: each row's residual belongs to that row's x."
)
def product_of_means(w, b, x, y):
    residual = x @ w + b - y
    return 2 * x.mean(0) * residual.mean(), 2 * residual.mean()


@exercise.wrong("The bias is left out of the prediction. Its value moves every residual, not only its own gradient.")
def prediction_without_bias(w, b, x, y):
    residual = x @ w - y
    return 2 * x.t() @ residual / len(y), 2 * residual.mean()


@exercise.probe
def example():
    return torch.tensor([2.0]), torch.tensor(0.0), torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0])


@exercise.probe
def more_rows_than_columns():
    return numbers(2), numbers(1, start=4.0)[0], numbers(5, 2, start=2.0), numbers(5, start=9.0)


@exercise.probe
def as_many_rows_as_columns():
    return numbers(3), numbers(1, start=5.0)[0], numbers(3, 3, start=3.0), numbers(3, start=8.0)


@exercise.probe
def one_row():
    return numbers(3), numbers(1, start=6.0)[0], numbers(1, 3, start=7.0), numbers(1, start=3.0)


@exercise.probe
def perfect_predictions():
    w, b, x = numbers(2), numbers(1)[0], numbers(4, 2, start=5.0)
    return w, b, x, x @ w + b

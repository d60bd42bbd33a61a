"""Lesson 08: an operation of your own under autocast."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course.checking import Exercise

exercise = Exercise(
    "precision.custom_linear",
    title="A linear operation of your own under autocast",
    task="""
        `linear(x, weight)` returns `x @ weight.T` for `x` of shape `(N, I)` and `weight` of shape `(O, I)`, by an
        `autograd.Function` of your own: define the class inside of the function, with a `forward` and a `backward` that
        you write, and return what its `apply` returns. On the CPU it has to behave like `F.linear`:

        - Without autocast the result has the dtype of the inputs. Under autocast it has autocast's dtype.
        - `backward` works, wherever it is called: inside of the autocast block or, as usual, after it. Gradients of `x`
          and of `weight` have the dtypes of `x` and of `weight`.
        """,
    hints=(
        "Print the dtypes in backward: the gradient comes in the dtype of the result, and what you saved has its own. "
        "Which of them does `@` accept together? What would autocast do, if it were on?",
        "custom_fwd and custom_bwd of torch.amp, each with the device type cpu, stand between staticmethod and def. "
        "The second runs backward under the autocast state of the forward pass. The gradients: gradient times weight, "
        "and gradient transposed times x.",
    ),
)


@exercise.stub
def linear(x: Tensor, weight: Tensor) -> Tensor:
    """Return x @ weight.T for x (N, I) and weight (O, I), with a backward pass of its own that works under autocast."""
    raise NotImplementedError


@exercise.reference
def with_amp_decorators(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, rows, matrix):
            ctx.save_for_backward(rows, matrix)
            return rows @ matrix.T

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            rows, matrix = ctx.saved_tensors
            return gradient @ matrix, gradient.T @ rows

    return Linear.apply(x, weight)


@exercise.alternative
def cast_by_hand(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            result = x @ weight.T
            ctx.save_for_backward(x.to(result.dtype), weight.to(result.dtype))
            ctx.dtypes = x.dtype, weight.dtype
            return result

        @staticmethod
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            first, second = ctx.dtypes
            return (gradient @ weight).to(first), (gradient.T @ x).to(second)

    return Linear.apply(x, weight)


@exercise.alternative
def backward_in_float32(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x.matmul(weight.t())

        @staticmethod
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            with torch.autocast("cpu", enabled=False):
                wide = gradient.float()
                return (wide @ weight.float()).to(x.dtype), (wide.T @ x.float()).to(weight.dtype)

    return Linear.apply(x, weight)


@exercise.wrong(
    "Neither pass is decorated. Under autocast the result is half and what was saved is float32: backward, which runs "
    "without autocast, finds two dtypes and raises.",
    fault="custom-function-autocast",
)
def undecorated(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.T

        @staticmethod
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient @ weight, gradient.T @ x

    return Linear.apply(x, weight)


@exercise.wrong(
    "`cast_inputs=torch.float32` runs the operation in float32 and switches autocast off for it. Here autocast's dtype "
    "was asked for: the result should be half.",
    fault="custom-function-autocast",
)
def in_float32(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.T

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient @ weight, gradient.T @ x

    return Linear.apply(x, weight)


@exercise.wrong(
    "`cast_inputs` names bfloat16, whatever autocast asks for. A caller who wants float16 gets the other dtype.",
    fault="custom-function-autocast",
)
def always_bfloat16(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.T

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient @ weight, gradient.T @ x

    return Linear.apply(x, weight)


@exercise.wrong("The gradients stand in the wrong order: one for each input of forward, first `x`, then `weight`.")
def gradients_swapped(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.T

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient.T @ x, gradient @ weight

    return Linear.apply(x, weight)


@exercise.wrong(
    "The result is always float32: it was cast up at the end. Everything after it then runs in float32, and the memory "
    "that autocast saves is gone."
)
def cast_up_at_the_end(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return (x @ weight.T).float()

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient @ weight, gradient.T @ x

    return Linear.apply(x, weight)


@exercise.wrong(
    "`weight` is not transposed in the forward pass. It is stored as (outputs, inputs), the way nn.Linear does it."
)
def not_transposed(x, weight):
    class Linear(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient @ weight.T, x.T @ gradient

    return Linear.apply(x, weight)


@exercise.wrong(
    "The result is right, and it was not made by a Function of your own: the operations of torch have their backward "
    "passes already. Write both passes, so that the dtypes in backward are your concern."
)
def operations_of_torch(x, weight):
    return F.linear(x, weight)


def numbers(dtype=torch.float32, outputs=3):
    """Small whole numbers: exact in every dtype, so that all right ways agree."""
    x = torch.tensor([[1.0, 2.0, -3.0], [4.0, -1.0, 2.0]], dtype=dtype)
    weight = torch.tensor([[2.0, -1.0, 1.0], [3.0, 5.0, -2.0], [1.0, 1.0, 4.0], [0.0, -2.0, 1.0]], dtype=dtype)
    return x.requires_grad_(), weight[:outputs].clone().requires_grad_()


def passed(answer, x, weight, autocast=None, backward_inside=False):
    """Result, gradients and all dtypes."""
    with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
        result = answer(x, weight)
        factors = torch.arange(1.0, 1 + result.numel(), dtype=result.dtype).reshape(result.shape)
        if backward_inside:
            (result * factors).sum().backward()
    if not backward_inside:
        (result * factors).sum().backward()
    own = isinstance(result.grad_fn, torch.autograd.function.BackwardCFunction)
    return result.detach(), x.grad, weight.grad, own


@exercise.probe
def without_autocast(answer):
    return passed(answer, *numbers())


@exercise.probe
def half_without_autocast(answer):
    return passed(answer, *numbers(torch.bfloat16))


@exercise.probe
def under_bfloat16(answer):
    return passed(answer, *numbers(), torch.bfloat16)


@exercise.probe
def under_float16(answer):
    return passed(answer, *numbers(outputs=4), torch.float16)


@exercise.probe
def backward_inside_of_the_block(answer):
    return passed(answer, *numbers(), torch.bfloat16, backward_inside=True)


@exercise.probe
def half_activations_and_float32_weights(answer):
    x, weight = numbers(outputs=4)
    return passed(answer, x.detach().bfloat16().requires_grad_(), weight, torch.bfloat16)


@exercise.probe
def in_a_network(answer):
    """Behind a layer and before a loss, as people use it."""
    x, weight = numbers(outputs=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = F.linear(x, torch.eye(3))
        loss = F.mse_loss(answer(hidden, weight), torch.zeros(2, 2))
    loss.backward()
    return loss.detach(), x.grad, weight.grad

"""Lesson 08: a loss that autocast cannot hurt."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from course.checking import Exercise

exercise = Exercise(
    "precision.safe_loss",
    title="A loss that autocast cannot hurt",
    task="""
        `matching_loss(a, b)` compares two sets of N embeddings, `a` and `b`, both of shape `(N, D)` and of any floating
        dtype of at most 32 bits. Row `i` of `a` belongs to row `i` of `b`. With `s = a @ b.T`, the loss is the mean
        over `i` of `logsumexp(s[i]) - s[i, i]`.

        Compute all of it in float32, and return a float32 scalar, **whoever calls it**: outside of autocast, inside of
        it, with float32 inputs and with half inputs. Gradients must reach `a` and `b`, in their own dtypes. When it
        returns, the autocast of the caller is as it was.

        Inputs lie on any device, so take the device type from them.
        """,
    hints=(
        "Two things can take the precision away: the dtype that comes in, and what autocast does to `@`. Each needs "
        "its own remedy.",
        "torch.autocast takes a device type and `enabled=False`: as a context it switches autocast off for its block. "
        "Cast both inputs with `.float()` within the block, and only then multiply.",
    ),
    compare=("value", "shape", "dtype", "gradients"),
)


@exercise.stub
def matching_loss(a: Tensor, b: Tensor) -> Tensor:
    """Return the mean of logsumexp(s[i]) - s[i, i] for s = a @ b.T, computed in float32, as a float32 scalar."""
    raise NotImplementedError


@exercise.reference
def autocast_off_and_float32(a, b):
    with torch.autocast(a.device.type, enabled=False):
        s = a.float() @ b.float().T
        return (s.logsumexp(dim=1) - s.diagonal()).mean()


@exercise.alternative
def by_cross_entropy(a, b):
    with torch.amp.autocast(device_type=b.device.type, enabled=False):
        s = torch.mm(a.to(torch.float32), b.to(torch.float32).t())
    return F.cross_entropy(s, torch.arange(len(a), device=a.device))


@exercise.alternative
def without_a_matrix_product(a, b):
    a, b = a.float(), b.float()
    s = (a[:, None] * b).sum(dim=2)
    return (s.logsumexp(dim=1) - s.diagonal()).mean()


@exercise.wrong(
    "The inputs are cast up, and autocast casts them down again for `@`: inside of autocast the scores are half. The "
    "cast alone does not switch it off."
)
def casts_only(a, b):
    s = a.float() @ b.float().T
    return (s.logsumexp(dim=1) - s.diagonal()).mean()


@exercise.wrong(
    "autocast is off, but half inputs stay half: `@` and the exponentials run in their dtype. Off means that nothing "
    "is cast, up neither.",
    fault="half-overflow",
)
def switched_off_only(a, b):
    with torch.autocast(a.device.type, enabled=False):
        s = a @ b.T
        return (s.logsumexp(dim=1) - s.diagonal()).mean()


@exercise.wrong(
    "The scores were cast up after they had been computed in half precision. What is rounded, or infinite, stays so.",
    fault="half-overflow",
)
def scores_cast_afterwards(a, b):
    s = (a @ b.T).float()
    return (s.logsumexp(dim=1) - s.diagonal()).mean()


@exercise.wrong("The result has the dtype of `a`. A half scalar rounds the loss, and the scaled loss overflows sooner.")
def result_cast_back(a, b):
    with torch.autocast(a.device.type, enabled=False):
        s = a.float() @ b.float().T
        return (s.logsumexp(dim=1) - s.diagonal()).mean().to(a.dtype)


@exercise.wrong(
    "logsumexp by hand, without subtracting the maximum: `exp` of scores above 88 is infinite even in float32."
)
def naive_logsumexp(a, b):
    with torch.autocast(a.device.type, enabled=False):
        s = a.float() @ b.float().T
        return (s.exp().sum(dim=1).log() - s.diagonal()).mean()


@exercise.wrong("The inputs were detached, so no gradient reaches the embeddings.", fault="graph-cut")
def detached(a, b):
    with torch.autocast(a.device.type, enabled=False):
        s = a.detach().float() @ b.detach().float().T
        return (s.logsumexp(dim=1) - s.diagonal()).mean()


@exercise.wrong(
    "This compares each row of `b` with all of `a`: logsumexp runs along the other axis. `s[i]` is row `i`, so it runs "
    "along dim 1."
)
def other_axis(a, b):
    with torch.autocast(a.device.type, enabled=False):
        s = a.float() @ b.float().T
        return (s.logsumexp(dim=0) - s.diagonal()).mean()


@exercise.wrong(
    "autocast was switched off with set_autocast_enabled and never on again: everything the caller does afterwards "
    "runs in float32."
)
def left_switched_off(a, b):
    torch.set_autocast_enabled(a.device.type, False)
    s = a.float() @ b.float().T
    return (s.logsumexp(dim=1) - s.diagonal()).mean()


def embeddings(dtype=torch.float32, scale=1.0, n=3):
    """Rows whose products need more than 8 bits, exact in every dtype."""
    a = scale * torch.tensor([[1.0, 2.5, -0.75], [0.5, -1.25, 3.0], [2.0, 0.25, 0.5]])[:n]
    b = scale * torch.tensor([[1.5, 1.25, 0.5], [-0.5, 2.0, 1.75], [0.25, -1.5, 1.0]])[:n]
    return a.to(dtype).requires_grad_(), b.to(dtype).requires_grad_()


def within(answer, dtype, inputs):
    """Value, gradients and their dtypes under autocast, and whether autocast is on as before."""
    a, b = inputs
    with torch.autocast("cpu", dtype=dtype):
        loss = answer(a, b)
        after = (a.detach().float() @ b.detach().float().T).dtype
    if loss.requires_grad:
        loss.backward()
    return loss.detach(), str(after), a.grad, b.grad


@exercise.probe
def float32_plain():
    return embeddings()


@exercise.probe
def one_row():
    return embeddings(n=1)


@exercise.probe
def half_inputs():
    return embeddings(torch.float16)


@exercise.probe
def brain_inputs():
    return embeddings(torch.bfloat16)


@exercise.probe
def mixed_inputs():
    return embeddings()[0], embeddings(torch.bfloat16)[1]


@exercise.probe
def large_scores():
    return embeddings(scale=10.0)


@exercise.probe
def scores_beyond_float16():
    return embeddings(torch.float16, scale=200.0)


@exercise.probe
def under_bfloat16(answer):
    return within(answer, torch.bfloat16, embeddings())


@exercise.probe
def under_float16_with_large_scores(answer):
    return within(answer, torch.float16, embeddings(scale=200.0))


@exercise.probe
def half_under_autocast(answer):
    return within(answer, torch.float16, embeddings(torch.float16))


@exercise.probe
def autocast_is_off_as_before(answer):
    loss = answer(*embeddings())
    return loss.detach(), str((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)

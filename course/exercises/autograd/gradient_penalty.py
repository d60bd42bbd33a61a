"""Lesson 02: a penalty on the gradient, which needs a derivative of a derivative."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.autograd._graphs import gradients, numbers, small_model

exercise = Exercise(
    "autograd.gradient_penalty",
    title="A gradient penalty",
    task="""
        `gradient_penalty(critic, x)` keeps the slope of a model near 1, as in a Wasserstein GAN. `critic` maps `x`,
        floating, shape `(N, ...)`, to one score a sample, shape `(N, 1)`; samples do not influence each other. Let
        g_n be the gradient of sample n's score with respect to all numbers of sample n. Return the mean over n of
        $(\\lVert g_n \\rVert_2 - 1)^2$, a tensor without axes.

        The penalty is part of a loss: `backward()` on it must reach the parameters of `critic`.

        The call itself changes nothing: `x` keeps its `requires_grad` and `.grad`, the parameters keep theirs, and
        `critic` stays in its mode.
        """,
    hints=(
        "torch.autograd.grad of the scores with respect to x gives the gradients. What must be said so that they can "
        "be differentiated once more?",
        "As the samples are independent, the gradient of the summed scores holds all g_n, one a sample. Flatten all "
        "axes but the first before you take norms.",
    ),
)


@exercise.stub
def gradient_penalty(critic: nn.Module, x: Tensor) -> Tensor:
    """Return the mean over the samples of x (N, ...) of (norm of the critic's gradient - 1) ** 2, shape ().

    It can be differentiated with respect to the critic's parameters."""
    raise NotImplementedError


@exercise.reference
def by_grad_of_the_sum(critic, x):
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).sum(), leaf, create_graph=True)
    return (slopes.flatten(1).norm(dim=1) - 1).square().mean()


@exercise.alternative
def by_vector_of_ones(critic, x):
    inputs = x.clone().detach().requires_grad_(True)
    scores = critic(inputs)
    slopes = torch.autograd.grad(scores, inputs, torch.ones_like(scores), create_graph=True)[0]
    lengths = torch.linalg.vector_norm(slopes.reshape(len(x), -1), dim=1)
    return ((lengths - 1) ** 2).mean()


@exercise.alternative
def by_loop(critic, x):
    total = 0.0
    for sample in x.detach().split(1):
        sample.requires_grad_()
        slope = torch.autograd.grad(critic(sample).squeeze(), sample, create_graph=True)[0]
        total = total + (slope.flatten().norm() - 1) ** 2
    return total / len(x)


@exercise.wrong(
    "The value is right, but it has no graph: without create_graph=True autograd returns plain numbers, and backward() "
    "on the penalty has nowhere to go.",
    fault="missing-create-graph",
)
def without_create_graph(critic, x):
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).sum(), leaf)
    return (slopes.flatten(1).norm(dim=1) - 1).square().mean()


@exercise.wrong(
    "backward() fills .grad of every leaf, so also of the critic's parameters: they now hold the gradient of the "
    "scores, which is no part of the loss. torch.autograd.grad returns only what you ask for."
)
def by_backward(critic, x):
    leaf = x.detach().requires_grad_()
    critic(leaf).sum().backward(create_graph=True)
    return (leaf.grad.flatten(1).norm(dim=1) - 1).square().mean()


@exercise.wrong(
    "One norm is taken over the whole batch. Each sample has a gradient of its own, and each of those is to have the "
    "length 1."
)
def norm_of_the_batch(critic, x):
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).sum(), leaf, create_graph=True)
    return (slopes.norm() - 1).square()


@exercise.wrong(
    "The mean of the scores is differentiated, so every gradient is N times too small. Take the sum: then each sample "
    "contributes its own score, undivided."
)
def of_the_mean_score(critic, x):
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).mean(), leaf, create_graph=True)
    return (slopes.flatten(1).norm(dim=1) - 1).square().mean()


@exercise.wrong(
    "The norm is taken along axis 1 only. A sample with more than one axis, such as an image, then has many norms in "
    "place of one. Flatten each sample first."
)
def norm_along_one_axis(critic, x):
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).sum(), leaf, create_graph=True)
    return (slopes.norm(dim=1) - 1).square().mean()


@exercise.wrong(
    "The penalty pulls the slope towards 0, not towards 1. That is a penalty too, but another one: subtract 1 from the "
    "norm before you square."
)
def towards_zero(critic, x):
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).sum(), leaf, create_graph=True)
    return slopes.flatten(1).norm(dim=1).square().mean()


@exercise.wrong(
    "x itself is made to require gradients, and stays so after the call. Whatever is computed from it later is "
    "recorded. Use a leaf of your own: x.detach() shares the memory and has no history."
)
def on_x_itself(critic, x):
    x.requires_grad_()
    (slopes,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (slopes.flatten(1).norm(dim=1) - 1).square().mean()


@exercise.wrong(
    "The critic is put into evaluation mode for the call and into training mode after it, whatever it was in before. "
    "The penalty is to be that of the critic as it is, and the call changes nothing.",
    fault="train-mode-not-restored",
)
def in_evaluation_mode(critic, x):
    critic.eval()
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).sum(), leaf, create_graph=True)
    critic.train()
    return (slopes.flatten(1).norm(dim=1) - 1).square().mean()


@exercise.wrong(
    "All parameters of the critic are made to require gradients. Those that somebody froze are trained from now on. "
    "The penalty reaches the trainable ones without that."
)
def thawing_the_critic(critic, x):
    for parameter in critic.parameters():
        parameter.requires_grad_(True)
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(critic(leaf).sum(), leaf, create_graph=True)
    return (slopes.flatten(1).norm(dim=1) - 1).square().mean()


def observed(
    answer, x: Tensor, *, old: float | None = None, training: bool = True, frozen: bool = False
) -> dict[str, object]:
    critic = small_model(x[0].numel(), 5, 1, flatten=True).train(training)
    critic[1].requires_grad_(not frozen)
    modes: list[bool] = []
    critic.register_forward_pre_hook(lambda *_: modes.append(critic.training))
    flags = [parameter.requires_grad for parameter in critic.parameters()]
    for parameter in critic.parameters():
        parameter.grad = None if old is None else torch.full_like(parameter, old)
    required = x.requires_grad
    penalty = answer(critic, x)
    before = gradients(critic)
    inputs = {"x.requires_grad as before": x.requires_grad == required, "x.grad": x.grad if x.is_leaf else None}
    inputs["requires_grad of the parameters as before"] = flags == [p.requires_grad for p in critic.parameters()]
    inputs["mode of the critic, during and after"] = {*modes, critic.training} == {training}
    wanted = [parameter for parameter in critic.parameters() if parameter.requires_grad]
    slopes = torch.autograd.grad(penalty, wanted, allow_unused=True) if penalty.requires_grad else "no graph"
    return {
        "penalty": penalty.detach(),
        ".grad of the parameters": before,
        "its gradient": slopes,
        **inputs,
    }


@exercise.probe
def rows_of_numbers(answer):
    return observed(answer, numbers(4, 3, start=2.0))


@exercise.probe
def small_images(answer):
    return observed(answer, numbers(3, 2, 2, start=5.0))


@exercise.probe
def one_sample(answer):
    return observed(answer, numbers(1, 3, start=8.0))


@exercise.probe
def parameters_that_hold_gradients(answer):
    return observed(answer, numbers(2, 3, start=4.0), old=3.0)


@exercise.probe
def critic_in_evaluation(answer):
    return observed(answer, numbers(2, 3, start=1.0), training=False)


@exercise.probe
def first_layer_frozen(answer):
    return observed(answer, numbers(2, 3, start=7.0), frozen=True)


@exercise.probe
def samples_that_were_computed(answer):
    return observed(answer, numbers(3, 2, start=6.0).requires_grad_() * 1.5)

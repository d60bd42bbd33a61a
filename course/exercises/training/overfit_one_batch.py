"""Lesson 05: the test that finds most bugs of a training loop."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.checking import Exercise

exercise = Exercise(
    "training.overfit_one_batch",
    title="Overfit one batch",
    task="""
        A network that cannot learn one batch by heart has a bug. `one_batch_losses(model, inputs, targets, steps, lr)`
        trains on this one batch for `steps` steps of `torch.optim.Adam` with learning rate `lr` and everything else at
        its default, in training mode. It returns the list of the cross-entropy losses of all steps, as Python floats:
        each as it was before its update.

        The model that was handed over must not change: neither weights, nor buffers, nor mode, nor `.grad`. Train a
        copy.
        """,
    hints=(
        "copy.deepcopy(model) gives a model with parameters of its own. Which of the two models should the optimizer "
        "know?",
        "Copy, set the mode of the copy, make one optimizer for the copy's parameters. Then the usual step, `steps` "
        "times, always with the same inputs, and item() of each loss into a list.",
    ),
)


@exercise.stub
def one_batch_losses(model: nn.Module, inputs: Tensor, targets: Tensor, steps: int, lr: float) -> list[float]:
    """Return the losses of `steps` Adam steps of a copy of the model on this one batch."""
    raise NotImplementedError


@exercise.reference
def on_a_copy(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model)
    trained.train()
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise.alternative
def zeroed_after_each_step(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    trained.zero_grad()
    optimizer = torch.optim.Adam(trained.parameters(), lr)
    losses = []
    while len(losses) < steps:
        loss = F.nll_loss(F.log_softmax(trained(inputs), dim=1), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


@exercise.wrong(
    "The caller's own model is trained. A test must not change what it tests: the real run would start from weights "
    "that know one batch by heart."
)
def the_model_itself(model, inputs, targets, steps, lr):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise.wrong(
    "The optimizer holds the parameters of the original, and the loss is that of the copy. No gradient ever reaches "
    "what the optimizer would move: the loss is constant.",
    fault="optimizer-misses-parameters",
)
def optimizer_of_the_original(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        trained.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise.wrong(
    "A new optimizer is made for each step. Adam's moments start at zero again and again, so that every step is Adam's "
    "first. Make the optimizer once, before the loop."
)
def a_new_optimizer_each_step(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    losses = []
    for _ in range(steps):
        optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise.wrong(
    "The gradients are never cleared, so each step follows the sum of all gradients so far.",
    fault="missing-zero-grad",
)
def gradients_add_up(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise.wrong(
    "The copy has the mode of the original. From a model in evaluation mode that tests another network than the one "
    "that will train: BatchNorm with its initial statistics, dropout off.",
    fault="train-mode-not-restored",
)
def mode_of_the_original(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model)
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise.wrong(
    "Only the last loss is returned. Whether it fell needs the whole list: the first loss tells whether the network "
    "starts at chance."
)
def only_the_last_loss(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
    return [loss.item()]


@exercise.wrong(
    "The list holds tensors with their graphs: the memory of every step stays alive. item() takes the number out.",
    fault="graph-retained-in-log",
)
def losses_with_their_graphs(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


@exercise.wrong(
    "The loop ends when the loss is small enough. The task asks for `steps` losses: whoever plots or compares runs "
    "needs lists of the same length."
)
def stops_when_learnt(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if losses[-1] < 1e-3:
            break
    return losses


@exercise.wrong(
    "All parameters of the copy are set to train, those too that are frozen in the model. A copy of a network with a "
    "frozen body then learns the batch with the body, and tells nothing of the one that will be trained."
)
def frozen_ones_trained(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train().requires_grad_(True)
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise.wrong(
    "The gradients are clipped. That is useful in a training step, but the task leaves everything but the learning "
    "rate at its default, and the losses come out otherwise where gradients are large."
)
def gradients_clipped(model, inputs, targets, steps, lr):
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(trained.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def network():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def batch():
    torch.manual_seed(6)
    return torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])


def seen_of(answer, model, steps, lr):
    """The losses, and what became of the model that was handed over."""
    inputs, targets = batch()
    losses = answer(model, inputs, targets, steps, lr)
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return losses, model, gradients, inputs, targets


@exercise.probe
def a_model_in_training_mode(answer):
    return seen_of(answer, network(), 5, 0.05)


@exercise.probe
def a_model_in_evaluation_mode(answer):
    return seen_of(answer, network().eval(), 4, 0.1)


@exercise.probe
def gradients_left_from_before(answer):
    model = network()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return seen_of(answer, model, 3, 0.05)


@exercise.probe
def one_step(answer):
    return seen_of(answer, network(), 1, 0.01)


@exercise.probe
def no_steps(answer):
    return seen_of(answer, network(), 0, 0.01)


@exercise.probe
def a_batch_that_is_known_already(answer):
    model = nn.Linear(3, 3)
    with torch.no_grad():
        model.weight.copy_(torch.eye(3) * 12)
        model.bias.zero_()
    return answer(model, torch.eye(3), torch.arange(3), 4, 0.01)


@exercise.probe
def a_frozen_layer(answer):
    model = network()
    model[0].requires_grad_(False)
    losses, *_ = seen_of(answer, model, 4, 0.1)
    return losses, [parameter.requires_grad for parameter in model.parameters()]


@exercise.probe
def large_inputs(answer):
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    inputs, targets = batch()
    return answer(model, 20 * inputs, targets, 5, 0.1)

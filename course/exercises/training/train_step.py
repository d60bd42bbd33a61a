"""Lesson 05: one step of training, in the right order."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.checking import Exercise
from course.checking.steps import watched_steps

exercise = Exercise(
    "training.train_step",
    title="One training step",
    task="""
        `train_step(model, optimizer, inputs, targets, max_norm)` does one step on one batch: `inputs` is what the model
        takes, `targets` holds class indices, int64, shape `(N,)`. The model returns logits `(N, C)`.

        - The model trains in training mode, all layers of it, whatever mode it or one of them came in.
        - Gradients that are left from earlier must not count.
        - The loss is the cross-entropy, which stays finite for scores that lie hundreds apart.
        - The norm of all gradients together is clipped at `max_norm`, then the optimizer steps, once.
        - Return the loss of the batch, as it was before the step, as a Python `float`.
        """,
    hints=(
        "Six things happen: mode, clearing, loss, backward, clipping, step. Ask of each what it needs to be there "
        "already, and what would destroy its work.",
        "Training mode first, then zero_grad() before backward(). nn.utils.clip_grad_norm_ changes the gradients in "
        "place, so it stands between backward() and step(). item() makes a Python number of the loss.",
    ),
)


@exercise.stub
def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor, max_norm: float
) -> float:
    """Train the model on one batch, with the norm of all gradients clipped at max_norm; return the loss."""
    raise NotImplementedError


@exercise.reference
def zero_backward_clip_step(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@exercise.alternative
def zero_just_before_backward(model, optimizer, inputs, targets, max_norm):
    logits = model.train()(inputs)
    loss = F.nll_loss(logits.log_softmax(dim=1), targets)
    model.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=max_norm)
    optimizer.step()
    return float(loss.detach())


@exercise.alternative
def gradients_set_to_zero(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad(set_to_none=False)
    loss = nn.CrossEntropyLoss()(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.detach().item()


@exercise.wrong(
    "The gradients are never cleared. backward() adds to .grad, so each step follows the sum of all gradients since "
    "the beginning.",
    fault="missing-zero-grad",
)
def never_zeroed(model, optimizer, inputs, targets, max_norm):
    model.train()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "zero_grad() stands between backward() and step(): the gradients are thrown away just before they are used. The "
    "parameters never move, and the loss stays the same to the last digit.",
    fault="zero-grad-before-step",
)
def zeroed_before_the_step(model, optimizer, inputs, targets, max_norm):
    model.train()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "The gradients are cleared after the step only. Within a loop that works; gradients that were there before the "
    "first call still count, and the task says that they must not."
)
def zeroed_after_the_step(model, optimizer, inputs, targets, max_norm):
    model.train()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@exercise.wrong(
    "Clipping stands in the wrong place and has no effect: the optimizer steps along the full gradients. Before "
    "backward() there is nothing to clip yet; after step() it is too late.",
    fault="clip-after-step",
)
def clipped_after_the_step(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return loss.item()


@exercise.wrong(
    "Each parameter's gradient is clipped by itself here. Then their proportions change, and with them the direction "
    "of the step. The task speaks of the norm of all gradients together: hand over all parameters at once."
)
def each_parameter_by_itself(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    for parameter in model.parameters():
        nn.utils.clip_grad_norm_(parameter, max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "clip_grad_value_ cuts every single number of the gradient at the limit, and that changes its direction. The norm "
    "of all gradients together is what the task wants limited."
)
def values_clipped(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "cross_entropy applies log_softmax itself. With a softmax in front of it, all scores lie between 0 and 1, and the "
    "gradients become small: training is slow and stops at a loss far above 0.",
    fault="double-softmax",
)
def softmax_before_the_loss(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs).softmax(dim=1), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "The mode is left as it was. After an evaluation that is evaluation mode: dropout is off and BatchNorm uses and "
    "keeps its old statistics while the weights train.",
    fault="train-mode-not-restored",
)
def mode_left_as_it_was(model, optimizer, inputs, targets, max_norm):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "The loss is returned as a tensor that still holds its graph. Kept in a list, one a step, it keeps every batch's "
    "activations alive. The task asks for a Python float.",
    fault="graph-retained-in-log",
)
def loss_with_its_graph(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss


@exercise.wrong(
    "The loss is computed once more after the step. That is a second pass through the network for a number that "
    "belongs to other weights; the task asks for the loss before the step."
)
def loss_after_the_step(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return F.cross_entropy(model(inputs), targets).item()


@exercise.wrong(
    "Only the first of the optimizer's groups is clipped. The norm is that of all gradients together, and the step of "
    "the other groups stays as long as it was."
)
def first_group_clipped(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "train() is called only if the model's own flag says that it is needed. A layer inside it may be in evaluation "
    "mode all the same, for each has a flag of its own; train() sets them all.",
    fault="train-mode-not-restored",
)
def only_if_the_flag_says_so(model, optimizer, inputs, targets, max_norm):
    if not model.training:
        model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


@exercise.wrong(
    "Softmax first, then its logarithm: a probability that comes out as exactly 0 has the logarithm minus infinity, "
    "and loss and weights are gone. cross_entropy takes both steps at once, which stays finite.",
    fault="log-of-zero",
)
def logarithm_of_softmax(model, optimizer, inputs, targets, max_norm):
    model.train()
    optimizer.zero_grad()
    loss = F.nll_loss(model(inputs).softmax(dim=1).log(), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def steps_of(answer, model, batches, max_norm, lr=0.5):
    """Order of what happened (without zero_grad), losses, and the state afterwards."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with watched_steps(model, optimizer) as record:
        losses = [answer(model, optimizer, inputs, targets, max_norm) for inputs, targets in batches]
    order = [event for event in record.events if event != "zero_grad"]
    return order, losses, model


def linear():
    torch.manual_seed(0)
    return nn.Linear(3, 4)


INPUTS = torch.tensor([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0], [-3.0, 1.0, 5.0]])
TARGETS = torch.tensor([0, 3, 1])


@exercise.probe
def one_step_that_needs_clipping(answer):
    return steps_of(answer, linear(), [(INPUTS, TARGETS)], max_norm=0.5)


@exercise.probe
def two_steps(answer):
    batches = [(INPUTS, TARGETS), (-INPUTS.flip(1), TARGETS.flip(0))]
    return steps_of(answer, linear(), batches, max_norm=0.7)


@exercise.probe
def gradients_below_the_limit(answer):
    return steps_of(answer, linear(), [(INPUTS, TARGETS), (INPUTS / 2, TARGETS)], max_norm=100.0)


@exercise.probe
def gradients_left_from_before(answer):
    model = linear()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    return steps_of(answer, model, [(INPUTS, TARGETS)], max_norm=100.0)


@exercise.probe
def model_in_evaluation_mode(answer):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4)).eval()
    return steps_of(answer, model, [(INPUTS, TARGETS)], max_norm=0.3)


@exercise.probe
def one_layer_in_evaluation_mode(answer):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
    model[1].eval()
    return steps_of(answer, model, [(INPUTS, TARGETS)], max_norm=0.3)


@exercise.probe
def an_optimizer_with_two_groups(answer):
    model = linear()
    groups = [{"params": [model.bias]}, {"params": [model.weight], "lr": 0.25}]
    loss = answer(model, torch.optim.SGD(groups, lr=0.5), INPUTS, TARGETS, 0.5)
    return loss, model


@exercise.probe
def a_model_that_is_sure_and_wrong(answer):
    return steps_of(answer, linear(), [(INPUTS * 200, TARGETS)], max_norm=0.5)

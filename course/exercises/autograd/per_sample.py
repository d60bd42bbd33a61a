"""Lesson 02: one gradient for each sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from course.checking import Exercise
from course.exercises.autograd._graphs import gradients, numbers, small_model, uneven_loss

exercise = Exercise(
    "autograd.per_sample",
    title="Per-sample gradients",
    task="""
        backward of a mean loss gives the mean of the samples' gradients. Sometimes each one is wanted: to find samples
        that pull hardest, or to clip them one by one.

        `per_sample_gradients(model, loss_fn, x, y)` returns a dict from the name of each parameter, as in
        `model.named_parameters()`, to a tensor with one more axis in front: `result[name][i]` is the gradient of
        `loss_fn(model(x[i : i + 1]), y[i : i + 1])`. `x` and `y` have N rows, N at least 1, and `loss_fn` is a mean
        over the rows that it gets.

        The results are not attached to a graph. The parameters' `.grad` stays as it was, and so does the model's mode.
        The model has no BatchNorm, but it does expect a batch axis; so does `loss_fn`.
        """,
    hints=(
        "The plain way: a loop over the samples, each as a batch of one row, and torch.autograd.grad for all its "
        "parameters at once. Then stack, parameter by parameter.",
        "The fast way: torch.func.functional_call writes the loss as a function of a dict of parameters; grad of it, "
        "under vmap over x and y, is the whole solution.",
    ),
)


@exercise.stub
def per_sample_gradients(
    model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor
) -> dict[str, Tensor]:
    """Return for every parameter, by name, the N gradients of the loss of each row alone, shape (N, *parameter.shape).

    x and y have N rows. The parameters' .grad stays as it was."""
    raise NotImplementedError


@exercise.reference
def by_loop(model, loss_fn, x, y):
    parameters = dict(model.named_parameters())
    rows = []
    for i in range(len(x)):
        loss = loss_fn(model(x[i : i + 1]), y[i : i + 1])
        rows.append(torch.autograd.grad(loss, list(parameters.values())))
    return {name: torch.stack(column) for name, column in zip(parameters, zip(*rows))}


@exercise.alternative
def by_vmap(model, loss_fn, x, y):
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss_of_one(parameters, x, y):
        return loss_fn(functional_call(model, parameters, (x[None],)), y[None])

    return vmap(grad(loss_of_one), in_dims=(None, 0, 0))(parameters, x, y)


@exercise.alternative
def by_one_forward(model, loss_fn, x, y):
    output = model(x)
    losses = [loss_fn(output[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    result = {}
    for name, parameter in model.named_parameters():
        rows = [torch.autograd.grad(loss, parameter, retain_graph=True)[0] for loss in losses]
        result[name] = torch.stack(rows)
    return result


@exercise.wrong(
    "This is the gradient of the mean loss, once for every sample. It is the mean of what is wanted, and the mean does "
    "not tell the parts."
)
def mean_for_everyone(model, loss_fn, x, y):
    parameters = dict(model.named_parameters())
    rows = torch.autograd.grad(loss_fn(model(x), y), list(parameters.values()))
    return {name: torch.stack([row] * len(x)) for name, row in zip(parameters, rows)}


@exercise.wrong(
    "Each sample's part of the mean over the whole batch is taken: it is N times too small. The loss of a sample alone "
    "is a mean over one row."
)
def divided_by_the_batch_size(model, loss_fn, x, y):
    parameters = dict(model.named_parameters())
    rows = []
    for i in range(len(x)):
        loss = loss_fn(model(x[i : i + 1]), y[i : i + 1]) / len(x)
        rows.append(torch.autograd.grad(loss, list(parameters.values())))
    return {name: torch.stack(column) for name, column in zip(parameters, zip(*rows))}


@exercise.wrong(
    "backward() adds to .grad, and nobody clears it between the samples: entry i is the sum of the gradients up to "
    "sample i, and what was in .grad before.",
    fault="missing-zero-grad",
)
def accumulated(model, loss_fn, x, y):
    rows = []
    for i in range(len(x)):
        loss_fn(model(x[i : i + 1]), y[i : i + 1]).backward()
        rows.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


@exercise.wrong(
    "The list holds the same tensor N times. .grad is cleared and filled in place, so every entry shows the gradient "
    "of the last sample. A record of it needs a clone.",
)
def the_same_tensor_each_time(model, loss_fn, x, y):
    rows = []
    for i in range(len(x)):
        model.zero_grad(set_to_none=False)
        loss_fn(model(x[i : i + 1]), y[i : i + 1]).backward()
        rows.append({name: parameter.grad for name, parameter in model.named_parameters()})
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


@exercise.wrong(
    "The gradients are right, but they were computed by way of .grad: what was in there before is gone, and the last "
    "sample's gradient lies there now. torch.autograd.grad returns gradients and leaves .grad alone."
)
def by_way_of_grad(model, loss_fn, x, y):
    rows = []
    for i in range(len(x)):
        model.zero_grad()
        loss_fn(model(x[i : i + 1]), y[i : i + 1]).backward()
        rows.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


@exercise.wrong(
    "x[i] has lost its batch axis, and the model expects one. A slice of one row keeps it, as does x[i][None].",
    fault="squeeze-drops-batch",
)
def without_batch_axis(model, loss_fn, x, y):
    parameters = dict(model.named_parameters())
    rows = []
    for i in range(len(x)):
        loss = loss_fn(model(x[i]), y[i])
        rows.append(torch.autograd.grad(loss, list(parameters.values())))
    return {name: torch.stack(column) for name, column in zip(parameters, zip(*rows))}


@exercise.wrong(
    "The gradients stand in a list, one entry a sample. The task asks for one tensor for each parameter, with the "
    "samples along its first axis."
)
def list_of_samples(model, loss_fn, x, y):
    parameters = dict(model.named_parameters())
    result = []
    for i in range(len(x)):
        loss = loss_fn(model(x[i : i + 1]), y[i : i + 1])
        result.append(dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())))))
    return result


@exercise.wrong(
    "x keeps its batch axis, but y[i] has lost it. Where loss_fn works element by element broadcasting hides that; "
    "a loss over classes sees one output row and no row of targets. Cut both in the same way.",
    fault="squeeze-drops-batch",
)
def target_without_batch_axis(model, loss_fn, x, y):
    parameters = dict(model.named_parameters())
    rows = []
    for i in range(len(x)):
        loss = loss_fn(model(x[i : i + 1]), y[i])
        rows.append(torch.autograd.grad(loss, list(parameters.values())))
    return {name: torch.stack(column) for name, column in zip(parameters, zip(*rows))}


@exercise.wrong(
    "The model is put into evaluation mode for the call, and into training mode after it, whatever it was in before. "
    "The gradients are those of the model as it is."
)
def in_evaluation_mode(model, loss_fn, x, y):
    model.eval()
    parameters = dict(model.named_parameters())
    rows = []
    for i in range(len(x)):
        loss = loss_fn(model(x[i : i + 1]), y[i : i + 1])
        rows.append(torch.autograd.grad(loss, list(parameters.values())))
    model.train()
    return {name: torch.stack(column) for name, column in zip(parameters, zip(*rows))}


def observed(
    answer, rows: int, *, old: float | None = None, flatten: bool = True, training: bool = True, classes: bool = False
) -> dict[str, object]:
    model = small_model(4, 3, 2, flatten=flatten).train(training)
    modes: list[bool] = []
    model.register_forward_pre_hook(lambda *_: modes.append(model.training))
    for parameter in model.parameters():
        parameter.grad = None if old is None else torch.full_like(parameter, old)
    x, y = numbers(rows, 2, 2, start=2.0) if flatten else numbers(rows, 4, start=3.0), numbers(rows, 2, start=6.0)
    if classes:
        y = torch.arange(rows) % 2
    before = [x.clone(), y.clone()]
    result = answer(model, cross_entropy if classes else uneven_loss, x, y)
    tensors = result.values() if isinstance(result, dict) else []
    return {
        "result": result,
        "attached to a graph": any(t.requires_grad for t in tensors if isinstance(t, Tensor)),
        ".grad of the parameters": gradients(model),
        "mode of the model, during and after": {*modes, model.training} == {training},
        "x and y as before": all(map(torch.equal, before, (x, y))),
    }


@exercise.probe
def small_images(answer):
    return observed(answer, 3)


@exercise.probe
def rows_of_numbers(answer):
    return observed(answer, 4, flatten=False)


@exercise.probe
def a_loss_over_classes(answer):
    return observed(answer, 3, flatten=False, classes=True)


@exercise.probe
def model_in_evaluation(answer):
    return observed(answer, 2, flatten=False, training=False)


@exercise.probe
def one_sample(answer):
    return observed(answer, 1)


@exercise.probe
def parameters_that_hold_gradients(answer):
    return observed(answer, 2, old=5.0)

"""Lesson 00: a forward pass is plain Python, so it can check and branch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "start.guarded_forward",
    title="A forward pass that looks at its input",
    task="""
        `guarded_forward(layer, x)` is what stands in the `forward` of a model with one `nn.Linear`. Plain Python
        decides:

        - If the last axis of `x` is not `layer.in_features` long, raise a `ValueError` whose message contains the
          shape of `x`, as `tuple(x.shape)` prints it, and the number `layer.in_features`.
        - If `x` has one axis, it is a single sample: return the layer's output for it, shape `(out_features,)`, as it
          is, without ReLU.
        - If `x` has two or more axes, it is a batch: return `torch.relu` of the layer's output, shape
          `(..., out_features)`.

        Gradients must reach the layer's weights and `x` in both cases.
        """,
    hints=(
        "`x.shape[-1]` is the size of the last axis, whatever the number of axes; `x.ndim` is that number. Check "
        "first, then branch with a plain `if`.",
        "An f-string with `{tuple(x.shape)}` and `{layer.in_features}` makes the message. nn.Linear takes any number "
        "of axes, so no axis has to be added for a single sample.",
    ),
    compare=("value", "shape", "dtype", "gradients"),
)


@exercise.stub
def guarded_forward(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply layer to one sample (in_features,) or to a batch (..., in_features) with ReLU.

    Raises ValueError, naming the shape and in_features, when the last axis does not fit."""
    raise NotImplementedError


@exercise.reference
def by_check_and_branch(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features in the last axis")
    out = layer(x)
    return out if x.ndim == 1 else torch.relu(out)


@exercise.alternative
def by_early_returns(layer, x):
    *batch, features = x.shape
    if features != layer.in_features:
        raise ValueError(f"got {tuple(x.shape)}, want (..., {layer.in_features})")
    if not batch:
        return layer(x.unsqueeze(0)).squeeze(0)
    return layer(x).clamp(min=0)


@exercise.wrong(
    "The first axis is compared here. For a batch that is the number of samples, which may be anything; the features "
    "stand in the last axis."
)
def first_axis_checked(layer, x):
    if x.shape[0] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    out = layer(x)
    return out if x.ndim == 1 else torch.relu(out)


@exercise.wrong(
    "Without a check the layer raises its own RuntimeError, which speaks of mat1 and mat2. The task asks for a "
    "ValueError that names the shape and what was expected, at the line where the data come in."
)
def left_to_the_layer(layer, x):
    out = layer(x)
    return out if x.ndim == 1 else torch.relu(out)


@exercise.wrong(
    "`assert` raises an AssertionError, and not even that when Python runs with -O. For input that a caller got wrong, "
    "raise the ValueError that the task asks for."
)
def asserted(layer, x):
    assert x.shape[-1] == layer.in_features, f"{tuple(x.shape)}, {layer.in_features}"
    out = layer(x)
    return out if x.ndim == 1 else torch.relu(out)


@exercise.wrong(
    "The message names only one of the two sizes. Somebody who reads it needs both: what came and what was expected."
)
def only_the_shape_named(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"wrong shape {tuple(x.shape)}")
    out = layer(x)
    return out if x.ndim == 1 else torch.relu(out)


@exercise.wrong("ReLU is applied to the single sample too. Only the output of a batch goes through it.")
def relu_everywhere(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    return torch.relu(layer(x))


@exercise.wrong(
    "The single sample comes back as a batch of one, shape (1, out_features). An axis that was added for the layer "
    "has to go again; nn.Linear needs none."
)
def axis_left_in(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    return layer(x.unsqueeze(0)) if x.ndim == 1 else torch.relu(layer(x))


@exercise.wrong(
    "The values are right, but `detach()` or `no_grad()` cuts them off: no gradient reaches the weights, and training "
    "changes nothing. Looking at a shape needs neither.",
    fault="graph-cut",
)
def cut_off(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    out = layer(x.detach()).detach()
    return out if x.ndim == 1 else torch.relu(out)


@exercise.wrong(
    "A batch of one sample is taken for a single sample here. It is still a batch, with two axes: the number of axes "
    "decides, not the size of the first."
)
def batch_of_one_as_a_sample(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    out = layer(x)
    return out if x.ndim == 1 or len(x) == 1 else torch.relu(out)


@exercise.wrong(
    "The layer's arithmetic is written out by hand, with its bias. nn.Linear(..., bias=False) has None there. Call the "
    "layer; it knows what it has."
)
def bias_taken_for_granted(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    out = x @ layer.weight.T + layer.bias
    return out if x.ndim == 1 else torch.relu(out)


@exercise.wrong(
    "x is converted to float32, whatever dtype the layer has. A layer in float64 then refuses it, and digits are lost. "
    "Nothing in the task asks for a conversion.",
    fault="float64-input",
)
def converted_to_float(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    out = layer(x.float())
    return out if x.ndim == 1 else torch.relu(out)


@exercise.wrong(
    "ReLU is applied to what goes into the layer. The task wants it after the layer, where it makes negative outputs 0."
)
def relu_before_the_layer(layer, x):
    if x.shape[-1] != layer.in_features:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected {layer.in_features} features")
    return layer(x) if x.ndim == 1 else layer(torch.relu(x))


def a_layer(inputs: int, outputs: int) -> nn.Linear:
    """A layer of known weights, with outputs of both signs."""
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(torch.sin(torch.arange(inputs * outputs) * 1.3).reshape(outputs, inputs))
        layer.bias.copy_(torch.linspace(-0.5, 0.4, outputs))
    return layer


def numbers(*shape: int) -> Tensor:
    return torch.cos(torch.arange(torch.Size(shape).numel()) * 0.9).reshape(shape).requires_grad_()


@exercise.probe
def one_sample():
    return a_layer(3, 4), numbers(3)


@exercise.probe
def a_batch():
    return a_layer(3, 4), numbers(5, 3)


@exercise.probe
def as_many_samples_as_features():
    return a_layer(3, 4), numbers(3, 3)


@exercise.probe
def a_batch_of_one():
    return a_layer(2, 3), numbers(1, 2)


@exercise.probe
def three_axes():
    return a_layer(2, 3), numbers(2, 4, 2)


def complaint(answer, layer: nn.Linear, x: Tensor) -> object:
    """The type of what is raised, and whether its message names shape and size."""
    try:
        answer(layer, x)
    except NotImplementedError:
        raise
    except Exception as error:
        message = str(error)
        return type(error).__name__, str(tuple(x.shape)) in message, str(layer.in_features) in message
    return "no error"


@exercise.probe
def a_batch_that_does_not_fit(answer):
    return complaint(answer, a_layer(7, 2), numbers(4, 5))


@exercise.probe
def a_sample_that_does_not_fit(answer):
    return complaint(answer, a_layer(7, 2), numbers(6))


@exercise.probe
def features_in_the_first_axis(answer):
    return complaint(answer, a_layer(7, 2), numbers(7, 5))


@exercise.probe
def one_feature_for_many(answer):
    return complaint(answer, a_layer(7, 2), numbers(3, 1))


@exercise.probe
def gradients_of_the_weights(answer):
    layer = a_layer(3, 2)
    (answer(layer, numbers(3)).sum() + answer(layer, numbers(4, 3)).sum()).backward()
    return layer.weight.grad, layer.bias.grad


@exercise.probe
def a_layer_without_bias():
    layer = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 1.0], [-1.0, -1.0]]))
    return layer, numbers(4, 2)


@exercise.probe
def double_precision():
    return a_layer(3, 2).double(), numbers(2, 3).detach().double().requires_grad_()

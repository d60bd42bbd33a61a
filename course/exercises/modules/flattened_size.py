"""Lesson 03: the size of flattened features, found by running them."""

from __future__ import annotations

import copy
import itertools

import torch
from torch import nn

from course.checking import Exercise
from course.exercises.modules._probing import hook_count, numbers

exercise = Exercise(
    "modules.flattened_size",
    title="Flatten size without arithmetic",
    task="""
        `flattened_size(features, shape)` returns how many numbers the module `features` makes of **one** image of
        shape `shape` = `(C, H, W)`, as a Python `int`: the `in_features` of the linear layer that follows after
        flattening.

        `features` takes float32 images `(N, C, H, W)`. It may hold any layers, BatchNorm, dropout and `Flatten`
        included, and they may be in any mode, each its own. Let it run on an image of your own making instead of
        doing arithmetic. Afterwards it is as before: parameters, gradients, buffers and the mode of each module.
        """,
    hints=(
        "A batch of one image of zeros has the right shape. What does one forward pass in training mode change in a "
        "BatchNorm layer, and why would BatchNorm refuse a single image whose features are 1 x 1?",
        "Nothing can happen to the original if a copy does the work: copy.deepcopy, eval, no_grad, and numel() of the "
        "output for one image.",
    ),
)


@exercise.stub
def flattened_size(features: nn.Module, shape: tuple[int, int, int]) -> int:
    """Return the number of elements that features makes of one image (C, H, W). features stays as it is."""
    raise NotImplementedError


@exercise.reference
def on_a_copy(features, shape):
    trial = copy.deepcopy(features).eval()
    with torch.no_grad():
        return trial(torch.zeros(1, *shape)).numel()


@exercise.alternative
def without_numbers(features, shape):
    shapes_only = copy.deepcopy(features).to("meta").eval()
    return shapes_only(torch.empty(1, *shape, device="meta")).flatten(1).shape[1]


@exercise.alternative
def with_the_modes_put_back(features, shape):
    modes = {module: module.training for module in features.modules()}
    features.eval()
    try:
        with torch.inference_mode():
            size = features(torch.zeros(1, *shape)).numel()
    finally:
        for module, mode in modes.items():
            module.training = mode
    return size


@exercise.wrong(
    "The size is right, but the trial run was in training mode on the real module: every BatchNorm has mixed an image "
    "that does not exist into its running statistics. And for features of 1 x 1 BatchNorm refuses a single image.",
    fault="frozen-batchnorm-drifts",
)
def run_as_it_is(features, shape):
    with torch.no_grad():
        return features(torch.zeros(1, *shape)).numel()


@exercise.wrong(
    "The module is left in evaluation mode: whoever trains it next trains without dropout and with fixed BatchNorm "
    "statistics, unless they happen to call train().",
    fault="train-mode-not-restored",
)
def left_in_eval(features, shape):
    features.eval()
    with torch.no_grad():
        return features(torch.zeros(1, *shape)).numel()


@exercise.wrong(
    "train() at the end puts every module into training mode, also those that were in evaluation mode before, such as "
    "a frozen part. The mode is kept by each module on its own."
)
def everything_into_training(features, shape):
    was_training = features.training
    features.eval()
    with torch.no_grad():
        size = features(torch.zeros(1, *shape)).numel()
    features.train(was_training)
    return size


@exercise.wrong(
    "These are the elements of a whole batch of two. The linear layer gets one row for each image: count without the "
    "axis of the batch."
)
def elements_of_a_batch_of_two(features, shape):
    trial = copy.deepcopy(features).eval()
    with torch.no_grad():
        return trial(torch.zeros(2, *shape)).numel()


@exercise.wrong(
    "This takes the number of channels that come out and the height and width that go in. Strides, pooling and missing "
    "padding all change height and width; that is why it pays to let the layers answer.",
    fault="flatten-size-mismatch",
)
def channels_times_input_size(features, shape):
    convolutions = [layer for layer in features.modules() if isinstance(layer, nn.Conv2d)]
    channels = convolutions[-1].out_channels if convolutions else shape[0]
    return channels * shape[1] * shape[2]


@exercise.wrong(
    "This is the number of channels alone, the size of axis 1. Flattening multiplies it by the height and width that "
    "are left.",
    fault="flatten-size-mismatch",
)
def channels_only(features, shape):
    trial = copy.deepcopy(features).eval()
    with torch.no_grad():
        output = trial(torch.zeros(1, *shape))
    return output.shape[1]


@exercise.wrong(
    "The image has no batch axis. Convolutions take that, but BatchNorm2d asks for four axes, and Flatten starts at "
    "axis 1, so that a channel axis would be left over. Give the module a batch of one."
)
def without_a_batch_axis(features, shape):
    trial = copy.deepcopy(features).eval()
    with torch.no_grad():
        return trial(torch.zeros(shape)).numel()


@exercise.wrong(
    "The modes of the direct children are put back with train(), and train() goes on to everything below: a layer "
    "deep inside that was in evaluation mode by itself is in training mode now."
)
def modes_of_the_children(features, shape):
    modes = [(child, child.training) for child in features.children()]
    was_training = features.training
    features.eval()
    with torch.no_grad():
        size = features(torch.zeros(1, *shape)).numel()
    features.train(was_training)
    for child, mode in modes:
        child.train(mode)
    return size


@exercise.wrong(
    "The trial run is in training mode, and state_dict() is put back after it. Buffers that are not persistent are not "
    "in there: they keep what the run has written. Run in evaluation mode, or on a copy.",
    fault="eval-mode-missing",
)
def state_put_back(features, shape):
    state = copy.deepcopy(features.state_dict())
    with torch.no_grad():
        size = features(torch.zeros(2, *shape))[0].numel()
    features.load_state_dict(state)
    return size


@exercise.wrong(
    "Only layers of a few classes are put into evaluation mode. There are others that behave differently in training, "
    "BatchNorm1d behind a Flatten for example. eval() on the whole module reaches all of them."
)
def some_layers_in_evaluation(features, shape):
    layers = [m for m in features.modules() if isinstance(m, (nn.BatchNorm2d, nn.Dropout)) and m.training]
    for layer in layers:
        layer.eval()
    with torch.no_grad():
        size = features(torch.zeros(1, *shape)).numel()
    for layer in layers:
        layer.train()
    return size


@exercise.wrong(
    "The children are run in a row, as nn.Sequential does. Other modules have a forward of their own, which may use "
    "their layers in another order, or twice. Call the module."
)
def children_in_a_row(features, shape):
    image = torch.zeros(1, *shape)
    with torch.no_grad():
        for layer in copy.deepcopy(features).eval().children():
            image = layer(image)
    return image.numel()


@exercise.wrong(
    "Height and width have changed places. With square kernels and strides nobody would notice; a kernel of 3 x 1 "
    "tells them apart. The shape is (C, H, W)."
)
def height_and_width_exchanged(features, shape):
    channels, height, width = shape
    with torch.no_grad():
        return copy.deepcopy(features).eval()(torch.zeros(1, channels, width, height)).numel()


@exercise.wrong(
    "set_grad_enabled(False) stays in force after the call: whatever is computed next has no graph, and the next "
    "backward fails. As a with statement, or torch.no_grad(), it ends by itself.",
    fault="graph-cut",
)
def recording_left_off(features, shape):
    torch.set_grad_enabled(False)
    return copy.deepcopy(features).eval()(torch.zeros(1, *shape)).numel()


class CallCounter(nn.Module):
    """Counts its calls in training mode, in a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x):
        if self.training:
            self.calls += 1
        return x


class HalvedTwice(nn.Module):
    """Uses its pooling before and after its convolution."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 1)
        self.pooling = nn.MaxPool2d(2)

    def forward(self, x):
        return self.pooling(self.convolution(self.pooling(x)))


def outcome(answer, features, shape):
    """The size, and everything about the module that could have changed."""
    size = answer(features, shape)
    return {
        "size": size,
        "operations are recorded after the call": torch.is_grad_enabled(),
        "buffers": dict(features.named_buffers()),
        "modes": [module.training for module in features.modules()],
        "state": dict(features.state_dict()),
        "gradients": [parameter.grad for parameter in features.parameters()],
        "trainable": [parameter.requires_grad for parameter in features.parameters()],
        "hooks": hook_count(features),
    }


def convolutions(*channels, **options):
    """Convolutions 3 x 3 with known weights and ReLU between them."""
    layers = []
    for before, after in itertools.pairwise(channels):
        layer = nn.Conv2d(before, after, 3, **options)
        with torch.no_grad():
            layer.weight.copy_(numbers(*layer.weight.shape))
            layer.bias.zero_()
        layers += [layer, nn.ReLU()]
    return layers


@exercise.probe
def convolution_and_pooling(answer):
    return outcome(answer, nn.Sequential(*convolutions(3, 4), nn.MaxPool2d(2)), (3, 11, 8))


@exercise.probe
def batch_norm_in_training_mode(answer):
    return outcome(answer, nn.Sequential(*convolutions(1, 3, stride=2), nn.BatchNorm2d(3)), (1, 8, 8))


@exercise.probe
def flatten_at_the_end(answer):
    return outcome(answer, nn.Sequential(*convolutions(2, 3, 2, padding=1), nn.Flatten()), (2, 4, 5)).get("size")


@exercise.probe
def one_number_for_each_channel(answer):
    layers = nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(2), nn.Dropout(0.5)
    return outcome(answer, nn.Sequential(*convolutions(3, 2), *layers), (3, 6, 6))


@exercise.probe
def modes_of_their_own(answer):
    features = nn.Sequential(*convolutions(1, 2), nn.BatchNorm2d(2), nn.Dropout(0.5))
    features[2].eval()
    return outcome(answer, features, (1, 5, 5))


@exercise.probe
def modes_deep_inside(answer):
    inner = nn.Sequential(nn.BatchNorm2d(2), nn.Dropout(0.5))
    inner[0].eval()
    return outcome(answer, nn.Sequential(*convolutions(1, 2), inner), (1, 6, 5))


@exercise.probe
def a_buffer_that_is_not_saved(answer):
    return outcome(answer, nn.Sequential(CallCounter(), *convolutions(1, 2)), (1, 5, 6))


@exercise.probe
def batch_norm_behind_flatten(answer):
    return outcome(answer, nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.BatchNorm1d(8)), (2, 4, 4))


@exercise.probe
def a_forward_of_its_own(answer):
    return outcome(answer, HalvedTwice(), (2, 12, 8))["size"]


@exercise.probe
def kernel_that_is_not_square(answer):
    return outcome(answer, nn.Sequential(nn.Conv2d(1, 2, (3, 1), stride=(1, 2))), (1, 9, 5))["size"]


@exercise.probe
def in_evaluation_mode(answer):
    features = nn.Sequential(*convolutions(1, 2), nn.BatchNorm2d(2)).eval()
    features[2].requires_grad_(False)
    return outcome(answer, features, (1, 7, 5))


@exercise.probe
def with_gradients_waiting(answer):
    features = nn.Sequential(*convolutions(1, 2))
    features(numbers(1, 1, 4, 4)).sum().backward()
    return outcome(answer, features, (1, 3, 9))

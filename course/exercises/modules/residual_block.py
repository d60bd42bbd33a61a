"""Lesson 03: a residual block whose shortcut fits every shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.modules._probing import filled, gradients, heard, numbers, registered, weighted_sum

exercise = Exercise(
    "modules.residual_block",
    title="A residual block",
    task="""
        `ResidualBlock(inputs, outputs, stride=1)` turns images of shape `(N, inputs, H, W)` into
        `(N, outputs, H', W')`. Its inner path is `conv1`, `norm1`, ReLU, `conv2`, `norm2`; its other path is the
        `shortcut`. The result is ReLU of the sum of the two.

        - `conv1` and `conv2` are 3 x 3 convolutions with padding 1 and no bias. `conv1` has the stride and changes
          the channels; `conv2` has stride 1. `norm1` and `norm2` are `BatchNorm2d`.
        - `shortcut` is `nn.Identity()` where the block changes neither channels nor size. Otherwise it is an
          `nn.Sequential` of a 1 x 1 convolution with the stride and no bias, and a `BatchNorm2d`.
        - The names are those above: `conv1.weight`, `norm1.bias`, `shortcut.0.weight` and so on. Layers without
          state may be added under any name.
        - The input is left as it is, and each layer can be observed by a hook.
        """,
    hints=(
        "Build all layers in __init__ and decide there what the shortcut is. In forward, compute both paths from the "
        "same x. Which of your operations write into a tensor that the caller still holds?",
        "With an Identity the shortcut is x itself, so `+=` and ReLU in place would change the caller's tensor; make "
        "a new tensor by adding the two paths. The last ReLU comes after the addition.",
    ),
)


@exercise.stub
class ResidualBlock(nn.Module):
    """ReLU(norm2(conv2(ReLU(norm1(conv1(x))))) + shortcut(x)); (N, inputs, H, W) -> (N, outputs, H', W')."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


@exercise.reference
class WithFittingShortcut(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x):
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


@exercise.alternative
class WithLayersForRelu(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))
        )
        self.conv1 = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, kernel_size=3, padding="same", bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


@exercise.alternative
class LayersAddedByName(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        for number, (channels, step) in enumerate([(inputs, stride), (outputs, 1)], 1):
            self.add_module(f"conv{number}", nn.Conv2d(channels, outputs, 3, step, 1, bias=False))
            self.add_module(f"norm{number}", nn.BatchNorm2d(outputs))
        self.shortcut = nn.Sequential()
        if (inputs, 1) != (outputs, stride):
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))

    def forward(self, x):
        inner = torch.relu(self.norm1(self.conv1(x)))
        return torch.add(self.shortcut(x), self.norm2(self.conv2(inner))).relu()


class _Layers(nn.Module):
    """The right layers, for wrong answers that use them wrongly."""

    def __init__(self, inputs, outputs, stride=1, inner_stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, stride=stride, bias=False)
        self.norm1 = nn.BatchNorm2d(num_features=outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, stride=inner_stride, bias=False)
        self.norm2 = nn.BatchNorm2d(num_features=outputs)
        layers = [nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)]
        fits = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if fits else nn.Sequential(*layers)


@exercise.wrong(
    "The shortcut is built but never used: this is a plain stack of two convolutions. What makes the block residual "
    "is that the input, through the shortcut, is added to what the inner path computes."
)
class WithoutAddition(_Layers):
    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


@exercise.wrong(
    "ReLU is applied to the inner path alone, and the shortcut is added afterwards. So the inner path can only add "
    "and never take away. The task asks for ReLU of the sum: two terms first, then the ReLU."
)
class ReluBeforeTheSum(_Layers):
    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))) + self.shortcut(x)


@exercise.wrong(
    "With an Identity as shortcut, `result` is not a copy of x but x itself, so `+=` writes into the tensor that was "
    "passed in: the caller's images change. Add the paths into a new tensor, or write into one that you have made."
)
class AddedIntoTheInput(_Layers):
    def forward(self, x):
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        result = self.shortcut(x)
        result += inner
        return F.relu(result)


@exercise.wrong(
    "Both names stand for one BatchNorm2d. Then the two convolutions share scale, shift and running statistics, and "
    "the statistics mix two different distributions. Each place needs a layer of its own.",
    fault="shared-by-list-multiplication",
)
class OneNormForBoth(_Layers):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(inputs, outputs, stride)
        self.norm2 = self.norm1

    def forward(self, x):
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.shortcut(x))


@exercise.wrong(
    "The shortcut is always the identity. As soon as the block changes the number of channels or the size, the two "
    "paths have different shapes and cannot be added, or worse, broadcast. There the shortcut has to change x, too."
)
class AlwaysTheIdentity(_Layers):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(inputs, outputs, stride)
        self.shortcut = nn.Identity()

    def forward(self, x):
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.shortcut(x))


@exercise.wrong(
    "The layers are called through their forward method. The numbers are right, but only calling the module itself "
    "runs its hooks: whoever observes these layers sees nothing.",
    fault="forward-called-directly",
)
class ForwardOfEachLayer(_Layers):
    def forward(self, x):
        inner = F.relu(self.norm1.forward(self.conv1.forward(x)))
        return F.relu(self.norm2.forward(self.conv2.forward(inner)) + self.shortcut(x))


@exercise.wrong(
    "Both convolutions have the stride, so a stride of 2 makes the inner path four times smaller, and the shortcut "
    "only twice. One of the two, the first, changes the size."
)
class StrideTwice(_Layers):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(inputs, outputs, stride, inner_stride=stride)

    def forward(self, x):
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.shortcut(x))


@exercise.wrong(
    "The shortcut's layers lie in a plain list. The module does not see into lists: these layers are missing from "
    "parameters() and state_dict(), so they are neither trained, nor moved, nor saved.",
    fault="unregistered-submodule",
)
class ShortcutInAList(_Layers):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(inputs, outputs, stride)
        layers = [] if isinstance(self.shortcut, nn.Identity) else list(self.shortcut)
        del self.shortcut
        self.shortcut = layers

    def forward(self, x):
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        for layer in self.shortcut:
            x = layer(x)
        return F.relu(inner + x)


@exercise.wrong(
    "The first assignment of a layer comes before the parent class has set up its registers, so there is nothing yet "
    "to register it in. Calling the parent's __init__ has to be the first line.",
    fault="missing-super-init",
)
class NeverSetUp(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)

    def forward(self, x):
        return self.conv1(x)


@exercise.wrong(
    "The shortcut is detached: its value is added, and no gradient flows back through it, neither to the input nor to "
    "the shortcut's own layers. The direct way for gradients is what the shortcut is there for.",
    fault="graph-cut",
)
class ShortcutDetached(_Layers):
    def forward(self, x):
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.shortcut(x).detach())


@exercise.wrong("ReLU6 cuts off at 6 what ReLU lets through. Small numbers do not show it.")
class CutOffAtSix(_Layers):
    def forward(self, x):
        inner = self.norm2(self.conv2(F.relu6(self.norm1(self.conv1(x)))))
        return F.relu6(inner + self.shortcut(x))


@exercise.probe
def large_numbers(answer):
    return filled(answer, 2, 2).eval()(50 * numbers(1, 2, 3, 3))


@exercise.probe
def names_where_nothing_changes(answer):
    return registered(answer(4, 4))


@exercise.probe
def names_with_more_channels(answer):
    return registered(answer(2, 3))


@exercise.probe
def names_with_a_stride(answer):
    return registered(answer(3, 3, 2))


@exercise.probe
def images_after_the_call(answer):
    """What the block gives in eval mode, and the images that it was given."""
    images = numbers(2, 3, 4, 4)
    return filled(answer, 3, 3).eval()(images), images


@exercise.probe
def more_channels_and_half_the_size(answer):
    return filled(answer, 2, 3, stride=2).eval()(numbers(1, 2, 6, 5))


@exercise.probe
def fewer_channels(answer):
    return filled(answer, 4, 2).eval()(numbers(2, 4, 3, 3))


@exercise.probe
def statistics_after_one_batch(answer):
    block = filled(answer, 2, 2, 3)
    output = block(numbers(3, 2, 7, 7))
    return output, dict(sorted(block.state_dict().items()))


@exercise.probe
def gradients_of_all_parameters(answer):
    block, images = filled(answer, 2, 2), numbers(2, 2, 4, 4).requires_grad_()
    weighted_sum(block(images)).backward()
    return gradients(block), images.grad


@exercise.probe
def layers_heard_by_hooks(answer):
    names = ("conv1", "norm1", "conv2", "norm2")
    return heard(filled(answer, 2, 2).eval(), names, numbers(1, 2, 4, 4))

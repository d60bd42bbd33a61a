"""The networks of lesson 05: the reference, and one that passes 75 % on CIFAR-10 as fast as we can."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from course.training.schedule import triangular


def reference_network(classes: int = 10) -> nn.Sequential:
    """conv32 - pool - conv64 - pool - linear, for images (N, 3, 32, 32); returns logits (N, classes).

    Pooling stands before ReLU: max and ReLU commute, so the numbers are the same, and ReLU has a quarter of the work.
    channels_last is the layout in which convolution and pooling run fastest on a CPU; the shapes stay the same.
    """
    return nn.Sequential(
        nn.Conv2d(3, 32, kernel_size=3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, classes),
    ).to(memory_format=torch.channels_last)


def whitening_convolution(images: Tensor, kernel: int = 2) -> nn.Conv2d:
    """A frozen first layer whose outputs, on these images, are uncorrelated and of unit variance.

    images: floating, normalised, (N, 3, H, W); a few thousand suffice. The filters are the eigenvectors of the
    covariance of all 3 x kernel x kernel patches, divided by the root of their eigenvalue, each with both signs.
    Returns Conv2d(3, 6 * kernel**2) without bias, which needs no training: the directions of colour and of the
    strongest edges come from the data, not from thousands of steps.
    """
    patches = F.unfold(images, kernel).movedim(1, 2).flatten(0, 1)
    patches = patches - patches.mean(dim=0)
    variances, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (directions / (variances + 5e-4).sqrt()).T.reshape(-1, 3, kernel, kernel)
    layer = nn.Conv2d(3, 2 * len(filters), kernel, bias=False).requires_grad_(False)
    layer.weight.copy_(torch.cat([filters, -filters]))
    return layer


class ConvBlock(nn.Sequential):
    """conv - pool - norm - GELU - conv - norm - GELU; halves height and width."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            _norm(outputs),
            nn.GELU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            _norm(outputs),
            nn.GELU(),
        )
        # Start as an identity where there are enough channels: signals pass from the first step on.
        for layer in (self[0], self[4]):
            nn.init.dirac_(layer.weight[: layer.in_channels].data)


def _norm(channels: int) -> nn.BatchNorm2d:
    """BatchNorm without a trained scale; running statistics that follow within a few steps, for short runs."""
    layer = nn.BatchNorm2d(channels, momentum=0.4)
    layer.weight.requires_grad_(False)
    return layer


class Scale(nn.Module):
    """Multiplies by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def fast_network(images: Tensor, widths: Sequence[int] = (32, 64, 64), classes: int = 10) -> nn.Sequential:
    """A frozen whitening convolution, three blocks and a linear layer, for images (N, 3, 32, 32).

    images: normalised training images, from which the first layer is computed; a few thousand suffice.
    """
    first = whitening_convolution(images)
    first_width, second_width, third_width = widths
    return nn.Sequential(
        first,
        nn.GELU(),
        ConvBlock(first.out_channels, first_width),
        ConvBlock(first_width, second_width),
        ConvBlock(second_width, third_width),
        nn.MaxPool2d(3),
        nn.Flatten(),
        nn.Linear(third_width, classes, bias=False),
        Scale(1 / 9),
    ).to(memory_format=torch.channels_last)


def fast_recipe(network: nn.Module, steps: int) -> tuple[torch.optim.Optimizer, LRScheduler, nn.Module]:
    """Optimizer, scheduler (to step after each batch) and loss that :func:`fast_network` is trained with.

    steps: number of batches of the whole run; a batch has about 256 images. Nesterov momentum, a high rate that rises
    for a quarter of the run and falls to 0, and labels smoothed by 0.2.
    """
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=0.3, momentum=0.9, nesterov=True, weight_decay=5e-4)
    return optimizer, LambdaLR(optimizer, partial(triangular, total=steps)), nn.CrossEntropyLoss(label_smoothing=0.2)

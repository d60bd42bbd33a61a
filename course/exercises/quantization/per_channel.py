"""Lesson 13: a scale for each channel."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "quantization.per_channel",
    title="Weights with a scale for each channel",
    task="""
        `quantize_per_channel(weight, axis)` quantizes a float32 tensor symmetrically, with a scale of its own for each
        index along `axis`. It returns the tuple `(codes, scales)`:

        - `codes`, int8, the shape of `weight`, from -127 to 127: each number over the scale of its channel, rounded as
          `torch.round` does it.
        - `scales`, float32, shape `(weight.shape[axis],)`: the largest magnitude in the channel over 127. A channel of
          zeros has the scale 1.

        `axis` may be negative. Weights of `nn.Linear` are `(out, in)`, of `nn.Conv2d` `(out, in, kh, kw)`, both with
        the output channels on axis 0; `nn.ConvTranspose2d` has them on axis 1.
        """,
    hints=(
        "The largest magnitude has to be taken over every axis but one. In which shape do the scales line up with the "
        "weight again (lesson 01: broadcasting starts at the right)?",
        "weight.movedim(axis, 0).flatten(1) has a row for each channel. To divide, the scales need as many axes as the "
        "weight, all of size 1 but the one at axis.",
    ),
)


@exercise.stub
def quantize_per_channel(weight: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return (codes int8 of the weight's shape, scales float32 (channels,)); channels lie along axis."""
    raise NotImplementedError


@exercise.reference
def rows_of_channels(weight, axis):
    largest = weight.movedim(axis, 0).flatten(1).abs().amax(dim=1)
    scales = torch.where(largest == 0, 1.0, largest / 127)
    shape = [1] * weight.ndim
    shape[axis] = -1
    return (weight / scales.view(shape)).round().to(torch.int8), scales


@exercise.alternative
def channel_by_channel(weight, axis):
    codes, scales = [], []
    for channel in weight.unbind(axis):
        largest = channel.abs().max()
        scales.append(largest / 127 if largest > 0 else torch.tensor(1.0))
        codes.append((channel / scales[-1]).round().to(torch.int8))
    return torch.stack(codes, dim=axis), torch.stack(scales)


@exercise.alternative
def other_axes_kept(weight, axis):
    others = [each for each in range(weight.ndim) if each != axis % weight.ndim]
    scales = weight.abs().amax(dim=others, keepdim=True) / 127
    scales[scales == 0] = 1
    return torch.round(weight / scales).to(torch.int8), scales.flatten()


@exercise.wrong(
    "One scale serves all channels. A channel of small weights, next to one of large weights, is left with a few "
    "codes, or with zeros only.",
    fault="quantization-per-tensor-weights",
)
def one_scale(weight, axis):
    scale = weight.abs().max() / 127
    scale = torch.where(scale == 0, 1.0, scale)
    return (weight / scale).round().to(torch.int8), scale.expand(weight.shape[axis]).clone()


@exercise.wrong("`axis` is ignored and 0 taken. In a transposed convolution that is a scale for each input channel.")
def always_axis_0(weight, axis):
    largest = weight.flatten(1).abs().amax(dim=1)
    scales = torch.where(largest == 0, 1.0, largest / 127)
    return (weight / scales.view(-1, *[1] * (weight.ndim - 1))).round().to(torch.int8), scales


@exercise.wrong("The maximum runs over `axis` itself: that is a scale for each position, not for each channel.")
def maximum_over_the_axis(weight, axis):
    largest = weight.abs().amax(dim=axis, keepdim=True)
    scales = torch.where(largest == 0, 1.0, largest / 127)
    return (weight / scales).round().to(torch.int8), scales.flatten()


@exercise.wrong(
    "The largest number is taken, not the largest magnitude. A channel whose largest weight is negative does not fit "
    "into the codes and wraps around."
)
def without_magnitude(weight, axis):
    largest = weight.movedim(axis, 0).flatten(1).amax(dim=1)
    scales = torch.where(largest <= 0, 1.0, largest / 127)
    shape = [1] * weight.ndim
    shape[axis] = -1
    return (weight / scales.view(shape)).round().to(torch.int32).to(torch.int8), scales


@exercise.wrong("A channel of zeros has the scale 0, and 0 / 0 is NaN, which no integer can hold.")
def zeros_forgotten(weight, axis):
    scales = weight.movedim(axis, 0).flatten(1).abs().amax(dim=1) / 127
    shape = [1] * weight.ndim
    shape[axis] = -1
    return (weight / scales.view(shape)).round().to(torch.int8), scales


@exercise.wrong("The scales keep the axes of the weight, with size 1. The task asks for the shape (channels,).")
def scales_with_all_axes(weight, axis):
    others = [each for each in range(weight.ndim) if each != axis % weight.ndim]
    scales = weight.abs().amax(dim=others, keepdim=True) / 127
    scales[scales == 0] = 1
    return torch.round(weight / scales).to(torch.int8), scales


@exercise.wrong(
    "The scale is the largest magnitude over 128. The largest positive weight falls on code 128, which int8 "
    "does not have."
)
def over_128(weight, axis):
    largest = weight.movedim(axis, 0).flatten(1).abs().amax(dim=1)
    scales = torch.where(largest == 0, 1.0, largest / 128)
    shape = [1] * weight.ndim
    shape[axis] = -1
    return (weight / scales.view(shape)).round().clamp(-128, 127).to(torch.int8), scales


@exercise.wrong("The conversion to int8 cuts the fraction off. Round first: the error halves.")
def cut_off(weight, axis):
    largest = weight.movedim(axis, 0).flatten(1).abs().amax(dim=1)
    scales = torch.where(largest == 0, 1.0, largest / 127)
    shape = [1] * weight.ndim
    shape[axis] = -1
    return (weight / scales.view(shape)).to(torch.int8), scales


@exercise.wrong(
    "The codes are the channels first: movedim was not undone, so that they no longer have the weight's shape."
)
def left_in_another_order(weight, axis):
    moved = weight.movedim(axis, 0)
    largest = moved.flatten(1).abs().amax(dim=1)
    scales = torch.where(largest == 0, 1.0, largest / 127)
    return (moved / scales.view(-1, *[1] * (weight.ndim - 1))).round().to(torch.int8), scales


@exercise.wrong("The codes are not int8. A weight that takes four bytes is no smaller than before.")
def codes_stay_float(weight, axis):
    largest = weight.movedim(axis, 0).flatten(1).abs().amax(dim=1)
    scales = torch.where(largest == 0, 1.0, largest / 127)
    shape = [1] * weight.ndim
    shape[axis] = -1
    return (weight / scales.view(shape)).round(), scales


def numbers(*shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 37 % 101 - 47).float().reshape(shape) / 16


@exercise.probe
def linear():
    return torch.tensor([[10.0, -3.3], [0.03, 0.01], [-2.0, 0.7]]), 0


@exercise.probe
def square():
    return torch.tensor([[10.0, -3.3], [0.03, 0.01]]), 1


@exercise.probe
def convolution():
    return numbers(3, 2, 2, 2), 0


@exercise.probe
def transposed_convolution():
    return numbers(2, 3, 2, 1), 1


@exercise.probe
def last_axis():
    return numbers(2, 3, 4), -1


@exercise.probe
def middle_axis_from_the_end():
    return numbers(2, 5, 4), -2


@exercise.probe
def a_channel_of_zeros():
    return torch.tensor([[0.0, 0.0], [1.5, -3.0]]), 0


@exercise.probe
def negative_weights():
    return torch.tensor([[-4.0, 1.0, 0.3], [-1.0, -2.0, -0.4]]), 0

"""Lesson 01: (height, width, channels) to (channels, height, width) without copying."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.channels_first",
    title="Channels first, without copying",
    task="""
        Image files and NumPy hold an image as `(height, width, channels)`; the layers of PyTorch want
        `(channels, height, width)`.

        `channels_first(image)` takes a tensor of shape `(H, W, C)` and returns one of shape `(C, H, W)` with
        `result[c, h, w] == image[h, w, c]`. The dtype and the numbers stay as they are. The result is a view: it
        shares the memory of `image`, and nothing is copied.

        Example: an image of shape `(2, 4, 3)` with strides `(12, 3, 1)` becomes a tensor of shape `(3, 2, 4)` with
        strides `(1, 12, 3)`.
        """,
    hints=(
        "Moving an axis means moving its size and its stride together. reshape() and view() do not move axes: they "
        "cut the row-major sequence of elements anew.",
        "permute() takes, for each axis of the result, the number of the axis of the input that goes there. Which "
        "axis of the image becomes the first one?",
    ),
    compare=("value", "shape", "dtype", "strides", "sharing"),
)


@exercise.stub
def channels_first(image: Tensor) -> Tensor:
    """Return a view of image (H, W, C) with shape (C, H, W)."""
    raise NotImplementedError


@exercise.reference
def by_permute(image):
    return image.permute(2, 0, 1)


@exercise.alternative
def by_moving_one_axis(image):
    return image.movedim(-1, 0)


@exercise.alternative
def by_two_swaps(image):
    return image.transpose(1, 2).transpose(0, 1)


@exercise.wrong(
    "The shape is right and the image is scrambled: the row-major sequence of the elements was kept and only cut "
    "elsewhere (reshape() and view() do that), so numbers of several channels end up in one plane. Axes have to be "
    "moved, together with their strides.",
    fault="reshape-instead-of-permute",
)
def by_reshape(image):
    height, width, channels = image.shape
    return image.reshape(channels, height, width)


@exercise.wrong(
    "The channels are in front, but height and width have changed places as well: the picture lies on its side. "
    "Swapping the first axis with the last one also moves what was first. The other two axes have to keep their order."
)
def first_and_last_swapped(image):
    return image.transpose(0, 2)


@exercise.wrong(
    "The channels are in front, but each plane is scrambled: height and width had changed places, and cutting the "
    "sequence anew brought back the shape and not the order. Besides, that had to copy. The axes can be put in the "
    "right order in one step.",
    fault="reshape-instead-of-permute",
)
def first_and_last_swapped_then_reshaped(image):
    height, width, channels = image.shape
    return image.permute(2, 1, 0).reshape(channels, height, width)


@exercise.wrong(
    "The axes went round the other way: the width is in front and the height comes last. (The numbers in permute() say "
    "where each axis of the *result* comes from, not where each axis of the input goes to.) Ask of the result's first "
    "axis: which axis of the image is it?"
)
def rotated_the_other_way(image):
    return image.permute(1, 2, 0)


@exercise.wrong(
    "Shape and numbers are right, but they were copied. A moved axis needs no copy: the view has the same three "
    "strides in another order. A new block of memory is worth its price only if something later needs that layout."
)
def with_a_copy(image):
    return image.movedim(2, 0).contiguous()


@exercise.wrong(
    "The numbers were changed, too: divided by 255 and made floating, as for a network's input. Here dtype and numbers "
    "stay as they are, and a division always makes a new tensor."
)
def scaled_like_to_tensor(image):
    return image.movedim(2, 0) / 255


@exercise.wrong(
    "Only the last two axes have changed places, so the channels stand in the middle. The channels must come to the "
    "very front, past both other axes."
)
def channels_in_the_middle(image):
    return image.transpose(1, 2)


@exercise.probe
def small_rgb_image():
    return torch.arange(24, dtype=torch.uint8).reshape(2, 4, 3)


@exercise.probe
def crop_of_an_image():
    return torch.arange(120.0).reshape(5, 8, 3)[1:, 2:7:2]


@exercise.probe
def one_channel():
    return torch.arange(10.0).reshape(2, 5, 1)


@exercise.probe
def one_row_of_four_channels():
    return torch.arange(12, dtype=torch.int64).reshape(1, 3, 4)


@exercise.probe
def batch_axes_as_channels():
    return torch.arange(30.0).reshape(5, 3, 2).transpose(0, 1)

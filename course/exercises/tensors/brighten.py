"""Lesson 01: brighten a uint8 image without wrap-around."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.brighten",
    title="Brighten an image without wrap-around",
    task="""
        `brighten(image, amount)` takes a uint8 image of any shape and an integer `amount` from -255 to 255, and
        returns a new uint8 image of the same shape: each pixel plus `amount`. What would be above 255 becomes 255,
        what would be below 0 becomes 0. The image that was passed in stays as it is, and it still does when somebody
        writes into the result later, whatever the amount was.

        Example: `[10, 100, 200]` and the amount 100 give `[110, 200, 255]`; the amount -50 gives `[0, 50, 150]`.
        """,
    hints=(
        "uint8 counts modulo 256: 200 + 100 is 44. By the time that you look at the sum it is too late. In which "
        "dtype could the sum be taken?",
        "Three steps: convert to a wider, signed dtype and add; limit to the range of a pixel; convert back. "
        "Conversions return a new tensor.",
    ),
)


@exercise.stub
def brighten(image: Tensor, amount: int) -> Tensor:
    """Return a new uint8 image: image (uint8, any shape) plus amount (-255 to 255), limited to 0..255."""
    raise NotImplementedError


@exercise.reference
def by_wider_integers(image, amount):
    return (image.to(torch.int16) + amount).clamp(0, 255).to(torch.uint8)


@exercise.alternative
def by_floats(image, amount):
    return image.float().add(amount).clamp(min=0, max=255).byte()


@exercise.alternative
def by_limiting_first(image, amount):
    # No sum leaves the range if the pixels are limited before.
    if amount >= 0:
        return image.clamp(max=255 - amount) + amount
    return image.clamp(min=-amount) - (-amount)


@exercise.wrong(
    "The sum went through uint8, which counts modulo 256: 200 + 100 is 44 there. Afterwards there is nothing left to "
    "limit, since every uint8 is between 0 and 255. A conversion whose result is not used changes nothing, and "
    "converting back before limiting wraps all the same. Add and limit in a wider dtype.",
    fault="uint8-overflow",
)
def sum_in_uint8(image, amount):
    return (image + amount).clamp(0, 255)


@exercise.wrong(
    "The numbers are right, but the result is not an image in uint8 any more: it kept the wider integers of the sum "
    "and takes more memory. Once the numbers are limited they fit into uint8 again."
)
def left_in_the_wider_dtype(image, amount):
    return (image.to(torch.int16) + amount).clamp(0, 255)


@exercise.wrong(
    "The numbers are right, but the result is floating: four times the memory, and whatever displays images takes "
    "floating numbers to lie between 0 and 1. Once the numbers are limited they fit into uint8 again."
)
def left_in_floats(image, amount):
    return (image.float() + amount).clamp(0, 255)


@exercise.wrong(
    "The dtype of the sum is signed, but not wider: int8 ends at 127. A pixel of 200 is -56 there before anything "
    "was added. The pixels have to fit, and so do the sums, from -255 to 510.",
    fault="uint8-overflow",
)
def sum_in_int8(image, amount):
    return (image.to(torch.int8) + amount).clamp(min=0).to(torch.uint8)


@exercise.wrong(
    "The upper end is limited, the lower one is not: a negative number wraps around when it is converted to uint8, "
    "so a dark pixel that is darkened becomes bright.",
    fault="uint8-overflow",
)
def only_the_upper_end(image, amount):
    return (image.to(torch.int16) + amount).clamp(max=255).to(torch.uint8)


@exercise.wrong(
    "The lower end is limited, the upper one is not: a number above 255 wraps around when it is converted to uint8, "
    "so a bright pixel that is brightened becomes dark.",
    fault="uint8-overflow",
)
def only_the_lower_end(image, amount):
    return (image.to(torch.int16) + amount).clamp(min=0).to(torch.uint8)


@exercise.wrong(
    "With a negative amount the image turns white: wherever the sum was smaller than the pixel, the result is 255. A "
    "smaller sum is a sign of wrap-around only if the amount is positive. Rather than mending the wrap-around "
    "afterwards, take the sum where it does not happen.",
    fault="uint8-overflow",
)
def mended_afterwards(image, amount):
    total = image + amount
    return torch.where(total < image, 255, total)


@exercise.wrong(
    "Every pixel became 0 or 1: they were limited to 0..1, the range of floating images, and converting 0.4 to an "
    "integer gives 0. A uint8 image runs from 0 to 255."
)
def range_of_floating_images(image, amount):
    return (image / 255 + amount / 255).clamp(0, 1).to(torch.uint8)


@exercise.wrong(
    "The caller's image has changed: the sum was written into the tensor that was passed in, as += and methods that "
    "end in an underscore do. Make a new tensor. (The sum also wrapped around, since it was taken in uint8.)",
    fault="uint8-overflow",
)
def written_into_the_image(image, amount):
    image += amount
    return image


@exercise.wrong(
    "Some pixels are one too dark. Dividing by 255 and multiplying by it again does not always give back the same "
    "number, and the conversion to an integer cuts off what is after the point: 76.99999 becomes 76. Whole numbers "
    "need no fractions."
)
def fractions_cut_off(image, amount):
    return ((image / 255 + amount / 255).clamp(0, 1) * 255).to(torch.uint8)


@exercise.wrong(
    "For the amount 0 the caller's own image came back instead of a new one: whoever writes into the result then "
    "writes into the image. A result that is sometimes new and sometimes not is hard to work with."
)
def the_same_image_for_0(image, amount):
    if amount == 0:
        return image
    return (image.to(torch.int16) + amount).clamp(0, 255).to(torch.uint8)


def pixels(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.uint8)


@exercise.probe
def brighter():
    return pixels(0, 10, 100, 155, 156, 200).reshape(2, 3), 100


@exercise.probe
def darker():
    return pixels(255, 200, 100, 50, 49, 0).reshape(3, 2), -50


@exercise.probe
def one_step_brighter():
    return pixels(254, 3, 255), 1


@exercise.probe
def one_step_darker():
    return pixels(1, 0, 255, 77), -1


@exercise.probe
def all_the_way_up():
    return pixels(0, 1, 128, 255), 255


@exercise.probe
def all_the_way_down():
    return pixels(255, 254, 3, 0), -255


@exercise.probe
def rgb_crop():
    return torch.arange(0, 240, 4, dtype=torch.uint8).reshape(4, 5, 3).permute(2, 0, 1)[:, 1:, ::2], 60


@exercise.probe
def no_pixels():
    return pixels().reshape(0, 3), 7


@exercise.probe
def every_pixel_by_0():
    return torch.arange(256).to(torch.uint8), 0


@exercise.probe
def every_pixel_brighter():
    return torch.arange(256).to(torch.uint8), 37


@exercise.probe
def every_pixel_darker():
    return torch.arange(256).to(torch.uint8), -91


@exercise.probe
def result_is_written_to(answer):
    """The images that were passed in, after a write into each result."""
    images = [pixels(7, 70, 170) for _ in range(3)]
    for image, amount in zip(images, (0, 20, -20), strict=True):
        answer(image, amount).fill_(1)
    return images

"""Lesson 10: crop and flip for a whole batch at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from course.checking import Exercise, no_python_loop

exercise = Exercise(
    "throughput.crop_flip",
    title="Crop and flip a batch at once",
    task="""
        `crop_and_mirror(images, offsets, mirrored, padding)` augments a batch. The random numbers are drawn already,
        one decision for each image:

        - Image `i` is padded with `padding` zeros on all four sides. From the padded image a window of the original
          height and width is cut out, whose first row is `offsets[i, 0]` and whose first column is `offsets[i, 1]`,
          counted from 0 in the padded image.
        - Where `mirrored[i]` is true, this window is then mirrored left to right.

        `images` is `(N, C, H, W)` of **any dtype**, also `uint8` and `bool`; the result has its shape and dtype, and
        `images` stays as it is. `offsets` is int64 `(N, 2)`, from 0 to `2 * padding`; `mirrored` is bool `(N,)`. `N`
        and `padding` may be 0.

        Use no loop in Python: no `for`, no comprehension, no `map`. torch runs **the same number of operations** for
        four images as for forty. (The memory format of the result is free.)
        """,
    hints=(
        "Pad the whole batch once. Which rows of its padded image does image i need, as numbers? And which columns, in "
        "which order, if it is mirrored? An offset of shape (N, 1) plus torch.arange of shape (H,) gives all of them.",
        "Either take all pixels with one index or gather, by image, row and column; or let `unfold` show each possible "
        "window as a view, index image, row offset and column offset, and choose between the window and its flip with "
        "torch.where.",
    ),
    requires=(no_python_loop,),
)


@exercise.stub
def crop_and_mirror(images: Tensor, offsets: Tensor, mirrored: Tensor, padding: int) -> Tensor:
    """Pad images (N, C, H, W) with zeros, cut (H, W) out at offsets (N, 2), and mirror them where mirrored (N,)."""
    raise NotImplementedError


@exercise.reference
def by_windows(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    windows = F.pad(images, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    cut = windows[torch.arange(len(images)), :, offsets[:, 0], offsets[:, 1]]
    return torch.where(mirrored[:, None, None, None], cut.flip(-1), cut)


@exercise.alternative
def by_index(images, offsets, mirrored, padding):
    count, _, height, width = images.shape
    padded = F.pad(images, (padding, padding, padding, padding))
    rows = offsets[:, :1] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(count, width)
    columns = offsets[:, 1:] + torch.where(mirrored[:, None], columns.flip(1), columns)
    pixels = padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return pixels.permute(0, 3, 1, 2)


@exercise.alternative
def by_gather(images, offsets, mirrored, padding):
    count, channels, height, width = images.shape
    padded = nn.functional.pad(images, [padding] * 4)
    rows = (offsets[:, 0, None] + torch.arange(height)).view(count, 1, height, 1)
    columns = (offsets[:, 1, None] + torch.arange(width)).view(count, 1, 1, width)
    band = padded.gather(2, rows.expand(-1, channels, -1, padded.shape[3]))
    cut = band.gather(3, columns.expand(-1, channels, height, -1))
    cut[mirrored] = cut[mirrored].flip(3)
    return cut


@exercise.alternative
def by_vmap(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    padded = torch.zeros(*images.shape[:2], height + 2 * padding, width + 2 * padding, dtype=images.dtype)
    padded[:, :, padding : padding + height, padding : padding + width] = images

    def one(image, offset, flip):
        columns = torch.arange(width)
        columns = offset[1] + torch.where(flip, width - 1 - columns, columns)
        return image[:, (offset[0] + torch.arange(height))[:, None], columns]

    return torch.vmap(one)(padded, offsets, mirrored) if len(images) else padded[:, :, :height, :width]


def cut_out(padded, offsets, mirrored, height, width):
    """What the wrong answers have in common: the windows of a padded batch, mirrored where asked."""
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    cut = windows[torch.arange(len(padded)), :, offsets[:, 0], offsets[:, 1]]
    return torch.where(mirrored[:, None, None, None], cut.flip(-1), cut)


@exercise.wrong(
    "One decision serves all images: the offset and the mirror of the first one. The batch then moves as one picture; "
    "how many different images an epoch sees depends on the number of decisions.",
    fault="one-draw-for-the-batch",
)
def one_draw_for_all(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    if not len(images):
        return images.clone()
    padded = F.pad(images, (padding,) * 4)
    row, column = offsets[0, 0], offsets[0, 1]
    cut = padded[:, :, row : row + height, column : column + width]
    return torch.where(mirrored[0], cut.flip(-1), cut)


@exercise.wrong(
    "The crops are right, but one decision mirrors all images or none. Each image has its own entry in `mirrored`.",
    fault="one-draw-for-the-batch",
)
def all_mirrored_or_none(images, offsets, mirrored, padding):
    cut = by_windows(images, offsets, torch.zeros_like(mirrored), padding)
    return cut.flip(-1) if mirrored.any() else cut


@exercise.wrong(
    "A Python loop goes through the images. The values are right, but each image costs some operations, each with its "
    "own overhead: that is what the batch is to spare.",
    fault="python-loop-over-images",
)
def image_by_image(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    padded, result = F.pad(images, (padding,) * 4), torch.empty_like(images)
    for i, ((row, column), flip) in enumerate(zip(offsets.tolist(), mirrored.tolist(), strict=True)):
        cut = padded[i, :, row : row + height, column : column + width]
        result[i] = cut.flip(-1) if flip else cut
    return result


@exercise.wrong("Row and column have changed places: `offsets[:, 0]` counts rows, `offsets[:, 1]` columns.")
def rows_and_columns_swapped(images, offsets, mirrored, padding):
    return by_windows(images, offsets.flip(1), mirrored, padding)


@exercise.wrong(
    "It mirrors first and cuts then. In a mirrored image the same column offset is another window: what was at the "
    "left is at the right. Cut first."
)
def mirrored_before_the_cut(images, offsets, mirrored, padding):
    turned = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
    return by_windows(turned, offsets, torch.zeros_like(mirrored), padding)


@exercise.wrong("It mirrors top to bottom. The last axis of (N, C, H, W) runs from left to right.")
def upside_down(images, offsets, mirrored, padding):
    cut = by_windows(images, offsets, torch.zeros_like(mirrored), padding)
    return torch.where(mirrored[:, None, None, None], cut.flip(-2), cut)


@exercise.wrong("The images that are not to be mirrored are mirrored, and the others are not.")
def the_others_mirrored(images, offsets, mirrored, padding):
    return by_windows(images, offsets, ~mirrored, padding)


@exercise.wrong("Nothing is mirrored.")
def never_mirrored(images, offsets, mirrored, padding):
    return by_windows(images, offsets, torch.zeros_like(mirrored), padding)


@exercise.wrong(
    "The image moves the wrong way. An offset is where the window starts: a larger one shows more of the right and of "
    "the bottom, so the picture moves left and up."
)
def moved_the_other_way(images, offsets, mirrored, padding):
    return by_windows(images, 2 * padding - offsets, mirrored, padding)


@exercise.wrong(
    "What leaves on one side comes in on the other: that is a roll. The task pads with zeros and cuts a window out."
)
def rolled(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    rows = (offsets[:, :1] - padding + torch.arange(height)) % height
    columns = (offsets[:, 1:] - padding + torch.arange(width)) % width
    cut = images[torch.arange(len(images))[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    cut = cut.permute(0, 3, 1, 2)
    return torch.where(mirrored[:, None, None, None], cut.flip(-1), cut)


@exercise.wrong("Indices beyond the image are clamped, which repeats its border. The task pads with zeros.")
def border_repeated(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    rows = (offsets[:, :1] - padding + torch.arange(height)).clamp(0, height - 1)
    columns = (offsets[:, 1:] - padding + torch.arange(width)).clamp(0, width - 1)
    cut = images[torch.arange(len(images))[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    cut = cut.permute(0, 3, 1, 2)
    return torch.where(mirrored[:, None, None, None], cut.flip(-1), cut)


@exercise.wrong(
    "The padded batch is made by torch.zeros without a dtype, so everything becomes float32: four times the bytes of "
    "uint8, and another dtype than that of `images`."
)
def padded_in_float32(images, offsets, mirrored, padding):
    count, channels, height, width = images.shape
    padded = torch.zeros(count, channels, height + 2 * padding, width + 2 * padding)
    padded[:, :, padding : padding + height, padding : padding + width] = images
    return cut_out(padded, offsets, mirrored, height, width)


@exercise.wrong(
    "The images are mirrored in place before the cut, with a column offset that fits. The result is right, but the "
    "caller's `images` have changed: the next epoch would mirror the mirrored ones."
)
def mirrored_in_place(images, offsets, mirrored, padding):
    images[mirrored] = images[mirrored].flip(-1)
    columns = torch.where(mirrored, 2 * padding - offsets[:, 1], offsets[:, 1])
    return by_windows(images, torch.stack([offsets[:, 0], columns], 1), torch.zeros_like(mirrored), padding)


@exercise.wrong(
    "The window is square: the width was taken for the height, too. The task speaks of the original height and width."
)
def square_window(images, offsets, mirrored, padding):
    width = images.shape[3]
    return cut_out(F.pad(images, (padding,) * 4), offsets, mirrored, width, width)


@exercise.wrong(
    "Only left and right are padded. F.pad takes two numbers for each axis, the last axis first: two numbers are the "
    "width alone, four are width and height."
)
def padded_at_two_sides(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    return cut_out(F.pad(images, (padding, padding)), offsets, mirrored, height, width)


@exercise.wrong(
    "The batch is padded in front of the images and behind them: eight numbers for F.pad, of which the last pairs "
    "belong to channels and batch. Image i is no longer at place i."
)
def padded_on_all_axes(images, offsets, mirrored, padding):
    height, width = images.shape[2:]
    padded = F.pad(images, (padding,) * 8)
    return cut_out(padded[: len(images), : images.shape[1]], offsets, mirrored, height, width)


def numbered(*shape, dtype=torch.uint8):
    """Images without a zero, in which every pixel is another number."""
    return torch.arange(1, torch.Size(shape).numel() + 1).reshape(shape).to(dtype)


def decisions(*rows):
    """offsets and mirrored from rows of (row, column, mirrored)."""
    table = torch.tensor(rows)
    return table[:, :2].clone(), table[:, 2].bool()


@exercise.probe
def one_image_in_its_place():
    return numbered(1, 1, 2, 3), *decisions((1, 1, 0)), 1


@exercise.probe
def one_image_moved():
    return numbered(1, 1, 2, 3), *decisions((0, 2, 0)), 1


@exercise.probe
def one_image_mirrored():
    return numbered(1, 1, 2, 3), *decisions((1, 1, 1)), 1


@exercise.probe
def one_image_moved_and_mirrored():
    return numbered(1, 1, 2, 3), *decisions((2, 2, 1)), 1


@exercise.probe
def two_images():
    return numbered(2, 1, 3, 3), *decisions((1, 2, 0), (0, 0, 1)), 1


@exercise.probe
def wide_images_of_three_channels():
    return numbered(3, 3, 4, 5), *decisions((4, 1, 1), (0, 3, 0), (2, 0, 1)), 2


@exercise.probe
def tall_images():
    return numbered(4, 2, 6, 3), *decisions((0, 1, 0), (3, 4, 1), (2, 2, 0), (1, 3, 1)), 2


@exercise.probe
def floats():
    return numbered(2, 2, 3, 4, dtype=torch.float32) / 8, *decisions((0, 2, 1), (2, 1, 0)), 1


@exercise.probe
def half_precision():
    return numbered(2, 1, 2, 4, dtype=torch.float16) / 8, *decisions((3, 2, 1), (1, 4, 0)), 2


@exercise.probe
def large_integers():
    return numbered(2, 1, 2, 2, dtype=torch.int64) + 2**53, *decisions((1, 0, 0), (0, 1, 1)), 1


@exercise.probe
def masks():
    return numbered(2, 2, 3, 3) % 3 == 1, *decisions((2, 1, 1), (1, 0, 0)), 1


@exercise.probe
def channels_last():
    images = numbered(3, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    return images, *decisions((0, 1, 1), (2, 2, 0), (1, 0, 1)), 1


@exercise.probe
def no_padding():
    return numbered(2, 1, 2, 3), *decisions((0, 0, 1), (0, 0, 0)), 0


@exercise.probe
def moved_out_of_sight():
    return numbered(2, 1, 2, 2), *decisions((6, 3, 0), (4, 4, 1)), 3


@exercise.probe
def no_images():
    return torch.zeros(0, 3, 4, 5, dtype=torch.uint8), torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0).bool(), 2


class _Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        return func(*args, **(kwargs or {}))


@exercise.probe
def operations_for_four_and_for_forty(answer):
    counts = []
    for repeated in (1, 10):
        offsets, mirrored = decisions(*[(0, 1, 1), (2, 2, 0), (1, 0, 1), (1, 1, 0)] * repeated)
        with _Count() as count:
            answer(numbered(4 * repeated, 1, 3, 4, dtype=torch.int64), offsets, mirrored, 1)
        counts.append(count.operations)
    return "as many" if counts[0] == counts[1] else f"{counts[1]} operations for forty images, {counts[0]} for four"

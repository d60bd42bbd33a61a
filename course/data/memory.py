"""Images in memory as tensors, and whole-batch augmentation: no Python loop over images, on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


class ImageTensors:
    """All images and targets of a dataset as two tensors.

    images: uint8 (N, C, H, W). targets: int64 (N,), on the same device. Raises TypeError or ValueError for others.
    """

    def __init__(self, images: Tensor, targets: Tensor) -> None:
        if images.dtype != torch.uint8 or targets.dtype != torch.int64:
            raise TypeError(f"images should be uint8 and targets int64; they are {images.dtype} and {targets.dtype}")
        if images.ndim != 4 or targets.shape != images.shape[:1]:
            raise ValueError(
                "images should be (N, C, H, W) and targets (N,); "
                f"they are {tuple(images.shape)} and {tuple(targets.shape)}"
            )
        if images.device != targets.device:
            raise ValueError(f"images are on {images.device}, targets on {targets.device}; move both to one device")
        self.images = images
        self.targets = targets

    @classmethod
    def from_dataset(cls, dataset: Any, count: int | None = None) -> ImageTensors:
        """The first `count` items (default: all) of a dataset like CIFAR10: `.data` uint8 (N, H, W, C), `.targets`.

        The dataset's transforms are not applied. Values are copied, so that the dataset stays as it is.
        """
        channels_first = np.moveaxis(dataset.data[:count], -1, 1)
        images = torch.from_numpy(np.array(channels_first, order="C"))  # one copy, in the new order
        return cls(images, torch.tensor(dataset.targets[:count], dtype=torch.int64))

    def to(self, device: str | torch.device) -> ImageTensors:
        """The same images on a device."""
        return ImageTensors(self.images.to(device), self.targets.to(device))

    def __len__(self) -> int:
        return len(self.images)

    def batches(
        self,
        batch_size: int,
        shuffle: bool = False,
        generator: torch.Generator | None = None,
        device: str | torch.device | None = None,
        *,
        drop_last: bool = False,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> Batches:
        """Batches to iterate over as over a DataLoader, once an epoch, each time shuffled anew if `shuffle`.

        A batch is (images, targets): uint8 (B, C, H, W), or what `transform` makes of the whole batch, and int64 (B,),
        on `device` (default: where the images are). The last batch may be smaller, unless `drop_last`.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size should be at least 1, not {batch_size}")
        return Batches(self, batch_size, shuffle, generator, device, drop_last, transform)


@dataclass(frozen=True)
class Batches:
    """What :meth:`ImageTensors.batches` returns; `len` counts batches."""

    data: ImageTensors
    batch_size: int
    shuffle: bool
    generator: torch.Generator | None
    device: str | torch.device | None
    drop_last: bool
    transform: Callable[[Tensor], Tensor] | None

    def __len__(self) -> int:
        whole, rest = divmod(len(self.data), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        images, targets = self.data.images, self.data.targets
        order = self._order().to(images.device)
        for chosen in order.split(self.batch_size)[: len(self)]:
            batch, labels = images[chosen], targets[chosen]
            if self.device is not None:
                batch, labels = batch.to(self.device), labels.to(self.device)
            yield (batch if self.transform is None else self.transform(batch)), labels

    def _order(self) -> Tensor:
        if not self.shuffle:
            return torch.arange(len(self.data))
        device = self.generator.device if self.generator is not None else "cpu"
        return torch.randperm(len(self.data), generator=self.generator, device=device)


def normalise(images: Tensor, mean: Sequence[float] | Tensor, std: Sequence[float] | Tensor) -> Tensor:
    """Subtract `mean` and divide by `std`, one number a channel, in float32.

    images: (..., C, H, W), uint8, which is scaled to 0..1 first (as ToTensor does), or floats, taken as they are.
    mean, std: of images scaled to 0..1, see :func:`channel_statistics`.
    """
    # Intermediate results are written over: fresh memory for each would take longer than the arithmetic.
    if images.dtype == torch.uint8:
        result = images.to(torch.float32).div_(255)
    elif images.is_floating_point():
        result = images.clone()
    else:
        raise TypeError(f"images should be uint8 or floating point, not {images.dtype}")
    mean, std = (torch.as_tensor(v, dtype=result.dtype, device=result.device)[:, None, None] for v in (mean, std))
    return result.sub_(mean).div_(std)


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, float32 (C,) each, of uint8 images (N, C, H, W) scaled to 0..1."""
    if images.dtype != torch.uint8:
        raise TypeError(f"images should be uint8, not {images.dtype}")
    levels = torch.arange(256, dtype=torch.float64) / 255
    # Counting the 256 values takes a fraction of the memory that converting all pixels to float would take.
    counts = torch.stack([torch.bincount(c.flatten(), minlength=256) for c in images.transpose(0, 1)]).double().cpu()
    total = counts.sum(1)
    mean = counts @ levels / total
    variance = counts @ levels.square() / total - mean.square()
    return mean.float().to(images.device), variance.clamp(min=0).sqrt().float().to(images.device)


def random_crop_flip(batch: Tensor, padding: int = 4, generator: torch.Generator | None = None) -> Tensor:
    """Shift each image by up to `padding` pixels, filling with zeros, and mirror each with probability one half.

    batch: (B, C, H, W) of any dtype, on any device; the result is like it. What RandomCrop(H, padding=padding) and
    RandomHorizontalFlip() do to one image after the other, at once. Numbers come from `generator`, or torch's own.
    """
    offsets, mirrored = draw_crops(len(batch), padding, generator, batch.device)
    return crop_flip(batch, offsets, mirrored, padding)


def draw_crops(
    count: int, padding: int, generator: torch.Generator | None = None, device: str | torch.device = "cpu"
) -> tuple[Tensor, Tensor]:
    """Draw for :func:`crop_flip`: offsets int64 (count, 2), row and column in 0..2*padding; mirrored, bool (count,)."""
    source = generator.device if generator is not None else device
    offsets = torch.randint(0, 2 * padding + 1, (count, 2), generator=generator, device=source)
    mirrored = torch.rand(count, generator=generator, device=source) < 0.5
    return offsets.to(device), mirrored.to(device)


def crop_flip(batch: Tensor, offsets: Tensor, mirrored: Tensor, padding: int = 4) -> Tensor:
    """Pad each image with zeros, cut (H, W) out at its offset (row, column), and mirror it where `mirrored`."""
    count, channels, height, width = batch.shape
    padded = F.pad(batch, (padding, padding, padding, padding))
    columns = torch.arange(width, device=batch.device).expand(count, width)
    columns = offsets[:, 1:] + torch.where(mirrored[:, None], width - 1 - columns, columns)
    rows = offsets[:, :1] + torch.arange(height, device=batch.device)
    pixels = (rows[:, :, None] * padded.shape[-1] + columns[:, None, :]).flatten(1)
    # One gather over flattened pixels takes a quarter of the time of indexing by image, row and column.
    chosen = padded.flatten(2).gather(2, pixels[:, None].expand(-1, channels, -1))
    return chosen.view(count, channels, height, width)

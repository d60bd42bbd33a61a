"""Batches in which each image is mirrored in every other epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from course.data.memory import ImageTensors, crop_flip, draw_crops


class AlternatingBatches:
    """Shuffled, augmented batches of (inputs, targets), to iterate over once an epoch.

    Images are shifted by up to `padding` pixels, filled with zeros after normalising, and mirrored in every other
    epoch, half of them in the first: two epochs show each image both ways, where chance would show a quarter twice
    alike on each side. data: on any device; `prepare` makes floats of a batch of images.
    """

    def __init__(
        self,
        data: ImageTensors,
        batch_size: int,
        padding: int,
        generator: torch.Generator,
        prepare: Callable[[Tensor], Tensor],
    ) -> None:
        self.data, self.batch_size, self.padding = data, batch_size, padding
        self.generator, self.prepare = generator, prepare
        self.mirrored = torch.rand(len(data), generator=generator) < 0.5

    def __len__(self) -> int:
        return -(-len(self.data) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        images, targets = self.data.images, self.data.targets
        order = torch.randperm(len(self.data), generator=self.generator)
        mirrored, order = self.mirrored.to(images.device), order.to(images.device)
        self.mirrored = ~self.mirrored
        for chosen in order.split(self.batch_size):
            offsets, _ = draw_crops(len(chosen), self.padding, self.generator, images.device)
            yield crop_flip(self.prepare(images[chosen]), offsets, mirrored[chosen], self.padding), targets[chosen]

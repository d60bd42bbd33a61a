"""The dataset that `cifar10` returns, whatever the images come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray as Array
from PIL import Image
from torch.utils.data import Dataset


class ImageDataset(Dataset):
    """Images in memory, usable in the place of `torchvision.datasets.CIFAR10`.

    data: uint8 (N, 32, 32, 3), red, green, blue. targets: list of N ints. classes: their names; class_to_idx.
    source: one line saying which data these are.
    An item is (image, target): a PIL image, or what `transform` makes of it, and an int, or what `target_transform`
    makes of it.
    """

    def __init__(
        self,
        data: Array,
        targets: Sequence[int],
        classes: Sequence[str],
        *,
        train: bool,
        source: str,
        transform: Callable[[Image.Image], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
    ) -> None:
        self.data = data
        self.targets = [int(target) for target in targets]
        self.classes = list(classes)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.train = train
        self.source = source
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = Image.fromarray(self.data[index])
        target: Any = self.targets[index]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __repr__(self) -> str:
        return (
            f"{len(self):,} {'training' if self.train else 'test'} images of {len(self.classes)} classes; {self.source}"
        )

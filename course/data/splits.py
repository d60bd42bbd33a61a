"""A dataset seen through a transform, so that parts of one dataset can have transforms of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset


class Transformed(Dataset[tuple[Any, Any]]):
    """The samples (x, y) of a map-style dataset as (transform(x), y), transformed anew at each access.

    dataset: map-style; it is read and never changed. transform: takes x; None leaves x as it is.
    """

    def __init__(self, dataset: Any, transform: Callable[[Any], Any] | None) -> None:
        self.dataset, self.transform = dataset, transform

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        x, y = self.dataset[index]
        return (x if self.transform is None else self.transform(x)), y

"""The images of the lessons: CIFAR-10, the drawn stand-in for it, and batches in memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from course.data.cifar10 import cifar10
from course.data.errors import DataError

if TYPE_CHECKING:
    from course.data.memory import ImageTensors, channel_statistics, normalise, random_crop_flip

__all__ = ["DataError", "ImageTensors", "channel_statistics", "cifar10", "normalise", "random_crop_flip"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'course.data' has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(importlib.import_module("course.data.memory"), name)

"""CIFAR-10 from wherever it is, and the drawn stand-in where it is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.data import places
from course.data.errors import DataError, no_access

if TYPE_CHECKING:
    from course.data.dataset import ImageDataset
    from course.data.store import Images

_announced: set[str] = set()


def cifar10(
    split: str,
    root: str | os.PathLike[str] | None = None,
    download: bool = False,
    transform: Callable[[Any], Any] | None = None,
    target_transform: Callable[[int], Any] | None = None,
) -> ImageDataset:
    """CIFAR-10's training or test images, usable in the place of `torchvision.datasets.CIFAR10`.

    split: "train" or "test". root: the folder to look in, by default $COURSE_DATA, else the course's own.
    The first of these that is there: the official archive in `root` (cifar-10-batches-py, or cifar-10-python.tar.gz,
    which is unpacked once); a folder of images train/<class>/*, test/<class>/*; with `download`, the official archive
    from its site, 170 MB; else the stand-in, ten drawn classes. Which one it is, is printed once; `.source` keeps it.

    transform, target_transform: as in torchvision, for each image (PIL) and each target (int).
    Raises ValueError for another split, DataError for data that are damaged, incomplete or out of reach, or a
    folder that was named and does not exist. Nothing of the user's is changed or deleted.
    """
    if split not in ("train", "test"):
        raise ValueError(f'split should be "train" or "test", not {split!r}')
    (images, targets), classes, source = _find(split, *places.data_folder(root), download)
    if source not in _announced:
        _announced.add(source)
        print(f"Data: {source}")
    from course.data.dataset import ImageDataset

    return ImageDataset(
        images,
        targets,
        classes,
        train=split == "train",
        source=source,
        transform=transform,
        target_transform=target_transform,
    )


def _find(split: str, folder: Path, named: bool, download: bool) -> tuple[Images, list[str], str]:
    from course.data import folder as image_folder
    from course.data import official

    _check_folder(folder, may_be_missing=download or not named)
    if official.is_in(folder):
        return *official.load(folder, split), f"CIFAR-10, the official archive in {folder}"
    if image_folder.is_in(folder):
        images, classes = image_folder.load(folder, split)
        what = "CIFAR-10" if tuple(classes) == image_folder.CIFAR10_CLASSES else f"{len(classes)} classes"
        return images, classes, f"{what}, image files in {folder}"
    if download:
        official.fetch(folder)
        return *official.load(folder, split), f"CIFAR-10, the official archive in {folder}"
    from course.data import standin

    where = f"no CIFAR-10 in {folder}" if named else "no CIFAR-10 here"
    offer = "download=True fetches it (170 MB), COURSE_DATA names a folder that has it"
    source = f"{where}, so the offline stand-in: ten drawn classes, not photographs ({offer})"
    return standin.load(split), list(standin.CLASSES), source


def _check_folder(folder: Path, *, may_be_missing: bool) -> None:
    """Raise DataError for what is no folder or cannot be read."""
    try:
        os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = isinstance(error, FileNotFoundError)
        if missing and may_be_missing:
            return
        raise DataError(
            folder,
            "does not exist" if missing else "is no folder",
            expected="the folder of the data, as named by root=... or COURSE_DATA",
            remedy="correct the name, pass download=True to fetch CIFAR-10 into it, or name no folder for the stand-in",
        ) from None
    except OSError as error:
        raise no_access(folder, error) from None

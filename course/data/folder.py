"""CIFAR-10, or ten other classes, as a folder of image files: train/<class>/* and test/<class>/*."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy import ndarray as Array

from course.data import places
from course.data.errors import DataError, no_access
from course.data.store import Images, kept

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SPLITS = ("train", "test")
SIZE = (32, 32)
LEFT_BY_SYSTEMS = ("Thumbs.db", "desktop.ini")  # besides names that begin with a dot
IMAGE = "an image of 32 x 32 pixels in a format that Pillow reads (PNG, JPEG, ...)"
REPLACE = "replace the file by a whole image of that size, or move it out of the folder"


def is_in(folder: Path) -> bool:
    """Whether a folder has a folder train or test."""
    return any((folder / split).is_dir() for split in SPLITS)


def load(folder: Path, split: str) -> tuple[Images, list[str]]:
    """Read a split: images and targets, names of the classes in alphabetical order, which is CIFAR-10's.

    Files come in alphabetical order within their class. They are decoded once and kept; when a name, a size or a time
    of change differs they are decoded again. Raises DataError naming what is missing, empty, no image, of another size
    or out of reach.
    """
    classes = _classes(folder)
    files = [(file, target) for target, name in enumerate(classes) for file in _files(folder / split / name)]
    place = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    file = places.cache() / f"images-{split}-{place}.pt"
    return kept(file, _listing_digest(files), lambda: _decode(files, split)), classes


def _classes(folder: Path) -> list[str]:
    names = {split: _class_names(folder / split) for split in SPLITS}
    known = set(CIFAR10_CLASSES)
    for split in SPLITS:
        other = names["test" if split == "train" else "train"]
        wanted = other | known if names[split] <= known and other <= known else other
        missing = sorted(wanted - names[split])
        if missing:
            raise DataError(
                folder / split,
                f"has no folder {', '.join(missing)}",
                expected=f"one folder of images for each of the classes {', '.join(sorted(wanted))}",
                remedy="add what is missing: the copy of the data is incomplete",
            )
    return sorted(names["train"])


def _class_names(folder: Path) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            names = {entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")}
    except FileNotFoundError:
        names = set()
    except OSError as error:
        raise no_access(folder, error) from None
    if not names:
        raise DataError(
            folder,
            "is missing or has no folders of images" if not folder.exists() else "has no folders of images",
            expected="one folder of images for each class, in train and in test",
            remedy="unpack the data again: the copy is incomplete",
        )
    return names


def _files(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            files = [entry for entry in entries if entry.name[0] != "." and entry.name not in LEFT_BY_SYSTEMS]
    except OSError as error:
        raise no_access(folder, error) from None
    if not files:
        raise DataError(
            folder,
            "is empty",
            expected="the images of this class",
            remedy="unpack the data again, or remove the class from train and test",
        )
    return sorted(files, key=lambda entry: entry.name)


def _listing_digest(files: list[tuple[os.DirEntry[str], int]]) -> str:
    digest = hashlib.sha256()
    for file, target in files:
        try:
            status = file.stat()
        except OSError as error:
            raise no_access(file.path, error) from None
        digest.update(os.fsencode(f"{target}/{file.name}\0{status.st_size}\0{status.st_mtime_ns}\n"))
    return digest.hexdigest()


def _decode(files: list[tuple[os.DirEntry[str], int]], split: str) -> Images:
    from tqdm import tqdm

    images = np.empty((len(files), *SIZE, 3), np.uint8)
    progress = tqdm(files, desc=f"decoding the {split} images, once", unit=" images", delay=2, leave=False)
    for number, pixels in enumerate(_pixels(Path(file.path)) for file, _ in progress):
        images[number] = pixels
    return images, np.asarray([target for _, target in files], dtype=np.int64)


def _pixels(file: Path) -> Array:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            if image.size != SIZE:
                seen = f"is an image of {image.width} x {image.height} pixels"
                raise DataError(file, seen, expected=IMAGE, remedy=REPLACE)
            return np.asarray(image.convert("RGB"))
    except UnidentifiedImageError:
        raise DataError(file, "is no image that Pillow knows", expected=IMAGE, remedy=REPLACE) from None
    except OSError as error:
        if error.errno is not None:
            raise no_access(file, error) from None
        raise DataError(file, f"is a damaged image ({error})", expected=IMAGE, remedy=REPLACE) from None
    except (SyntaxError, ValueError) as error:  # how Pillow reports a damaged PNG
        raise DataError(file, f"is a damaged image ({error})", expected=IMAGE, remedy=REPLACE) from None

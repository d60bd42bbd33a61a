"""The official archive of CIFAR-10, read by torchvision once every checksum is right."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from course.data import places
from course.data.download import download
from course.data.errors import DataError, no_access

if TYPE_CHECKING:
    from course.data.store import Images

AGAIN = "move it away and put a complete copy there, or move it away and pass download=True"


def archive_in(folder: Path) -> Path:
    """Where the archive lies in a folder, if it is there."""
    from torchvision.datasets import CIFAR10

    return folder / CIFAR10.filename


def is_in(folder: Path) -> bool:
    """Whether a folder has the official archive, packed or unpacked, whole or not."""
    from torchvision.datasets import CIFAR10

    return (folder / CIFAR10.base_folder).exists() or archive_in(folder).exists()


def load(folder: Path, split: str) -> tuple[Images, list[str]]:
    """Read a split of the archive or of its unpacked batches in `folder`: images and targets, names of the classes.

    An archive that is not unpacked yet is unpacked beside itself, or below the course's own folder where that cannot be
    written. Nothing is unpickled before its MD5, which torchvision knows, is right. Raises DataError naming the
    file that is missing, damaged or out of reach.
    """
    from torchvision.datasets import CIFAR10

    if not (folder / CIFAR10.base_folder).exists():
        folder = _unpacked(folder)
    _check_batches(folder / CIFAR10.base_folder)
    dataset = CIFAR10(folder, train=split == "train")
    images = np.ascontiguousarray(dataset.data)
    return (images, np.asarray(dataset.targets, dtype=np.int64)), list(dataset.classes)


def fetch(folder: Path) -> None:
    """Download the archive into `folder`; see :func:`course.data.download.download`."""
    from torchvision.datasets import CIFAR10

    download(CIFAR10.url, archive_in(folder), CIFAR10.tgz_md5)


def _check_batches(folder: Path) -> None:
    from torchvision.datasets import CIFAR10

    remedy = f"move the folder {folder.name} away and put {CIFAR10.filename} in its place, or pass download=True then"
    for name, md5 in [*CIFAR10.train_list, *CIFAR10.test_list, (CIFAR10.meta["filename"], CIFAR10.meta["md5"])]:
        _check(folder / name, md5, remedy)


def _check(file: Path, md5: str, remedy: str) -> None:
    from torchvision.datasets.utils import calculate_md5

    expected = f"the file of the official archive, with MD5 {md5}"
    try:
        seen = calculate_md5(file)
        size = file.stat().st_size
    except FileNotFoundError:
        raise DataError(file, "is missing", expected=expected, remedy=remedy) from None
    except OSError as error:
        raise no_access(file, error) from None
    if seen != md5:
        raise DataError(
            file, f"is damaged or incomplete: {size:,} bytes with MD5 {seen}", expected=expected, remedy=remedy
        )


def _unpacked(folder: Path) -> Path:
    """Unpack the archive in `folder`; return the folder in which the batches' folder is."""
    from torchvision.datasets import CIFAR10

    archive = archive_in(folder)
    own = places.cache() / f"cifar10-{CIFAR10.tgz_md5[:16]}"
    if (own / CIFAR10.base_folder).exists():
        return own
    _check(archive, CIFAR10.tgz_md5, AGAIN)
    try:
        _unpack(archive, folder)
    except OSError:
        try:
            own.mkdir(parents=True, exist_ok=True)
            _unpack(archive, own)
        except OSError as error:
            raise no_access(own, error, write=True) from None
        return own
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    from torchvision.datasets import CIFAR10

    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as temporary:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(temporary, filter="data")
        _move(Path(temporary) / CIFAR10.base_folder, folder / CIFAR10.base_folder)


def _move(unpacked: Path, place: Path) -> None:
    """Rename a folder to its place, unless another process has been quicker."""
    try:
        unpacked.rename(place)
    except OSError:
        if not place.exists():
            raise

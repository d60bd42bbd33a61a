"""Images kept as one file of tensors with a checksum, so that a second start is fast."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy import ndarray as Array

from course.data.errors import no_access

Images = tuple[Array, Array]
"""Images uint8 (N, 32, 32, 3) and targets int64 (N,)."""


def checksum(images: Array, targets: Array) -> str:
    """SHA-256 of the images' and the targets' bytes, in hexadecimal; targets count as little-endian int64."""
    digest = hashlib.sha256(np.ascontiguousarray(images))
    digest.update(np.ascontiguousarray(targets, dtype="<i8"))
    return digest.hexdigest()


def kept(file: Path, key: str, make: Callable[[], Images]) -> Images:
    """Load the images in `file`, or make them and keep them there.

    key: what the images are made from; a file that was kept under another key is made again, and so is a damaged one,
    which is said. A file is written beside its place and moved there, so that a reader never meets half of it.
    Raises DataError when the file cannot be read, or its folder not be written.
    """
    found = _load(file, key)
    if found is not None:
        return found
    images, targets = make()
    _save(file, key, images, targets)
    return images, targets


def _load(file: Path, key: str) -> Images | None:
    import torch

    try:
        with file.open("rb") as stream:
            content = torch.load(stream, weights_only=True)
        if content["key"] != key:
            return None
        images, targets = content["images"].numpy(), content["targets"].numpy()
        whole = content["sha256"] == checksum(images, targets)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise no_access(file, error) from None
    except Exception:  # torch.load reports damage by many types of exception
        whole = False
    if not whole:
        print(f"{file.name} in the course's cache is damaged; it is being made again.")
        return None
    return images, targets


def _save(file: Path, key: str, images: Array, targets: Array) -> None:
    import torch

    content = {
        "key": key,
        "images": torch.from_numpy(images),
        "targets": torch.from_numpy(targets),
        "sha256": checksum(images, targets),
    }
    temporary = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as stream:
            torch.save(content, stream)
        temporary.replace(file)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
        raise no_access(file.parent, error if isinstance(error, OSError) else OSError(str(error)), write=True) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()

"""Small data in the formats that `course.data` reads, made anew by the tests."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
from PIL import Image

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PER_BATCH = 20


def pixels(seed: int, count: int) -> np.ndarray:
    """Random images (count, 32, 32, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


def write_batches(folder: Path) -> None:
    """The batches of the official archive, in its format: rows of 3072 bytes, all of red, of green, of blue."""
    folder.mkdir(parents=True)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    for seed, name in enumerate(names):
        rows = pixels(seed, PER_BATCH).transpose(0, 3, 1, 2).reshape(PER_BATCH, 3072)
        labels = [(3 * n + seed) % 10 for n in range(PER_BATCH)]
        content = {"batch_label": name, "labels": labels, "data": rows, "filenames": [f"{n}.png" for n in labels]}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    meta = {"num_cases_per_batch": PER_BATCH, "label_names": list(CIFAR10_CLASSES), "num_vis": 3072}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))


def md5(file: Path) -> str:
    """MD5 of a file, in hexadecimal."""
    return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()


def write_images(folder: Path, names: tuple[str, ...], count: int = 2) -> None:
    """A folder train/<class>/*, test/<class>/* of PNG files with `count` images each."""
    for number, name in enumerate(names):
        for split in ("train", "test"):
            (folder / split / name).mkdir(parents=True)
            for n, image in enumerate(pixels(100 * number + (split == "test"), count)):
                Image.fromarray(image).save(folder / split / name / f"{n:04}.png")

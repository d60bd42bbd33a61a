"""The offline stand-in for CIFAR-10: ten drawn classes, 32x32 RGB, the same images for a seed on every machine.

An image shows one thing, large, anywhere, facing left or right, with proportions, paints and a surface of its own,
before a background with clutter, sometimes with a small thing of another class, sometimes partly covered. Colours say
little about the class: shape decides, and the surface helps.
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray as Array

from course.data import places
from course.data import standin_scene as scene
from course.data.standin_shapes import SHAPES, VARIATIONS
from course.data.store import Images, kept

CLASSES = tuple(SHAPES)
SEED = 0
SPLITS = {"train": 10_000, "test": 2_000}
CHECKSUMS = {
    "train": "962055e6ddf7b7d001bee9f87a41f734f8fba376f79c121c6d382733b1347d08",
    "test": "bf1ccb0b9c6b6a47752f841ba942c7acf5967ef2fa7772067f97a9f168a0c832",
}
"""Of the images and targets of SEED. What was kept under another checksum, by another version, is drawn again."""

BLOCK = 100
"""Images drawn at once: each block has random numbers of its own, and as many images of every class."""

SIZES = (8.0, 12.0)  # pixels in one unit of a shape, which is half of its extent
SMALL_SIZES = (3.5, 6.0)
SHIFT = 8.0  # pixels from the middle, each way
SMALL_SHIFT = 12.0
LEAN = 0.11  # tangent of half of the largest rotation: 12.6 degrees
USUAL_HUE, USUAL_SURFACE = 0.45, 0.7  # how often hue and surface are those that the class is given to
USUAL_SURFACES = np.array([0, 1, 3, 2, 4, 0, 4, 2, 5, 1])
PATTERNED = np.array([1, 0.5, 0], np.float32)  # how far the surface shows in each paint
HALF = np.float32(0.5)


def load(split: str) -> Images:
    """The images and targets of a split, "train" (10,000) or "test" (2,000), drawn once and then kept."""
    file = places.cache() / f"standin-{split}.pt"
    return kept(file, CHECKSUMS[split], lambda: _draw(SEED, split, SPLITS[split]))


def make(seed: int, n_train: int = SPLITS["train"], n_test: int = SPLITS["test"]) -> tuple[Images, Images]:
    """Draw a training and a test set: images uint8 (N, 32, 32, 3) and targets int64 (N,) each.

    A smaller set is the beginning of a larger one. Of every hundred in a row, from a multiple of a hundred on, ten show
    each class.
    """
    return _draw(seed, "train", n_train), _draw(seed, "test", n_test)


def _draw(seed: int, split: str, count: int) -> Images:
    from tqdm import tqdm

    images = np.empty((count, scene.SIZE, scene.SIZE, 3), np.uint8)
    targets = np.empty(count, np.int64)
    with tqdm(total=count, desc=f"drawing the {split} images, once", unit=" images", delay=2, leave=False) as progress:
        for start in range(0, count, BLOCK):
            part, labels = _block(scene.Draws(seed, list(SPLITS).index(split), start // BLOCK))
            images[start : start + BLOCK] = part[: count - start]
            targets[start : start + BLOCK] = labels[: count - start]
            progress.update(len(targets[start : start + BLOCK]))
    return images, targets


def _block(draws: scene.Draws) -> tuple[Array, Array]:
    labels = draws.order(BLOCK) % len(CLASSES)
    light = draws.uniform(0.2, 0.8, BLOCK)
    picture = scene.background(draws, BLOCK, light)
    for _ in range(2):
        scene.blob(draws, picture, draws.chance(0.7, BLOCK), 5, light + draws.uniform(-0.3, 0.3, BLOCK))
    others = (labels + 1 + draws.below(len(CLASSES) - 1, BLOCK)) % len(CLASSES)
    _thing(draws, picture, others, light, draws.chance(0.2, BLOCK), SMALL_SIZES, SMALL_SHIFT)
    _thing(draws, picture, labels, light, np.ones(BLOCK, bool), SIZES, SHIFT)
    scene.blob(draws, picture, draws.chance(0.15, BLOCK), 4.5, draws.uniform(0, 1, BLOCK))
    return scene.photograph(draws, picture), labels


def _thing(
    draws: scene.Draws,
    picture: Array,
    labels: Array,
    light: Array,
    present: Array,
    sizes: tuple[float, float],
    shift: float,
) -> None:
    """Draw one thing of the class `labels` into each image where `present`; `light` is that of the background."""
    count = len(labels)
    u, v, scale = _pose(draws, count, sizes, shift)
    paints = _paints(draws, labels, light)
    kind = np.where(draws.chance(USUAL_SURFACE, count), USUAL_SURFACES[labels], draws.below(6, count))
    pattern = scene.surface(u, v, kind, draws.uniform(0, 1, count), draws.uniform(1.2, 2.2, count))
    pattern *= scene.plane(draws.uniform(0, 0.5, count))
    vary = draws.uniform(0, 1, VARIATIONS, count)[:, :, None, None]
    for number, shape in enumerate(SHAPES.values()):
        mine = np.flatnonzero((labels == number) & present)
        part, edge = picture[:, mine], scene.plane(scale[mine])
        colours = [colour[:, mine, None, None] + pattern[mine] * w for colour, w in zip(paints, PATTERNED, strict=True)]
        for distance, paint in shape(u[mine], v[mine], vary[:, mine]):
            scene.cover(part, np.clip(HALF - distance * edge, 0, 1), colours[paint])
        picture[:, mine] = part


def _pose(draws: scene.Draws, count: int, sizes: tuple[float, float], shift: float) -> tuple[Array, Array, Array]:
    """Every pixel in the coordinates of its image's thing: u and v (count, 32, 32); pixels in a unit (count,)."""
    x = scene.AXIS - scene.plane(draws.uniform(-shift, shift, count))
    y = scene.AXIS[:, None] - scene.plane(draws.uniform(-shift, shift, count))
    x, y = scene.rotate(x, y, draws.uniform(-LEAN, LEAN, count))
    x = x + scene.plane(draws.uniform(-0.15, 0.15, count)) * y
    scale, aspect = draws.uniform(*sizes, count), draws.uniform(0.88, 1.14, count)
    facing = np.where(draws.chance(0.5, count), np.float32(1), np.float32(-1))
    u, v = x / scene.plane(scale * aspect * facing), y / scene.plane(scale / aspect)
    return u, v + scene.plane(draws.uniform(-0.12, 0.12, count)) * (u * u - np.float32(0.3)), scale


def _paints(draws: scene.Draws, labels: Array, light: Array) -> tuple[Array, Array, Array]:
    """Three colours (3, B): apart from the background, apart from the first, nearly black or nearly white."""
    count = len(labels)
    away = draws.uniform(0.33, 0.5, count)
    middling = (np.abs(light - HALF) < 0.15) & draws.chance(0.5, count)
    first = np.where((light > HALF) ^ middling, light - away, light + away)
    step = draws.uniform(0.15, 0.45, count)
    second = np.where(first > HALF, first - step, first + step)
    extreme = np.where(first + second > 1, draws.uniform(0, 0.2, count), draws.uniform(0.8, 1, count))
    usual = labels.astype(np.float32) / np.float32(len(CLASSES)) + draws.uniform(-0.05, 0.05, count)
    hue = np.where(draws.chance(USUAL_HUE, count), usual, draws.uniform(0, 1, count))
    return (
        scene.paint(hue, draws.uniform(0.05, 0.35, count), first),
        scene.paint(draws.uniform(0, 1, count), draws.uniform(0.05, 0.35, count), second),
        scene.paint(draws.uniform(0, 1, count), draws.uniform(0, 0.15, count), extreme),
    )

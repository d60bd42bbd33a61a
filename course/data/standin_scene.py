"""What surrounds the things of the stand-in: random numbers, poses, paints, surfaces, backgrounds, clutter.

Arrays hold one block of images: parameters (B,), planes (B, 32, 32), pictures (3, B, 32, 32), all float32 in 0..1.
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray as Array

SIZE = 32
AXIS = np.arange(SIZE, dtype=np.float32) - np.float32(SIZE / 2 - 0.5)


class Draws:
    """Random numbers made from the raw bits of PCG64, a stream that NumPy keeps the same in every version."""

    def __init__(self, *key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(key))

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        """Uniform float32 in low..high."""
        raw = self._bits.random_raw(int(np.prod(shape))).reshape(shape)
        return np.float32(low) + (raw >> np.uint64(40)).astype(np.float32) * np.float32((high - low) / 2**24)

    def chance(self, probability: float, *shape: int) -> Array:
        """Booleans, true with the given probability."""
        return self.uniform(0, 1, *shape) < np.float32(probability)

    def below(self, count: int, *shape: int) -> Array:
        """Whole numbers 0..count-1."""
        raw = self._bits.random_raw(int(np.prod(shape))).reshape(shape)
        return (raw % np.uint64(count)).astype(np.int64)

    def order(self, count: int) -> Array:
        """A random order of 0..count-1."""
        return np.argsort(self._bits.random_raw(count), kind="stable")

    def bytes(self, *shape: int) -> Array:
        """Uniform uint8."""
        count = int(np.prod(shape))
        raw = self._bits.random_raw(-(-count // 8)).astype("<u8")
        return raw.view(np.uint8)[:count].reshape(shape)


def plane(values: Array) -> Array:
    """Parameters (B,) as (B, 1, 1), to combine with pixels."""
    return values[:, None, None]


def rotate(x: Array, y: Array, half_tangent: Array) -> tuple[Array, Array]:
    """Rotate by the angle whose half has this tangent: no sine or cosine, which machines round differently."""
    square = half_tangent * half_tangent
    cosine, sine = plane((1 - square) / (1 + square)), plane(2 * half_tangent / (1 + square))
    return x * cosine + y * sine, y * cosine - x * sine


def wave(x: Array) -> Array:
    """Triangle wave of period 1, from -1 to 1."""
    return np.abs(x - np.floor(x) - np.float32(0.5)) * 4 - 1


def enlarge(grid: Array) -> Array:
    """Blow a (..., n, n) grid up to (..., 32, 32), linearly between its points."""
    position = np.linspace(0, grid.shape[-1] - 1, SIZE, dtype=np.float32)
    low = np.minimum(np.floor(position).astype(np.int64), grid.shape[-1] - 2)
    part = position - low.astype(np.float32)
    rows = grid[..., low, :] * (1 - part)[:, None] + grid[..., low + 1, :] * part[:, None]
    return rows[..., low] * (1 - part) + rows[..., low + 1] * part


def paint(hue: Array, vivid: Array, light: Array) -> Array:
    """Colours (3, B) of a hue (in turns), how vivid (0 is grey) and how light they are (0..1)."""
    turns = np.stack([hue, hue + np.float32(1 / 3), hue + np.float32(2 / 3)])
    return np.clip(light + vivid * wave(turns), 0, 1)


def cover(picture: Array, mask: Array, colour: Array) -> None:
    """Lay a colour, (3, B) or (3, B, 32, 32), over a picture in place, as far as the mask (B, 32, 32) says."""
    if colour.ndim == 2:
        colour = colour[:, :, None, None]
    picture += mask * (colour - picture)


def surface(u: Array, v: Array, kind: Array, phase: Array, pitch: Array) -> Array:
    """Patterns (B, 32, 32) in -1..1: plain, stripes across, along and askew, checks, blotches, by kind 0..5."""
    a, b = u * plane(pitch) + plane(phase), v * plane(pitch) + plane(phase)
    across, along = wave(a), wave(b)
    choices = (np.zeros_like(a), across, along, wave(a + b), np.sign(across * along), wave(a * b))
    return np.choose(plane(kind), choices)


def background(draws: Draws, count: int, light: Array) -> Array:
    """Soft colours around a lightness (B,), half of them with a horizon, with blotches and grain."""
    above = paint(draws.uniform(0, 1, count), draws.uniform(0, 0.2, count), light)
    below = paint(draws.uniform(0, 1, count), draws.uniform(0, 0.2, count), light + draws.uniform(-0.12, 0.12, count))
    height = plane(draws.uniform(-8, 14, count)) + plane(draws.uniform(-0.25, 0.25, count)) * AXIS
    soft = plane(np.where(draws.chance(0.5, count), np.float32(1), np.float32(0.05)))
    ground = np.clip((AXIS[:, None] - height) * soft + np.float32(0.5), 0, 1)
    picture = np.empty((3, count, SIZE, SIZE), np.float32)
    picture[:] = above[:, :, None, None]
    cover(picture, ground, below)
    picture += enlarge(draws.uniform(-0.12, 0.12, 3, count, 5, 5))
    picture += enlarge(draws.uniform(-1, 1, count, 16, 16)) * plane(draws.uniform(0, 0.1, count))
    return picture


def blob(draws: Draws, picture: Array, present: Array, largest: float, light: Array) -> None:
    """Put an ellipse or a bar of any colour anywhere, in the images where `present`."""
    count = len(present)
    x, y = AXIS - plane(draws.uniform(-17, 17, count)), AXIS[:, None] - plane(draws.uniform(-17, 17, count))
    x, y = rotate(x, y, draws.uniform(-1, 1, count))
    wide, high = draws.uniform(1, largest, count), draws.uniform(1, largest, count)
    p, q = np.abs(x) / plane(wide), np.abs(y) / plane(high)
    distance = np.where(plane(draws.chance(0.5, count)), np.sqrt(p * p + q * q), np.maximum(p, q)) - 1
    mask = np.clip(np.float32(0.5) - distance * plane(np.minimum(wide, high)), 0, 1) * plane(present)
    cover(picture, mask, paint(draws.uniform(0, 1, count), draws.uniform(0, 0.3, count), light))


def photograph(draws: Draws, picture: Array) -> Array:
    """Take a picture (3, B, 32, 32): contrast, exposure, grain; uint8 (B, 32, 32, 3)."""
    count = picture.shape[1]
    contrast, exposure = draws.uniform(0.75, 1.2, count), draws.uniform(-0.12, 0.12, count)
    grain = draws.bytes(3, count, SIZE, SIZE).astype(np.float32) + draws.bytes(3, count, SIZE, SIZE) - np.float32(255)
    half = np.float32(0.5)
    picture = (picture - half) * plane(contrast) + half + plane(exposure)
    picture += grain * plane(draws.uniform(0, 0.0003, count))
    return (np.clip(picture, 0, 1) * 255 + half).astype(np.uint8).transpose(1, 2, 3, 0)

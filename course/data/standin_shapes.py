"""The ten things of the stand-in as flat parts: where each part lies, and in which paint.

A thing is drawn in coordinates of its own, u to the right and v down, about -1 to 1 across; it faces left. A part is a
pair ``(distance, paint)``: a signed distance, negative inside, for every pixel, and the number of its paint (MAIN,
SECOND, DETAIL). Later parts cover earlier ones. Only operations that IEEE 754 rounds exactly are used (+ - * / sqrt,
minimum, maximum, abs, floor), so that every machine draws the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import ndarray as Array

MAIN, SECOND, DETAIL = 0, 1, 2
VARIATIONS = 4
Parts = list[tuple[Array, int]]


def ellipse(u: Array, v: Array, x, y, a, b) -> Array:
    """Ellipse around (x, y) with half axes a and b."""
    p, q = (u - x) / a, (v - y) / b
    return (np.sqrt(p * p + q * q) - 1) * np.minimum(a, b)


def box(u: Array, v: Array, x, y, a, b) -> Array:
    """Rectangle around (x, y), half as wide as a and half as high as b."""
    return np.maximum(np.abs(u - x) - a, np.abs(v - y) - b)


def polygon(u: Array, v: Array, *corners) -> Array:
    """Convex polygon; the corners (x, y) go round clockwise as seen, v pointing down."""
    distance = None
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        along, across = x1 - x0, y1 - y0
        length = np.sqrt(along * along + across * across)
        side = (u - x0) * (across / length) - (v - y0) * (along / length)
        distance = side if distance is None else np.maximum(distance, side)
    return distance


def line(u: Array, v: Array, x0, y0, x1, y1, width) -> Array:
    """Straight stroke with round ends, `width` to each side."""
    along, across = x1 - x0, y1 - y0
    p, q = u - x0, v - y0
    t = np.clip((p * along + q * across) / (along * along + across * across), 0, 1)
    p, q = p - t * along, q - t * across
    return np.sqrt(p * p + q * q) - width


def fish(u: Array, v: Array, vary: Array) -> Parts:
    high = 0.3 + 0.2 * vary[0]
    fork = 0.28 + 0.25 * vary[1]
    fin = 0.3 + 0.35 * vary[2]
    tail = polygon(u, v, (0.3, 0.0), (0.98, -fork), (0.82, 0.0), (0.98, fork))
    tail = np.maximum(tail, polygon(u, v, (0.3, 0.0), (0.98, -fork), (0.98, fork)))
    back = polygon(u, v, (-0.3, -0.5 * high), (0.15, -high - fin * 0.6), (0.35, -0.3 * high))
    return [
        (np.minimum(tail, back), SECOND),
        (ellipse(u, v, -0.18, 0, 0.72, high), MAIN),
        (line(u, v, -0.42, -0.6 * high, -0.36, 0.6 * high, 0.03), SECOND),
        (ellipse(u, v, -0.62, -0.25 * high, 0.1, 0.1), DETAIL),
    ]


def bird(u: Array, v: Array, vary: Array) -> Parts:
    plump = 0.3 + 0.14 * vary[0]
    beak = 0.2 + 0.25 * vary[1]
    rise = 0.45 * vary[2]
    wing = 0.1 + 0.25 * vary[3]
    return [
        (np.minimum(line(u, v, -0.05, 0.4, -0.1, 0.92, 0.05), line(u, v, 0.15, 0.4, 0.12, 0.92, 0.05)), DETAIL),
        (polygon(u, v, (0.3, 0.0), (1.0, -0.1 - rise), (1.0, 0.12 - rise), (0.35, 0.35)), SECOND),
        (polygon(u, v, (-0.6, -0.6), (-0.6, -0.35), (-0.75 - beak, -0.42)), DETAIL),
        (np.minimum(ellipse(u, v, 0.08, 0.15, 0.55, plump), ellipse(u, v, -0.45, -0.45, 0.28, 0.28)), MAIN),
        (polygon(u, v, (-0.25, 0.0), (0.5, wing - 0.15), (0.62, wing), (0.1, 0.35)), SECOND),
        (ellipse(u, v, -0.52, -0.5, 0.08, 0.08), DETAIL),
    ]


def boat(u: Array, v: Array, vary: Array) -> Parts:
    mast = -0.15 + 0.2 * vary[0]
    top = -0.98 + 0.25 * vary[1]
    jib = 0.35 + 0.4 * vary[2]
    deck = 0.35 + 0.12 * vary[3]
    return [
        (line(u, v, mast, top, mast, deck, 0.05), DETAIL),
        (polygon(u, v, (mast + 0.09, top + 0.02), (0.78, deck - 0.14), (mast + 0.09, deck - 0.14)), SECOND),
        (polygon(u, v, (mast - 0.1, top + 0.3), (mast - 0.1, deck - 0.14), (mast - 0.1 - jib, deck - 0.14)), SECOND),
        (polygon(u, v, (-1.0, deck - 0.05), (0.85, deck), (0.62, 0.82), (-0.62, 0.82)), MAIN),
    ]


def cup(u: Array, v: Array, vary: Array) -> Parts:
    wide = 0.42 + 0.16 * vary[0]
    tall = 0.5 + 0.25 * vary[1]
    foot = wide * (0.6 + 0.4 * vary[2])
    loop = 0.26 + 0.12 * vary[3]
    x = -0.2
    handle = np.abs(ellipse(u, v, x + wide, 0.02, loop + 0.1, loop + 0.04)) - 0.085
    return [
        (handle, MAIN),
        (polygon(u, v, (x - wide, -tall), (x + wide, -tall), (x + foot, tall), (x - foot, tall)), MAIN),
        (ellipse(u, v, x, -tall, wide, 0.15), SECOND),
        (ellipse(u, v, x, -tall + 0.03, wide * 0.78, 0.09), DETAIL),
    ]


def house(u: Array, v: Array, vary: Array) -> Parts:
    wide = 0.6 + 0.2 * vary[0]
    eaves = -0.15 + 0.2 * vary[1]
    ridge = eaves - 0.5 - 0.3 * vary[2]
    door = 0.15 + 0.25 * vary[3]
    return [
        (box(u, v, 0.42, ridge + 0.12, 0.11, 0.3), DETAIL),
        (box(u, v, 0, (eaves + 0.88) / 2, wide, (0.88 - eaves) / 2), MAIN),
        (polygon(u, v, (-0.05, ridge), (wide + 0.2, eaves), (-wide - 0.2, eaves)), SECOND),
        (box(u, v, -door, 0.62, 0.14, 0.27), DETAIL),
        (box(u, v, wide - 0.3, 0.38, 0.15, 0.13), DETAIL),
    ]


def key(u: Array, v: Array, vary: Array) -> Parts:
    bow = 0.3 + 0.1 * vary[0]
    teeth = 0.16 + 0.14 * vary[1]
    hole = 0.4 + 0.2 * vary[2]
    gap = 0.2 + 0.12 * vary[3]
    x = -0.98 + bow
    ring = np.maximum(ellipse(u, v, x, 0, bow, bow * 1.1), -ellipse(u, v, x - 0.05, 0, bow * hole, bow * hole))
    shaft = box(u, v, 0.3, 0, 0.68, 0.1)
    bit = np.minimum(box(u, v, 0.9, teeth, 0.08, teeth), box(u, v, 0.9 - gap, teeth * 0.8, 0.07, teeth * 0.8))
    return [
        (np.minimum(np.minimum(ring, shaft), bit), MAIN),
        (box(u, v, x + bow + 0.06, 0, 0.05, 0.16), SECOND),
    ]


def tree(u: Array, v: Array, vary: Array) -> Parts:
    lean = 0.3 * vary[0]
    left = 0.32 + 0.15 * vary[1]
    right = 0.3 + 0.15 * vary[2]
    top = 0.34 + 0.12 * vary[3]
    trunk = polygon(u, v, (-0.08 - 0.3 * lean, -0.2), (0.1 - 0.3 * lean, -0.2), (0.2, 0.95), (-0.08, 0.95))
    branch = line(u, v, 0.02, 0.45, 0.42, 0.12, 0.06)
    crown = np.minimum(ellipse(u, v, -0.38, 0.02, left, left * 0.8), ellipse(u, v, 0.4, -0.15, right, right * 0.85))
    return [
        (np.minimum(trunk, branch), SECOND),
        (np.minimum(crown, ellipse(u, v, -0.05 - lean, -0.5, top + 0.1, top)), MAIN),
    ]


def truck(u: Array, v: Array, vary: Array) -> Parts:
    roof = -0.55 + 0.2 * vary[0]
    nose = 0.1 + 0.2 * vary[1]
    cab = -0.15 + 0.2 * vary[2]
    wheel = 0.18 + 0.05 * vary[3]
    split = -0.38
    return [
        (box(u, v, (split + 0.98) / 2, (roof + 0.4) / 2, (0.98 - split) / 2, (0.4 - roof) / 2), MAIN),
        (
            polygon(u, v, (-0.92 + nose, cab - 0.1), (split - 0.06, cab - 0.1), (split - 0.06, 0.45), (-0.98, 0.45)),
            SECOND,
        ),
        (box(u, v, -0.65, cab + 0.12, 0.13, 0.13), DETAIL),
        (box(u, v, 0, 0.45, 0.95, 0.06), DETAIL),
        (np.minimum(ellipse(u, v, -0.62, 0.55, wheel, wheel), ellipse(u, v, 0.55, 0.55, wheel, wheel)), DETAIL),
        (np.minimum(ellipse(u, v, -0.62, 0.55, 0.07, 0.07), ellipse(u, v, 0.55, 0.55, 0.07, 0.07)), SECOND),
    ]


def lamp(u: Array, v: Array, vary: Array) -> Parts:
    elbow = -0.25 + 0.25 * vary[0]
    reach = 0.1 * vary[1]
    open_ = 0.28 + 0.14 * vary[2]
    base = 0.34 + 0.14 * vary[3]
    head_x, head_y = -0.25 - reach, -0.72
    lower = line(u, v, 0.15, 0.78, 0.5, elbow, 0.06)
    upper = line(u, v, 0.5, elbow, head_x + 0.1, head_y, 0.06)
    shade = polygon(
        u, v, (head_x - 0.08, head_y - 0.2), (head_x + 0.24, head_y - 0.02), (head_x + 0.1, head_y + 0.3 + open_),
        (head_x - 0.35 - open_, head_y + 0.2),
    )  # fmt: skip
    return [
        (ellipse(u, v, head_x - 0.3, head_y + 0.5, 0.2, 0.2), SECOND),
        (np.minimum(lower, upper), DETAIL),
        (shade, MAIN),
        (box(u, v, 0.12, 0.86, base, 0.1), MAIN),
    ]


def kite(u: Array, v: Array, vary: Array) -> Parts:
    wide = 0.42 + 0.16 * vary[0]
    low = 0.3 + 0.2 * vary[1]
    swing = 0.25 + 0.3 * vary[2]
    cross = -0.5 + 0.15 * vary[3]
    x, top = -0.25, -1.0
    sail = polygon(u, v, (x, top), (x + wide, cross), (x, low), (x - wide, cross))
    quarter = np.maximum(sail, np.minimum(np.maximum(u - x, v - cross), np.maximum(x - u, cross - v)))
    tail = np.minimum(
        line(u, v, x, low, x + swing, low + 0.25, 0.05), line(u, v, x + swing, low + 0.25, x + 2 * swing, 0.95, 0.05)
    )
    bows = np.minimum(ellipse(u, v, x + swing, low + 0.25, 0.16, 0.09), ellipse(u, v, x + 2 * swing, 0.9, 0.16, 0.09))
    return [(tail, DETAIL), (bows, SECOND), (sail, MAIN), (quarter, SECOND)]


SHAPES: dict[str, Callable[[Array, Array, Array], Parts]] = {
    shape.__name__: shape for shape in (bird, boat, cup, fish, house, key, kite, lamp, tree, truck)
}

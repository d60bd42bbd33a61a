"""Where the boxes of a graph go: layers from the output downwards, and lines that pass between boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LANE = 0.25  # width that a line takes in a layer it only passes


@dataclass(frozen=True)
class Placement:
    """centres: horizontal centre of every box. layers: the layer of every box, 0 for the output.

    routes: for every edge the horizontal positions at which it crosses the layers between its ends.
    """

    centres: tuple[float, ...]
    layers: tuple[int, ...]
    routes: tuple[tuple[float, ...], ...]

    @property
    def depth(self) -> int:
        return max(self.layers) + 1


def place(widths: Sequence[float], edges: Sequence[tuple[int, int]], gap: float) -> Placement:
    """Place boxes of these widths; box 0 is the output, an edge (user, used) leads to a lower layer.

    gap: least space between neighbours in a layer. The left edge of the leftmost box is at 0.
    """
    layers = layers_of(len(widths), edges)
    sizes = list(widths)
    depths = list(layers)
    above: list[list[int]] = [[] for _ in widths]
    lanes: list[list[int]] = []
    for user, used in edges:
        lanes.append([])
        last = user
        for layer in range(layers[user] + 1, layers[used]):
            lane = len(sizes)
            sizes.append(LANE)
            depths.append(layer)
            above.append([last])
            lanes[-1].append(lane)
            last = lane
        above[used].append(last)
    centres = [0.0] * len(sizes)
    for layer in range(max(layers) + 1):
        members = [item for item, depth in enumerate(depths) if depth == layer]
        _place_layer(members, centres, sizes, above, gap)
    left = min(centre - size / 2 for centre, size in zip(centres, sizes, strict=True))
    centres = [centre - left for centre in centres]
    routes = tuple(tuple(centres[lane] for lane in lane_list) for lane_list in lanes)
    return Placement(tuple(centres[: len(widths)]), layers, routes)


def layers_of(count: int, edges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """For every box the length of the longest way to it from box 0."""
    layers = [0] * count
    for _ in range(count):
        for user, used in edges:
            layers[used] = max(layers[used], layers[user] + 1)
    return tuple(layers)


def _place_layer(
    members: list[int], centres: list[float], sizes: list[float], above: list[list[int]], gap: float
) -> None:
    """Put each member below what leads to it, as near as its neighbours allow."""
    wanted = {item: sum(centres[up] for up in above[item]) / max(len(above[item]), 1) for item in members}
    # Several below one box: in the order of its arguments, which is the order of discovery.
    order = sorted(members, key=lambda item: (wanted[item], item))
    right = float("-inf")
    for item in order:
        centres[item] = max(wanted[item], right + gap + sizes[item] / 2)
        right = centres[item] + sizes[item] / 2
    shift = sum(wanted[item] - centres[item] for item in order) / len(order)
    for item in order:
        centres[item] += shift

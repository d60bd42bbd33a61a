from __future__ import annotations

import itertools

import pytest

from course.figures.graph_layout import layers_of, place

DIAMOND = ((0, 1), (0, 2), (1, 3), (2, 3))
SKIP = ((0, 1), (1, 2), (0, 2))
TREE = ((0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6))


@pytest.mark.parametrize(
    ("count", "edges", "layers"),
    [(1, (), (0,)), (2, ((0, 1), (0, 1)), (0, 1)), (4, DIAMOND, (0, 1, 1, 2)), (3, SKIP, (0, 1, 2))],
)
def test_a_box_lies_below_everything_that_uses_it(count, edges, layers):
    assert layers_of(count, edges) == layers


@pytest.mark.parametrize(("count", "edges"), [(1, ()), (4, DIAMOND), (3, SKIP), (7, TREE)])
def test_boxes_of_a_layer_do_not_overlap(count, edges):
    widths = [1.0 + 0.3 * (number % 3) for number in range(count)]
    placement = place(widths, edges, gap=0.25)
    for one, two in itertools.combinations(range(count), 2):
        if placement.layers[one] == placement.layers[two]:
            distance = abs(placement.centres[one] - placement.centres[two])
            assert distance >= (widths[one] + widths[two]) / 2 + 0.25 - 1e-9
    assert min(c - w / 2 for c, w in zip(placement.centres, widths, strict=True)) >= -1e-9


def test_a_long_edge_passes_beside_the_boxes_between():
    placement = place([1.0, 1.0, 1.0], SKIP, gap=0.3)
    routes = dict(zip(SKIP, placement.routes, strict=True))
    assert routes[0, 1] == routes[1, 2] == ()
    (x,) = routes[0, 2]
    assert abs(x - placement.centres[1]) > 0.5


def test_inputs_keep_the_order_of_the_arguments():
    placement = place([1.0] * 3, ((0, 1), (0, 2)), gap=0.3)
    assert placement.centres[1] < placement.centres[0] < placement.centres[2]
    assert placement.depth == 2

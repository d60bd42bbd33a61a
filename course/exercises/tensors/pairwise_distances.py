"""Lesson 01: all distances between two sets of points by broadcasting."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise, no_python_loop

exercise = Exercise(
    "tensors.pairwise_distances",
    title="Pairwise distances by broadcasting",
    task="""
        `pairwise_distances(a, b)` takes N points `a`, shape `(N, D)`, and M points `b`, shape `(M, D)`, and returns
        all Euclidean distances: shape `(N, M)`, the dtype of `a`. `result[n, m]` is the length of `a[n] - b[m]`, the
        root of the sum of the squared differences.

        Example: for `a = [[0, 0], [3, 4]]` and `b = [[0, 0], [6, 8], [3, 0]]` it is `[[0, 10, 3], [5, 5, 4]]`.

        No Python loop: let broadcasting make the pairs. N may be 0, and N may be equal to M. The result has to be
        right also for points that are close together and far from the origin, be they few or many.
        """,
    hints=(
        "Broadcasting pairs every row of one tensor with every row of the other when each has size 1 where the other "
        "has its points. Which shapes for a and b broadcast to (N, M, D)?",
        "a[:, None] has shape (N, 1, D). Subtract b, of shape (M, D), look at the shape of the result, and reduce "
        "over the coordinates, its last axis.",
    ),
    requires=(no_python_loop,),
)


@exercise.stub
def pairwise_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return the Euclidean distances between the points a (N, D) and b (M, D), shape (N, M)."""
    raise NotImplementedError


@exercise.reference
def by_broadcasting(a, b):
    return (a[:, None] - b).norm(dim=-1)


@exercise.alternative
def by_squares(a, b):
    difference = a.unsqueeze(1) - b.unsqueeze(0)
    return (difference**2).sum(dim=2).sqrt()


@exercise.alternative
def by_cdist_of_differences(a, b):
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


@exercise.wrong(
    "The rows are paired one to one here: a[0] with b[0], a[1] with b[1]. Shapes (N, D) and (M, D) broadcast only if "
    "N equals M (or one is 1), and then there is no axis for the pairs. One of the two tensors needs a new axis of "
    "size 1."
)
def row_by_row(a, b):
    return (a - b).norm(dim=-1)


@exercise.wrong(
    "The table is transposed: rows belong to b and columns to a. The new axis of size 1 stands where the *other* "
    "tensor has its points; check which of the two should have it in front."
)
def b_before_a(a, b):
    return (a - b[:, None]).norm(dim=-1)


@exercise.wrong(
    "These are the squared distances. The sum of the squares still needs its root: (0, 0) and (3, 4) are 5 apart, "
    "not 25."
)
def squared_distances(a, b):
    return (a[:, None] - b).square().sum(dim=-1)


@exercise.wrong(
    "The absolute differences are added up here, which is the city-block (L1) distance. The Euclidean distance of "
    "(0, 0) and (3, 4) is 5, not 7."
)
def city_block(a, b):
    return (a[:, None] - b).abs().sum(dim=-1)


@exercise.wrong(
    "The differences have shape (N, M, D), and the wrong axis of them was reduced: without axis 1 all the points of b "
    "are mixed and (N, D) is left. The axis of the coordinates has to go."
)
def over_the_points(a, b):
    return (a[:, None] - b).norm(dim=1)


@exercise.wrong(
    "Everything was reduced to one number: without an axis, a norm or a sum runs over all of (N, M, D). Name the axis "
    "of the coordinates."
)
def over_everything(a, b):
    return (a[:, None] - b).norm()


@exercise.wrong(
    "|a|^2 + |b|^2 - 2 a.b is right on paper. In floating point the large squares cancel when points are close "
    "together and far from the origin: digits are lost, and a small negative rest gives NaN under the root. Take the "
    "difference first and square it afterwards."
)
def by_expanded_square(a, b):
    squared = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
    return squared.sqrt()


@exercise.wrong(
    "Right for a few points. As soon as there are more than 25 on one side, torch.cdist computes |a|^2 + |b|^2 - 2 "
    "a.b with a matrix product, unless its compute_mode forbids that. That is faster, and it loses the digits of "
    "points that are close together and far from the origin."
)
def by_cdist_as_it_comes(a, b):
    return torch.cdist(a, b)


@exercise.wrong(
    "Nearly right: something small is added to every difference, as F.pairwise_distance does with its eps of 1e-6. A "
    "point is then not at distance 0 from itself, which shows in float64."
)
def with_an_epsilon(a, b):
    return torch.nn.functional.pairwise_distance(a[:, None], b)


@exercise.wrong(
    "The numbers may well be right, but each pair is a trip through Python. With 1000 points on each side that is a "
    "million small operations where a few large ones would do. Let the pairs be an axis of one tensor."
)
def with_two_loops(a, b):
    result = a.new_empty(len(a), len(b))
    for n in range(len(a)):
        for m in range(len(b)):
            result[n, m] = (a[n] - b[m]).norm()
    return result


@exercise.probe
def points_in_the_plane():
    return torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0.0, 0.0], [6.0, 8.0], [3.0, 0.0]])


@exercise.probe
def as_many_of_each():
    return torch.tensor([[1.0, -2.0], [4.0, 0.5], [7.0, 1.0]]), torch.tensor([[0.0, 3.0], [-1.0, 2.0], [5.0, 9.0]])


@exercise.probe
def one_point_in_space():
    return torch.tensor([[1.0, 2.0, -3.0]]), torch.tensor([[0.0, 4.0, -1.0], [-1.0, 0.5, 2.0]])


@exercise.probe
def points_on_a_line():
    return torch.tensor([[-2.0], [5.0], [0.5]]), torch.tensor([[1.0], [-4.0]])


@exercise.probe
def close_together_far_away():
    a = torch.tensor([[1000.0, 2000.0], [1000.5, 2000.0], [-1000.0, -2000.0]])
    return a, torch.tensor([[1000.0, 2000.25], [1003.0, 1996.0]])


@exercise.probe
def many_points_far_away():
    steps = torch.arange(30.0)
    points = torch.stack([1000 + steps / 4, 2000 - steps / 2], dim=1)
    return torch.cat([points, -points]), points[:3] + torch.tensor([0.25, 0.5])


@exercise.probe
def double_precision():
    return torch.tensor([[0.5, 1.0]], dtype=torch.float64), torch.tensor([[2.0, -1.0], [0.5, 1.0]], dtype=torch.float64)


@exercise.probe
def no_points():
    return torch.arange(0.0).reshape(0, 2), torch.tensor([[1.0, 2.0], [3.0, 5.0], [8.0, 1.0]])

"""What communication costs: a model of two numbers, fitted to a measurement and carried on to many workers.

The model (alpha-beta) assumes that a message of b bytes takes alpha + beta * b seconds, that every worker has a link of
its own which sends and receives at the same time, that no two messages share a link, and that all workers are equally
fast. It leaves out the time to add numbers, stragglers, and that links within a machine are faster than those between
machines. Real systems are slower than it says; it tells which term grows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Bounds below which `calibrate` does not go: noise must not make a link that costs nothing, or less.
LEAST_ALPHA = 1e-9
LEAST_BETA = 1e-15
ALGORITHMS = ("ring", "tree")


@dataclass(frozen=True)
class Link:
    """alpha: seconds that each message takes whatever its size. beta: seconds for each byte (1 / bandwidth)."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        if not (0 <= self.alpha < math.inf and 0 <= self.beta < math.inf):
            raise ValueError(f"alpha and beta are seconds, 0 or more, not {self.alpha} and {self.beta}")

    def message_seconds(self, nbytes: float) -> float:
        """alpha + beta * nbytes."""
        return self.alpha + self.beta * nbytes

    @property
    def bandwidth(self) -> float:
        """Bytes a second, 1 / beta; inf where beta is 0."""
        return 1 / self.beta if self.beta else math.inf


def ring_seconds(nbytes: float, workers: int, link: Link) -> float:
    """2(n-1) messages one after another, each of nbytes / n: 2(n-1) (alpha + beta nbytes / n). 0 for one worker.

    The bytes term approaches 2 beta nbytes however many workers there are; the latency term grows with their number.
    """
    return _messages(nbytes, workers, "ring") * link.message_seconds(nbytes / workers)


def tree_seconds(nbytes: float, workers: int, link: Link) -> float:
    """Reduce up and broadcast down a binary tree: 2 ceil(log2 n) (alpha + beta nbytes). 0 for one worker.

    Each step sends the whole tensor at once (no pipelining), and a parent hears one child at a time.
    """
    return _messages(nbytes, workers, "tree") * link.message_seconds(nbytes)


def all_reduce_seconds(nbytes: float, workers: int, link: Link, algorithm: str = "ring") -> float:
    """Seconds of one all-reduce of `nbytes` on each of `workers`; algorithm: "ring" or "tree"."""
    return (ring_seconds if _known(algorithm) == "ring" else tree_seconds)(nbytes, workers, link)


def calibrate(measurements: Iterable[tuple[float, float]], workers: int = 2, algorithm: str = "ring") -> Link:
    """Fit a link to measured all-reduce times.

    measurements: pairs (bytes, seconds), two different sizes at least; of equal sizes the median counts.
    workers: how many took part. algorithm: how they did it.

    The fit is least squares of the *relative* error, so that the small messages, which tell alpha, count as much as the
    large ones, which tell beta; sizes that lie off the line by more than a tenth lose weight. alpha >= 1 ns and
    beta >= 1e-15 s a byte in any case.

    Raises ValueError for fewer than two sizes, times that are not positive, and one worker.
    """
    if workers < 2:
        raise ValueError("one worker sends nothing; measure with two at least")
    by_size: dict[float, list[float]] = {}
    for nbytes, seconds in measurements:
        if not (nbytes >= 0 and 0 < seconds < math.inf):
            raise ValueError(f"a measurement is (bytes >= 0, seconds > 0), not ({nbytes}, {seconds})")
        by_size.setdefault(nbytes, []).append(seconds)
    if len(by_size) < 2:
        raise ValueError(f"alpha and beta need two sizes at least; measured: {sorted(by_size)}")
    points = [(size, statistics.median(times)) for size, times in by_size.items()]
    # seconds = steps * alpha + bytes_sent * beta, divided by the seconds: 1 = u * alpha + v * beta.
    steps = _messages(1, workers, algorithm)
    share = steps / workers if algorithm == "ring" else steps
    rows = [(steps / seconds, share * size / seconds) for size, seconds in points]
    weights = [1.0] * len(rows)
    alpha = beta = 0.0
    for _ in range(20):
        alpha, beta = _least_squares(rows, weights)
        off = [abs(u * alpha + v * beta - 1) for u, v in rows]
        weights = [min(1.0, 0.1 / max(each, 1e-12)) for each in off]
    return Link(alpha, beta)


def step_time(
    compute_seconds: float,
    gradient_bytes: float,
    workers: int,
    link: Link,
    algorithm: str = "ring",
    *,
    overlap: float = 0.0,
) -> float:
    """Seconds a step of data-parallel training: compute + max(0, communication - overlap * compute).

    compute_seconds: forward, backward and update of one worker's share of the batch, the same for any number of workers
        (weak scaling: each keeps its batch size). gradient_bytes: what is all-reduced once a step, in one piece.
    overlap: the fraction of the compute time behind which communication can hide, 0 to 1. DDP can hide it behind the
        backward pass, about two thirds of the compute; 0 is a loop that averages gradients after the backward pass.
    """
    if compute_seconds < 0:
        raise ValueError(f"compute_seconds is 0 or more, not {compute_seconds}")
    if not 0 <= overlap <= 1:
        raise ValueError(f"overlap is a fraction of the compute time, 0 to 1, not {overlap}")
    communication = all_reduce_seconds(gradient_bytes, workers, link, algorithm)
    return compute_seconds + max(0.0, communication - overlap * compute_seconds)


def efficiency(
    compute_seconds: float,
    gradient_bytes: float,
    workers: int,
    link: Link,
    algorithm: str = "ring",
    *,
    overlap: float = 0.0,
) -> float:
    """compute_seconds / step_time: n workers do n * efficiency times the work of one in the same time; 0 to 1."""
    if compute_seconds <= 0:
        raise ValueError(f"efficiency needs compute_seconds above 0, not {compute_seconds}")
    return compute_seconds / step_time(compute_seconds, gradient_bytes, workers, link, algorithm, overlap=overlap)


def crossover_bytes(workers: int, link: Link) -> float:
    """The size in bytes at which ring and tree take equally long: the tree is faster below, the ring above.

    0 where the tree is never faster (up to three workers), inf where the ring never is (beta 0). From
    2(n-1)(alpha + beta b/n) = 2L(alpha + beta b) with L = ceil(log2 n).
    """
    if workers < 2:
        raise ValueError(f"ring and tree differ from two workers on, not for {workers}")
    depth = _depth(workers)
    saved = (workers - 1 - depth) * link.alpha
    if saved <= 0:
        return 0.0
    extra = (depth - (workers - 1) / workers) * link.beta
    return saved / extra if extra else math.inf


@dataclass(frozen=True)
class Forecast:
    """One row of `forecast`. seconds, communication: a step, and its all-reduce before any overlap."""

    workers: int
    algorithm: str
    communication: float
    seconds: float
    efficiency: float


def forecast(
    compute_seconds: float,
    gradient_bytes: float,
    link: Link,
    *,
    workers: Sequence[int] = (1, 2, 8, 64, 1024),
    algorithms: Sequence[str] = ALGORITHMS,
    overlap: float = 0.0,
) -> list[Forecast]:
    """One row for each number of workers and algorithm, workers outermost; assumptions as in `step_time`."""
    rows = []
    for n in workers:
        for algorithm in algorithms:
            communication = all_reduce_seconds(gradient_bytes, n, link, algorithm)
            seconds = step_time(compute_seconds, gradient_bytes, n, link, algorithm, overlap=overlap)
            useful = efficiency(compute_seconds, gradient_bytes, n, link, algorithm, overlap=overlap)
            rows.append(Forecast(n, algorithm, communication, seconds, useful))
    return rows


def _messages(nbytes: float, workers: int, algorithm: str) -> int:
    """How many messages follow one another in an all-reduce."""
    if nbytes < 0:
        raise ValueError(f"nbytes is 0 or more, not {nbytes}")
    if workers < 1:
        raise ValueError(f"at least one worker is needed, not {workers}")
    return 2 * (workers - 1 if _known(algorithm) == "ring" else _depth(workers))


def _depth(workers: int) -> int:
    """ceil(log2 workers), in integers."""
    return (workers - 1).bit_length()


def _known(algorithm: str) -> str:
    if algorithm not in ALGORITHMS:
        raise ValueError(f'algorithm is "ring" or "tree", not {algorithm!r}')
    return algorithm


def _least_squares(rows: list[tuple[float, float]], weights: list[float]) -> tuple[float, float]:
    """alpha and beta within their bounds that make u * alpha + v * beta closest to 1."""
    uu = sum(w * u * u for (u, _), w in zip(rows, weights, strict=True))
    uv = sum(w * u * v for (u, v), w in zip(rows, weights, strict=True))
    vv = sum(w * v * v for (_, v), w in zip(rows, weights, strict=True))
    u1 = sum(w * u for (u, _), w in zip(rows, weights, strict=True))
    v1 = sum(w * v for (_, v), w in zip(rows, weights, strict=True))
    determinant = uu * vv - uv * uv
    alpha, beta = (u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant
    # With one at its bound the other is the best for it.
    if alpha < LEAST_ALPHA:
        alpha, beta = LEAST_ALPHA, (v1 - uv * LEAST_ALPHA) / vv
    elif beta < LEAST_BETA:
        alpha, beta = (u1 - uv * LEAST_BETA) / uu, LEAST_BETA
    return max(alpha, LEAST_ALPHA), max(beta, LEAST_BETA)

"""Variants of one network, judged side by side: layers changed, bytes, latency, accuracy, agreement with the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from course.deployment.latency import Latencies, Latency, measure_latency
from course.training.metrics import accuracy, confusion_matrix, per_class_accuracy
from course.training.table import html_table, text_table
from course.training.timing import duration


@dataclass(frozen=True)
class Variant:
    """One way to run the network.

    call: normalised images float32 (N, 3, H, W) to logits (N, classes). size: bytes of the file that is shipped.
    changed: names of the layers that it computes in another way, such as in int8.
    """

    name: str
    call: Callable[[Tensor], Tensor]
    size: int
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What a variant costs and is worth.

    latency: p50 seconds of a call, by batch size. accuracy and agreement: shares of the images; agreement is with the
    predictions of the first variant. per_class: accuracy of each class, (classes,).
    """

    name: str
    changed: tuple[str, ...]
    size: int
    latency: dict[int, float]
    accuracy: float
    per_class: Tensor
    agreement: float


@dataclass(frozen=True)
class Judgement:
    """Results in the order of the variants, relative to the first; reads as a table."""

    results: tuple[Result, ...]
    latencies: dict[int, Latencies]
    classes: tuple[str, ...]
    images: int
    in_a_row: Mapping[int, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"no variant {name!r}; the variants are {', '.join(r.name for r in self.results)}")

    def speedup(self, name: str, batch: int) -> float:
        """p50 of the first variant over p50 of this one, at this batch size: 2.0 means twice as fast."""
        return self.latencies[batch].speedup(name)

    def points_lost(self, name: str) -> float:
        """Accuracy of the first variant minus that of this one, in points (hundredths); negative is a gain."""
        return 100 * (self.results[0].accuracy - self[name].accuracy)

    def worst_class(self, name: str) -> tuple[str, float]:
        """The class that lost most against the first variant, and how many points."""
        lost = 100 * (self.results[0].per_class - self[name].per_class).nan_to_num(nan=float("-inf"))
        worst = int(lost.argmax())
        return self.classes[worst], float(lost[worst])

    def table(self) -> list[list[str]]:
        batches = list(self.latencies)
        head = ["variant", "layers changed", "bytes", *(f"batch {n}" for n in batches)]
        head += ["accuracy", "agrees", "worst class"]
        return [head, *(self._row(result, batches) for result in self.results)]

    def _row(self, result: Result, batches: list[int]) -> list[str]:
        times = [f"{duration(result.latency[n])} ({self.speedup(result.name, n):.2f}x)" for n in batches]
        worst, lost = self.worst_class(result.name)
        return [
            result.name,
            str(len(result.changed)),
            f"{result.size:,}",
            *times,
            f"{100 * result.accuracy:.1f} %",
            f"{100 * result.agreement:.1f} %",
            f"{worst} {-lost:+.1f}" if lost > 0 else "none lost",
        ]

    @property
    def conditions(self) -> str:
        timed = "; ".join(
            f"batch {n}: {seen.conditions}" + (f", {row} in a row" if (row := self.in_a_row.get(n, 1)) > 1 else "")
            for n, seen in self.latencies.items()
        )
        return f"Medians (in brackets: times as fast as {self.results[0].name}); {timed}; {self.images:,} images."

    def __str__(self) -> str:
        return f"{text_table(self.table())}\n{self.conditions}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{html_table(self.table())}\n<p>{self.conditions}</p>"


def judge(
    variants: Sequence[Variant],
    images: Tensor,
    targets: Tensor,
    classes: Sequence[str],
    *,
    calls: dict[int, int] | None = None,
    in_a_row: dict[int, int] | None = None,
    threads: int = 1,
) -> Judgement:
    """Run all variants on the same images, and time them in turn.

    variants: the first is what the others are compared with. images: normalised float32 (N, 3, H, W). targets: int64
    (N,). classes: their names. calls: timed turns for each batch size, by default {1: 20, 64: 8}; in_a_row: how many
    calls a turn has, by default {1: 10} and otherwise 1: a service runs one network, whose weights stay in the caches,
    and not the variants in turn. threads: see :func:`~course.deployment.latency.measure_latency`. Every variant gets
    batches of 64, the last one shorter.
    """
    if not variants:
        raise ValueError("judge needs at least one variant")
    timed = {1: 20, 64: 8} if calls is None else calls
    row = {1: 10} if in_a_row is None else in_a_row
    predicted = {}
    with torch.no_grad():
        for variant in variants:
            predicted[variant.name] = torch.cat([variant.call(part) for part in images.split(64)])
    latencies = {
        batch: _timed(variants, images[:batch], number, row.get(batch, 1), threads) for batch, number in timed.items()
    }
    first = predicted[variants[0].name].argmax(dim=1)
    results = tuple(
        Result(
            variant.name,
            variant.changed,
            variant.size,
            {batch: seen[variant.name].p50 for batch, seen in latencies.items()},
            accuracy(logits, targets).item(),
            per_class_accuracy(confusion_matrix(logits.argmax(dim=1), targets, len(classes))),
            (logits.argmax(dim=1) == first).float().mean().item(),
        )
        for variant in variants
        for logits in (predicted[variant.name],)
    )
    return Judgement(results, latencies, tuple(classes), len(images), row)


def _timed(variants: Sequence[Variant], images: Tensor, turns: int, in_a_row: int, threads: int) -> Latencies:
    """Seconds of a call, as the mean of `in_a_row` calls in a turn."""

    def several(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], None]:
        def run(batch: Tensor) -> None:
            for _ in range(in_a_row):
                call(batch)

        return run

    cases = {variant.name: several(variant.call) for variant in variants}
    seen = measure_latency(cases, (images,), calls=turns, threads=threads)
    shares = (Latency(case.name, tuple(time / in_a_row for time in case.seconds)) for case in seen.cases)
    return Latencies(tuple(shares), threads)

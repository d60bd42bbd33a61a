"""Choose a variant under a budget: a rule that a table decides, and the reason in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from course.deployment.variants import Judgement, Result
from course.training.timing import duration

EQUALLY_FAST = 0.05  # times that differ by less than this share are taken to be equal: they change from run to run


class NothingFits(ValueError):
    """No variant keeps all limits; the message names the nearest one and what it misses."""


@dataclass(frozen=True)
class Choice:
    """name: of the variant. reason: why, in words. rejected: what the others miss; those that fit are not in it."""

    name: str
    reason: str
    rejected: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.reason}", *(f"not {name}: {why}" for name, why in self.rejected.items())]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Miss:
    """text: what is missed, in words. by: how far, as a share of the limit."""

    text: str
    by: float


def choose(
    judgement: Judgement,
    *,
    max_latency: float | None = None,
    max_bytes: int | None = None,
    min_accuracy: float | None = None,
    max_points_lost: float | None = 1.0,
    batch: int = 1,
) -> Choice:
    """The fastest variant that keeps all limits.

    max_latency: seconds that 95 % of the calls (p95) of this `batch` may take at most. max_bytes: of the file.
    min_accuracy: a share, 0 to 1. max_points_lost: points of accuracy (hundredths) against the first variant. None
    leaves a limit out; a value at the limit keeps it. Fast is a small p50. Variants within 5 % of the fastest count as
    equally fast: of these the one with the highest accuracy is taken, then the fewest bytes, then the earlier one.

    Raises NothingFits, ValueError for a limit that cannot be meant and for a batch size that was not timed.
    """
    if batch not in judgement.latencies:
        timed = ", ".join(map(str, judgement.latencies))
        raise ValueError(f"batch {batch} was not timed; the judgement has {timed}")
    if min_accuracy is not None and not 0 <= min_accuracy <= 1:
        raise ValueError(f"min_accuracy is a share from 0 to 1, such as 0.85, not {min_accuracy}")
    for name, value in (("max_latency", max_latency), ("max_bytes", max_bytes), ("max_points_lost", max_points_lost)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} should be at least 0, not {value}")

    misses = {
        result.name: list(_misses(judgement, result, batch, max_latency, max_bytes, min_accuracy, max_points_lost))
        for result in judgement.results
    }
    rejected = {name: "; ".join(miss.text for miss in missed) for name, missed in misses.items() if missed}
    fitting = [result for result in judgement.results if not misses[result.name]]
    if not fitting:
        nearest = min(misses, key=lambda name: (len(misses[name]), sum(miss.by for miss in misses[name])))
        raise NothingFits(
            f"none of the {len(misses)} variants keeps all limits. The nearest is {nearest}: {rejected[nearest]}. "
            "Loosen that limit, or add a variant"
        )
    fastest = min(result.latency[batch] for result in fitting)
    close = [result for result in fitting if result.latency[batch] <= fastest * (1 + EQUALLY_FAST)]
    best = min(close, key=lambda result: (-result.accuracy, result.size))
    return Choice(best.name, _reason(best, close, fitting, batch), rejected)


def _misses(
    judgement: Judgement,
    result: Result,
    batch: int,
    max_latency: float | None,
    max_bytes: int | None,
    min_accuracy: float | None,
    max_points_lost: float | None,
) -> Iterator[_Miss]:
    slow = judgement.latencies[batch][result.name].p95
    if max_latency is not None and slow > max_latency:
        text = f"p95 of {duration(slow)} instead of at most {duration(max_latency)}"
        yield _Miss(text, slow / max_latency - 1 if max_latency else float("inf"))
    if max_bytes is not None and result.size > max_bytes:
        text = f"{result.size:,} bytes instead of at most {max_bytes:,}"
        yield _Miss(text, result.size / max_bytes - 1 if max_bytes else float("inf"))
    if min_accuracy is not None and result.accuracy < min_accuracy:
        text = f"accuracy of {100 * result.accuracy:.1f} % instead of at least {100 * min_accuracy:.1f} %"
        yield _Miss(text, 1 - result.accuracy / min_accuracy)
    lost = judgement.points_lost(result.name)
    # Points are differences of rounded shares: 1.0000002 is one point.
    if max_points_lost is not None and lost > max_points_lost + 1e-6:
        text = f"{lost:.1f} points of accuracy lost instead of at most {max_points_lost:.1f}"
        yield _Miss(text, (lost - max_points_lost) / 100)


def _reason(best: Result, close: list[Result], fitting: list[Result], batch: int) -> str:
    fits = "the only one that keeps all limits" if len(fitting) == 1 else f"{len(fitting)} keep all limits"
    time = f"{duration(best.latency[batch])} at batch {batch}"
    if len(fitting) == 1:
        return f"{fits}; {time}"
    if len(close) == 1:
        return f"{fits}, this is the fastest of them, {time}"
    others = ", ".join(result.name for result in close if result is not best)
    equal = f"{fits}; {others} {'is' if len(close) == 2 else 'are'} equally fast, within 5 %"
    if all(best.accuracy > result.accuracy for result in close if result is not best):
        return f"{equal}, and this is the most accurate; {time}"
    if all(best.size < result.size for result in close if result is not best and result.accuracy == best.accuracy):
        return f"{equal}, and of the most accurate this has the fewest bytes; {time}"
    return f"{equal}, equally accurate and of equal size, and this comes first; {time}"

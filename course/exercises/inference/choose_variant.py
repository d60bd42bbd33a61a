"""Lesson 14: the variant that fits a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course.checking import Exercise

exercise = Exercise(
    "inference.choose_variant",
    title="A variant under a budget",
    task="""
        `choose_variant(variants, max_ms, min_accuracy)` returns the name of the variant to ship. Each variant is a dict
        with `"name"`, `"p95_ms"` (milliseconds), `"accuracy"` (0 to 1) and `"bytes"`.

        - A variant fits if its p95 is **at most** `max_ms` and its accuracy **at least** `min_accuracy`.
        - Of those that fit take the fastest. Of equally fast ones take the one with fewer bytes; if these are equal,
          too, the one that comes first in the list.
        - If nothing fits, raise `LookupError`: a variant that breaks the budget is no answer.
        - Leave the list as it is.
        """,
    hints=(
        "Two steps: leave out what does not fit, then rank what is left. What does the ranking look at first, and what "
        "second?",
        "min() with a key that returns a tuple (p95, bytes) ranks by the first and, where it is equal, by the second; "
        "of equal keys it returns the first. An empty list needs an answer of its own.",
    ),
)


@exercise.stub
def choose_variant(variants: Sequence[dict[str, Any]], max_ms: float, min_accuracy: float) -> str:
    """Return the name of the fastest variant within both limits; LookupError if there is none."""
    raise NotImplementedError


@exercise.reference
def by_key(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError(f"none of {len(variants)} variants fits")
    return min(fitting, key=lambda v: (v["p95_ms"], v["bytes"]))["name"]


@exercise.alternative
def by_loop(variants, max_ms, min_accuracy):
    best = None
    for variant in variants:
        if variant["p95_ms"] > max_ms or variant["accuracy"] < min_accuracy:
            continue
        if best is None or variant["p95_ms"] < best["p95_ms"]:
            best = variant
        elif variant["p95_ms"] == best["p95_ms"] and variant["bytes"] < best["bytes"]:
            best = variant
    if best is None:
        raise LookupError("nothing keeps both limits")
    return best["name"]


@exercise.alternative
def sorted_copy(variants, max_ms, min_accuracy):
    for variant in sorted(sorted(variants, key=lambda v: v["bytes"]), key=lambda v: v["p95_ms"]):
        if variant["p95_ms"] <= max_ms and variant["accuracy"] >= min_accuracy:
            return variant["name"]
    raise LookupError("the budget is too small")


@exercise.wrong("The fastest of all is taken, whether it fits or not: the accuracy was never asked.")
def fastest_of_all(variants, max_ms, min_accuracy):
    best = min(variants, key=lambda v: (v["p95_ms"], v["bytes"]), default=None)
    if best is None or best["p95_ms"] > max_ms:
        raise LookupError("no variant fits")
    return best["name"]


@exercise.wrong("A variant that lies exactly at `max_ms` is refused. The task says at most.")
def below_the_time(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] < max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting, key=lambda v: (v["p95_ms"], v["bytes"]))["name"]


@exercise.wrong("A variant that has exactly `min_accuracy` is refused. The task says at least.")
def above_the_accuracy(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] > min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting, key=lambda v: (v["p95_ms"], v["bytes"]))["name"]


@exercise.wrong(
    "The most accurate of those that fit is taken. It is good enough already; the task asks for the fastest."
)
def most_accurate(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return max(fitting, key=lambda v: (v["accuracy"], -v["p95_ms"]))["name"]


@exercise.wrong("Of equally fast variants the first one is taken. The task prefers the one with fewer bytes.")
def ties_not_broken(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting, key=lambda v: v["p95_ms"])["name"]


@exercise.wrong("The smallest file wins and time only breaks ties: the two stand in the other order.")
def bytes_first(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting, key=lambda v: (v["bytes"], v["p95_ms"]))["name"]


@exercise.wrong(
    "Times are rounded before they are compared. A variant that is a little slower then counts as equally fast."
)
def rounded_times(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting, key=lambda v: (round(v["p95_ms"], 3), v["bytes"]))["name"]


@exercise.wrong("Ties are broken by accuracy. The task breaks them by bytes.")
def ties_by_accuracy(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting, key=lambda v: (v["p95_ms"], -v["accuracy"]))["name"]


@exercise.wrong("Of variants equal in time and bytes the last one is taken. The task takes the first in the list.")
def last_of_equal_ones(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(reversed(fitting), key=lambda v: (v["p95_ms"], v["bytes"]))["name"]


@exercise.wrong(
    "Equal in time and bytes, the names decide: tuples go on to compare. The first in the list was asked for."
)
def ties_by_name(variants, max_ms, min_accuracy):
    fitting = [
        (v["p95_ms"], v["bytes"], v["name"])
        for v in variants
        if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy
    ]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting)[2]


@exercise.wrong(
    "None comes back when nothing fits. The error then comes later, somewhere else, and says nothing of a budget."
)
def none_when_nothing_fits(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    return min(fitting, key=lambda v: (v["p95_ms"], v["bytes"]))["name"] if fitting else None


@exercise.wrong("When nothing fits, the fastest is shipped all the same: the budget is broken and nobody is told.")
def ships_anyway(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not variants:
        raise LookupError("no variant fits")
    return min(fitting or variants, key=lambda v: (v["p95_ms"], v["bytes"]))["name"]


@exercise.wrong("An empty list ends in the ValueError of min(), which says nothing of a budget. Raise LookupError.")
def error_of_min(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    best = min(fitting, key=lambda v: (v["p95_ms"], v["bytes"]))
    return best["name"]


@exercise.wrong("`variants.sort` sorts the caller's list in place. Sort a copy, or look for the minimum.")
def sorts_in_place(variants, max_ms, min_accuracy):
    variants.sort(key=lambda v: (v["p95_ms"], v["bytes"]))
    for variant in variants:
        if variant["p95_ms"] <= max_ms and variant["accuracy"] >= min_accuracy:
            return variant["name"]
    raise LookupError("no variant fits")


@exercise.wrong("It returns the whole variant. The task asks for its name.")
def the_whole_variant(variants, max_ms, min_accuracy):
    fitting = [v for v in variants if v["p95_ms"] <= max_ms and v["accuracy"] >= min_accuracy]
    if not fitting:
        raise LookupError("no variant fits")
    return min(fitting, key=lambda v: (v["p95_ms"], v["bytes"]))


def table(*rows):
    keys = ("name", "p95_ms", "accuracy", "bytes")
    return [dict(zip(keys, row, strict=True)) for row in rows]


EAGER, INT8, PRUNED = ("eager", 2.5, 0.88, 400), ("int8", 1.0, 0.87, 110), ("pruned", 0.5, 0.7, 40)


def chosen(answer, rows, max_ms, min_accuracy):
    variants = table(*rows)
    before = [v["name"] for v in variants]
    name = answer(variants, max_ms, min_accuracy)
    return name, "list unchanged" if before == [v["name"] for v in variants] else "list changed"


@exercise.probe
def all_fit(answer):
    return chosen(answer, [EAGER, INT8, PRUNED], 3.0, 0.5)


@exercise.probe
def accuracy_decides(answer):
    return chosen(answer, [EAGER, INT8, PRUNED], 3.0, 0.8)


@exercise.probe
def at_the_limit_of_accuracy(answer):
    return chosen(answer, [EAGER, INT8, PRUNED], 3.0, 0.87)


@exercise.probe
def at_the_limit_of_time(answer):
    return chosen(answer, [EAGER, INT8], 1.0, 0.8)


@exercise.probe
def fast_and_large(answer):
    return chosen(answer, [("small", 2.0, 0.9, 10), ("fast", 1.0, 0.9, 500), ("best", 1.5, 0.95, 700)], 3.0, 0.8)


@exercise.probe
def nearly_equally_fast(answer):
    return chosen(answer, [("small", 1.0004, 0.9, 100), ("fast", 1.0003, 0.9, 200)], 3.0, 0.8)


@exercise.probe
def equally_fast(answer):
    return chosen(answer, [("large", 1.0, 0.95, 300), ("small", 1.0, 0.9, 200), ("slow", 2.0, 0.99, 1)], 3.0, 0.8)


@exercise.probe
def equal_in_both(answer):
    return chosen(answer, [("m", 1.0, 0.9, 200), ("a", 1.0, 0.95, 200), ("z", 1.0, 0.85, 200)], 3.0, 0.8)


@exercise.probe
def too_slow(answer):
    return chosen(answer, [EAGER, INT8], 0.9, 0.8)


@exercise.probe
def not_accurate_enough(answer):
    return chosen(answer, [EAGER, INT8, PRUNED], 3.0, 0.9)


@exercise.probe
def each_misses_one(answer):
    return chosen(answer, [EAGER, PRUNED], 1.0, 0.8)


@exercise.probe
def no_variants(answer):
    return chosen(answer, [], 1.0, 0.8)

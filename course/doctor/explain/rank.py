"""From errors to ranked findings."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

TOPICS = (
    "environment",
    "tensors",
    "numpy",
    "autograd",
    "modules",
    "data",
    "training",
    "checkpoints",
    "mixed_precision",
    "compilation",
    "distributed",
    "export",
    "quantization",
)
LEAST = 0.3
# A warning or an exception that was handled tells less than the one that ended the program.
_WEIGHTS = {"context": 0.97, "warning": 0.9, "line": 0.95, "wrapper": 0.9}


@functools.cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of TOPICS."""
    modules = (importlib.import_module(f"course.doctor.explain.texts_{topic}") for topic in TOPICS)
    return tuple(rule for module in modules for rule in module.RULES)


def rank(errors: Iterable[ParsedError]) -> list[tuple[float, str, Seen, ParsedError]]:
    """(confidence, fault, what was seen, in which error), best first, one a fault."""
    best: dict[str, tuple[float, int, Seen, ParsedError]] = {}
    ended_by_error = False
    for order, error in enumerate(errors):
        for fault, seen in _seen(error):
            confidence = seen.confidence * _WEIGHTS.get(error.relation, 1.0)
            ended_by_error = ended_by_error or not error.is_warning
            # Of equals the later error: the earlier one may have been handled.
            if confidence >= LEAST and (fault not in best or (confidence, order) >= best[fault][:2]):
                best[fault] = (confidence, order, seen, error)
    ranked = sorted(
        best.items(),
        key=lambda item: (ended_by_error and item[1][3].is_warning, -item[1][0], -item[1][1]),
    )
    if not ranked:
        return []
    enough = ranked[0][1][0] * 0.5
    return [(entry[0], fault, entry[2], entry[3]) for fault, entry in ranked if entry[0] >= enough]


def _seen(error: ParsedError) -> Iterable[tuple[str, Seen]]:
    for rule in rules():
        try:
            seen = rule.apply(error)
        except Exception:
            # A rule that stumbles over an odd text must not hide what the others see.
            continue
        if seen is not None:
            yield rule.fault, seen

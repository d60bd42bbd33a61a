"""Where numbers stop being numbers, or gradients being there: logarithms, roots, divisions and flat functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from course.doctor.loss_values import size
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup
    from course.doctor.watch import Recording

_FUNCTIONS = {
    "LogBackward0": "log",
    "Log2Backward0": "log2",
    "Log10Backward0": "log10",
    "XlogyBackward0": "xlogy",
    "SqrtBackward0": "sqrt",
    "PowBackward0": "pow",
    "PowBackward1": "pow",
    "DivBackward0": "a division",
    "DivBackward2": "a division",
    "ReciprocalBackward0": "a reciprocal",
    "RsqrtBackward0": "rsqrt",
}
_FAULTS = {"log": "log-of-zero", "sqrt": "sqrt-at-zero", "division": "division-by-zero", "empty": "division-by-zero"}


def examine(setup: Setup) -> Iterator[Finding]:
    """Infinite or undefined losses and gradients, by the operation that made them; losses without a slope."""
    recording = setup.training
    if recording is None:
        return
    for event in recording.of("backward"):
        bad = _broken(event)
        if bad:
            found = list(_cause(event, bad)) or list(_logs(recording, event, bad))
            yield from found
            break
    yield from _no_slope(recording)


def _broken(event: Any) -> str:
    """What is not finite after a backward pass, in words; "" where all is."""
    loss = event.get("loss")
    if loss is not None and not math.isfinite(loss):
        return f"the loss of call {event.call + 1} is {loss}"
    bad = [name for name, norm in (event.get("after") or {}).items() if norm is not None and not math.isfinite(norm)]
    before = event.get("before") or {}
    fresh = [name for name in bad if before.get(name) is None or math.isfinite(before[name])]
    if not fresh:
        return ""
    value = "" if loss is None else f"the loss of call {event.call + 1} is {loss:.4g}, and "
    return f"{value}the gradients of {len(fresh)} parameters are not finite, such as that of `{fresh[0]}`"


def _cause(event: Any, bad: str) -> Iterator[Finding]:
    facts = [fact for fact in event.get("facts") or () if fact.kind in _FAULTS]
    loss_is_finite = event.get("loss") is not None and math.isfinite(event.loss)
    # A selected branch hides the value, not the slope; so it is the cause only where the loss itself is finite.
    hidden = [fact for fact in facts if fact.kind != "empty" and fact.selected]
    open_ones = [fact for fact in facts if fact not in hidden]
    if open_ones:
        fact = min(open_ones, key=lambda fact: ["empty", "division", "log", "sqrt"].index(fact.kind))
        yield Finding(_FAULTS[fact.kind], f"{_sentence(fact)}; {bad}.")
    elif hidden and loss_is_finite:
        fact = hidden[0]
        yield Finding(
            "where-nan-gradient",
            f"{_sentence(fact)}. Its result there is not chosen (`where`, a mask or an index lies behind it), but its "
            f"slope is infinite, and 0 times that is NaN: {bad}.",
        )


def _logs(recording: Recording, event: Any, bad: str) -> Iterator[Finding]:
    """Logarithms of what has no graph, such as targets."""
    for log in recording.of("log", call=event.call):
        if log.index < event.index and event.get("loss") is not None and not math.isfinite(event.loss):
            yield Finding(
                "log-of-zero",
                f"`{log.name}` is given {log.zeros} zeros and {log.negatives} negative numbers, {size(log.shape)}; "
                f"{bad}.",
            )
            return


def _sentence(fact: Any) -> str:
    if fact.kind == "empty":
        return f"The loss contains {fact.what}"
    name = _FUNCTIONS.get(fact.name, fact.name)
    if fact.kind == "division":
        return f"In the graph of the loss {name} by 0 occurs {fact.zeros} times in {fact.elements} ({size(fact.shape)})"
    parts = [f"{fact.zeros} zeros"] if fact.zeros else []
    if fact.negatives:
        parts.append(f"{fact.negatives} negative numbers")
    return (
        f"In the graph of the loss `{name}` is given {' and '.join(parts)} among {fact.elements} ({size(fact.shape)})"
    )


def _no_slope(recording: Recording) -> Iterator[Finding]:
    for event in recording.of("backward"):
        flat = next((fact for fact in event.get("facts") or () if fact.kind == "flat"), None)
        if flat is not None:
            names = ", ".join(f"`{name}`" for name in flat.names)
            yield Finding(
                "nondifferentiable-loss",
                f"Every way from the loss back to a parameter goes through {names}, whose slope is 0 wherever it has "
                "one: all gradients are 0.",
            )
            return
    yield from _cut(recording)


def _cut(recording: Recording) -> Iterator[Finding]:
    """The loss has no graph, the outputs have one, and between them stands a function without gradient."""
    error = str(recording.error or "")
    rootless = [event for event in recording.of("backward") if not event.root.requires_grad]
    if "does not require grad" not in error and not rootless:
        return
    call = rootless[0].call if rootless else recording.calls - 1
    events = [event for event in recording.events if event.call == call]
    outputs = [seen for event in events if event.kind == "forward" for seen in event.get("outputs") or ()]
    cuts = [event for event in events if event.kind == "cut"]
    reads = any(event.kind == "read" and event.graph for event in events)
    proper = any(event.kind == "loss" and event.origin for event in events)
    if cuts and not reads and not proper and any(seen.requires_grad for seen in outputs):
        names = ", ".join(dict.fromkeys(f"`{event.name}`" for event in cuts))
        yield Finding(
            "nondifferentiable-loss",
            f"Outputs of layers have a graph and the loss has none: in between stands {names}, which has no "
            f"gradient. It was applied to outputs of shape {size(cuts[0].shape)}.",
            confidence=0.95,
        )

"""What torch.compile makes of the model: graph breaks, recompiles, and calls that pass it by."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from course.doctor import running, tracing
from course.doctor.family_modes import example
from course.doctor.report import Finding
from course.doctor.setup import Setup

_CALLS = 4


def examine(setup: Setup) -> Iterator[Finding]:
    """graph-break, data-dependent-branch, recompiles, method-not-compiled; silent without a compiled module."""
    if "torch._dynamo" not in sys.modules:
        return
    for name, compiled in compiled_modules(setup):
        yield from passed_by(setup, name, compiled)
        yield from captured(setup, name, compiled)


def compiled_modules(setup: Setup) -> list[tuple[str, nn.Module]]:
    """(name, module) of the modules that torch.compile() or module.compile() made, without repetitions."""
    wrapper = torch._dynamo.eval_frame.OptimizedModule
    found: dict[int, tuple[str, nn.Module]] = {}
    candidates = [("model", setup.model), *setup.modules.items(), *setup.reached(wrapper)]
    for name, module in candidates:
        if isinstance(module, wrapper):
            found.setdefault(id(module._orig_mod), (name or "model", module))
        elif isinstance(module, nn.Module) and getattr(module, "_compiled_call_impl", None) is not None:
            found.setdefault(id(module), (name or "model", module))
    return list(found.values())


def original(compiled: nn.Module) -> nn.Module:
    """The module as it was written."""
    return getattr(compiled, "_orig_mod", compiled)


def passed_by(setup: Setup, name: str, compiled: nn.Module) -> Iterator[Finding]:
    """Steps that use the parts of a compiled model and never call the model itself."""
    recording = setup.training
    if recording is None or setup.step is None or recording.error is not None or not recording.of("backward"):
        return
    inside = {id(module) for module in original(compiled).modules()}
    called = [event.module for event in recording.of("forward") if id(event.module) in inside]
    whole = [module for module in called if module is original(compiled) or module is compiled]
    roots = [event for event in recording.of("forward") if event.root]
    if called and not whole and not any(module is compiled for module in (event.module for event in roots)):
        parts = sorted({type(module).__name__ for module in called})
        yield Finding(
            "method-not-compiled",
            f"In {recording.calls} steps the compiled {type(original(compiled)).__name__} was never called as a "
            f"module, but its parts were ({', '.join(parts[:3])}): another method of it ran, uncompiled.",
            severity="warning",
        )


def captured(setup: Setup, name: str, compiled: nn.Module) -> Iterator[Finding]:
    """Graph breaks in one call and new graphs in later calls of the same kind, with a backend that only counts."""
    module = original(compiled)
    calls = inputs_of(setup, module, compiled)
    if not calls:
        setup.skip(f"what torch.compile makes of {name}", "its inputs are not known")
        return
    if not setup.clock.allows(0.4):
        setup.skip(f"what torch.compile makes of {name}", "not enough time")
        return
    graphs: list[Any] = []

    def count(graph: Any, inputs: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    counts: list[int] = []
    reason = ""
    with setup.scratch(), running.quiet(), tracing.forgetting(), default_stance():
        twin = torch.compile(module.forward, backend=count)
        try:
            for args, kwargs in [calls[0]] * _CALLS:  # other shapes may compile again; the same ones may not
                before = len(graphs)
                twin(*args, **kwargs)
                counts.append(len(graphs) - before)
                if not setup.clock.allows(0.1):
                    break
            if counts[0] > 1:
                reason = why_broken(module, calls[0]) or why_explained(module, calls[0])
        except Exception as error:
            setup.skip(f"what torch.compile makes of {name}", f"{type(error).__name__}: {str(error)[:120]}")
            return
    yield from broken(type(module).__name__, counts, reason)
    later = counts[1:]
    if setup.step is not None and has_hooks(module):
        # What a hook writes down, and the step clears, changes from call to call here.
        setup.skip(f"whether {name} is compiled again", "it has hooks, which depend on the step around the call")
    elif len(later) >= 2 and all(later):
        yield Finding(
            "recompiles",
            f"{len(counts)} calls of {type(module).__name__} with the same input compiled "
            f"{', '.join(map(str, counts))} graphs: every call compiles again.",
            severity="warning",
        )


def broken(kind: str, counts: list[int], reason: str) -> Iterator[Finding]:
    """More than one graph in the first call."""
    if not reason:
        return
    dependent = re.search(r"data-dependent (branch|jump|control|expression|assert)", reason, re.IGNORECASE)
    yield Finding(
        "data-dependent-branch" if dependent else "graph-break",
        f"One call of {kind} was captured in {counts[0]} graphs. Reason: {_first_line(reason)}.",
        severity="warning",
    )


def inputs_of(setup: Setup, module: nn.Module, compiled: nn.Module) -> list[tuple[Any, Any]]:
    """Arguments of some calls of the module: those of the batches, or those of its first recorded call again."""
    if setup.standard and module is original(setup.model):
        with contextlib.suppress(TypeError):
            return [((setup.pair(batch)[0],), {}) for batch in setup.batches[:_CALLS]]
    recordings = [r for r in (setup.training, setup.evaluation) if r is not None]
    for event in (event for r in recordings for event in r.of("forward")):
        if event.module in (module, compiled) and event.get("arguments") is not None:
            return [event.arguments] * _CALLS
    known = example(setup) if module is setup.raw_model else None
    return [known] * _CALLS if known is not None else []


@contextlib.contextmanager
def default_stance() -> Iterator[None]:
    """Compile again inside the block, whatever was set around it."""
    with torch.compiler.set_stance("default"):
        yield


def why_broken(module: nn.Module, call: tuple[Any, Any]) -> str:
    """What torch.compile(fullgraph=True) says of a call; "" where it captures all of it in one graph."""
    args, kwargs = call
    try:
        torch.compile(module.forward, backend="eager", fullgraph=True)(*args, **kwargs)
    except Exception as error:
        return str(error)
    return ""


def why_explained(module: nn.Module, call: tuple[Any, Any]) -> str:
    """The first graph break that the compiler lists; fullgraph=True captures some, such as ``x.item()``, otherwise."""
    reasons = torch._dynamo.explain(module.forward)(*call[0], **call[1]).break_reasons
    return reasons[0].reason if reasons else ""


def has_hooks(module: nn.Module) -> bool:
    """Whether the module or one in it has forward hooks."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0].strip().rstrip(".")
    return line if len(line) < 200 else line[:197] + "..."

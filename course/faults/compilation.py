"""Faults of torch.compile."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault("recompiles", "each call compiles again (guards on ints, shapes, objects)", "compile", "09"),
    Fault("warmup-in-timing", "compile time counted as run time", "compile", "09"),
    Fault("graph-break", "an untraceable call splits the graph", "compile", "09"),
    Fault(
        "data-dependent-branch",
        "Python branch on a tensor value under compile or export",
        "compile",
        "09",
    ),
    Fault("method-not-compiled", "only forward is compiled", "compile", "09"),
    Fault("hook-after-compile", "hook added after the first compiled call", "compile", "09"),
)

"""Texts that faults of the topic training leave, but for those of losses."""

from __future__ import annotations

import re

from course.doctor.explain.code import flow
from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen
from course.doctor.explain.texts_training_losses import RULES as LOSSES

_MEMORY, _LOG, _DIVISION = "out-of-memory", "log-of-zero", "division-by-zero"
_KEPT = re.compile(
    (
        r"\b(\w*(?:loss|total|running|epoch|cum|sum)\w*) ?\+= ?(\w*loss\w*|\w+\([^\n]{0,40}\))[ \t]*(?:#"
        r"|$|;)|\b(\w*(?:loss|outputs?|preds?|history|logits)\w*)\.append\((\w+)\)"
    ),
    re.MULTILINE | re.IGNORECASE,
)


def _over_classes(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``logits.argmax(0) == target``: one number a class against one a sample."""
    chosen = re.search(r"(?:\.|torch\.)(?:argmax|max|topk)\((?:\w+ ?, ?)?(?:dim ?= ?|axis ?= ?)?0\)", flow(error))
    if not chosen:
        return None
    return Seen(0.85, f"`{chosen[0].lstrip('.')}` chooses over the batch: {match[1]} numbers against {match[2]}.")


def _memory(error: ParsedError, match: re.Match[str]) -> Seen:
    asked = re.search(
        (
            r"Tried to allocate ([\d.]+ ?[KMGT]i?B)|you tried to allocate (\d+) bytes"
            r"|Unable to allocate ([\d.]+ ?[KMGT]i?B)|Invalid buffer size: ([\d.]+ ?[KMGT]i?B)"
        ),
        error.flat,
    )
    parts = []
    if asked:
        size = next(filter(None, asked.groups()))
        parts.append(
            f"{size} more was asked for." if not size.isdigit() else f"{int(size) / 2**30:.3g} GiB was asked for."
        )
    if total := re.search(r"total capacity of ([\d.]+ ?[KMGT]i?B)|([\d.]+ ?[KMGT]i?B) total capacity", error.flat):
        parts.append(f"The device has {total[1] or total[2]}.")
    if free := re.search(r"of which ([\d.]+ ?[KMGT]i?B) is free|; ([\d.]+ ?[KMGT]i?B) free", error.flat):
        parts.append(f"{free[1] or free[2]} is free.")
    return Seen(why=" ".join(parts))


def _kept_graphs(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """Losses kept with their graph explain why memory grows from batch to batch."""
    kept = [
        each
        for each in error.tensors
        if re.search(r"loss|total|running|history|log", each.name, re.IGNORECASE) and "Add" in each.made_by
    ]
    if kept:
        return Seen(0.8, f"`{kept[0].name}` has grad_fn {kept[0].made_by}: it holds the graphs of all batches.")
    if (found := _KEPT.search(error.context)) and not re.search(r"no_grad|inference_mode", error.context):
        return Seen(0.6, f"`{found[0].strip()}` may keep the graph of every batch.")
    return None


def _too_many(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"step() was called {match[1]} times; the schedule has {match[2]} steps in all.")


def _domain(error: ParsedError, match: re.Match[str]) -> Seen | None:
    return Seen(0.85) if re.search(r"\blog", error.code) else None


def _zero_division(error: ParsedError, match: re.Match[str]) -> Seen:
    divisor = re.search(r"/ ?([\w.]+(?:\([\w., ]*\))?)", error.code)
    return Seen(why=f"`{divisor[1]}` is 0." if divisor else "")


RULES: tuple[Rule, ...] = (
    *LOSSES,
    Rule(
        _MEMORY,
        (
            r"(?:CUDA|HIP|MPS|XPU)[\w ]{0,24}out of memory|out of memory\. Tried to allocate"
            r"|CUDA(?: driver)? error: out of memory"
            r"|you tried to allocate \d+ bytes|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
            r"|not enough memory: you tried|Unable to allocate [\d.]+ ?\w+ for an array"
            r"|Invalid buffer size: [\d.]+ ?[GM]i?B|(?:CUDNN|CUBLAS|CUSOLVER|CUSPARSE"
            r"|CUFFT)_(?:STATUS_)?ALLOC_FAILED|Allocator ran out of memory"
            r"|RESOURCE_EXHAUSTED|hipErrorOutOfMemory|cudaErrorMemoryAllocation"
            r"|Failed to allocate .{0,40}memory|unable to mmap \d+ bytes .{0,200}Cannot allocate memory"
        ),
        confidence=0.96,
        look=_memory,
    ),
    Rule(
        _MEMORY,
        r"Cannot allocate memory|std::bad_alloc|Out of memory: Killed process|oom-kill|oom_kill|can't allocate memory",
        confidence=0.85,
        look=_memory,
    ),
    Rule(
        _MEMORY,
        r"",
        ("OutOfMemoryError", "MemoryError", "_ArrayMemoryError"),
        confidence=0.9,
        look=lambda error, match: _memory(error, match) if error.name else None,
    ),
    Rule(
        _MEMORY,
        (
            r"DataLoader worker .{0,60}killed by signal: (?:Killed|Bus error)|out of shared memory"
            r"|unable to (?:allocate|write to|open) shared memory"
        ),
        confidence=0.75,
    ),
    Rule(_MEMORY, r"CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_NOT_INITIALIZED", confidence=0.45),
    Rule(
        "graph-retained-in-log",
        r"out of memory|you tried to allocate \d+ bytes|can't allocate memory",
        look=_kept_graphs,
    ),
    Rule(
        "scheduler-before-optimizer",
        r"Detected call of `?lr_scheduler\.step\(\)`? before `?optimizer\.step\(\)",
        confidence=0.96,
    ),
    Rule(
        "scheduler-per-batch",
        r"Tried to step (\d+) times\. The specified number of total steps is (\d+)",
        confidence=0.75,
        look=_too_many,
    ),
    Rule(
        "exploding-gradient",
        r"total norm of order \S{1,8} for gradients from `?parameters`? is non-finite",
        confidence=0.85,
    ),
    Rule(_LOG, r"(?:divide by zero|invalid value) encountered in log(?:2|10|1p)?\b", confidence=0.93),
    Rule(_LOG, r"math domain error|expected a positive input", ("ValueError",), look=_domain),
    Rule(
        _DIVISION,
        (
            r"(?:divide by zero|invalid value) encountered in (?:\w+ )?(?:true_)?divide"
            r"|encountered in (?:\w*_)?scalar(?:s)? divide|encountered in (?:double|float|long)_scalars"
        ),
        confidence=0.85,
    ),
    Rule(_DIVISION, r"Mean of empty slice|degrees of freedom is <= 0", confidence=0.65),
    Rule(
        _DIVISION,
        r"division (?:or modulo )?by zero|divide by zero|modulo by zero|^ZeroDivisionError",
        ("ZeroDivisionError", "RuntimeError"),
        confidence=0.7,
        look=_zero_division,
    ),
    Rule(
        "argmax-wrong-axis",
        r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
        ("RuntimeError",),
        look=_over_classes,
    ),
    Rule(
        "argmax-wrong-axis",
        r"Implicit dimension choice for (?:log_)?softm(?:ax|in) has been deprecated",
        confidence=0.7,
    ),
)

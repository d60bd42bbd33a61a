"""Texts that faults of the topic compile leave."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_REASON = re.compile(
    r"- \d+/\d+: (?P<reason>.{3,160}?)(?= - \d+/\d+:| {2,}|$)"
    r"|last reason: (?P<last>.{3,160}?)(?= #|$| \[| W\d{4})"
)
_HINT = re.compile(r"triggered by the following guard failure\(s\): (?P<reason>.{3,160}?)(?=$| - \d)")
_LINE = re.compile(
    r"(?:from user code:|raised this error:|caused by:).{0,200}?line \d{1,6}, in \w{1,80} "
    r"(?P<code>.{3,120}?)(?= \^|$| File| Set | The )"
)
_CALL = re.compile(
    "|".join(
        (
            r"trace (?:the )?(?:builtin operator|builtin|method) `([\w.]{1,60}?)\.?`",
            r"calling function `<function (\w{1,60})",
            r"call_function BuiltinVariable\((\w{1,40})\)",
            r"Unsupported Tensor\.(\w{1,40})\(\)",
            r"call_method TensorVariable\(\) (\w{1,40})",
            r"Call to `([\w.]{1,60})\(\)`",
        )
    )
)
_DEPENDS = "|".join(
    (
        r"data-dependent branching",
        r"could not guard on data-dependent",
        r"could not extract specialized \w{1,10} from data-dependent",
        r"dynamic control flow is not supported",
        r"generic_jump (?:tensorvariable|symnodevariable)",
        r"data-dependent assertion failed",
        r"whose value is data-dependent",
        r"data-dependent control flow",
        r"guardondatadependentsymnode",
        r"attempted to jump with (?:tensor|symnode)variable",
        r"`torch\.cond` to express dynamic control flow",
        r"symbolically traced variables cannot be used as inputs to control flow",
    )
)
_BREAKS = "|".join(
    (
        r"failed to trace builtin",
        r"marked as skipped",
        r"in skipfiles|in skip_files",
        r"skip (?:calling )?`?torch\.(?:compiler|_dynamo)\.disable",
        r"call to `torch\._dynamo\.(?:graph_break|skip_frame)\(\)`",
        r"call_function (?:builtinvariable|args:)",
        r"call_method \w{1,60}variable\(",
        r"unsupported (?:method|function|context|tensor)[\w.() ]{0,40} ?call",
        r"does not know how to trace",
        r"tensor\.tolist\(\) with",
        r"unsupported context manager",
        r"for more details about this graph break",
        r"graph break (?:reason|in user code)",
        r"logging\.logger method not supported",
        r"torch\.\* op returned non-tensor",
        r"dynamic shape operator",
        r"numpy function unsupported",
    )
)
_DYNAMO = (
    *("Unsupported", "UserError", "TorchRuntimeError", "InternalTorchDynamoError"),
    *("GraphBreak", "BackendCompilerFailed"),
)
# What Dynamo says of errors that the code would have without it as well, or of another fault.
_OTHERS = re.compile(
    r"recompile limit|cache limit|cache_size_limit|recompile_limit|observed exception|backend compiler exception"
    r"|runtimeerror when making fake tensor call|fake tensor propagation exception|failed to run fx node",
    re.I,
)


def _line(error: ParsedError) -> str:
    found = _LINE.search(error.flat)
    code = found["code"].strip() if found else ""
    return f"The line is `{code}`." if code and "`" not in code else ""


def _depends(error: ParsedError, match: re.Match[str]) -> Seen | None:
    said = match[0].lower()
    if "data-dependent control flow" in said and "vmap" in error.flat:
        return Seen(0.75, "vmap runs the function for all samples at once, so one branch cannot be right for all.")
    why = _line(error)
    if "extract specialized" in said:
        why = f"A number taken out of a tensor (`item()`, `int()`) decides a size or how often a loop runs. {why}"
    return Seen(None, why.strip())


def _vmap_item(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(0.55, "vmap has a whole batch where the code asks for one number with `item()`.")


def _broken(error: ParsedError, match: re.Match[str]) -> Seen | None:
    flat = error.flat
    if _OTHERS.search(flat) or re.search(_DEPENDS, flat, re.I):
        return None
    found = _CALL.search(flat)
    name = next((part for part in found.groups() if part), None) if found else None
    called = f"The call that cannot be captured is `{name}`." if name else ""
    return Seen(None, f"{called} {_line(error)}".strip())


def _again(error: ParsedError, match: re.Match[str]) -> Seen:
    found = _REASON.search(error.flat) or _HINT.search(error.flat)
    reason = next((part for part in found.groups() if part), "") if found else ""
    reason = re.split(r" {0,2}# | \(HINT", reason)[0].strip().strip("`")
    sizes = re.search(r"size mismatch at index (\d+)\. expected (\d+), actual (\d+)", reason)
    if sizes:
        return Seen(
            None,
            f"The guard that failed is about a shape: axis {sizes[1]} was {sizes[2]} and now is {sizes[3]}.",
            "Pass `dynamic=True`, or mark that axis: `torch._dynamo.mark_dynamic(x, axis)`.",
        )
    value = re.search(r"([\w.\[\]'\"]{1,80}) == (\S{1,40})", reason)
    if value and "`" not in reason:
        return Seen(None, f"The guard that failed is about a Python value: `{value[0]}`.")
    return Seen(None, f"The guard that failed: `{reason}`." if reason and "`" not in reason else "")


def _graphs(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(None, f"A graph was recorded for each of {match['count']} input sizes.", "Pad to a few sizes.")


_LIMIT = r"hit config\.(?:accumulated_)?(?:cache_size|recompile)_limit|(?:cache_size|recompile)_limit reached"

RULES: tuple[Rule, ...] = (
    Rule("data-dependent-branch", _DEPENDS, confidence=0.95, look=_depends),
    Rule(
        "data-dependent-branch",
        r"data[- ]dependent operator|aten\._local_scalar_dense\.default",
        (*_DYNAMO, "DataDependentOutputException", "TorchExportError"),
        0.75,
        _depends,
    ),
    Rule("data-dependent-branch", r"vmap: it looks like you're calling \.item\(\) on a tensor", look=_vmap_item),
    Rule(
        "data-dependent-branch",
        r"proxy object cannot be iterated|'len' is not supported in symbolic tracing|cannot be called with proxy",
        ("TraceError", "RuntimeError", "TypeError"),
        0.5,
    ),
    Rule(
        "graph-break",
        _BREAKS,
        (*_DYNAMO, "UserWarning"),
        0.93,
        _broken,
    ),
    Rule(
        "graph-break", r"\S", ("Unsupported",), 0.85, lambda error, match: _broken(error, match) if error.name else None
    ),
    Rule(
        "graph-break",
        r"aten\.[\w.]{1,60}",
        ("DynamicOutputShapeException",),
        0.7,
        lambda error, match: Seen(None, f"The size of the result of `{match[0]}` depends on the values."),
    ),
    Rule("recompiles", _LIMIT, confidence=0.96, look=_again),
    Rule(
        "recompiles",
        r"recompiling function \S{1,120} in|detected recompile when torch\.compile stance is"
        r"|\[__recompiles(?:_verbose)?\]"
        r"|dynamo (?:recompile|cache) limit exceeded|hard failure due to fullgraph=true",
        confidence=0.93,
        look=_again,
    ),
    Rule(
        "recompiles",
        r"we have observed (?P<count>\d+) distinct sizes",
        ("UserWarning",),
        0.85,
        _graphs,
    ),
    Rule(
        "hook-after-compile",
        r"hooks? (?:are|is) (?:only partially|not yet) supported[^.]{0,120}(?:in your model|torch\.compile)"
        r"|state_dict and backward hooks are not yet supported by torch\.compile",
        ("UserWarning",),
        0.6,
    ),
)

"""Texts that faults of the topic mixed precision leave."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.objects import local, parameters
from course.doctor.explain.rules import Rule, Seen

_HALVES = r"(?:c10::|at::|torch\.)?(?:half|bfloat16|float16)"
_WHOLE = r"(?:c10::|at::|torch\.)?float(?:32)?\b"
_MIXED = (
    rf"(?:{_HALVES}[^.]{{1,40}}{_WHOLE}|{_WHOLE}[^.]{{1,40}}{_HALVES}|\bfloat\b[^.]{{1,40}}{_HALVES}"
    rf"|type ?\({_HALVES}\)|type ?\({_WHOLE}\) and [\w ]{{1,20}} ?\({_HALVES}\))"
)
_MISMATCH = "|".join(
    (
        rf"(?:same dtype|same type|expected scalar type|expected dtype).{{0,60}}{_MIXED}",
        rf"(?:input|weight|bias) type ?\(\w.{{1,30}}{_MIXED}.{{0,30}} should be the same",
        rf"expected scalar type {_WHOLE} but found {_HALVES}",
        rf"expected scalar type {_HALVES} but found {_WHOLE}",
    )
)


def _in_function(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """Only where the frames show a custom autograd.Function: the text alone says nothing of one."""
    user = error.user_frame
    if user is None or user.function not in ("backward", "forward", "vjp", "jvp", "setup_context"):
        return None
    inside = any("autograd/function.py" in frame.file.replace("\\", "/") for frame in error.frames)
    if user.function == "backward" and (inside or "backward" in error.functions[1:]):
        return Seen(0.95, f"The line is in the `backward` of a function of your own: {_line(user.code)}.")
    if inside:
        return Seen(0.85, f"The line is in the `{user.function}` of a function of your own: {_line(user.code)}.")
    if "ctx" in user.code:
        return Seen(0.8)
    return None


def _line(code: str) -> str:
    line = code.strip().splitlines()[0][:100] if code.strip() else ""
    return f"`{line}`" if line and "`" not in line else "see the traceback"


def _overflowing(error: ParsedError, match: re.Match[str]) -> Seen | None:
    kind = match["kind"].lower()
    value = re.search(
        r"-?\d+(?:\.\d+)?e\+?\d+|-?(?:1_?000_?000\d*|\d{6,})|finfo\(torch\.float(?:32)?\)\.\w+|float\(.inf", error.code
    )
    if "bfloat16" in kind or kind == "float":
        return Seen(0.6, "The number is beyond the range of bfloat16 (3.4e38)." if "b" in kind else "")
    why = (
        f"The line has `{value[0]}`, and the tensor is float16."
        if value
        else "A number is written into a float16 tensor."
    )
    return Seen(
        None, why, "For a mask take the smallest number of the tensor's own dtype: `torch.finfo(scores.dtype).min`."
    )


def _cast(error: ParsedError, match: re.Match[str]) -> Seen | None:
    code = error.all_code or error.around
    if re.search(r"float16|\bhalf\b|np\.half", code, re.I):
        return Seen(0.85, "A NumPy array was cast to float16.")
    return Seen(0.45) if "cast" in match[0].lower() else None


def _numpy_type(error: ParsedError, match: re.Match[str]) -> Seen | None:
    kind = match["kind"]
    if kind.lower() == "bfloat16":
        return Seen()
    if kind.lower().startswith("float8"):
        return Seen(0.7, f"The same goes for {kind}: NumPy has no such dtype.")
    return None


def _elsewhere(error: ParsedError) -> list[str]:
    """Parameters with a gradient that the optimizer of `GradScaler.step` does not hold; [] for a text."""
    optimizer = local(error, "step", "optimizer")
    held = {id(p) for group in getattr(optimizer, "param_groups", ()) for p in group["params"]}
    return [name for name, p in parameters(error) if held and p.grad is not None and id(p) not in held]


def _not_held(error: ParsedError, match: re.Match[str]) -> Seen:
    if names := _elsewhere(error):
        return Seen(0.95, f"`{names[0]}` has a gradient, and the optimizer does not hold it.")
    return Seen()


def _cleared(error: ParsedError, match: re.Match[str]) -> Seen | None:
    between = re.search(r"\.backward\((?P<lines>.{0,400}?)\.step\(", error.context, re.DOTALL)
    cleared = between and re.search(r"[\w.]+\.zero_grad\(\w*\)", between["lines"])
    if not cleared or _elsewhere(error):
        return None
    return Seen(0.9, f"`{cleared[0]}` stands between backward() and the step, and leaves no gradient to check.")


def _no_checks(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        0.3 if _elsewhere(error) else None,
        "No parameter of this optimizer had a gradient when the scaler looked: backward() was not called before, or "
        "the loss does not depend on these parameters.",
        "Print `[p.grad is None for group in optimizer.param_groups for p in group['params']]` after backward().",
    )


_SCALER = ("RuntimeError", "ValueError", "AssertionError")

RULES: tuple[Rule, ...] = (
    Rule(
        "unscale-twice", r"unscale_\(\) has already been called on this optimizer since the last update", _SCALER, 0.97
    ),
    Rule(
        "scaler-update-missing",
        r"step\(\) has already been called since the last update",
        _SCALER,
        0.97,
    ),
    Rule(
        "scaler-update-missing",
        r"unscale_\(\) is being called after step\(\)",
        _SCALER,
        0.75,
        lambda error, match: Seen(
            None,
            "`unscale_` comes after a `step` that no `update` has closed: of this iteration, or of the one before.",
        ),
    ),
    Rule(
        "clip-after-step",
        r"unscale_\(\) is being called after step\(\)",
        _SCALER,
        0.5,
        lambda error, match: Seen(
            None,
            "`unscale_` comes after `scaler.step`. If that is in the same iteration, the clip comes too late as well.",
        ),
    ),
    Rule("graph-cut", r"no inf checks were recorded for this optimizer", _SCALER, 0.55, _no_checks),
    Rule("optimizer-misses-parameters", r"no inf checks were recorded for this optimizer", _SCALER, 0.5, _not_held),
    Rule("zero-grad-before-step", r"no inf checks were recorded for this optimizer", _SCALER, look=_cleared),
    Rule(
        "step-missing",
        r"no inf checks were recorded prior to update",
        _SCALER,
        0.7,
        lambda error, match: Seen(
            None,
            "`scaler.update()` was called, and no `scaler.step(optimizer)` before it.",
            "Write `scaler.step(optimizer)` before `scaler.update()`; `optimizer.step()` alone does not unscale.",
        ),
    ),
    Rule(
        "gradient-underflow",
        r"attempted \w{1,20} but _scale is none",
        _SCALER,
        0.7,
        lambda error, match: Seen(
            None,
            "The scaler has not scaled any loss yet: `backward()` was called on the loss itself.",
            "Write `scaler.scale(loss).backward()`.",
        ),
    ),
    Rule(
        "pure-half-adam",
        r"attempting to unscale fp16 gradients",
        _SCALER,
        0.9,
        lambda error, match: Seen(
            None,
            "The gradients are float16, so the weights are: the model was cast with `half()` or loaded in float16.",
            "Keep the weights in float32 (`model.float()`) and use `torch.autocast`; the scaler is made for that.",
        ),
    ),
    Rule(
        "pure-half-adam",
        r"_amp_(?:foreach_)?non_finite_check_and_unscale_\w{0,20}[\"'] not implemented for '(?:bfloat16|half)'",
        confidence=0.85,
        look=lambda error, match: Seen(
            None,
            "The scaler met gradients in bfloat16, so the weights are bfloat16.",
            "Keep the weights in float32 and use `torch.autocast(..., dtype=torch.bfloat16)`, without a scaler.",
        ),
    ),
    Rule(
        "half-overflow",
        r"value cannot be converted to type (?P<kind>(?:c10::|at::)?(?:bfloat16|half)) without overflow",
        ("RuntimeError",),
        look=_overflowing,
    ),
    Rule(
        "half-overflow",
        r"overflow encountered in (?:cast|reduce|multiply|square|add|exp|power)",
        ("RuntimeWarning", "FloatingPointError"),
        look=_cast,
    ),
    Rule(
        "half-overflow",
        r"binary_cross_entropy and torch\.nn\.bceloss are unsafe to autocast",
        ("RuntimeError",),
        0.7,
        lambda error, match: Seen(
            None,
            "`BCELoss` takes logarithms of probabilities; in float16 a probability is 0 or 1 early, and the gradient "
            "is beyond its range. So autocast refuses.",
            "Leave the sigmoid out and use `nn.BCEWithLogitsLoss`, which autocast computes in float32.",
        ),
    ),
    Rule(
        "half-overflow",
        r"minimum loss scale reached|current loss scale already at minimum",
        confidence=0.6,
        look=lambda error, match: Seen(
            None, "Step after step had gradients that were inf or nan, until the loss scale could not fall any more."
        ),
    ),
    Rule("bfloat16-to-numpy", r"got unsupported scalartype (?P<kind>\w{3,20})", ("TypeError",), 0.97, _numpy_type),
    Rule(
        "bfloat16-to-numpy",
        r"can't convert np\.ndarray of type (?:ml_dtypes\.)?bfloat16|data type ['\"]?bfloat16['\"]? not understood"
        r"|cannot interpret 'torch\.bfloat16' as a data type|module 'numpy' has no attribute 'bfloat16'",
        ("TypeError", "AttributeError"),
        0.85,
    ),
    Rule(
        "custom-function-autocast",
        _MISMATCH,
        ("RuntimeError",),
        look=_in_function,
    ),
    Rule(
        "legacy-amp-api",
        r"`?torch\.(?:cuda|cpu)\.amp\.(?P<name>\w{1,20})(?:\(args\.\.\.\))?`? is deprecated",
        ("FutureWarning", "DeprecationWarning", "UserWarning"),
        0.95,
        lambda error, match: Seen(None, f"The name here is `{match['name']}`."),
    ),
    Rule(
        "legacy-amp-api",
        r"torch\.cuda\.amp\.gradscaler is enabled, but cuda is not available"
        r"|cuda is not available[^.]{0,40}\. ? ?disabling autocast"
        r"|user provided device_type of 'cuda', but cuda is not available\. ?disabling",
        ("UserWarning",),
        0.9,
        lambda error, match: Seen(None, "There is no CUDA device, so it switched itself off."),
    ),
    Rule(
        "legacy-amp-api",
        r"autocast(?:\.__init__|_mode)?\(\) missing 1 required positional argument: 'device_type'"
        r"|__init__\(\) missing 1 required positional argument: 'device_type'"
        r"|custom_(?:fwd|bwd)\(\) missing 1 required (?:keyword-only|positional) argument: 'device_type'",
        ("TypeError",),
        0.8,
        lambda error, match: Seen(
            None, "The old `torch.cuda.amp` names take no device; `torch.autocast` and `torch.amp` do."
        ),
    ),
    Rule(
        "legacy-amp-api",
        r"module 'torch(?:\.amp)?' has no attribute '(?P<name>gradscaler|autocast|custom_fwd|custom_bwd|amp)'",
        ("AttributeError",),
        0.75,
        lambda error, match: Seen(
            None,
            f"This torch is older than the name `{match['name']}`: before 2.3 it was in `torch.cuda.amp` alone.",
            "Upgrade torch, or use `torch.cuda.amp` on that version.",
        ),
    ),
    Rule(
        "legacy-amp-api",
        r"cannot import name '(?:gradscaler|autocast|custom_fwd|custom_bwd)' from 'torch\.(?:cuda\.|cpu\.)?amp'",
        ("ImportError",),
        0.8,
    ),
    Rule(
        "legacy-amp-api",
        r"unsupported autocast device_type '(?P<device>[\w:]{1,20})'",
        ("RuntimeError",),
        0.6,
        lambda error, match: Seen(None, f"`{match['device']}` is no device type; a type has no number."),
    ),
)

"""Texts that resuming leaves: states of optimizers and schedulers, and runs that must repeat bit for bit."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_KERNEL = re.compile(r"^(?:single|multi)_tensor_|^_(?:single|multi|fused)_tensor_|^_?fused_(?:adam|adamw|sgd|adagrad)")


def _in_optimizer(error: ParsedError) -> bool:
    return any("torch/optim/" in frame.file.replace("\\", "/") for frame in error.frames) or bool(
        re.search(r"\b(?:optimi[sz]er|optim|opt)\w{0,20}\.(?:step|load_state_dict)\(", error.code)
    )


def _state_key(error: ParsedError, match: re.Match[str]) -> Seen | None:
    name = match["name"]
    inside = _in_optimizer(error)
    if name == "param_groups":
        return Seen(0.8, "What was loaded is no optimizer's state: it has no `param_groups`.") if inside else None
    if name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg"):
        confidence = 0.9 if inside else 0.7
    elif inside:
        confidence = 0.85
    else:
        return None
    what = (
        "groups have"
        if name in ("betas", "momentum", "eps", "nesterov", "amsgrad", "alpha", "dampening")
        else "state has"
    )
    return Seen(
        confidence,
        f"The loaded {what} no `{name}`: it comes from another class of optimizer.",
        "Load it into the class that saved it.",
    )


def _state_shape(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if not any(_KERNEL.search(name) for name in error.functions):
        return None
    return Seen(
        0.9,
        f"A gradient and the state that was loaded for its parameter differ in size ({match['a']} and {match['b']}): "
        "the state belongs to another parameter.",
    )


def _absent(error: ParsedError, match: re.Match[str]) -> Seen | None:
    # A configuration has an `optimizer` too: there must be a sign of a checkpoint.
    sign = r"ckpt|check_?point|state|torch\.load|saved|resum|restor"
    if not re.search(sign, f"{error.code} {match['name']}", re.IGNORECASE):
        return None
    return Seen(
        0.6,
        f"The file has no entry `{match['name']}`: it was saved without it, or under another name.",
        "Print `checkpoint.keys()`.",
    )


def _kernel(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(None, f"`{match['op'].strip()}` is such an operation." if match["op"] else "")


RULES: tuple[Rule, ...] = (
    Rule(
        "optimizer-groups-mismatch",
        r"loaded state dict (?P<what>has a different number of parameter groups"
        r"|contains a parameter group that doesn't match the size of optimizer's group)",
        ("ValueError", "RuntimeError"),
        0.97,
        lambda error, match: Seen(
            None,
            "The numbers of groups differ."
            if "number of" in match["what"]
            else "The numbers of groups agree, those of the parameters in one of them do not.",
        ),
    ),
    Rule(
        "optimizer-groups-mismatch",
        r"^[\"'](?P<name>exp_avg|exp_avg_sq|max_exp_avg_sq|momentum_buffer|square_avg|acc_delta|sum|step|prev|betas|momentum"
        r"|eps|nesterov|amsgrad|alpha|dampening|param_groups)[\"']$",
        ("KeyError",),
        look=_state_key,
    ),
    Rule(
        "optimizer-groups-mismatch",
        r"the size of tensor a \((?P<a>\d+)\) must match the size of tensor b \((?P<b>\d+)\)",
        ("RuntimeError",),
        look=_state_shape,
    ),
    Rule(
        "optimizer-not-restored",
        r"trying to restore (?:training|optimizer) state but checkpoint contains only the model",
        confidence=0.92,
        look=lambda error, match: Seen(None, "The file was saved with the weights alone."),
    ),
    Rule(
        "optimizer-not-restored",
        r"^[\"'](?P<name>(?:g_|d_)?optim(?:izer)?(?:_states?)?(?:_dict)?|opt_state)[\"']$",
        ("KeyError",),
        look=_absent,
    ),
    Rule(
        "scheduler-not-restored",
        r"^[\"'](?P<name>(?:lr_)?sched(?:uler)?s?(?:_states?)?(?:_dict)?)[\"']$",
        ("KeyError",),
        look=_absent,
    ),
    Rule(
        "scheduler-not-restored",
        r"param '?\"?initial_lr'?\"? is not specified in param_groups\[(?P<group>\d+)\] when resuming",
        ("KeyError",),
        0.92,
        lambda error, match: Seen(
            None,
            f"The scheduler is built with `last_epoch` of 0 or more, and group {match['group']} of the optimizer has "
            "no `initial_lr` yet: its state was not loaded before.",
            "Build the scheduler without `last_epoch` and load its state.",
        ),
    ),
    Rule(
        "nondeterministic-kernel",
        r"(?P<op>[\w.:]{2,80}) does not have a deterministic implementation, but you set",
        confidence=0.97,
        look=_kernel,
    ),
    Rule(
        "nondeterministic-kernel",
        r"deterministic behavior was enabled with either .{1,200} but this operation is not deterministic(?P<op>)",
        confidence=0.97,
        look=lambda error, match: (
            Seen(
                None,
                "cuBLAS needs a workspace of fixed size for that.",
                "Set the environment variable `CUBLAS_WORKSPACE_CONFIG=:4096:8` before the program starts.",
            )
            if "cublas" in error.flat.lower()
            else Seen()
        ),
    ),
    Rule(
        "nondeterministic-kernel",
        r"(?P<op>(?:memory efficient|flash|cudnn) attention) defaults to a non-deterministic algorithm",
        confidence=0.95,
        look=_kernel,
    ),
)

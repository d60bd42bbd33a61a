"""Texts that faults of the topic quantization leave."""

from __future__ import annotations

import linecache
import re

from course.doctor.explain.errors import Frame, ParsedError
from course.doctor.explain.rules import Rule, Seen
from course.doctor.explain.state_keys import state_keys
from course.doctor.explain.texts_quantization_keys import is_quantized, quantized_key

_BACKENDS = r"(?:CPU|CUDA|XPU|MPS|Meta)(?:TensorId)?"
_NONE = r"'NoneType' object (?:is not (?:callable|iterable|subscriptable)|has no attribute '\w{1,60}')"
# Calls that change their argument and give back nothing (or something else than it).
_IN_PLACE = re.compile(
    r"\b(?P<target>\w{1,60}) ?= ?(?!(?:np|numpy|torch|pd|F)\.(?!random\.))(?:[\w.]{1,80}\.)?"
    r"(?P<call>quantize_|backward|zero_grad|append|extend|insert|sort|reverse|shuffle|update|load_state_dict|fuse_model|clear|remove|register_buffer|add_param_group)\("
)
_ARITHMETIC = frozenset(
    ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "cat", "stack", "mm", "bmm", "matmul", "rsub", "pow")
)
_LAYERS = re.compile(r"conv|linear|addmm|batch_norm|layer_norm|group_norm|lstm|gru|embedding")


def _no_stub(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if match["op"].endswith(("_prepack", "_unpack")):
        return None
    if match["backend"].upper().startswith("CUDA"):
        return Seen(
            0.85,
            f"`quantized::{match['op']}` was given a float tensor, and the converted model runs on the CPU alone.",
            "Move model and input to the CPU.",
        )
    return Seen(0.97, f"`quantized::{match['op']}` was given a float tensor.")


def _operation(error: ParsedError, match: re.Match[str]) -> Seen | None:
    name = match["op"].split(".")[0].removeprefix("_")
    if name in ("quantize_per_tensor", "quantize_per_channel"):
        return None
    if name in _ARITHMETIC:
        return Seen(0.97, f"The operation is `{name}`.")
    if _LAYERS.search(name):
        return Seen(
            0.75,
            f"`{name}` belongs to a layer that stayed in float, and a quantized tensor reached it.",
            "Put `DeQuantStub` before that layer and `QuantStub` behind it, or fuse it into the one before.",
        )
    return Seen(
        0.8,
        f"`{name}` has no kernel for quantized tensors.",
        "Put `DeQuantStub` before it: losses, softmax, argmax and sums are for the float result.",
    )


def _leaves(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        None,
        "A quantized tensor reached a layer, or another operand, that is in float.",
        "Put `DeQuantStub` before that layer, or convert it as well.",
    )


def _state(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if not is_quantized(error.flat):
        return None
    keys = state_keys(error.flat)
    name = quantized_key(error.flat)
    in_file = any(is_quantized("." + key) or is_quantized(key) for key in keys.unexpected)
    if in_file:
        return Seen(None, f"The file has `{name}`, and the model has no such entry: the model is in float.")
    return Seen(0.9, f"The model wants `{name}`, and the file has no such entry: the file is that of the float model.")


def _other_kind(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(None, "Of the two tensors with that name one is quantized and the other is not.")


def _returned_none(error: ParsedError, match: re.Match[str]) -> Seen | None:
    call = _assigned(error)
    if call is None:
        return None
    target, name = call
    return Seen(
        0.93 if name == "quantize_" else 0.88,
        f"`{target}` was assigned the result of `{name}(...)`, which returns nothing.",
        f"Call `{name}(...)` for its effect and assign nothing." if name != "quantize_" else "",
    )


def _assigned(error: ParsedError) -> tuple[str, str] | None:
    """(name, call) of an assignment such as ``model = quantize_(model, ...)`` in the reader's code."""
    used = set(re.findall(r"[A-Za-z_]\w*", error.code))
    frames = [frame for frame in reversed(error.frames) if frame.is_user]
    for frame in frames:
        lines = [*(frame.context.splitlines() or _source(frame)), *frame.code.splitlines()]
        for line in reversed(lines):
            for found in _IN_PLACE.finditer(line.split("#")[0]):
                if not used or found["target"] in used:
                    return found["target"], found["call"]
    # The source is not at hand, as in code that was run from a string: its names are.
    blind = (frame for frame in frames if not frame.context.strip() and "quantize_" in frame.names)
    return ("model", "quantize_") if next(blind, None) else None


def _source(frame: Frame) -> list[str]:
    """The lines before the frame's own, where its file is at hand and is the one that the text tells of."""
    lines = linecache.getlines(frame.file)[: frame.line or 0]
    if not lines or not frame.code or lines[-1].strip() != frame.code.splitlines()[0].strip():
        return []
    return lines[-200:]


_LOAD = r"in loading state_dict for|_?incompatible_?keys\("

RULES: tuple[Rule, ...] = (
    Rule(
        "quantization-missing-stub",
        rf"could not run 'quantized::(?P<op>\w{{1,60}})(?:\.\w{{1,40}})?' with arguments from the "
        rf"'(?P<backend>{_BACKENDS})' backend",
        look=_no_stub,
    ),
    Rule(
        "quantization-missing-stub",
        rf"could not run 'aten::(?P<op>q_scale|q_zero_point|int_repr|q_per_channel_\w{{1,20}})' with arguments "
        rf"from the '{_BACKENDS}' backend",
        confidence=0.85,
        look=lambda error, match: Seen(None, f"`{match['op']}` was asked of a float tensor."),
    ),
    Rule(
        "quantization-missing-stub",
        r"(?:input|weight|bias) type \((?:c10::)?q(?:u?int)\d+\) and \w{1,10} type \(\w{1,20}\) should be the same",
        ("RuntimeError",),
        0.8,
        _leaves,
    ),
    Rule(
        "quantization-functional-op",
        r"could not run 'aten::(?P<op>[\w.]{1,60})' with arguments from the 'Quantized\w{1,20}' backend",
        look=_operation,
    ),
    Rule(
        "quantization-functional-op",
        r"promotetypes with quantized numbers is not handled yet|not supported on quantized tensors"
        r"|quantized tensors? (?:is|are) not supported",
        ("RuntimeError", "NotImplementedError"),
        0.88,
        lambda error, match: Seen(None, "One operand is quantized, the other one is a float or a Python number."),
    ),
    Rule(
        "quantization-functional-op",
        r"all inputs of this (?P<op>\w{1,20}) operator must share the same quantization parameters",
        confidence=0.92,
        look=lambda error, match: Seen(
            None,
            f"The `{match['op']}` of tensors with different scales takes the first one's, and the rest is clipped.",
        ),
    ),
    Rule(
        "quantization-functional-op",
        r"type promoting not supported\. got qu?int\d+ and \w{1,10}",
        ("RuntimeError",),
        0.75,
    ),
    Rule(
        "quantization-functional-op",
        r"(?P<kind>\w{1,40}) dispatch: attempting to run unimplemented operator/function",
        ("NotImplementedError",),
        0.75,
        lambda error, match: Seen(
            None,
            f"The weight is a {match['kind']}, which has no kernel for this operation.",
            "Use the layer through its `forward`, or dequantize the weight first: `layer.weight.dequantize()`.",
        ),
    ),
    Rule("fuse-in-train-mode", r"fusion only for eval", ("AssertionError", "RuntimeError"), 0.97),
    Rule(
        "fuse-in-train-mode",
        r"both must be in the same mode \(train or eval\)|all must be in the same mode \(train or eval\)",
        ("AssertionError", "RuntimeError"),
        0.85,
        lambda error, match: Seen(None, "One of the modules is in training mode and the other one is not."),
    ),
    Rule(
        "fuse-in-train-mode",
        r"fuse_(?:fx|modules) only works (?:on|with) models in eval|expected .{0,40}eval mode.{0,20} for fusion",
        confidence=0.9,
    ),
    Rule(
        "quantization-uncalibrated",
        r"must run observer before calling calculate_qparams",
        confidence=0.97,
    ),
    Rule(
        "quantization-uncalibrated",
        r"^no data is collected|quantization parameters are not specified for param",
        ("ValueError",),
        0.88,
        lambda error, match: Seen(
            None, "The calibration reader gave no batch." if "collected" in match[0].lower() else ""
        ),
    ),
    Rule(
        "quantization-uncalibrated",
        r"calibration failure occurred with no scaling factors|missing scale and zero-point for tensor",
        confidence=0.8,
    ),
    Rule(
        "quantization-skips-layer",
        r"none of the submodule got qconfig applied",
        confidence=0.93,
        look=lambda error, match: Seen(None, "No layer has a `qconfig`, so nothing is quantized."),
    ),
    Rule(
        "quantization-skips-layer",
        r"skipping quantizing weight with|skipping float8 quantization: weight|is skipped, int4 requires that in_feat"
        r"|failed to infer the type of tensor: .{1,120}\. skip to quantize it",
        confidence=0.9,
        look=lambda error, match: Seen(
            None, "The shape of a weight does not suit the chosen scheme, so it stays in float."
        ),
    ),
    Rule("quantized-state-dict", _LOAD, confidence=0.96, look=_state),
    Rule(
        "quantized-state-dict",
        r"copying from quantized tensor to non-quantized tensor is not allowed"
        r"|object has no attribute '(?:tensor_data_names|qdata|tensor_impl|int_data)'"
        r"|copying from non-quantized to quantized tensor",
        confidence=0.93,
        look=_other_kind,
    ),
    Rule(
        "quantized-state-dict",
        r"^['\"](?P<key>[\w.]{0,200}\.(?:scale|zero_point|_packed_params[\w.]{0,40}))['\"]$",
        ("KeyError",),
        0.9,
        lambda error, match: Seen(
            None,
            f"The model wants `{match['key']}`, and the file has no such entry: the file is that of the float model.",
        ),
    ),
    Rule("inplace-api-returns-none", _NONE, ("AttributeError", "TypeError"), look=_returned_none),
    Rule(
        "inplace-api-returns-none",
        r"expected `?mod`? to be an instance of `?torch\.nn\.module`?, got <class 'nonetype'>",
        ("ValueError", "TypeError"),
        0.8,
        lambda error, match: Seen(None, "`torch.export.export` was given `None` instead of a module."),
    ),
    Rule(
        "inplace-api-returns-none",
        r"'_incompatiblekeys' object (?:is not callable|has no attribute '\w{1,60}')",
        ("AttributeError", "TypeError"),
        0.9,
        lambda error, match: Seen(
            None,
            "`load_state_dict` changes the model and returns the names that did not fit, not the model.",
            "Write `model.load_state_dict(state)` and go on with `model`.",
        ),
    ),
)

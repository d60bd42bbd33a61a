"""Texts that faults of the topic modules leave."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.facts import is_module
from course.doctor.explain.objects import local, modules
from course.doctor.explain.rules import Rule, Seen
from course.doctor.explain.texts_modules_shapes import RULES as SHAPES

_SUPER, _NONE, _USED = "missing-super-init", "no-parameters", "module-used-as-function"
_INTERNALS = (
    r"_parameters|_buffers|_modules|_non_persistent_buffers_set|_(?:backward"
    r"|forward)(?:_pre)?_hooks\w*|_state_dict\w*|_load_state_dict\w*"
    r"|_is_full_backward_hook|_compiled_call_impl|training"
)
_LAYERS = (
    r"(?:Leaky|P|R|C)?ReLU6?|RReLU|S?ELU|GELU|SiLU|Mish|Sigmoid|Tanh|Tanhshrink|Softplus|Softsign"
    r"|Softmax|LogSoftmax|Softmax2d|Softmin"
    r"|Hardtanh|Hardsigmoid|Hardswish|LogSigmoid|GLU|Dropout[123]?d?|AlphaDropout|Flatten|Unflatten|Identity"
    r"|(?:Max|Avg|LP|AdaptiveAvg|AdaptiveMax|FractionalMax)Pool[123]d|MaxUnpool[123]d|Upsample\w*"
    r"|PixelShuffle|\w*Pad[123]d"
    r"|(?:Lazy)?(?:Linear|Bilinear|Conv[123]d|ConvTranspose[123]d|BatchNorm[123]d|InstanceNorm[123]d)"
    r"|LayerNorm|RMSNorm|GroupNorm"
    r"|Embedding|EmbeddingBag|LSTM|GRU|RNN|MultiheadAttention|Cosine\w+|PairwiseDistance|Softshrink"
    r"|Hardshrink|Threshold|CELU"
    r"|CrossEntropyLoss|NLLLoss|MSELoss|L1Loss|BCELoss|BCEWithLogitsLoss|SmoothL1Loss|HuberLoss|KLDivLoss|\w{1,30}Loss"
)
_TENSOR_METHODS = frozenset(
    (
        *(
            "sum",
            "mean",
            "size",
            "shape",
            "view",
            "reshape",
            "backward",
            "item",
            "detach",
            "argmax",
            "max",
            "min",
            "dim",
        ),
        *("ndim", "dtype", "device", "squeeze", "unsqueeze", "flatten", "permute", "transpose", "contiguous", "cpu"),
        *(
            "numpy",
            "clone",
            "pow",
            "sqrt",
            "exp",
            "log",
            "softmax",
            "sigmoid",
            "relu",
            "norm",
            "abs",
            "t",
            "T",
            "numel",
        ),
        *("tolist", "requires_grad", "grad", "grad_fn", "repeat", "expand", "split", "chunk", "topk", "sort", "std"),
        *("var", "matmul", "mm", "bmm", "gather", "data", "is_cuda", "mul", "add", "masked_fill"),
    )
)


def _hooks(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if match[2] == "training" and error.frames and not any("torch" in frame.file for frame in error.frames):
        return None
    return Seen(0.95, f"`{match[1]}` has no `{match[2]}`, which Module.__init__ makes.")


def _assigned(error: ParsedError, match: re.Match[str]) -> Seen:
    line = f" The line `{error.code}` comes before it." if error.code and "\n" not in error.code else ""
    return Seen(why=f"`super().__init__()` has not run yet.{line}")


def _empty(error: ParsedError, match: re.Match[str]) -> Seen:
    held = [each for each in error.tensors if each.role in ("plain", "unregistered")]
    return Seen(why=f"`{held[0].name}` is in the module, but not registered." if held else "")


def _unregistered(error: ParsedError, match: re.Match[str]) -> Seen | None:
    held = next((each for each in error.tensors if each.role == "unregistered"), None)
    return Seen(0.7, f"`{held.name}` belongs to a layer in a plain list or dict of {held.owner}.") if held else None


def _repeated(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """One layer at several places of a list: each place gives its parameters again."""
    for name, module in modules(error):
        for path, part in module.named_modules():
            places = [id(each) for each in part._modules.values() if each is not None]
            if len(places) > len(set(places)):
                where = f"{name}.{path}" if path else name
                return Seen(0.95, f"`{where}` has {len(places)} places for {len(set(places))} different modules.")
    return Seen(0.8) if re.search(r"\] ?\* ?\w", error.context) else None


def _wrapped(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """What DistributedDataParallel was given: without parameters, or with frozen ones only."""
    module = local(error, "__init__", "module")
    if not is_module(module) or any(True for _ in module.parameters()):
        return None
    return Seen(why=f"`{type(module).__name__}` registers no parameter.")


def _next_parameters(error: ParsedError, match: re.Match[str]) -> Seen | None:
    asked = re.search(r"next\(.{0,80}parameters\(", error.code)
    return Seen(0.95, f"`{error.code.strip()}` finds no parameter.") if asked else None


def _attribute(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if match[2] not in _TENSOR_METHODS:
        return None
    return Seen(
        0.95, f"A {match[1]} object stands where a tensor was meant: `{match[2]}` is asked of the layer itself."
    )


def _in_constructor(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """A tensor that a constructor takes for a setting: ``nn.Dropout(x)``, ``nn.MSELoss(prediction, target)``."""
    inside = [
        frame for frame in error.frames if not frame.is_user and frame.function in ("__init__", "legacy_get_string")
    ]
    if not inside or "optim" in inside[-1].file:
        return None
    called = re.search(rf"\b(?:nn\.)?({_LAYERS})\(", error.code)
    if called is None and not re.search(r"[/\\]nn[/\\]modules[/\\]", inside[0].file):
        return None
    name = called[1] if called else "the module"
    return Seen(
        0.97,
        f"The tensor goes into the constructor of `{name}`, as a setting.",
        f"Write `{name}(...)(x)`, or the function of that name in torch.nn.functional." if called else "",
    )


def _arguments(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"The tensor goes into the constructor of `{match[1]}`.")


def _given_layer(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"The argument is a {match[1]} object, not its result.")


RULES: tuple[Rule, ...] = (
    *SHAPES,
    Rule(
        _SUPER,
        r"cannot (?:assign|register) (?:module|parameters?|buffers?) before Module\.__init__\(\) call",
        confidence=0.98,
        look=_assigned,
    ),
    Rule(
        _SUPER,
        rf"'(\w+)' object has no attribute '({_INTERNALS})'",
        ("AttributeError", "ModuleAttributeError"),
        look=_hooks,
    ),
    Rule(_NONE, r"optimizer got an empty parameter list", confidence=0.95, look=_empty),
    Rule("unregistered-submodule", r"optimizer got an empty parameter list", look=_unregistered),
    Rule(_NONE, r"^$", ("StopIteration",), look=_next_parameters),
    Rule(_NONE, r"is not needed when a module doesn't have any parameters? that requires? a gradient", look=_wrapped),
    Rule("shared-by-list-multiplication", r"some parameters appear in more than one parameter group", look=_repeated),
    Rule(
        _USED,
        rf"'({_LAYERS})' object has no attribute '(\w+)'",
        ("AttributeError", "ModuleAttributeError"),
        look=_attribute,
    ),
    Rule(
        _USED, r"bool(?:ean)? value of Tensor with (?:more than one value|no values) is ambiguous", look=_in_constructor
    ),
    Rule(
        _USED,
        rf"\b({_LAYERS})\.__init__\(\) takes (?:from )?\d+ (?:to \d+ )?positional arguments? but \d+ were given",
        confidence=0.93,
        look=_arguments,
    ),
    Rule(
        _USED, rf"argument '\w+' \(position \d+\) must be Tensor, not ({_LAYERS})\b", confidence=0.96, look=_given_layer
    ),
    Rule(_USED, rf"invalid combination of arguments - got \(({_LAYERS})\b", confidence=0.93, look=_given_layer),
    Rule(
        _USED,
        rf"unsupported operand type\(s\) for \S{{1,3}}: '({_LAYERS})' and"
        rf"|unsupported operand type\(s\) for \S{{1,3}}: '\w+' and '({_LAYERS})'",
        confidence=0.93,
        look=lambda error, match: Seen(why=f"A {match[1] or match[2]} object stands where its result was meant."),
    ),
    Rule(_USED, r"dim must be an int or None, got <class 'torch\.Tensor'>", confidence=0.9),
    Rule(
        _USED,
        r"(?:softmax|log_softmax|flatten|dropout|leaky_relu|elu|glu|gelu)\(\): argument '(?:dim|start_dim"
        r"|p|negative_slope|alpha|approximate)' .{0,40}must be \w+, not Tensor",
        confidence=0.9,
    ),
    Rule(
        _USED,
        r"(?:softmax|log_softmax"
        r"|flatten)\(\) received an invalid combination of arguments - got \(Tensor, (?:dim=)?Tensor",
        confidence=0.85,
    ),
    Rule(
        _USED,
        rf"(?:dropout probability has to be between 0 and 1|p must be \w+), but got tensor"
        rf"|inplace.{{0,30}}must be bool, not Tensor|({_LAYERS})\(\) .{{0,60}}not Tensor\b",
        confidence=0.85,
    ),
    Rule(_USED, r"expected Tensor as element \d+ in argument \d+, but got (?:" + _LAYERS + r")\b", confidence=0.9),
)

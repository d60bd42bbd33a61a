"""Texts that faults of the topic autograd leave."""

from __future__ import annotations

import re
from collections.abc import Iterator

from course.doctor.explain.code import flow
from course.doctor.explain.errors import ParsedError
from course.doctor.explain.facts import is_module
from course.doctor.explain.objects import local
from course.doctor.explain.rules import Rule, Seen
from course.doctor.explain.texts_autograd_twice import RULES as TWICE

_CUT = "graph-cut"
_HARD = (
    *("argmax", "argmin", "argsort", "bincount", "histc", "bernoulli", "multinomial", "searchsorted", "bucketize"),
    *("long", "int", "bool", "eq", "ne", "gt", "lt", "ge", "le", "isclose"),
)
_COMPARED = re.compile(r"[^=!<>]==[^=]|[\w\])] ?[<>]=? ?[\w(.-]")
_CUTTING = (
    "no_grad",
    "inference_mode",
    "detach",
    "set_grad_enabled",
    "item",
    "numpy",
    "requires_grad",
    "requires_grad_",
    "data",
    "tolist",
)
_ANOMALY = (
    # (backward node, fault, confidence)
    (r"(?:Log|Log1P|Log2|Log10|Xlogy|Nll\w*|LogSigmoid)Backward", "log-of-zero", 0.88),
    (
        (
            r"(?:Sqrt|Rsqrt|Norm|LinalgVectorNorm|Std|StdMean|Cdist|EuclideanDist|Acos|Asin|FrobeniusNorm"
            r"|Hypot|PairwiseDistance)Backward"
        ),
        "sqrt-at-zero",
        0.88,
    ),
    (r"(?:Div|Reciprocal|Mean)Backward", "division-by-zero", 0.8),
    (r"PowBackward", "sqrt-at-zero", 0.6),
)


def _line_of_backward(error: ParsedError) -> str:
    found = re.search(r"([\w.\[\]()' ]{1,60})\.backward\(", error.code)
    return found[1].strip() if found else "the loss"


def _graph_cut(error: ParsedError, match: re.Match[str]) -> Seen:
    cutting = [word for word in _CUTTING if word in error.words]
    frozen = [each for each in error.tensors if each.role == "parameter"]
    why = f"{_line_of_backward(error)!r} has no grad_fn.".replace("'", "`")
    if frozen and not any(each.requires_grad for each in frozen):
        why = f"{why} None of the {len(frozen)} parameters in reach requires grad."
    elif cutting:
        why = f"{why} The code near it uses `{cutting[0]}`."
    return Seen(0.9, why)


def _hard_loss(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """The loss is built on whole numbers or comparisons, which have no slope."""
    parameters = [each for each in error.tensors if each.role == "parameter"]
    if {"no_grad", "inference_mode", "detach"} & error.words or (
        parameters and not any(each.requires_grad for each in parameters)
    ):
        return None
    path = flow(error)
    hard = [word for word in _HARD if f".{word}(" in path] or [
        word for word in _HARD[:6] if not error.context and word in error.words
    ]
    what = f"`{hard[0]}`" if hard else "a comparison" if _COMPARED.search(path) else None
    return Seen(0.95, f"The loss comes through {what}, which has no slope.") if what else None


def _no_create_graph(error: ParsedError, match: re.Match[str]) -> Seen | None:
    calls = re.search(r"autograd\.grad\(|\bgrad\(", error.context) or (
        "grad" in error.words and "autograd" in error.words
    )
    if not calls or "create_graph" in error.words:
        return None
    # One call alone, on what needs no grad, is a cut graph; the gradient has to be used afterwards.
    used_again = (
        len(re.findall(r"autograd\.grad\(|\bgrad\(|\.backward\(", error.context)) > 1
        or {"grad", "backward"} <= error.words
    )
    return (
        Seen(0.96, "`autograd.grad` is called without `create_graph=True`, and its result has no grad_fn.")
        if used_again
        else None
    )


def _rewrapped(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``torch.tensor(loss)``: a new leaf with nothing behind it."""
    found = re.search(
        r"(\w+) = (?:torch\.(?:tensor|as_tensor|Tensor|FloatTensor)|Variable)\(\[?(\w*loss\w*|\w+\.item\(\)|\w+\.data)",
        error.context,
    )
    name = re.match(r"\w+", error.code)
    if not found or not name or (name[0] != found[1] and found[1] not in error.code):
        return None
    return Seen(0.95, f"`{found[0]}...` makes a new tensor from the loss's number.")


def _rewrapped_before(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """No parameter has a gradient, because backward() started at a new leaf."""
    found = re.search(
        r"(\w+) = (?:torch\.(?:tensor|as_tensor|Tensor|FloatTensor)|Variable)\([^\n]{0,120}requires_grad ?= ?True",
        error.context,
    )
    if not found or ".grad" not in error.code or not re.search(rf"\b{found[1]}\.backward\(", error.context):
        return None
    return Seen(0.93, f"`{found[0]}` is a new leaf: backward() ends at it, and the parameters get no gradient.")


def _copied_log(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``copy.deepcopy`` of what a loop has collected."""
    copied = local(error, "deepcopy", "x", outermost=True)
    if type(copied) not in (list, tuple, dict) or any(True for _ in _modules_in(copied)):
        return None
    return Seen(0.9, f"What is copied is a {type(copied).__name__} of results that still hold their graphs.")


def _modules_in(copied: object) -> Iterator[object]:
    held = copied.values() if isinstance(copied, dict) else copied
    return (each for each in held if is_module(each))


def _copied_module(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(0.4 if _copied_log(error, match) else 0.7)


def _copied(error: ParsedError, match: re.Match[str]) -> Seen:
    is_loss = re.search(r"torch\.tensor\([^)]{0,40}loss", f"{error.code} {error.context} {error.flat}", re.IGNORECASE)
    wanted = (
        "requires_grad=True)" in error.message.partition("tensor(sourceTensor)")[2] or "requires_grad" in error.context
    )
    return Seen(0.9 if is_loss else 0.6 if wanted else 0.4)


def _differentiated(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        0.7 if "does not require grad" in match[0] else 0.55, "The graph of the output does not reach that tensor."
    )


def _none_grad(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``w.grad`` is None after backward: w is no leaf, or was rebound."""
    found = re.search(r"([\w.\[\]]+)\.grad\b", error.code)
    if not found:
        return None
    name = found[1]
    fact = error.fact(name.rpartition(".")[2])
    if fact is not None and fact.is_leaf and fact.requires_grad:
        return None
    why = (
        f"`{name}` was made by `{fact.made_by}`, so it is no leaf and gets no `.grad`."
        if fact and fact.made_by
        else f"`{name}.grad` is None."
    )
    return Seen(None, why)


def _rebound(error: ParsedError, match: re.Match[str]) -> Seen | None:
    seen = _none_grad(error, match)
    if seen is None:
        return None
    name = re.search(r"([\w.\[\]]+)\.grad\b", error.code)[1]
    again = re.search(rf"(?<![\w.]){re.escape(name)} = {re.escape(name)} ?-", error.context)
    rebound = again or name.rpartition(".")[2] in {each for frame in error.frames for each in frame.carried}
    return Seen(0.95 if rebound else 0.4, seen.why)


def _rebound_without_grad(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``w = w - lr * w.grad`` under no_grad: the new w requires no grad, and the next loss has no graph."""
    found = re.search(r"(?<![\w.])(\w+) = \1 ?- ?[^\n]{0,60}\b\1\.grad\b", error.context)
    fact = error.fact(found[1]) if found else None
    if found is None or (fact is not None and fact.requires_grad):
        return None
    return Seen(0.95, f"`{found[0]}` makes a new tensor, which requires no grad.")


def _nonleaf(error: ParsedError, match: re.Match[str]) -> Seen | None:
    seen = _none_grad(error, match)
    made = re.search(
        r"requires_grad=True\) ?[*/+-]|requires_grad=True\)\.(?:to|cuda|float|half|double|mul|div|reshape|view)\(",
        error.context,
    )
    return seen and Seen(0.9 if made else 0.6, seen.why)


def _anomaly(pattern: str, confidence: float):
    def look(error: ParsedError, match: re.Match[str]) -> Seen | None:
        if not re.match(pattern, match[1]):
            return None
        if ("where" in error.words and "Sqrt|" in pattern) or ("where" in error.words and "Log|" in pattern):
            confidence_here = 0.6
        else:
            confidence_here = confidence
        return Seen(confidence_here, f"The first NaN comes out of `{match[1]}`.")

    return look


def _where(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if match[1].startswith("Where"):
        return Seen(0.7, f"The first NaN comes out of `{match[1]}`.")
    chosen = re.search(r"\bwhere\(|masked_fill", error.context) or "where" in error.words
    return (
        Seen(0.93, f"The first NaN comes out of `{match[1]}`, and the code near it uses `torch.where`.")
        if chosen
        else None
    )


_DEEPCOPY = r"Only Tensors created explicitly by the user \(graph leaves\) support the deepcopy protocol"
_NO_GRAD = r"element \d+ of (?:tensors|variables) does not require grad"
_NAN = r"Function '?(\w+)'? returned nan values"
_NONE = (
    r"unsupported operand type\(s\) for [-*+/@]=?: '?\w+'? and '?NoneType"
    r"|unsupported operand type\(s\) for [-*+/@]=?: 'NoneType' and"
    r"|'NoneType' object has no attribute '\w{1,40}'"
)

RULES: tuple[Rule, ...] = (
    *TWICE,
    Rule("backward-of-nonscalar", r"grad can be implicitly created only for (?:real )?scalar outputs", confidence=0.97),
    Rule("backward-of-nonscalar", r"Mismatch in shape: grad_output\[\d+\] has a shape of", confidence=0.75),
    Rule(
        "inplace-on-leaf",
        r"(?:a view of )?a leaf Variable that requires grad (?:is being|has been) used in an in-place operation",
        confidence=0.98,
    ),
    Rule("inplace-on-leaf", r"leaf variable has been moved into the graph interior", confidence=0.92),
    Rule("nondifferentiable-loss", _NO_GRAD, look=_hard_loss),
    Rule("missing-create-graph", _NO_GRAD, look=_no_create_graph),
    Rule("missing-create-graph", r"One of the differentiated Tensors", look=_no_create_graph),
    Rule("loss-rewrapped", _NO_GRAD, look=_rewrapped),
    Rule("loss-rewrapped", r"To copy construct from a tensor, it is recommended to use", look=_copied),
    Rule("parameter-rebound", _NO_GRAD, look=_rebound_without_grad),
    Rule(_CUT, _NO_GRAD, look=_graph_cut),
    Rule(
        _CUT,
        r"One of the differentiated Tensors (?:appears to not have been used in the graph|does not require grad)",
        look=_differentiated,
    ),
    Rule(_CUT, r"None of the inputs have requires_grad=True\. Gradients will be None", confidence=0.7),
    Rule("nonleaf-parameter", r"can't optimize a non-leaf Tensor", confidence=0.97),
    Rule(
        "nonleaf-parameter",
        r"\.grad attribute of a Tensor that is not a leaf Tensor is being accessed",
        confidence=0.96,
    ),
    Rule("nonleaf-parameter", r"you can only change requires_grad flags of leaf variables", confidence=0.7),
    Rule("nonleaf-parameter", _DEEPCOPY, look=_copied_module),
    Rule("graph-retained-in-log", _DEEPCOPY, look=_copied_log),
    Rule("nonleaf-parameter", r"Cannot assign non-leaf Tensor to parameter", confidence=0.6),
    Rule("parameter-rebound", r"Cannot assign non-leaf Tensor to parameter", confidence=0.75),
    Rule(
        "parameter-rebound",
        r"cannot assign '[\w.]{1,60}' (?:object )?(?:as|to) parameter '[\w.]{1,60}'",
        confidence=0.85,
    ),
    Rule("parameter-rebound", _NONE, look=_rebound),
    Rule("nonleaf-parameter", _NONE, look=_nonleaf),
    Rule("loss-rewrapped", _NONE, look=_rewrapped_before),
    Rule(
        "inference-tensor-in-autograd",
        (
            r"inference tensors? (?:cannot|outside|do not)|on inference tensor|created in inference mode"
            r"|outside InferenceMode"
        ),
        confidence=0.96,
    ),
    Rule("where-nan-gradient", _NAN, look=_where),
    *(Rule(fault, _NAN, look=_anomaly(pattern, confidence)) for pattern, fault, confidence in _ANOMALY),
)

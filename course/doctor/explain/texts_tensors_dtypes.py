"""Texts about operands of unlike or unfit dtypes, which several faults leave: their dtypes and operation tell which."""

from __future__ import annotations

import re

from course.doctor.explain import left_behind
from course.doctor.explain.code import discarded
from course.doctor.explain.dtypes import HALVES, INTEGERS, canonical, dtypes_in
from course.doctor.explain.errors import ParsedError, TensorFact
from course.doctor.explain.rules import Rule, Seen

DOUBLE, INTEGER = "float64-input", "integer-tensor-arithmetic"
_CLASS_LOSSES = ("cross_entropy", "nll_loss", "nll_loss_nd", "NLLLoss", "CrossEntropyLoss", "multi_margin_loss")
_BINARY_LOSSES = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "BCELoss", "BCEWithLogitsLoss")
_PRODUCTS = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "_conv_forward",
    "matmul",
    "mm",
    "bmm",
    "addmm",
    "einsum",
    "dot",
    "mv",
)
_UNLIKE = (
    r"must have the same scalar type|expected dtype \w+ for \S{1,20} but got dtype|Type promoting not supported"
    r"|dtype to be equal to \w+\.dtype|"
    r"must have the same dtype|to have the same dtype|should have the same dtype|to have same dtype"
    r"|do not have the same dtype"
    r"|dtypes? (?:to )?match|does not match weight dtype|must have same dtype"
    r"|expected scalar type \w+ but found|expected object of (?:scalar type|data type) \w+ but got"
    r"|Input type \(.{1,40}\) and (?:weight|bias) type \(.{1,40}\) should be the same"
    r"|but type torch\.\S{1,40} does not equal torch\.|input must have the type torch\.\w+, got type|not the same dtype"
    r"|expected \w+ to have dtype|same datatype|expect \w+ to have scalar type of|dtype of \w+ .{0,30}must match"
    r"|incompatible (?:function|tensor) .{0,20}dtype"
)


def _culprit(error: ParsedError, dtypes: frozenset[str]) -> TensorFact | None:
    """The tensor, not a parameter, that has one of these dtypes; the user's own name for it first."""
    facts = [each for each in error.tensors if each.role != "parameter" and each.dtype in dtypes]
    own = [each for frame in reversed(error.frames) if frame.is_user for each in frame.tensors]
    return next((each for each in own if each in facts), facts[0] if facts else None)


def _operands(error: ParsedError) -> str:
    """What is known of the operands, as a sentence; "" for a text."""
    told = []
    inner = [frame for frame in reversed(error.frames) if frame.tensors][:1]
    for each in (*(inner[0].tensors if inner else ()),)[:3]:
        told.append(f"`{each.name}` is {each.shape}, {each.dtype}")
    return f"{'; '.join(told)}." if told else ""


def _kinds(error: ParsedError) -> set[str]:
    kinds = set(dtypes_in(error.flat))
    if len(kinds) < 2:
        # "all inputs must share same datatype" names none: look at the tensors of the innermost frame.
        frame = next((frame for frame in reversed(error.frames) if frame.tensors), None)
        kinds |= {each.dtype for each in frame.tensors} if frame else set()
    return kinds


def _unlike_double(error: ParsedError, match: re.Match[str]) -> Seen | None:
    kinds = _kinds(error)
    if kinds & HALVES or kinds & INTEGERS or "float64" not in kinds:
        # Without a dtype in the text, float64 is the usual one.
        unnamed = re.search(r"mixed dtype|same dtype|self\.dtype", error.flat) and not dtypes_in(error.flat)
        silent = unnamed and len({each.dtype for each in error.tensors}) < 2
        return Seen(0.6) if silent else None
    if error.went_through(*_BINARY_LOSSES):
        return Seen(0.4)
    wrong = _culprit(error, frozenset(("float64",)))
    why = f"`{wrong.name}` has shape {wrong.shape} and dtype float64." if wrong else _operands(error)
    if wrong and discarded(error, wrong.name, ("to", "float", "type", "half")):
        return Seen(0.6, why)
    return Seen(0.95, why, f"Here: `{wrong.name} = {wrong.name}.float()`." if wrong else "")


def _unlike_integer(error: ParsedError, match: re.Match[str]) -> Seen | None:
    kinds = _kinds(error)
    wants_index = re.search(r"(?i)expected (?:scalar type|object of scalar type|target) (?:Long|Int)\b", error.flat)
    if wants_index and not (error.went_through(*_PRODUCTS) or "@" in error.code):
        return None
    if not kinds & INTEGERS or error.went_through(*_BINARY_LOSSES, *_CLASS_LOSSES):
        return None
    wrong = _culprit(error, INTEGERS)
    why = f"`{wrong.name}` has shape {wrong.shape} and dtype {wrong.dtype}." if wrong else _operands(error)
    if wrong and discarded(error, wrong.name, ("to", "float", "type")):
        return Seen(0.6, why)
    return Seen(0.93, why, f"Here: `{wrong.name} = {wrong.name}.float()`." if wrong else "")


def _discarded(error: ParsedError, match: re.Match[str]) -> Seen | None:
    for name in dict.fromkeys(each.name for each in error.tensors if each.role == "tensor" and each.dtype != "float32"):
        call = discarded(error, name, ("to", "float", "type", "double", "half", "long"))
        if call:
            return Seen(0.97, f"The line `{call}` makes a new tensor and drops it; `{name}` itself stays as it was.")
    if not error.tensors and (call := discarded(error, None, ("to", "float", "type", "double"))):
        return Seen(0.85, f"The line `{call}` makes a new tensor and drops it.")
    return None


def _not_implemented(error: ParsedError, match: re.Match[str]) -> Seen | None:
    operation, dtype = match[1], canonical(match[2])
    if dtype not in INTEGERS or re.search(r"nll_loss|_index$|cross_entropy", operation):
        return None
    wrong = _culprit(error, frozenset((dtype,)))
    what = f"`{wrong.name}` has shape {wrong.shape} and dtype {dtype}" if wrong else f"The tensor is {dtype}"
    return Seen(why=f"{what}; `{operation}` works on floating point only.")


def _cast(error: ParsedError, match: re.Match[str]) -> Seen | None:
    kinds = dtypes_in(error.flat)
    if len(kinds) < 2 or kinds[-1] not in INTEGERS or kinds[0] in INTEGERS:
        return None
    why = (
        f"The result is {kinds[0]} and would have to go into a tensor of {kinds[-1]}, which it is "
        f"computed in place into."
    )
    if error.went_through(*_BINARY_LOSSES):
        return None
    in_place = re.search(r"[-+*/]=|\w_\(", error.code)
    return Seen(0.95 if in_place or error.went_through("dropout") else 0.65, why)


def _found_but_expected(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """A backward that met a target of another dtype; it names no loss, the graph may."""
    if error.went_through(*_BINARY_LOSSES):
        return None
    found = canonical(match[1])
    made_by = " ".join(each.made_by for each in error.tensors)
    if found not in INTEGERS:
        return None
    return Seen(0.85 if "MseLoss" in made_by or "backward" in error.functions else 0.45, f"The target is {found}.")


def _found_double(error: ParsedError, match: re.Match[str]) -> Seen | None:
    found = canonical(match[1])
    if found != "float64" or error.went_through(*_BINARY_LOSSES):
        return None
    return Seen(0.9, "A target or input is float64, the model float32.")


RULES: tuple[Rule, ...] = (
    Rule("discarded-to-result", rf"{_UNLIKE}|not implemented for '|floating point", look=_discarded),
    *left_behind.rules(_UNLIKE, "dtype"),
    Rule(DOUBLE, _UNLIKE, look=_unlike_double),
    Rule(INTEGER, _UNLIKE, look=_unlike_integer),
    Rule(
        DOUBLE,
        r"MPS framework doesn't support float64|Float64 is not supported on the MPS"
        r"|MPS (?:device )?does not support (?:float64|double)",
        confidence=0.96,
    ),
    Rule(DOUBLE, r"Found dtype (\w+) but expected (\w+)", look=_found_double),
    Rule(INTEGER, r"Found dtype (\w+) but expected (\w+)", look=_found_but_expected),
    Rule(INTEGER, r"\"(\w{1,80})\" not implemented for '(\w+)'", confidence=0.9, look=_not_implemented),
    Rule(INTEGER, r"could not infer output dtype.{0,80}floating point or complex", confidence=0.97),
    Rule(
        INTEGER,
        r"Can only calculate the mean of floating types|std and var only supports? floating"
        r"|\w+ only supports? floating[- ](?:point|types)",
        confidence=0.95,
    ),
    Rule(INTEGER, r"only Tensors of floating point (?:and complex )?dtype can require gradients", confidence=0.97),
    Rule(
        INTEGER,
        r"expected a floating point or complex tensor as input|Input tensor should be a float tensor\. Got",
        confidence=0.95,
    ),
    Rule(
        INTEGER,
        r"input tensor must be either float or double dtype|bool dtype is not supported for input",
        confidence=0.9,
    ),
    Rule(
        INTEGER,
        r"(?:Input dtype must be|expected|should be"
        r"|must be) (?:either )?(?:an? )?floating[- ]point(?! type for target)",
        confidence=0.85,
    ),
    Rule(INTEGER, r"result type \w[\w ]{2,16} can't be cast to the desired output type \w", look=_cast),
    Rule(
        INTEGER,
        r"to have floating point or complex dtype but got|with two bool tensors is not supported",
        confidence=0.8,
        look=lambda error, match: None if error.went_through(*_BINARY_LOSSES) else Seen(),
    ),
    Rule(INTEGER, r"Integer division of tensors using div or / is no longer supported", confidence=0.9),
    Rule(INTEGER, r"Cannot cast ufunc '\w+' output from dtype\('float\d+'\) to dtype\('u?int\d+'\)", confidence=0.85),
)

"""Texts of losses that refuse their input or target."""

from __future__ import annotations

import re

from course.doctor.explain.dtypes import canonical, dtypes_in
from course.doctor.explain.errors import ParsedError, TensorFact
from course.doctor.explain.rules import Rule, Seen

_DTYPE, _SHAPE, _RANGE, _AXIS = (
    "class-target-dtype",
    "class-target-shape",
    "class-index-out-of-range",
    "class-axis-misplaced",
)
_BINARY_DTYPE, _BINARY_LOGITS = "bce-target-dtype", "bce-fed-logits"
_CLASS = (
    "cross_entropy",
    "nll_loss",
    "nll_loss_nd",
    "nll_loss2d",
    "NLLLoss",
    "CrossEntropyLoss",
    "multi_margin_loss",
    "one_hot",
)
_BINARY = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "BCELoss",
    "BCEWithLogitsLoss",
    "multilabel_soft_margin_loss",
)
_PRODUCTS = ("linear", "conv1d", "conv2d", "conv3d", "_conv_forward", "matmul", "mm", "bmm", "addmm", "einsum", "dot")
_INDEXED = ("embedding", "embedding_bag", "gather", "scatter", "scatter_", "index_select")


def _target(error: ParsedError) -> TensorFact | None:
    return error.fact("target", "targets", "label", "labels", "y")


def _input(error: ParsedError) -> TensorFact | None:
    return error.fact("input", "logits", "output", "outputs", "pred", "preds", "prediction")


def _wanted_long(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if error.went_through(*_PRODUCTS) or "@" in error.code:
        return None
    got = canonical(match[1])
    target = _target(error)
    why = f"The target is {got}{f' of shape {target.shape}' if target else ''}."
    return Seen(0.6 if error.went_through(*_INDEXED) else 0.96 if error.went_through(*_CLASS) else 0.88, why)


def _index_kernel(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """CUDA dispatches nll_loss on the target's dtype; the CPU on the input's."""
    got = canonical(match[2])
    if got in ("float16", "bfloat16") and "cuda" not in match[1] and not match[1].endswith("_index"):
        return None
    return Seen(0.93, f"The target is {got}.")


def _one_hot_integers(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        0.8,
        (
            f"A target of the shape of the logits holds probabilities, and needs a floating dtype; it is "
            f"{canonical(match[1])}."
        ),
    )


def _column(error: ParsedError, match: re.Match[str]) -> Seen:
    target, given = _target(error), _input(error)
    why = f"The target is {target.shape}, the logits {given.shape}." if target and given else ""
    return Seen(0.97, why)


def _target_size(error: ParsedError, match: re.Match[str]) -> tuple[list[int], list[int]]:
    wanted, got = ([int(size) for size in re.findall(r"\d+", part)] for part in match.groups())
    return wanted, got


def _extra_axis(error: ParsedError, match: re.Match[str]) -> Seen | None:
    wanted, got = _target_size(error, match)
    if (len(got) == len(wanted) + 1 and 1 in got) or len(got) > len(wanted):
        return Seen(0.93, f"The target is {tuple(got)}, {tuple(wanted)} is expected.")
    return None


def _classes_last(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """Logits (N, T, C): the loss takes T for the classes and expects a target (N, C)."""
    wanted, got = _target_size(error, match)
    if len(got) != len(wanted) or wanted[0] != got[0]:
        return None
    given = _input(error)
    if given is not None and len(given.shape) == len(got) + 1:
        if list(given.shape[:-1]) == got:
            return Seen(
                0.97,
                (
                    f"The logits are {given.shape}, the target {tuple(got)}: axis 1 is {given.shape[1]} "
                    f"long, the classes are in axis {len(got)}."
                ),
            )
        return None
    return Seen(0.85, f"The target is {tuple(got)}; for axis 1 as the classes it would have to be {tuple(wanted)}.")


def _spatial(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``size mismatch (got input: [2, 8, 8, 5] , target: [2, 8, 8]``, the two in either order."""
    shapes = {
        kind.lower(): [int(size) for size in re.findall(r"\d+", sizes)]
        for kind, sizes in re.findall(r"(input|target):? ?(?:torch\.Size\()?\[([\d, ]+)\]", error.flat)
    }
    given, target = shapes.get("input"), shapes.get("target")
    if not given or not target or len(given) != len(target) + 1 or len(target) < 2:
        return None
    if given[:-1] == target:
        return Seen(
            0.96, f"The logits are {tuple(given)}, the target {tuple(target)}: the classes are in the last axis."
        )
    return None


def _one_hot_batch(error: ParsedError, match: re.Match[str]) -> Seen | None:
    given, target = int(match[1]), int(match[2])
    if not given or target == given or target % given:
        return None
    return Seen(0.5, f"There are {given} predictions and {target} targets, {target // given} for each.")


def _out_of_range(error: ParsedError, match: re.Match[str]) -> Seen:
    label, given = int(match[1]), _input(error)
    classes = given.shape[1] if given and len(given.shape) > 1 else given.shape[0] if given and given.shape else None
    why = f"A label is {label}" + (f"; {classes} logits allow 0 to {classes - 1}." if classes else ".")
    fix = f"`ignore_index={label}` if {label} means no label." if label < 0 or label == 255 else ""
    return Seen(0.98, why, fix)


def _device_assert(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if "input_val >= zero" in error.around:
        return None
    printed = "n_classes" in error.around or error.went_through(*_CLASS)
    return Seen(
        0.93 if printed else 0.8,
        "A kernel on the GPU met an index outside its range; the line that Python names may be a later one.",
    )


def _kernel_labels(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"The GPU reports {match[0][-80:]}.")


def _index(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if not error.went_through("scatter", "scatter_", "gather", "one_hot", "index_add_", "scatter_add_", "scatter_add"):
        return None
    return Seen(0.7, f"Index {match[1]} does not exist on an axis of {match[2]}.")


def _embedding(error: ParsedError, match: re.Match[str]) -> Seen:
    table = next((each for each in error.tensors if each.role == "parameter" and len(each.shape) == 2), None)
    why = (
        f"The embedding has {table.shape[0]} rows: indices 0 to {table.shape[0] - 1}."
        if table
        else "An index of the embedding is outside its rows."
    )
    return Seen(0.7, why, "Make the embedding as large as the largest index + 1.")


def _binary_dtype(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if error.went_through(*_BINARY):
        kinds = dtypes_in(error.flat)
        wrong = next((kind for kind in kinds if kind != "float32"), None)
        return Seen(0.97, f"The target is {wrong}." if wrong else "", "`targets.float()`")
    return None


def _binary_found(error: ParsedError, match: re.Match[str]) -> Seen | None:
    seen = _binary_dtype(error, match)
    if seen is not None:
        return seen
    made_by = " ".join(each.made_by for each in error.tensors)
    if "MseLoss" in made_by or "mse_loss" in error.context or "MSELoss" in error.context:
        return None
    found = canonical(match[1])
    return Seen(0.7 if found != "float64" else 0.5, f"The target is {found}.", "`targets.float()`")


def _binary_cast(error: ParsedError, match: re.Match[str]) -> Seen | None:
    seen = _binary_dtype(error, match)
    if seen is not None or error.frames or error.code:
        return seen
    return (
        Seen(0.68, "A binary loss computes in place into a copy of its integer target.", "`targets.float()`")
        if "Long" in error.flat
        else None
    )


_LABELS = r"t >= 0 && t < n_classes|cur_target >= 0 && cur_target < n_classes"

RULES: tuple[Rule, ...] = (
    Rule(_DTYPE, r"expected target dtype to be Long or Byte, but got (\w+)", look=_wanted_long),
    Rule(_DTYPE, r"expected scalar type Long but found (\w+)", look=_wanted_long),
    Rule(
        _DTYPE,
        (
            r"Expected object of (?:scalar )?type (?:torch\.)?(?:cuda\.)?Long(?:Tensor)? but (?:got"
            r"|found) (?:scalar )?type (?:torch\.)?(?:cuda\.)?(\w+)"
        ),
        look=_wanted_long,
    ),
    Rule(
        _DTYPE,
        (
            r"\"(nll_loss\w*|cross_entropy\w*)\" not implemented for '(Int|Float|Double|Short|Char|Bool"
            r"|Half|BFloat16|Byte)'"
        ),
        look=_index_kernel,
    ),
    Rule(
        _DTYPE, r"Expected floating point type for target with class probabilities, got (\w+)", look=_one_hot_integers
    ),
    Rule(_DTYPE, r"one_hot is only applicable to index tensor", confidence=0.85),
    Rule(
        _DTYPE,
        r"Expected tensor for argument #1 'indices' to have (?:one of the following )?scalar types?:? Long",
        confidence=0.6,
    ),
    Rule(
        _DTYPE,
        (
            r"gather\(\): Expected dtype \S{1,20} for index"
            r"|scatter\(\): Expected dtype \S{1,20} for index|index_select\(\): Expected dtype"
        ),
        confidence=0.6,
    ),
    Rule(_DTYPE, r"tensors used as indices must be long", confidence=0.5),
    Rule(_SHAPE, r"multi-target not supported|[01]D(?: or 1D)? target tensor expected", look=_column),
    Rule(_SHAPE, r"only batches of spatial targets supported", confidence=0.93),
    Rule(_SHAPE, r"target tensor should be 1-D with size equal to|inconsistent target size", confidence=0.85),
    Rule(
        _SHAPE, r"Expected target size [(\[]([\d, ]+)[)\]], got (?:torch\.Size\()?[(\[]([\d, ]+)[)\]]", look=_extra_axis
    ),
    Rule(_SHAPE, r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)", look=_one_hot_batch),
    Rule(
        _AXIS,
        r"Expected target size [(\[]([\d, ]+)[)\]], got (?:torch\.Size\()?[(\[]([\d, ]+)[)\]]",
        look=_classes_last,
    ),
    Rule(_AXIS, r"size mismatch \(got input: |input and target batch or spatial sizes don't match", look=_spatial),
    Rule(_RANGE, r"Target (-?\d+) is out of bounds", look=_out_of_range),
    Rule(_RANGE, r"Class values must be (?:smaller than num_classes|non-negative)", confidence=0.95),
    Rule(_RANGE, _LABELS, confidence=0.97, look=_kernel_labels),
    Rule(_RANGE, r"device-side assert triggered|cudaErrorAssert", look=_device_assert),
    Rule(
        _RANGE,
        r"^target out of range|Target values should be in \[|target value out of (?:range|bounds)",
        confidence=0.85,
    ),
    Rule(
        _RANGE,
        (
            r"srcIndex < srcSelectDimSize|ind(?:ex)? >= 0 && ind(?:ex)? < \w+ && \"index out of bounds\""
            r"|idx_dim >= 0 && idx_dim < index_size"
        ),
        confidence=0.8,
        look=_kernel_labels,
    ),
    Rule(
        _RANGE,
        r"^index out of range in self|Index \d+ of input takes value -?\d+ which is not in the valid range",
        look=_embedding,
    ),
    Rule(_RANGE, r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", look=_index),
    Rule(_BINARY_DTYPE, r"Found dtype (\w+) but expected (\w+)", look=_binary_found),
    Rule(_BINARY_DTYPE, r"result type \w[\w ]{2,16} can't be cast to the desired output type \w", look=_binary_cast),
    Rule(
        _BINARY_DTYPE,
        (
            r"expected (?:object of )?scalar type \w+ but (?:found|got)"
            r"|with two bool tensors is not supported|with a bool tensor is not supported"
        ),
        look=_binary_dtype,
    ),
    Rule(_BINARY_LOGITS, r"all elements of (?:input|target) should be between 0 and 1", confidence=0.97),
    Rule(
        _BINARY_LOGITS,
        r"input_val >= zero && input_val <= one|\*input >= 0\. && \*input <= 1\.|x >= 0\.? && x <= 1",
        confidence=0.96,
    ),
)

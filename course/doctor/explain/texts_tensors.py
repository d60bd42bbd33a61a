"""Texts that faults of the topic tensors leave: views, truth values, constructors, ranges, lost axes, broadcasting."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen
from course.doctor.explain.texts_tensors_devices import RULES as DEVICES
from course.doctor.explain.texts_tensors_dtypes import RULES as DTYPES

_SQUEEZE, _LEGACY, _TRUTH, _EXPANDED = (
    "squeeze-drops-batch",
    "legacy-tensor-constructor",
    "tensor-truth-value",
    "write-into-expanded",
)
_SIZES = re.compile(r"\[([\d, ]*)\]")


def _view(error: ParsedError, match: re.Match[str]) -> Seen:
    culprits = [
        word
        for word in ("permute", "transpose", "t", "T", "mT", "swapaxes", "movedim", "expand")
        if word in error.words
    ]
    why = f"`{culprits[0]}` is in the code near it: it re-orders strides, not memory." if culprits else ""
    return Seen(why=why)


def _squeezed(likely: float, unlikely: float, why: str):
    """Sure where the code calls squeeze, less where it does not."""

    def look(error: ParsedError, match: re.Match[str]) -> Seen | None:
        return Seen(likely if "squeeze" in error.words else unlikely, why)

    return look


def _out_of_range(error: ParsedError, match: re.Match[str]) -> Seen | None:
    wanted = int(match[1])
    return Seen(
        0.9 if "squeeze" in error.words else 0.45,
        f"Axis {wanted} is asked of a tensor of one axis: the batch axis is gone.",
    )


def _truth(error: ParsedError, match: re.Match[str]) -> Seen | None:
    # A tensor given to a layer's or a loss's constructor arrives in an `if` of its __init__.
    if "__init__" in error.functions[:3] and re.search(r"\bnn\.[A-Z]|[A-Z]\w+(?:Loss|\()", error.code or "nn.L"):
        return Seen(0.4)
    fact = error.fact(*re.findall(r"\w+", error.code))
    sizes = next((each for each in error.tensors if each.shape and each.shape != (1,)), fact)
    return Seen(why=f"Here `{sizes.name}` has shape {sizes.shape}." if sizes and error.code else "")


def _no_values(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why="The tensor has no elements at all.")


def _legacy(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"The error is from `{found[0]}`." if (found := re.search(r"\w*Tensor\(", error.code)) else "")


def _range(error: ParsedError, match: re.Match[str]) -> Seen | None:
    kind = match[1].lower().removesuffix("_t")
    if kind in ("uint8", "byte", "unsigned char"):
        return Seen(0.92, "uint8 holds 0 to 255; the value is outside.")
    if kind in ("int8", "int16", "short", "char"):
        return Seen(0.5, f"{kind} is too small for the value.")
    return None


def _target_size(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """Losses that compare sizes: which axis is lost, or which one is too many."""
    first, second = _shape(match[1]), _shape(match[2])
    if first is None or second is None:
        return None
    seen = f"The target is {first}, the input {second}."
    if () in (first, second):
        return None
    total = _product(first), _product(second)
    return Seen(0.95 if total[0] == total[1] else 0.5 if not error.is_warning else 0.8, seen)


def _target_scalar(error: ParsedError, match: re.Match[str]) -> Seen | None:
    first, second = _shape(match[1]), _shape(match[2])
    if (
        first is None
        or second is None
        or first == second
        or () not in (first, second)
        or 1 not in (_product(first), _product(second))
    ):
        return None
    return Seen(0.93, f"The target is {first}, the input {second}: a batch of one has lost its axis.")


def _shape(text: str) -> tuple[int, ...] | None:
    found = _SIZES.search(text)
    return tuple(int(size) for size in found[1].replace(" ", "").split(",") if size) if found else None


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _square(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """A result of (N, N) where N numbers were to go."""
    if not match[1] == match[2] == match[3]:
        return None
    return Seen(why=f"A result of shape [{match[1]}, {match[2]}] would have to fit into [{match[3]}].")


def _grown(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"A result of shape [{match[2]}] would have to fit into [{match[1]}].")


RULES: tuple[Rule, ...] = (
    *DTYPES,
    *DEVICES,
    Rule(
        "view-of-noncontiguous",
        r"view size is not compatible with input tensor's size and stride",
        confidence=0.97,
        look=_view,
    ),
    Rule(
        "view-of-noncontiguous",
        r"input is not contiguous at|invalid argument 2: view size is not",
        confidence=0.9,
        look=_view,
    ),
    Rule("view-of-noncontiguous", r"self\.stride\(-1\) must be 1 to view", confidence=0.85, look=_view),
    Rule(
        "view-of-noncontiguous",
        r"(?:Cannot view a tensor with shape .{1,80} and strides .{1,80} as a tensor with shape)",
        confidence=0.9,
        look=_view,
    ),
    Rule(
        _EXPANDED, r"more than one element of the written-to tensor refers to a single memory location", confidence=0.97
    ),
    Rule(
        _EXPANDED,
        r"some elements of the input tensor and the written-to tensor refer to a single memory location",
        confidence=0.6,
    ),
    Rule(_EXPANDED, r"Use of \w+ on expanded tensors is deprecated", confidence=0.95),
    Rule(_TRUTH, r"bool(?:ean)? value of Tensor with more than one value is ambiguous", confidence=0.95, look=_truth),
    Rule(_TRUTH, r"bool(?:ean)? value of Tensor with no values is ambiguous", confidence=0.8, look=_no_values),
    Rule(
        _TRUTH,
        r"truth value of an? (?:array|Series|DataFrame|empty array) (?:with more than one element )?is ambiguous",
        confidence=0.85,
    ),
    Rule(_LEGACY, r"new\(\): data must be a sequence \(got \w+\)", confidence=0.95, look=_legacy),
    Rule(_LEGACY, r"legacy constructor expects device type", confidence=0.97, look=_legacy),
    Rule(
        _LEGACY,
        (
            r"new\(\) received "
            r"an invalid combination of arguments - got .{1,400}(?:torch\.Storage storage"
            r"|Tensor other|tuple of ints size)"
        ),
        confidence=0.85,
        look=_legacy,
    ),
    Rule(
        _LEGACY,
        r"new\(\): (?:invalid data type '\w+'|argument 'size' .{0,60}type must be tuple of ints)",
        confidence=0.8,
        look=_legacy,
    ),
    Rule(
        _LEGACY,
        r"Trying to create tensor with negative dimension",
        confidence=0.55,
        look=lambda error, match: Seen() if "Tensor(" in error.code else None,
    ),
    Rule(
        _LEGACY,
        r"expected TensorOptions\(dtype=\S{1,40}.{0,120}\(got TensorOptions\(|expected CPU\w+Type \(got CPU\w+Type\)",
        confidence=0.7,
    ),
    Rule(
        "uint8-overflow",
        r"value cannot be converted to type (u?int(?:8|16)(?:_t)?|unsigned char) without overflow",
        look=_range,
    ),
    Rule("uint8-overflow", r"Python integer -?\d+ out of bounds for (uint8|int8|int16)", look=_range),
    Rule("uint8-overflow", r"The conversion of -?\d+ to (uint8|int8) will fail", look=_range),
    Rule(
        "uint8-overflow",
        r"overflow encountered in (?:ubyte_scalars|scalar (?:add|subtract|multiply))",
        ("RuntimeWarning",),
        confidence=0.75,
    ),
    Rule(
        _SQUEEZE,
        r"iteration over a 0-d tensor|len\(\) of a 0-d tensor|len\(\) of unsized object",
        ("TypeError",),
        look=_squeezed(0.92, 0.72, "The tensor has no axis left."),
    ),
    Rule(
        _SQUEEZE,
        r"zero-dimensional tensor \(at position \d+\) cannot be concatenated",
        look=_squeezed(0.95, 0.8, "One of the tensors to be joined has no axis left."),
    ),
    Rule(
        _SQUEEZE,
        r"zero-dimensional arrays cannot be concatenated",
        look=_squeezed(0.9, 0.65, "One of the arrays to be joined has no axis left."),
    ),
    Rule(
        _SQUEEZE,
        r"Dimension out of range \(expected to be in range of \[-1, 0\], but got (-?[12])\)",
        look=_out_of_range,
    ),
    Rule(
        _SQUEEZE,
        r"axis 1 is out of bounds for array of dimension [01]|too many indices for tensor of dimension [01]"
        r"|invalid index of a 0-dim tensor"
        r"|expected \w{1,10} (?:or \w{1,6} )?input \(got [123]D input\)|Tensors must have same number of dimensions",
        look=lambda error, match: (
            Seen(0.85, "An axis is missing, and the code near it calls squeeze.") if "squeeze" in error.words else None
        ),
    ),
    Rule(
        _SQUEEZE,
        r"size mismatch \(got input: (\[\d+\]) ?, target: (\[1\])",
        confidence=0.85,
        look=lambda error, match: Seen(
            why=f"The input is {match[1]}, the target {match[2]}: a batch of one has lost its axis."
        ),
    ),
    Rule(
        _SQUEEZE,
        (
            r"target size \((?:torch\.Size\()?(\[[\d, ]*\])\)?\) (?:that is different to"
            r"|must be the same as) (?:the )?input size \((?:torch\.Size\()?(\[[\d, ]*\])"
        ),
        look=_target_scalar,
    ),
    Rule(
        "broadcast-outer-product",
        (
            r"target size \((?:torch\.Size\()?(\[[\d, ]*\])\)?\) (?:that is different to"
            r"|must be the same as) (?:the )?input size \((?:torch\.Size\()?(\[[\d, ]*\])"
        ),
        look=_target_size,
    ),
    Rule(
        "broadcast-outer-product",
        r"expand\([\w.]{1,40}\{\[(\d+), (\d+)\]\}, size=\[(\d+)\]\): the number of sizes provided \(1\)",
        confidence=0.85,
        look=_square,
    ),
    Rule(
        "broadcast-outer-product",
        r"output with shape \[([\d, ]+)\] doesn't match the broadcast shape \[([\d, ]+)\]",
        confidence=0.7,
        look=_grown,
    ),
)

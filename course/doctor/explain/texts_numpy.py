"""Texts that faults of the bridge to NumPy leave."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_RAGGED = "numpy-object-array"


def _of_type(error: ParsedError, match: re.Match[str]) -> Seen | None:
    kind = match[1].rpartition(".")[2]
    if kind in ("object_", "object"):
        return Seen(0.97, "The array's dtype is `object`: it holds Python objects, not numbers.")
    if kind.startswith(("str", "bytes", "datetime", "void", "timedelta")):
        return Seen(0.8, f"The array's dtype is `{kind}`, which no tensor can hold.")
    return None


def _inhomogeneous(error: ParsedError, match: re.Match[str]) -> Seen:
    found = re.search(r"detected shape was (\([\d, ]{1,60}\)) \+ inhomogeneous", error.flat)
    why = f"The rows differ in length: NumPy found {found[1]} and then no common size." if found else ""
    return Seen(why=why)


def _uneven_list(error: ParsedError, match: re.Match[str]) -> Seen:
    why = f"The nested list is ragged: {match[1]} entries in the first row, {match[3]} in another (axis {match[2]})."
    in_batch = error.went_through("collate", "default_collate", "collate_fn") or "collate" in error.context
    return Seen(0.4 if in_batch else 0.65, why)


def _not_inferred(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"Among the values is one of type `{match[1]}`, which is no number.")


def _strided(error: ParsedError, match: re.Match[str]) -> Seen:
    flips = [word for word in ("flip", "fliplr", "flipud", "rot90") if word in error.words]
    if "::-1" in error.context:
        flips.append("[::-1]")
    return Seen(why=f"`{flips[0]}` makes a view that runs backwards through memory." if flips else "")


RULES: tuple[Rule, ...] = (
    Rule("numpy-of-grad-tensor", r"Can't call numpy\(\) on (?:Tensor|Variable) that requires grad", confidence=0.98),
    Rule(
        "numpy-negative-stride",
        (
            r"strides? (?:in|of) (?:the given|a given) numpy array (?:is|are) negative"
            r"|strides of a given numpy array are negative"
        ),
        confidence=0.98,
        look=_strided,
    ),
    Rule("numpy-negative-stride", r"tensors with negative strides are not currently supported", confidence=0.95),
    Rule("numpy-negative-stride", r"^step must be greater than zero", ("ValueError",), confidence=0.5),
    Rule(_RAGGED, r"can't convert np\.ndarray of type ([\w.]*\w)", look=_of_type),
    Rule(_RAGGED, r"requested array has an inhomogeneous shape", confidence=0.95, look=_inhomogeneous),
    Rule(_RAGGED, r"Creating an ndarray from ragged nested sequences", confidence=0.95),
    Rule(_RAGGED, r"setting an array element with a sequence", confidence=0.85),
    Rule(_RAGGED, r"expected sequence of length (\d+) at dim (\d+) \(got (\d+)\)", look=_uneven_list),
    Rule(
        _RAGGED,
        r"default_collate: batch must contain .{0,80}; found (?:object|<class 'numpy\.object_?'>|<U\d+)",
        confidence=0.9,
    ),
    Rule(
        _RAGGED,
        r"Could not infer dtype of (NoneType|str|dict|set|list|tuple|object)\b",
        confidence=0.6,
        look=_not_inferred,
    ),
    Rule(_RAGGED, r"^(?:not a sequence|too many dimensions 'str')", ("TypeError", "ValueError"), confidence=0.55),
    Rule("numpy-readonly-alias", r"given (?:NumPy array|buffer) is not writ(?:e?)able", confidence=0.97),
    Rule(
        "numpy-readonly-alias",
        r"assignment destination is read-only|output array is read-only",
        ("ValueError",),
        confidence=0.75,
    ),
    Rule(
        "tensor-of-list-of-arrays",
        r"Creating a tensor from a list of numpy\.ndarrays is extremely slow",
        confidence=0.98,
    ),
)

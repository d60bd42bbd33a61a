"""Texts that a runtime leaves which refuses its inputs: another size, another dtype, another layout."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_GOT = re.compile(r"index: (\d+) got: (-?\d+) expected: (-?\d+)", re.I)
# How ONNX Runtime before 1.10 names its dtypes: mangled, or with the class.
_MANGLED = {
    "d": "double",
    "f": "float",
    "h": "uint8",
    "a": "int8",
    "i": "int32",
    "l": "int64",
    "x": "int64",
    "b": "bool",
}
# The numbers that torch gives its dtypes, as AOTInductor writes them.
_NUMBERS = {
    "0": "uint8",
    "1": "int8",
    "3": "int32",
    "4": "int64",
    "5": "float16",
    "6": "float",
    "7": "double",
    "11": "bool",
}
_NUMPY = {"float": "float32", "double": "float64", "float16": "float16"}


def _dimensions(error: ParsedError, match: re.Match[str]) -> Seen:
    found = [(int(axis), int(got), int(expected)) for axis, got, expected in _GOT.findall(error.flat)]
    where = "; ".join(f"axis {axis} is {got} and the model has {expected}" for axis, got, expected in found)
    why = f"Input `{match['name']}`: {where}."
    if not found:
        return Seen(0.75)
    if _is_layout(found):
        return Seen(0.35, why)
    if all(axis > 0 for axis, _, _ in found):
        return Seen(0.85, why, "Or bring the input to the model's size first, as in training.")
    return Seen(None, why)


def _is_layout(found: list[tuple[int, int, int]]) -> bool:
    """The sizes are the expected ones in another order."""
    inner = [(got, expected) for axis, got, expected in found if axis > 0]
    return len(inner) > 1 and sorted(got for got, _ in inner) == sorted(expected for _, expected in inner)


def _layout(error: ParsedError, match: re.Match[str]) -> Seen | None:
    found = [(int(axis), int(got), int(expected)) for axis, got, expected in _GOT.findall(error.flat)]
    if not _is_layout(found):
        return None
    where = "; ".join(f"axis {axis} is {got} and should be {expected}" for axis, got, expected in found)
    return Seen(
        None,
        f"Input `{match['name']}`: {where}. The sizes are the right ones, in another order.",
        "Move the axes, for images `np.ascontiguousarray(x.transpose(0, 3, 1, 2))`.",
    )


def _rank(error: ParsedError, match: re.Match[str]) -> Seen:
    got, expected = int(match["got"]), int(match["expected"])
    fix = "Add the batch axis: `x[None]`." if got == expected - 1 else ""
    return Seen(None, f"Input `{match['name']}` has {got} axes, and the model's has {expected}.", fix)


def _dtype(error: ParsedError, match: re.Match[str]) -> Seen:
    got, expected = _name(match["got"]), _name(match["expected"])
    fix = f"Convert it: `array.astype(np.{_NUMPY.get(expected, expected)})`." if expected.isidentifier() else ""
    return Seen(None, f"The input is {got}, and the model's is {expected}.", fix)


def _name(text: str) -> str:
    mangled = re.search(r"PrimitiveDataTypeI(\w)E", text)
    if mangled:
        return _MANGLED.get(mangled[1], "of another dtype")
    number = re.match(r"(\d{1,2})\b", text)
    if number:
        return _NUMBERS.get(number[1], "of another dtype")
    inner = re.search(r"[(<](?:class )?([\w: ]{1,40})[)>]", text)
    return (inner[1] if inner else text).strip(" ()")


def _torch_input(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        None,
        f"Input `{match['name']}` is no NumPy array; a torch tensor is not converted.",
        "Pass `x.detach().cpu().numpy()`, in the model's dtype.",
    )


def _sizes(error: ParsedError, match: re.Match[str]) -> Seen:
    named = match.groupdict()
    if named.get("needed"):
        return Seen(None, f"For axis {named['axis']} the exported graph asks for `{named['needed']}`.")
    if named.get("got") and named.get("expected"):
        return Seen(None, f"The size is {named['got']}, and the exported one is {named['expected']}.")
    return Seen(None, f"The text says `{match[0][:120]}`." if "`" not in match[0] else "")


def _specialised(error: ParsedError, match: re.Match[str]) -> Seen:
    found = re.search(
        r"marked (\w{1,60}) as dynamic but your code specialized it to be a constant \((\d+)\)", error.flat
    )
    if not found:
        return Seen()
    if found[2] in ("0", "1"):
        return Seen(None, f"`{found[1]}` became the constant {found[2]}.", "Export with an example of size 2 or more.")
    return Seen(
        None,
        f"`{found[1]}` was declared dynamic, and the code makes it the constant {found[2]}.",
        "Look for a `view`, `reshape` or `expand` with a number in it, and take `x.shape[0]` or -1 there.",
    )


def _inside(error: ParsedError, match: re.Match[str]) -> Seen:
    shapes = re.search(r"input shape: ?(\{[\d,]{1,60}\}), requested shape: ?(\{[-\d,]{1,60}\})", error.flat, re.I)
    where = re.search(r"while running (\w{1,40}) node\. name: ?'([^']{1,160})'", error.flat, re.I)
    why = f"It happened in the node `{where[2]}` ({where[1]})." if where and "`" not in where[2] else ""
    if shapes:
        why += f" Its input is {shapes[1]}, and the shape in the file is {shapes[2]}: the example's batch is in it."
    return Seen(None, why.strip())


_DTYPE = r"[\w:() <>.]{1,80}?"

RULES: tuple[Rule, ...] = (
    Rule(
        "static-shape-export",
        r"got invalid dimensions for input: (?P<name>\S{1,80}) for the following indices",
        confidence=0.97,
        look=_dimensions,
    ),
    Rule(
        "runtime-input-dtype",
        r"got invalid dimensions for input: (?P<name>\S{1,80}) for the following indices",
        confidence=0.92,
        look=_layout,
    ),
    Rule(
        "runtime-input-dtype",
        r"invalid rank for input: (?P<name>\S{1,80}),? got: (?P<got>\d+),? expected: (?P<expected>\d+)",
        confidence=0.85,
        look=_rank,
    ),
    Rule(
        "runtime-input-dtype",
        rf"unexpected input data type\. actual: (?P<got>{_DTYPE}) ?, expected: (?P<expected>[\w:() <>.]{{1,80}})",
        confidence=0.97,
        look=_dtype,
    ),
    Rule(
        "runtime-input-dtype",
        r"input must be a list of dictionaries or a single numpy array for input '(?P<name>[^']{1,80})'",
        ("RuntimeError",),
        0.85,
        _torch_input,
    ),
    Rule(
        "runtime-input-dtype",
        r"got value of type (?P<got>\w{1,20}) but expected type (?P<expected>\w{1,20}) for input",
        confidence=0.9,
        look=_dtype,
    ),
    Rule(
        "runtime-input-dtype",
        r"model (?:input|port) \((?:element )?type ?= ?(?P<expected>\w{1,20})\) and the tensor \((?:element )?type ?= ?"
        r"(?P<got>\w{1,20})\)",
        confidence=0.9,
        look=_dtype,
    ),
    Rule(
        "runtime-input-dtype",
        r"unmatched dtype, expected: (?P<expected>[\w:()]{1,40}),? but got: (?P<got>[\w:()]{1,40})",
        confidence=0.9,
        look=_dtype,
    ),
    Rule(
        "runtime-input-dtype",
        r"unmatched stride value at (?P<axis>\d+), expected: (?P<expected>\d+), but got: (?P<got>\d+)",
        confidence=0.8,
        look=lambda error, match: Seen(
            None,
            f"Along axis {match['axis']} the input's stride is {match['got']}, and the model's is {match['expected']}.",
            "Pass `x.contiguous()`.",
        ),
    ),
    Rule(
        "static-shape-export",
        r"guard failed: [\w.\[\]'\"]{1,80}\.size\(\)\[(?P<axis>\d+)\] ?(?P<needed>(?:==|<=|>=|<|>) ?\d+)",
        ("AssertionError", "RuntimeError"),
        0.95,
        _sizes,
    ),
    Rule(
        "static-shape-export",
        r"expected input (?:at )?\S{1,80}\.shape\[\d+\] (?:= \d+ )?to be (?:equal to|<=|>=|of the form) ?"
        r"(?P<expected>[\w*+() ]{1,40}?), (?:but got (?P<got>\d+)|where \w{1,20} is an integer)",
        confidence=0.95,
        look=_sizes,
    ),
    Rule(
        "static-shape-export",
        r"input \S{1,80}\.shape\[\d+\] is (?:specialized at (?P<expected>\d+)|outside of specified dynamic range)",
        confidence=0.92,
        look=_sizes,
    ),
    Rule(
        "static-shape-export",
        r"unmatched dim value at \d+, expected: (?P<expected>\d+), but got: (?P<got>\d+)",
        confidence=0.93,
        look=_sizes,
    ),
    Rule(
        "static-shape-export",
        r"dim value is too (?:large|small) at \d+, expected (?:it )?to be (?P<expected>[<>]= ?\d+), "
        r"but got: ?(?P<got>\d+)",
        confidence=0.93,
        look=_sizes,
    ),
    Rule(
        "static-shape-export",
        r"constraints violated (?:\(\w{1,80}\)|!)|(?:specialized it|was inferred) to be a constant \(\d+\)"
        r"|dimensions have been specialized and cannot be dynamic",
        ("UserError", "ConstraintViolationError", "TorchExportError", "RuntimeError", "ValueError"),
        0.9,
        _specialised,
    ),
    Rule(
        "static-shape-export",
        r"the input tensor cannot be reshaped to the requested shape\. input shape:",
        confidence=0.9,
        look=_inside,
    ),
    Rule(
        "static-shape-export",
        r"non-zero status code returned while running (?:concat|expand|add|mul|sub|div|where|matmul|gemm) node.{0,400}"
        r"(?:mismatched dimensions|broadcast an axis by a dimension other than 1|cannot broadcast|invalid expand shape"
        r"|incompatible dimensions|dimension mismatch)",
        confidence=0.7,
        look=_inside,
    ),
    Rule(
        "static-shape-export",
        r"static dimension mismatch while setting input shape|does not satisfy any optimization profiles"
        r"|model input \(shape ?= ?\[[\d,.? ]{1,60}\]\) and the tensor \(shape ?= ?[(\[][\d,. ]{1,60}[)\]]\) are incomp"
        r"|multiarray shape \([\dx ]{1,60}\) does not match the shape \([\dx ]{1,60}\) specified in the model"
        r"|cannot set tensor: dimension mismatch\. got \d+ but expected \d+ for dimension",
        confidence=0.9,
        look=_sizes,
    ),
)

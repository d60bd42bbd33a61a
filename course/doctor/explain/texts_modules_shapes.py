"""Texts about sizes that do not fit a layer: a flattened size, or batch and sequence exchanged."""

from __future__ import annotations

import math
import re

from course.doctor.explain.errors import ParsedError, TensorFact
from course.doctor.explain.rules import Rule, Seen

_FLATTEN, _FIRST = "flatten-size-mismatch", "batch-first-mismatch"
_FLATTENING = re.compile(r"flatten|\.view\(|\.reshape\(|Flatten")
_CONVOLUTIONS = frozenset(("_ConvNd", "_MaxPoolNd", "_AvgPoolNd", "Flatten"))


def _input(error: ParsedError) -> TensorFact | None:
    """The tensor that went into the layer."""
    return next((each for each in error.tensors if each.name in ("input", "x", "inputs") and each.shape), None)


def _product(error: ParsedError, match: re.Match[str]) -> Seen | None:
    rows, columns, wanted, outputs = (int(part) for part in match.groups()[:4])
    through_linear = "linear" in error.functions or any("Linear" in frame.code for frame in error.frames)
    plain = re.search(r"@|\bmm\(|matmul\(|addmm\(|\bdot\(|einsum\(", error.code)
    if plain and not through_linear:
        return _attribute_product(error, columns, wanted)
    given = _input(error) if through_linear else None
    why = f"The layer's weight is ({outputs}, {wanted}): it takes {wanted} features and gets {columns}."
    if given is not None and len(given.shape) > 2:
        whole = math.prod(given.shape[1:])
        fitting = f", and {' * '.join(map(str, given.shape[1:]))} = {whole} would fit" if whole == wanted else ""
        what = f"The input is {given.shape}, not flattened{fitting}."
        return Seen(
            0.95 if len(given.shape) > 3 or fitting else 0.6,
            f"{why} {what}",
            "Flatten from axis 1 on before the linear layer: `x = x.flatten(1)`.",
        )
    convolutional = any(_CONVOLUTIONS & set(bases) for frame in error.frames for _, _, bases in frame.modules)
    flattened = (
        bool(_FLATTENING.search(error.context) or _FLATTENING.search(error.all_code))
        or convolutional
        or rows * columns % wanted == 0
    )
    fix = f"Here: `nn.Linear({columns}, {outputs})`, or `nn.LazyLinear({outputs})`."
    seen = f"The input is ({rows}, {columns})."
    origin = _before_flattening(error, rows, columns)
    return Seen(0.93 if flattened or not error.frames else 0.8, f"{why} {seen}{origin}", fix)


def _before_flattening(error: ParsedError, rows: int | None, columns: int) -> str:
    """`` 5408 = 8 * 26 * 26, ...`` where the tensor before it was flattened is still in a frame."""
    for each in error.tensors:
        if len(each.shape) >= 3 and rows in (None, each.shape[0]) and math.prod(each.shape[1:]) == columns:
            return (
                f" It comes from `{each.name}` of shape {each.shape}: flatten gives "
                f"{' * '.join(map(str, each.shape[1:]))} = {columns}."
            )
    return ""


def _attribute_product(error: ParsedError, columns: int, wanted: int) -> Seen | None:
    """A product of the user's own weights; a flattened operand makes it the same fault."""
    if not _FLATTENING.search(error.context):
        return None
    weight = next((each for each in error.tensors if len(each.shape) == 2 and each.shape[0] == wanted), None)
    name = f"`{weight.name}` is {weight.shape}: it" if weight else "The weight"
    origin = _before_flattening(error, None, columns)
    return Seen(0.85, f"{name} takes {wanted} features and gets {columns}.{origin}")


def _view(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``shape '[-1, 400]' is invalid for input of size 1920``."""
    sizes = [int(size) for size in match[1].replace(" ", "").split(",") if size]
    total = int(match[2])
    known = math.prod(size for size in sizes if size != -1)
    if len(sizes) != 2 or total == 0:
        return (
            Seen(0.4, f"{total} elements do not fill {sizes}.")
            if len(sizes) > 2 and sizes[0] == -1 and total % max(known, 1)
            else None
        )
    first, second = sizes
    if second != -1 and total % max(second, 1) == 0:
        # A full row fits: the last batch is smaller than the batch size that the code fixes.
        return None
    rest = f"; {total} = {first} * {total // first}" if first > 0 and total % first == 0 else ""
    return Seen(0.88, f"{total} elements cannot be cut into rows of {second}{rest}.", "`x.flatten(1)` needs no number.")


def _hidden(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``Expected hidden size (1, 5, 4), got [1, 8, 4]``: layers, batch, features."""
    wanted, got = ([int(size) for size in re.findall(r"\d+", part)] for part in match.groups()[-2:])
    if len(wanted) != len(got) or len(wanted) < 2:
        return None
    differing = [axis for axis, (one, other) in enumerate(zip(wanted, got, strict=True)) if one != other]
    batch_axis = len(wanted) - 2
    if differing != [batch_axis]:
        return None
    given = _input(error)
    why = f"The layer takes {wanted[batch_axis]} for the batch, the state was made for {got[batch_axis]}."
    if given is not None and got[batch_axis] not in given.shape[:2]:
        return Seen(0.4, why)  # a state of the last, shorter or longer batch
    if given is not None:
        why = f"{why} The input is {given.shape}: its axes 0 and 1 are exchanged for this layer."
    return Seen(0.93 if given is not None else 0.85, why)


def _lengths(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(
        0.93,
        f"There are {match[1]} lengths, but the batch seems to be {match[2]} samples.",
        "`pack_padded_sequence(..., batch_first=True)`.",
    )


def _mask(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why="The mask fits the input with batch and sequence exchanged.")


def _loss_batch(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``Expected input batch_size (5) to match target batch_size (8)`` after an RNN or a view."""
    given, target = int(match[1]), int(match[2])
    recurrent = re.search(
        r"\b(?:rnn|lstm|gru)\b|LSTM|GRU|RNN|Transformer|batch_first", error.context, re.IGNORECASE
    ) or any(
        {"RNNBase", "TransformerEncoder", "MultiheadAttention"} & set(bases)
        for frame in error.frames
        for _, _, bases in frame.modules
    )
    return (
        Seen(0.85 if recurrent else 0.4, f"The predictions are {given}, the targets {target}.")
        if target % max(given, 1)
        else None
    )


def _view_batch(error: ParsedError, match: re.Match[str]) -> Seen | None:
    given, target = int(match[1]), int(match[2])
    recurrent = any({"RNNBase"} & set(bases) for frame in error.frames for _, _, bases in frame.modules)
    if recurrent or not target or (given % target and target % given):
        return None
    view = re.search(r"\.(?:view|reshape)\( ?-1 ?, ?\w+", error.context)
    return Seen(
        0.9 if view else 0.55,
        f"The predictions are {given}, the targets {target}: a view moved features into the batch axis.",
        "`x.flatten(1)` keeps the batch axis.",
    )


_BATCHES = r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)"

RULES: tuple[Rule, ...] = (
    Rule(_FLATTEN, r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", look=_product),
    Rule(_FLATTEN, r"size mismatch, m1: \[(\d+) x (\d+)\], m2: \[(\d+) x (\d+)\]", look=_product),
    Rule(_FLATTEN, r"mat1 dim 1 must match mat2 dim 0", confidence=0.8),
    Rule(_FLATTEN, r"shape '\[([-\d, ]+)\]' is invalid for input of (?:size|with) (\d+)", look=_view),
    Rule(_FLATTEN, _BATCHES, look=_view_batch),
    Rule(_FIRST, _BATCHES, look=_loss_batch),
    Rule(
        _FIRST, r"Expected hidden(?:\[\d\])? size [(\[]([\d, ]+)[)\]],? (?:but )?got [(\[]([\d, ]+)[)\]]", look=_hidden
    ),
    Rule(_FIRST, r"Input batch size (\d+) doesn't match hidden(?:\[\d\])? batch size (\d+)", confidence=0.8),
    Rule(
        _FIRST,
        r"Expected `len\(lengths\)` to be equal to batch_size, but got (\d+) \(batch_size=(\d+)\)",
        look=_lengths,
    ),
    Rule(
        _FIRST,
        r"Expected key_padded_mask\.shape\[\d\] to be \d+, but got \d+|expecting key_padding_mask shape of \(",
        confidence=0.9,
        look=_mask,
    ),
    Rule(_FIRST, r"shape of the [23]D attn_mask is .{1,60}, but should be", confidence=0.75, look=_mask),
    Rule(_FIRST, r"the batch number of src and tgt must be equal", confidence=0.75),
)

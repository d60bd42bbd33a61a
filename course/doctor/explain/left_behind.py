"""What a module did not take along when it moved to another device or dtype: layers and tensors it does not know."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from course.doctor.explain.dtypes import dtypes_in
from course.doctor.explain.errors import ParsedError, TensorFact
from course.doctor.explain.rules import Rule, Seen

_LAYER = (
    r"(?:torch\.)?nn\.(?:(?:Lazy)?(?:Linear|Bilinear|Conv\w+|\w+Norm\w*)|Embedding\w*|LSTM\w*|GRU\w*|RNN\w*"
    r"|PReLU|MultiheadAttention|Transformer\w*|Parameter|Sequential)\("
)
_SUBJECT = {"device": "on", "dtype": "in"}


def rules(pattern: str, what: str) -> tuple[Rule, ...]:
    """The rules for a text about operands that differ in `what`, "device" or "dtype"."""
    return (
        Rule("layer-built-in-forward", pattern, look=functools.partial(_built_in_forward, what=what)),
        Rule("tensor-not-buffer", pattern, look=functools.partial(_plain_attribute, what=what)),
        Rule("unregistered-submodule", pattern, look=functools.partial(_unregistered, what=what)),
    )


def _plain_attribute(error: ParsedError, match: re.Match[str], what: str) -> Seen | None:
    """A tensor that a module holds neither as parameter nor as buffer stays behind when the module moves."""
    for each, registered in _left_behind(error, "plain", what):
        if registered or each.name in error.code:
            there = f", its parameters {_SUBJECT[what]} {', '.join(sorted(registered))}" if registered else ""
            is_what = f"{_SUBJECT[what]} {getattr(each, what)}"
            return Seen(0.97, f"`{each.name}` is a plain attribute of {each.owner} {is_what}{there}.")
    if what == "dtype" or error.tensors or not error.functions or error.functions[0] != "forward":
        return None
    found = re.search(r"[-+*/@,(] ?(self\.[a-z]\w*)\b(?![.(])", error.code)
    return (
        Seen(0.5, f"`{found[1]}` may be a plain attribute, which `model.to(device)` does not move.") if found else None
    )


def _unregistered(error: ParsedError, match: re.Match[str], what: str) -> Seen | None:
    for each, registered in _left_behind(error, "unregistered", what):
        is_what = f"{_SUBJECT[what]} {getattr(each, what)}"
        there = f", the registered parameters {_SUBJECT[what]} {', '.join(sorted(registered))}" if registered else ""
        return Seen(
            0.97, f"`{each.name}` belongs to a layer in a plain list or dict of {each.owner}; it is {is_what}{there}."
        )
    return None


def _left_behind(error: ParsedError, role: str, what: str) -> Iterator[tuple[TensorFact, set[str]]]:
    """Tensors of that role that differ from what their module registered, or else from the others."""
    named = set(dtypes_in(error.flat))
    for frame in reversed(error.frames):
        for each in (each for each in frame.tensors if each.role == role):
            root = each.name.partition(".")[0] + "."
            own = [other for other in frame.tensors if other.name.startswith(root) and other.owner]
            registered = {getattr(other, what) for other in own if other.role in ("parameter", "buffer")}
            others = registered or {getattr(o, what) for o in frame.tensors if o.role in ("tensor", "parameter")}
            if what == "dtype":
                # A module that was cast has left what it does not know in the default dtype.
                registered = {other.dtype for other in own if other.role == "parameter"}
                if each.dtype != "float32" or not registered or not registered | {each.dtype} <= named:
                    continue
                others = registered
            if others and getattr(each, what) not in others:
                yield each, registered


def _built_in_forward(error: ParsedError, match: re.Match[str], what: str) -> Seen | None:
    for frame in error.frames:
        if not frame.is_user or frame.function != "forward":
            continue
        made = re.findall(rf"(?m)^[ \t]*([\w.]+) = {_LAYER}", frame.context)
        if re.search(r"\bnn\.[A-Z]\w+\(.*\)\(", frame.code) or any(f"{name}(" in frame.code for name in made):
            where = "on the CPU" if what == "device" else "in float32"
            return Seen(0.96, f"The layer is made inside forward, {where}, with new weights at each call.")
    return None

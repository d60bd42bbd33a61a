"""Texts about operands on different devices."""

from __future__ import annotations

import re

from course.doctor.explain import left_behind
from course.doctor.explain.code import discarded
from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_FAULT = "device-mismatch"
_DEVICES = re.compile(r"\b((?:cuda|mps|xpu|hip|privateuseone)(?::\d+)?|cpu|meta)\b", re.IGNORECASE)
_TYPES = re.compile(r"torch\.(cuda\.|mps\.|xpu\.)?\w+Tensor|(MPS|CUDA|CPU)\w+Type")
_MISMATCH = (
    r"Expected all tensors to be on the same device"
    r"|(?:not (?:at|on) the same device|located on different GPUs|on different (?:devices|GPUs))"
    r"|Expected object of (?:device type|backend) \w+ but got (?:device type|backend) \w+"
    r"|Tensor for (?:'out'|argument .{1,40}) is on \w+,? (?:Tensor for .{1,80})?but expected"
    r"|should be either on cpu or on the same device as the indexed tensor"
    r"|Placeholder (?:storage|tensor|buffer) (?:has not been allocated|is not allocated"
    r"|.{0,20}not) (?:on|in) (?:the )?MPS"
    r"|Expected a '\w+' device type for generator but found"
    r"|must have its parameters and buffers on device \S+ .{0,40}but found one of them on device"
    r"|Unhandled FakeTensor Device Propagation|on the expected device \w+"
    r"|must be on the (?:same|current) device|to be on (?:the )?same device|be on the same device"
    r"|Pointer argument \(at \d+\) cannot be accessed from Triton"
    r"|storage of a tensor on device \"?\w+\"? to a storage on different device"
)


def _devices(error: ParsedError) -> list[str]:
    return list(dict.fromkeys(each.lower() for each in _DEVICES.findall(error.flat)))


def _operands(error: ParsedError) -> str:
    told = [f"`{each.name}` ({each.role}) is on {each.device}" for each in error.tensors if each.role != "array"]
    if told and len({each.device for each in error.tensors if each.role != "array"}) > 1:
        return f"{'; '.join(told[:4])}."
    named = _devices(error)
    return f"Devices seen: {', '.join(named)}." if len(named) > 1 else ""


def _mismatch(error: ParsedError, match: re.Match[str]) -> Seen:
    which = re.search(r"for argument (\w+) in method (\w+)|but got (\w+) is on (\w+(?::\d+)?)", error.flat)
    why = _operands(error)
    if which and which[1]:
        why = f"{why} The operand is `{which[1]}` of `{which[2]}`.".strip()
    elif which:
        why = f"`{which[3]}` is on {which[4]}. {why}".strip()
    return Seen(0.95, why)


def _unlike_types(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``torch.FloatTensor`` against ``torch.cuda.FloatTensor``: same dtype, other device."""
    places = [(found[1] or found[2] or "cpu").strip(".").lower() for found in _TYPES.finditer(error.flat)]
    if len(set(places)) < 2:
        return None
    return Seen(0.95, f"Input and weight are on {places[0]} and {places[1]}.")


def _discarded(error: ParsedError, match: re.Match[str]) -> Seen | None:
    names = [each.name for each in error.tensors if each.role == "tensor"]
    for name in dict.fromkeys(names):
        if call := discarded(error, name, ("to", "cuda", "cpu", "mps")):
            return Seen(0.97, f"The line `{call}` makes a new tensor and drops it; `{name}` stays where it was.")
    if not error.tensors and (call := discarded(error, None, ("to", "cuda"))):
        return Seen(0.85, f"The line `{call}` makes a new tensor and drops it, unless that is a module.")
    return None


_ALL = rf"{_MISMATCH}|Input type \(\S{{1,40}}\) and weight type \(\S{{1,40}}\) should be the same"

RULES: tuple[Rule, ...] = (
    *left_behind.rules(_ALL, "device"),
    Rule("discarded-to-result", _ALL, look=_discarded),
    Rule(_FAULT, _MISMATCH, look=_mismatch),
    Rule(
        _FAULT, r"Input type \(\S{1,40}\) and (?:weight|bias) type \(\S{1,40}\) should be the same", look=_unlike_types
    ),
    Rule(
        _FAULT,
        r"can't convert (\S{1,20}) device type tensor to numpy",
        confidence=0.6,
        look=lambda error, match: Seen(why=f"NumPy works in the CPU's memory; the tensor is on {match[1]}."),
    ),
    Rule(_FAULT, r"Tensors of the same index must be on the same device", confidence=0.85),
)

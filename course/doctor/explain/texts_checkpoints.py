"""Texts that faults of the topic checkpoints leave: names, shapes and files."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen
from course.doctor.explain.state_keys import WRAPPERS, StateKeys, state_keys
from course.doctor.explain.texts_checkpoints_files import RULES as FILES
from course.doctor.explain.texts_checkpoints_resume import RULES as RESUME
from course.doctor.explain.texts_quantization_keys import is_quantized

_SIZE = re.compile(
    r"size mismatch for (?P<key>[^\s:]{1,300}): copying a param(?:eter)? (?:with shape|of) "
    r"(?:torch\.Size\()?(?P<file>[\[(][\d, ]{0,80}[\])])\)? from checkpoint, "
    r"(?:the shape in current model is|where the shape is) "
    r"(?:torch\.Size\()?(?P<model>[\[(][\d, ]{0,80}[\])])",
    re.I,
)
_COPYING = re.compile(
    r"while copying the parameter named [\"'](?P<key>[^\"']{1,300})[\"'], whose dimensions in the model are "
    r"(?:torch\.Size\()?(?P<model>[\[(][\d, ]{0,80}[\])])\)? and whose dimensions in the checkpoint are "
    r"(?:torch\.Size\()?(?P<file>[\[(][\d, ]{0,80}[\])])",
    re.I,
)
# What people call the parts of a checkpoint that holds more than a model.
_PARTS = frozenset(
    (
        *("model", "state_dict", "model_state_dict", "model_state", "net", "network", "weights", "params"),
        *("optimizer", "optimizer_state_dict", "optimizer_state", "optimizer_states", "optim", "scheduler"),
        *("lr_scheduler", "scheduler_state_dict", "lr_schedulers", "scaler", "epoch", "step", "global_step", "loss"),
        *("best", "best_acc", "best_loss", "args", "config", "hyper_parameters", "pytorch-lightning_version"),
        *("callbacks", "loops", "ema"),
    )
)
_WEIGHTS = ("model_state_dict", "state_dict", "model", "model_state", "net", "network", "weights", "params")


def _prefixed(error: ParsedError, match: re.Match[str]) -> Seen | None:
    keys = state_keys(error.flat)
    found = keys.removed()
    if found is None or is_quantized(error.flat):
        return None
    side, prefix = found
    if _is_log(match) and not _sure(keys, prefix):
        return None
    named = [name for name in WRAPPERS if f"{name}." in prefix]
    example = next(key for key in (keys.unexpected if side == "file" else keys.missing) if prefix.split(".")[0] in key)
    who = "the file" if side == "file" else "the model"
    by = f", which {WRAPPERS[named[0]]} puts there" if named else ""
    why = f"The names in {who} have `{prefix}` in them{by}: `{example}`. The others have none, so no name fits."
    if side == "file":
        strip = f"Take it off: `state = {{key.replace('{prefix}', '', 1): value for key, value in state.items()}}`."
    else:
        inner = f"model.{named[0]}" if named else "the module inside"
        strip = f"The file fits the bare model: load before wrapping, or into `{inner}`."
    if _is_log(match):
        return Seen(0.6, why, strip)
    return Seen(0.97 if named else 0.8, why, strip)


def _is_log(match: re.Match[str]) -> bool:
    return "incompatiblekeys" in match[0].lower()


def _sure(keys: StateKeys, prefix: str) -> bool:
    """Whether the whole model is concerned: a single layer may just have another name."""
    return any(f"{name}." in prefix for name in WRAPPERS) or len(keys.missing) >= 5


def _nothing(error: ParsedError, match: re.Match[str]) -> Seen | None:
    keys = state_keys(error.flat)
    if not keys.missing or not keys.unexpected or is_quantized(error.flat):
        return None
    found = keys.removed()
    if not _PARTS.issuperset(keys.unexpected) and (found is None or not _sure(keys, found[1])):
        return None
    return Seen(
        0.9,
        f"{len(keys.missing)} names are missing and {len(keys.unexpected)} are unexpected, such as "
        f"`{keys.missing[0]}` and `{keys.unexpected[0]}`: nothing of the file fitted, and the model keeps what it had.",
    )


def _whole_checkpoint(error: ParsedError, match: re.Match[str]) -> Seen | None:
    keys = state_keys(error.flat)
    if not keys.missing or not keys.unexpected or not _PARTS.issuperset(keys.unexpected):
        return None
    part = next((name for name in _WEIGHTS if name in keys.unexpected), None)
    if part is None:
        return None
    return Seen(
        0.6,
        f"The file is a dict of several parts ({', '.join(keys.unexpected[:4])}); the model's entries are inside of "
        f"`{part}`, so not one name fits.",
        f"Load that part: `model.load_state_dict(checkpoint['{part}'])`.",
    )


def _shape(error: ParsedError, match: re.Match[str]) -> Seen | None:
    found = list(_SIZE.finditer(error.flat)) or list(_COPYING.finditer(error.flat))
    if not found:
        return Seen()
    first = found[0]
    if first["file"] == first["model"]:
        return None
    why = f"`{first['key']}` is {_size(first['file'])} in the file and {_size(first['model'])} in the model"
    why += f" (differing entries: {len(found)})." if len(found) > 1 else "."
    if _numbers(first["model"]) == [0]:
        return Seen(
            0.5,
            why + " A parameter of size 0 is one that is sharded or not yet initialised.",
            "Load before sharding, or gather the parameters first.",
        )
    fix = ""
    sizes = [_numbers(first["file"]), _numbers(first["model"])]
    if len(found) <= 2 and all(sizes) and sizes[0][1:] == sizes[1][1:]:
        fix = (
            f"The first size alone differs, {sizes[0][0]} and {sizes[1][0]}: outputs (classes) or rows of an "
            "embedding. Build the model with the file's number, or load the rest and train this layer anew."
        )
    return Seen(0.97, why, fix)


def _numbers(size: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", size)]


def _size(size: str) -> str:
    numbers = _numbers(size)
    return f"({numbers[0]},)" if len(numbers) == 1 else "(" + ", ".join(map(str, numbers)) + ")"


def _saved(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(None, f"The file has {_size(match['file'])}, the model {_size(match['model'])}.")


def _key_error(error: ParsedError, match: re.Match[str]) -> Seen | None:
    key = match["key"].rstrip(".")
    if not _ENTRY.search(key):
        return None
    return Seen(None, f"The name `{key}` has a wrapper's name in it, and the other side has none.")


_ENTRY = re.compile(r"(?:weight|bias|running_mean|running_var|num_batches_tracked|gamma|beta|_l\d+)$")
_WRAPPED = r"(?P<key>(?:[\w.]{1,200}\.)?(?:module|_orig_mod|_fsdp_wrapped_module)\.[\w.]{1,200})"
_LOADING = r"error\(?s?\)? in loading state_dict for|_?incompatible_?keys\(|missing key\(?s?\)? in state_dict"

RULES: tuple[Rule, ...] = (
    Rule("wrapper-prefix", _LOADING, look=_prefixed),
    Rule("nothing-loaded", r"_?incompatible_?keys\(", look=_nothing),
    Rule("nothing-loaded", r"in loading state_dict for|missing key\(?s?\)? in state_dict", look=_whole_checkpoint),
    Rule("shape-mismatch-on-load", r"size mismatch for [^\s:]{1,300}: ?copying a param", look=_shape),
    Rule(
        "shape-mismatch-on-load",
        r"while copying the parameter named .{1,300} whose dimensions in the model",
        look=_shape,
    ),
    Rule(
        "shape-mismatch-on-load",
        r"size mismatch between saved (?:torch\.Size\()?(?P<file>[\[(][\d, ]{0,80}[\])])\)? and current: ?"
        r"(?:torch\.Size\()?(?P<model>[\[(][\d, ]{0,80}[\])])",
        look=_saved,
    ),
    Rule(
        "nothing-loaded",
        r"copying from a non-meta parameter in the checkpoint to a meta parameter in the current model",
        look=lambda error, match: Seen(
            0.8,
            "The model is on the device `meta`: it has shapes and no memory, so the values were not copied anywhere.",
            "Load with `model.load_state_dict(state, assign=True)`, or call `model.to_empty(device=...)` first.",
        ),
    ),
    Rule(
        "wrapper-prefix",
        rf"^(?:unexpected key )?[\"']{_WRAPPED}[\"']",
        types=("KeyError",),
        confidence=0.75,
        look=_key_error,
    ),
    Rule(
        "wrapper-prefix",
        rf"(?:missing key in checkpoint state_dict: |unexpected key [\"']){_WRAPPED}",
        confidence=0.75,
        look=_key_error,
    ),
    *FILES,
    *RESUME,
)

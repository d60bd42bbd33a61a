"""Texts that faults of the topic data leave."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.objects import named, parameters
from course.doctor.explain.rules import Rule, Seen

_RAGGED, _NONE, _PICKLE, _HANDLE = "ragged-batch", "none-sample", "unpicklable-worker-object", "shared-file-handle"
_COLLATING = (
    "default_collate",
    "collate",
    "collate_tensor_fn",
    "collate_numpy_array_fn",
    "collate_fn",
    "fetch",
    "__getitems__",
    "default_convert",
)


def _collating(error: ParsedError) -> bool:
    return (
        any(name in error.functions for name in _COLLATING)
        or "collate" in error.context
        or "DataLoader" in error.context
    )


def _sizes(error: ParsedError, match: re.Match[str]) -> Seen:
    found = re.search(r"got (\[[\d, ]*\]) at entry (\d+) and (\[[\d, ]*\]) at entry (\d+)", error.flat)
    return Seen(why=f"Sample {found[2]} has shape {found[1]}, sample {found[4]} has {found[3]}." if found else "")


def _if_collating(sure: float, unsure: float | None):
    def look(error: ParsedError, match: re.Match[str]) -> Seen | None:
        confidence = sure if _collating(error) or error.relation == "worker" else unsure
        return Seen(confidence) if confidence is not None else None

    return look


def _distribution(error: ParsedError, match: re.Match[str]) -> Seen:
    """A torch.distributions object of NaN: the input brought it, or the network's weights are NaN already."""
    broken = [name for name, parameter in parameters(error) if not parameter.isfinite().all()]
    if broken:
        return Seen(0.35, f"`{broken[0]}` holds NaN or inf: the training made it, not this input.")
    return Seen(0.75 if error.error is not None else 0.5)


def _transposed(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """A list in a sample comes out of default_collate as a list of columns."""
    for name in re.findall(rf"(\w+)\.{match[1]}\b", error.code):
        held = named(error, name)
        shapes = {tuple(getattr(each, "shape", ())) for each in held} if type(held) is list else {()}
        if len(shapes) == 1 and (shape := shapes.pop()):
            return Seen(
                0.93, f"`{name}` is a list of {len(held)} tensors of shape {shape}: the batch is the inner axis."
            )
    return Seen(0.7) if error.error is None and _collating(error) else None


def _none_type(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """``'NoneType' object is not subscriptable`` while a batch is put together."""
    inside = any(name in error.functions[:4] for name in _COLLATING)
    return Seen(0.85, "A sample of the batch is None.") if inside else None


def _pickled(error: ParsedError, match: re.Match[str]) -> Seen | None:
    what = re.search(
        (
            r"<function (.{1,60}?) at|local object '?([\w.<>]+)|(?:cannot"
            r"|can't) pickle '?([\w.]+)'? objects?|<class '([\w.]+)'"
        ),
        error.flat,
    )
    name = next(filter(None, what.groups()), None) if what else None
    why = f"What cannot be pickled: `{name}`." if name else ""
    files = " ".join(frame.file for frame in error.frames)
    if re.search(r"multiprocessing|popen_spawn|reduction|DataLoader|dataloader", files + error.all_code + error.around):
        return Seen(0.97, why)
    # torch.save and copy.deepcopy pickle as well, and have no workers.
    if re.search(r"serialization\.py|[/\\]copy\.py", files) or re.search(
        r"torch\.save\(|deepcopy\(|checkpoint", error.code
    ):
        return Seen(0.35, why)
    return Seen(0.85, why)


def _not_found(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if any("serialization" in frame.file for frame in error.frames):
        return None
    return Seen(
        why=(
            f"The new process looks for `{match[1]}` in `{match[2]}` and does not find it: it was "
            f"defined in a notebook cell or under the main guard."
        )
    )


def _worker_gone(error: ParsedError, match: re.Match[str]) -> Seen:
    """A worker that ended while it started; what it said is on the terminal, not in this error."""
    spawned = re.search(r"spawn|forkserver", error.context)
    guarded = "__main__" in error.context
    return Seen(
        0.85 if spawned and not guarded else 0.45,
        "A worker ended before it could answer; its own error is above this one, on the terminal.",
    )


def _in_worker(confidence: float):
    def look(error: ParsedError, match: re.Match[str]) -> Seen | None:
        where = (
            error.relation in ("worker", "wrapper")
            or "DataLoader worker" in error.flat
            or "DataLoader worker" in error.around
            or "_worker_loop" in error.functions
        )
        return Seen(confidence, "It is raised in a worker process.") if where else None

    return look


def _single(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"The input has size [{match[1]}]: one value a channel.")


def _length(error: ParsedError, match: re.Match[str]) -> Seen:
    return Seen(why=f"{match[2]} samples came where {match[1]} were announced.")


RULES: tuple[Rule, ...] = (
    Rule(_RAGGED, r"stack expects each tensor to be equal size", confidence=0.96, look=_sizes),
    Rule(_RAGGED, r"each element in list of batch should be of equal size", confidence=0.97),
    Rule(_RAGGED, r"Trying to resize storage that is not resizable", look=_if_collating(0.93, 0.7)),
    Rule(_RAGGED, r"should probably activate truncation and/or padding", confidence=0.9),
    Rule(_RAGGED, r"all input arrays must have the same shape", ("ValueError",), look=_if_collating(0.93, 0.6)),
    Rule(_RAGGED, r"Sizes of tensors must match except in dimension", look=_if_collating(0.9, None)),
    Rule(_RAGGED, r"expected sequence of length \d+ at dim \d+ \(got \d+\)", look=_if_collating(0.9, 0.5)),
    Rule(_RAGGED, r"requested array has an inhomogeneous shape", look=_if_collating(0.6, None)),
    Rule(
        "list-sample-transposed",
        r"'list' object has no attribute '(to|cuda|float|unsqueeze|device|requires_grad)'",
        ("AttributeError",),
        look=_transposed,
    ),
    Rule(
        "nonfinite-data",
        r"to satisfy the constraint .{1,200}but found invalid values.{0,80}\b(?:nan|inf)\b",
        ("ValueError",),
        look=_distribution,
    ),
    Rule(_NONE, r"batch must contain .{0,80}; found <class 'NoneType'>", confidence=0.98),
    Rule(_NONE, r"expected Tensor as element (\d+) in argument 0, but got NoneType", look=_if_collating(0.96, 0.7)),
    Rule(
        _NONE,
        (
            r"'?NoneType'? object (?:is not (?:subscriptable|iterable)|has no (?:len\(\)|attribute))"
            r"|object of type 'NoneType' has no len"
        ),
        look=_none_type,
    ),
    Rule(_NONE, r"stack expects a non-empty TensorList", look=_if_collating(0.6, None)),
    Rule(
        "batchnorm-single-sample",
        r"Expected more than 1 value per channel when training, got input size (?:torch\.Size\()?\[([\d, ]+)\]",
        confidence=0.97,
        look=_single,
    ),
    Rule("batchnorm-single-sample", r"Expected more than 1 value per channel when training", confidence=0.95),
    Rule(
        _PICKLE,
        (
            r"Can't pickle <|Can't (?:pickle|get) local object|(?:cannot"
            r"|can't) pickle '?[\w.]+'? objects?|h5py objects cannot be pickled|objects? (?:can ?not|can't) be pickled"
        ),
        look=_pickled,
    ),
    Rule(
        _PICKLE,
        r"Can't get attribute '(\w+)' on <module '([\w.]+)'(?! from '[^']{1,200}site-packages)",
        ("AttributeError",),
        confidence=0.8,
        look=_not_found,
    ),
    Rule(
        _PICKLE,
        r"Ran out of input",
        ("EOFError",),
        look=lambda error, match: (
            Seen(0.7)
            if re.search("spawn|forkserver", error.all_code + " ".join(frame.file for frame in error.frames))
            else None
        ),
    ),
    Rule(_HANDLE, r"MDB_BAD_RSLOT|Invalid reuse of reader locktable slot", confidence=0.85),
    Rule(
        _HANDLE,
        r"Bad (?:CRC-32 for file|magic number for file header)|File is not a zip file",
        ("BadZipFile", "BadZipfile"),
        look=_in_worker(0.85),
    ),
    Rule(
        _HANDLE,
        (
            r"(?:Can't|Unable to|can't) (?:read data|open object|synchronously|read dataset)"
            r"|wrong B-tree signature|inflate\(\) failed"
        ),
        look=_in_worker(0.85),
    ),
    Rule(
        _HANDLE,
        (
            r"database disk image is malformed|SQLite objects created in a thread can only be used"
            r"|bad parameter or other API misuse"
        ),
        look=_in_worker(0.8),
    ),
    Rule(
        _HANDLE,
        (
            r"I/O operation on closed file|seek of closed file|Bad file descriptor"
            r"|unexpected end of (?:file|data)|invalid load key"
        ),
        look=_in_worker(0.6),
    ),
    Rule(
        "iterable-not-sharded",
        r"Length of IterableDataset .{1,400}was reported to be (\d+).{0,80}but (\d+) samples have been fetched",
        confidence=0.95,
        look=_length,
    ),
    Rule(
        "missing-main-guard",
        r"attempt has been made to start a new process before the current process has finished its bootstrapping phase",
        confidence=0.98,
    ),
    Rule("missing-main-guard", r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly", look=_worker_gone),
    Rule(
        "list-sample-transposed",
        r"argument '\w+' \(position \d+\) must be Tensor, not list"
        r"|expected Tensor as element \d+ in argument \d+, but got list",
        confidence=0.6,
    ),
    Rule(
        "nonfinite-data",
        r"Input (?:X |y )?contains (?:NaN|infinity)|array must not contain infs or NaNs",
        ("ValueError",),
        confidence=0.75,
    ),
)

"""Texts of a second backward, and of tensors changed in place: which of the causes it was."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

TWICE, CARRIED, SAVED, STEPPED = (
    "backward-twice",
    "hidden-state-not-detached",
    "inplace-on-saved",
    "step-before-second-backward",
)
_STATE = (
    r"(?:h|hx|hn|hc|c|cx|hidden|state|states|carry|memory|mems|h_?[tn0]|c_?[tn0]|h_?prev|prev_?h"
    r"|prev_?state|\w*hidden\w*|\w*_state|state_\w+|\w*memory)"
)
_STATE_NAME = re.compile(rf"{_STATE}\Z", re.IGNORECASE)
_ASSIGNED_AND_GIVEN = re.compile(
    (
        rf"(?:^|;)[ \t]*(?:[\w.]+ "
        rf"?, ?)?\(?((?:self\.)?{_STATE})\b(?: ?, ?[\w.]+)*\)? ?= ?[\w.\[\]]+\([^\n;]{{0,120}}\b\1\b"
    ),
    re.IGNORECASE | re.MULTILINE,
)
_RECURRENT = frozenset(("RNNBase", "RNNCellBase", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"))
_RECURRENT_WORDS = re.compile(r"(?:nn\.)?(?:RNN|LSTM|GRU)(?:Cell)?\b|\b(?:rnn|lstm|gru|cell)\b", re.IGNORECASE)
# Ways in which a layer's weight is saved: itself, or the transposed view that a product used.
_OF_WEIGHT = re.compile(
    r"output \d+ of (?:AsStrided|T|Transpose|Permute|Numpy_T|View|Reshape|Unsafe\w*)(?:Backward\d*)?\b", re.IGNORECASE
)
_MODIFIED = (
    r"modified by "
    r"an inplace operation: "
    r"\[([\w.]+) \[([\d, ]*)\]\](, which is output \d+ of [\w:]+)?,? is at version (\d+); expected version (\d+)"
)


def _carries(error: ParsedError) -> str | None:
    """The name of a recurrent state that goes from one batch's graph into the next; None where none is seen."""
    name = _carried_name(error)
    if name is None:
        return None
    if not error.context:
        return None if {"detach", "detach_", "repackage_hidden"} & error.words else name
    last = re.escape(name.rpartition(".")[2])
    cut = rf"\b{last}\b[^\n;=]{{0,60}}=[^\n;]{{0,120}}(?:detach|repackage|\.data\b)|\b{last}(?:\[\d\])?\.detach_\("
    return None if re.search(cut, error.context) else name


def _carried_name(error: ParsedError) -> str | None:
    if found := _ASSIGNED_AND_GIVEN.search(error.context):
        return found[1]
    recurrent = any(_RECURRENT & set(bases) for frame in error.frames for _, _, bases in frame.modules)
    recurrent = recurrent or bool(_RECURRENT_WORDS.search(error.context))
    carried = [name for frame in error.frames for name in sorted(frame.carried)]
    states = [name for name in carried if _STATE_NAME.match(name)]
    if states:
        return states[0]
    live = [name for name in carried if (fact := error.fact(name)) and fact.made_by and fact.shape]
    return live[0] if recurrent and live else None


def _hidden_state(error: ParsedError, match: re.Match[str]) -> Seen | None:
    name = _carries(error)
    if name is None:
        # No source at hand: a recurrent layer is a hint, the plain second backward stays as likely.
        return None if error.context.count("\n") > 1 else Seen(0.55)
    fact = error.fact(name.rpartition(".")[2])
    seen = (
        f" of shape {fact.shape} has grad_fn {fact.made_by}"
        if fact and fact.made_by
        else " goes from one call into the next"
    )
    return Seen(
        0.96,
        f"`{name}`{seen}: the next batch's graph hangs on the last one's.",
        f"Before the next batch: `{name} = {name}.detach()` (each part of a tuple).",
    )


def _twice(error: ParsedError, match: re.Match[str]) -> Seen:
    if _carries(error) is not None:
        return Seen(0.5)
    calls = re.findall(r"([\w.]+)\.backward\(", error.context)
    again = [name for name in dict.fromkeys(calls) if calls.count(name) > 1]
    why = f"`{again[0]}.backward()` is called {calls.count(again[0])} times." if again else ""
    if not why and len(set(calls)) > 1:
        why = (
            f"{', '.join(f'`{name}`' for name in dict.fromkeys(calls))} share a part of their "
            f"graphs, which the first backward freed."
        )
    return Seen(0.9 if why else 0.8, why)


def _parameter(error: ParsedError, match: re.Match[str]) -> str | None:
    """A parameter in reach that is the changed tensor: same sizes (maybe transposed), same version."""
    sizes = tuple(int(size) for size in match[2].replace(" ", "").split(",") if size)
    for each in error.tensors:
        if each.role == "parameter" and each.version == int(match[4]) and each.shape in (sizes, sizes[::-1]):
            return each.name
    return None


def _by_step(error: ParsedError, match: re.Match[str]) -> Seen | None:
    parameter = _parameter(error, match)
    of = match[3] or ""
    steps = "step" in error.words
    if parameter:
        return Seen(
            0.97,
            f"The changed tensor is the parameter `{parameter}`, at version {match[4]}, saved at version {match[5]}.",
        )
    if _OF_WEIGHT.search(of):
        return Seen(0.92, f"The changed tensor [{match[2]}] is a layer's weight, as its product saved it.")
    if of:
        return None
    sizes = [size for size in match[2].split(",") if size.strip()]
    if error.context.count("\n") > 1 and not steps and error.tensors:
        return None
    return Seen(
        0.85 if (len(sizes) > 1 and int(match[5]) > 0) or steps else 0.5,
        f"The changed tensor [{match[2]}] is made by no operation: it is a leaf, such as a weight.",
    )


def _saved(error: ParsedError, match: re.Match[str]) -> Seen:
    of = match[3] or ""
    operation = re.search(r"output \d+ of ([\w:]+)", of)
    if _parameter(error, match):
        return Seen(0.4)
    if _OF_WEIGHT.search(of):
        return Seen(0.55)
    if operation:
        return Seen(
            0.96,
            (
                f"The tensor [{match[2]}], the result of `{operation[1]}`, was changed "
                f"{int(match[4]) - int(match[5])} times after backward's copy was noted."
            ),
        )
    return Seen(
        0.75,
        f"A tensor of sizes [{match[2]}] was at version {match[5]} when it was saved and is at version {match[4]} now.",
    )


def _carried_step(error: ParsedError, match: re.Match[str]) -> Seen | None:
    """retain_graph=True over a recurrent net's batches: the last batch's graph meets weights that a step changed."""
    name = _carries(error)
    if name is None or "retain_graph" not in error.words:
        return None
    return Seen(
        0.98, f"`{name}` goes from one batch into the next, so backward goes through weights that a step has changed."
    )


_AGAIN = (
    r"Trying to backward through the graph a second time|(?:buffers"
    r"|saved intermediate (?:results|values)) have already been freed|access saved (?:tensors"
    r"|variables) after they have already been freed"
)

RULES: tuple[Rule, ...] = (
    Rule(CARRIED, _AGAIN, look=_hidden_state),
    Rule(TWICE, _AGAIN, look=_twice),
    Rule(CARRIED, _MODIFIED, look=_carried_step),
    Rule(STEPPED, _MODIFIED, look=_by_step),
    Rule(SAVED, _MODIFIED, look=_saved),
    Rule(
        SAVED,
        r"variables needed for gradient computation has been modified by an inplace operation(?!: \[)",
        confidence=0.8,
    ),
    Rule(
        SAVED,
        r"is a view and (?:is being|its base or another view of its base has been) modified inplace",
        confidence=0.88,
    ),
    Rule(SAVED, r"modified inplace\. This view (?:is|was)", confidence=0.8),
    Rule(
        SAVED,
        r"view was created in no_grad mode .{0,40}is being modified inplace with grad mode enabled",
        confidence=0.6,
    ),
)

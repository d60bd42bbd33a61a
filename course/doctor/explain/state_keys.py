"""Reads what `load_state_dict` says: which names are missing, which are unexpected, and how the two are related."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MISSING = re.compile(
    r"missing[ _]keys?(?:\(s\))?(?: in state_dict)?[:=] ?(?P<keys>[\[{(]?.{0,12000}?)(?=unexpected[ _]key|$)", re.I
)
_UNEXPECTED = re.compile(
    r"unexpected[ _]keys?(?:\(s\))?(?: in state_dict)?[:=] ?"
    r"(?P<keys>[\[{(]?.{0,12000}?)(?=missing[ _]key|size mismatch|while copying|$)",
    re.I,
)
_QUOTED = re.compile(r"[\"']([^\"'\s,]{1,300})[\"']")
# Names that wrappers give to the module inside, in the order in which they are explained.
WRAPPERS = {
    "module": "DataParallel, DistributedDataParallel and AveragedModel",
    "_orig_mod": "torch.compile",
    "_fsdp_wrapped_module": "FullyShardedDataParallel",
    "_checkpoint_wrapped_module": "activation checkpointing",
    "_forward_module": "Lightning Fabric",
}
# Entries that a wrapper adds beside the model's own.
_OWN = frozenset({"n_averaged"})


@dataclass(frozen=True)
class StateKeys:
    """The names in one message: missing in the file, unexpected in it. Long lists may be cut off."""

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    @property
    def wrappers(self) -> tuple[str, ...]:
        """Wrapper names in either list."""
        parts = {part for key in (*self.missing, *self.unexpected) for part in key.split(".")}
        return tuple(name for name in WRAPPERS if name in parts)

    def removed(self) -> tuple[str, str] | None:
        """("file" or "model", prefix): who has a prefix that makes the two lists differ; None where none does."""
        missing = [key for key in self.missing if key not in _OWN]
        unexpected = [key for key in self.unexpected if key not in _OWN]
        if not missing or not unexpected:
            return None
        for side, longer, shorter in (("file", unexpected, missing), ("model", missing, unexpected)):
            prefix = _prefix(longer, set(shorter))
            if prefix:
                return side, prefix
        return None


def state_keys(flat: str) -> StateKeys:
    """The missing and unexpected names in a message on one line."""
    missing, unexpected = _MISSING.search(flat), _UNEXPECTED.search(flat)
    return StateKeys(
        tuple(_QUOTED.findall(missing["keys"])) if missing else (),
        tuple(_QUOTED.findall(unexpected["keys"])) if unexpected else (),
    )


def _prefix(longer: list[str], shorter: set[str]) -> str | None:
    """What stands in front of (or, for a wrapper's name, inside of) the longer names; most of them must agree."""
    heads = {
        key[: -len(short)] for key in longer[:1] for short in shorter if key != short and key.endswith("." + short)
    }
    for head in sorted(heads, key=len):
        if _share(longer, shorter, lambda key, head=head: key.removeprefix(head) if key.startswith(head) else None):
            return head
    for name in WRAPPERS:
        if _share(longer, shorter, lambda key, name=name: _without(key, name)):
            return f"{name}."
    if any(name in key.split(".") for key in longer for name in WRAPPERS) and _share(longer, shorter, _bare):
        return next(f"{name}." for name in WRAPPERS if any(name in key.split(".") for key in longer))
    return None


def _share(longer: list[str], shorter: set[str], strip) -> bool:
    fits = sum(strip(key) in shorter for key in longer)
    # Lists of equal length must agree to a large part; of a list that was cut off there is less to see.
    return fits > 0 and fits >= 0.6 * min(len(longer), len(shorter))


def _without(key: str, name: str) -> str | None:
    parts = key.split(".")
    return ".".join(part for part in parts if part != name) if name in parts else None


def _bare(key: str) -> str:
    return ".".join(part for part in key.split(".") if part not in WRAPPERS)

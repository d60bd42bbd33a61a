"""The fault catalogue: what goes wrong in PyTorch code, why, and what to do, one id each.

Exercises, pitfalls, the error explainer and the training doctor name faults by these ids.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from course.faults import (
    autograd,
    checkpoints,
    compilation,
    data,
    distributed,
    environment,
    export,
    losses,
    mixed_precision,
    modules,
    numpy_bridge,
    quantization,
    speed,
    tensors,
    training,
)
from course.faults.fault import Fault, UnknownFault

__all__ = ["FAULTS", "Fault", "UnknownFault", "fault"]

# In the order of the lessons that teach them.
_TOPICS = (
    environment,
    tensors,
    numpy_bridge,
    autograd,
    modules,
    data,
    losses,
    training,
    checkpoints,
    mixed_precision,
    compilation,
    speed,
    distributed,
    export,
    quantization,
)


def _by_id(faults: Iterable[Fault]) -> Mapping[str, Fault]:
    catalogue: dict[str, Fault] = {}
    for entry in faults:
        if entry.id in catalogue:
            raise ValueError(f"the fault id {entry.id!r} is used twice; every fault needs an id of its own")
        catalogue[entry.id] = entry
    return MappingProxyType(catalogue)


FAULTS: Mapping[str, Fault] = _by_id(entry for topic in _TOPICS for entry in topic.FAULTS)


def fault(fault_id: str) -> Fault:
    """The catalogue's entry for an id; raises UnknownFault, which names close ids."""
    if isinstance(fault_id, str) and fault_id in FAULTS:
        return FAULTS[fault_id]
    close = difflib.get_close_matches(str(fault_id), FAULTS, n=3)
    advice = f"Close ids: {', '.join(close)}." if close else "course.faults.FAULTS lists them all."
    raise UnknownFault(f"no fault has the id {fault_id!r}. {advice}")

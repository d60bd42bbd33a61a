"""What a training step or an evaluation does, noted call by call while it runs.

Recorder is what the patches write to, Recording what families of faults read. The kinds of events, with their fields:

==================  ==================================================================================================
every event         ``kind``, ``index`` (its place), ``phase`` ("step" or "evaluate"), ``call`` (number of the step),
                    ``within`` (kinds of the events around it, outermost first), ``grad_enabled``,
                    ``autocast`` (dtype or None)
call                one call of the step or of the evaluation: ``returned``, ``error``, ``seconds``, ``ended``
forward             ``module``, ``name``, ``root`` (not inside another module, and no loss), ``training``, ``inputs``
                    and ``outputs`` (lists of Seen), ``error``, ``arguments`` (args and kwargs of a root's first call)
loss                ``name`` ("cross_entropy"), ``input`` and ``target`` (detached tensors, None where they are large),
                    ``input_seen``, ``target_seen`` (Seen or None), ``options`` (other arguments by name), ``value``
                    (float or None), ``origin`` (backward nodes that made the input, newest first), ``error``
dropout             ``name``, ``p``, ``training`` (as passed), ``module`` and ``module_name`` (the innermost around it)
mode                ``module``, ``name``, ``training``: train() or eval() was called on it
read                ``name`` ("item", "numpy", "tolist", "detach", "float"), ``graph`` (whether the tensor had a graph)
zero_grad           ``optimizer`` or ``module``, ``set_to_none``
backward            ``root`` (Seen), ``retain_graph``, ``create_graph``, ``before`` and ``after`` (gradient norms by
                    parameter name, None where there is no gradient), ``error``
grad                torch.autograd.grad: ``outputs``, ``inputs``
clip                ``name``, ``parameters``, ``bound``, ``norm`` (returned)
optimizer_step      ``optimizer``, ``rates`` (of its groups), ``gradients`` (norms by name before it), ``moved``
                    (largest change by name), ``error``
scheduler_step      ``scheduler``, ``before`` and ``after`` (rates), ``metric``
scale, unscale,     ``scaler``, ``optimizer`` (not for scale and update), ``enabled``, ``scale``
scaler_step,
scaler_update
state_dict          ``of``, ``alive()`` (whether the returned mapping still exists), ``aliased``
load_state_dict     ``of``, ``strict``, ``missing``, ``unexpected``, ``matched``
==================  ==================================================================================================
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor


class OutOfTime(BaseException):
    """The budget ran out inside the user's code. Not an Exception, so that their `except Exception` lets it pass."""


class Event(SimpleNamespace):
    """One thing that happened; `kind` says what, the other fields are in this module's table."""

    kind: str
    index: int
    phase: str
    call: int
    within: tuple[str, ...]

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or the default where this event has none of that name."""
        return getattr(self, name, default)


@dataclass(frozen=True)
class Seen:
    """What is kept of a tensor: enough to talk about it, without keeping its graph or memory."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    requires_grad: bool
    origin: tuple[str, ...]
    identity: int
    finite: bool | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, tensor: Tensor, *, numbers: bool = False) -> Seen:
        """Look at a tensor; numbers: also at its values (a pass over its memory)."""
        finite = low = high = None
        if numbers and tensor.numel() and tensor.layout == torch.strided and tensor.device.type != "meta":
            with contextlib.suppress(Exception), torch.no_grad():
                # One pass: NaN and infinities show in the extremes.
                low, high = (float(value) for value in torch.aminmax(tensor.detach()))
                finite = math.isfinite(low) and math.isfinite(high)
        return cls(
            tuple(tensor.shape),
            tensor.dtype,
            str(tensor.device),
            tensor.requires_grad,
            origin(tensor),
            id(tensor),
            finite,
            low,
            high,
        )


def origin(tensor: Tensor, depth: int = 8) -> tuple[str, ...]:
    """Names of the backward nodes that made a tensor, newest first, following the first input of each."""
    names, node = [], tensor.grad_fn
    while node is not None and len(names) < depth:
        names.append(type(node).__name__)
        node = next((parent for parent, _ in node.next_functions if parent is not None), None)
    return tuple(names)


@dataclass
class Recording:
    """What was noted while the step or the evaluation ran.

    events: in their order. error: what the user's code raised. calls: how many were begun. complete: whether none was
    cut short by the budget. shortened: whether loaders were cut to their first batches to stay within the budget.
    moved: largest absolute change by parameter name over all calls; buffers_moved the same for buffers. modes_before,
    modes_after: `training` of each module by name ("" is the model). warnings: (category, message) of Python.
    kept_graphs: (path, number of nodes) of tensors with a graph that were left in something that outlives the calls.
    printed: what was written to stdout and stderr.
    """

    events: list[Event] = field(default_factory=list)
    error: BaseException | None = None
    calls: int = 0
    complete: bool = True
    shortened: bool = False
    seconds: float = 0.0
    moved: dict[str, float] = field(default_factory=dict)
    buffers_moved: dict[str, float] = field(default_factory=dict)
    modes_before: dict[str, bool] = field(default_factory=dict)
    modes_after: dict[str, bool] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    kept_graphs: list[tuple[str, int]] = field(default_factory=list)
    printed: str = ""

    def of(self, *kinds: str, call: int | None = None) -> list[Event]:
        """The events of some kinds, of one call or of all."""
        return [event for event in self.events if event.kind in kinds and call in (None, event.call)]

    @property
    def returned(self) -> list[Any]:
        """What each call returned: a float for a scalar, the value's type name for anything else."""
        return [event.returned for event in self.of("call") if event.get("error") is None]


class Recorder:
    """What the patches write to while the user's code runs.

    deadline: the time (of time.perf_counter) after which the next event raises OutOfTime. first_seen and name_of come
    from the setup; `parameters` maps names to the parameters that are known.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        deadline: float,
        name_of: Callable[[Any], str],
        first_seen: Callable[[Any], None],
        parameters: dict[str, Tensor],
    ) -> None:
        self.recording = recording
        self.deadline = deadline
        self.name_of = name_of
        self.parameters = parameters
        self.phase = "step"
        self.call = 0
        self.modules: list[Any] = []
        self._first_seen = first_seen
        self._within: list[str] = []
        self._thread = threading.get_ident()

    def here(self) -> bool:
        """Whether this thread is the one that is watched; loaders and other training may use more."""
        return threading.get_ident() == self._thread

    def first_seen(self, thing: Any) -> None:
        """To be called before an object that perhaps was not passed changes: it is kept, and put back."""
        if self.here():
            self._first_seen(thing)

    def check_time(self) -> None:
        if time.perf_counter() > self.deadline:
            raise OutOfTime

    def record(self, kind: str, **data: Any) -> Event:
        """Note an event; returns it, so that what is known only later can be added."""
        event = Event(
            kind=kind,
            index=len(self.recording.events),
            phase=self.phase,
            call=self.call,
            within=tuple(self._within),
            grad_enabled=torch.is_grad_enabled(),
            autocast=_autocast(),
            **data,
        )
        if self.here():
            self.check_time()
            self.recording.events.append(event)
        return event

    @contextlib.contextmanager
    def inside(self, kind: str, **data: Any) -> Iterator[Event]:
        """Note an event that has others in it."""
        event = self.record(kind, **data)
        if not self.here():
            yield event
            return
        self._within.append(kind)
        try:
            yield event
        finally:
            self._within.pop()


def _autocast() -> torch.dtype | None:
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    return None

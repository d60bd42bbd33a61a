"""The training setup under examination, as families of faults see it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor import loading, recordings, running, tracing
from course.doctor.clock import Clock
from course.doctor.interrupts import Guard
from course.doctor.keep import Keeper
from course.doctor.names import Names, unwrapped

if TYPE_CHECKING:
    from course.doctor.report import Finding
    from course.doctor.watch import Recording

_MOST_BATCHES = 8
_MOST_BATCH_BYTES = 64 * 2**20
_SHARDED = ("DTensor", "FSDPModule", "FullyShardedDataParallel")


@dataclass
class Setup:
    """What was given to examine(), and what can be done with it.

    model: as given (perhaps compiled or wrapped); `raw_model` is the module inside. optimizers, schedulers: tuples,
    perhaps empty. Anything else is None where it was not given. A family is run with the setup in its original state
    and has to use `scratch()` around whatever changes anything.
    """

    model: nn.Module | None = None
    loader: Iterable[Any] | None = None
    loss_fn: Callable[[Any, Any], Tensor] | None = None
    optimizers: tuple[torch.optim.Optimizer, ...] = ()
    schedulers: tuple[Any, ...] = ()
    scaler: Any = None
    step: Callable[..., Any] | None = None
    evaluate: Callable[[], Any] | None = None
    val_loader: Iterable[Any] | None = None
    clock: Clock = field(default_factory=lambda: Clock(10.0))
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_examined: list[str] = field(default_factory=list)
    errors: list[tuple[str, BaseException]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.guard = Guard()
        self._keeper = Keeper(self._given, self._referred)
        self._states = {id(state.tensor): state for state in self._keeper.tensors}
        if self._keeper.not_kept:
            self.skip("changes to " + ", ".join(self._keeper.not_kept), "too much to copy, so it is not put back")
        self._names = Names(self.model, [(part.path, part.thing) for part in self._keeper.parts])

    # --- findings -------------------------------------------------------------------------------------------------

    def add(self, finding: Finding) -> None:
        """Note a finding; a family may as well yield it."""
        self.findings.append(finding)

    def note(self, text: str) -> None:
        """Something seen that is no fault."""
        if text not in self.notes:
            self.notes.append(text)

    def skip(self, what: str, reason: str) -> None:
        """Something that could not be examined, and why."""
        line = f"{what}: {reason}"
        if line not in self.not_examined:
            self.not_examined.append(line)

    # --- state ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scratch(self, *, thorough: bool = False) -> Iterator[None]:
        """Everything changed inside the block is put back after it. Gradients are enabled in it.

        thorough: also writes through `.data` into large models; at the end of the examination they are put back anyway.
        """
        try:
            with self.guard.entered(tracing.uncompiled(), torch.inference_mode(False), torch.enable_grad()):
                yield
        finally:
            self.restore(thorough=thorough)

    def restore(self, *, thorough: bool = True) -> None:
        """Put everything back now."""
        for failure in self._keeper.restore(thorough=thorough):
            self.skip("state that could not be put back", failure)

    def keep_also(self, thing: Any) -> None:
        """Keep something that was not given, before it changes; to be called inside scratch()."""
        path = type(thing).__name__
        before = len(self._keeper.tensors)
        self._keeper.also(path, thing)
        self._states.update((id(state.tensor), state) for state in self._keeper.tensors[before:])
        if isinstance(thing, nn.Module):
            self._names.add(path, thing)

    def knows(self, thing: Any) -> bool:
        """Whether this object was there when the examination began."""
        return self._keeper.has(thing)

    def changes(self, named: dict[str, Tensor]) -> dict[str, float]:
        """By name: the largest absolute difference of a tensor now and at the beginning (inside scratch())."""
        found = {}
        for name, tensor in named.items():
            state = self._states.get(id(tensor))
            if state is not None and not state.lazy and state.value is not None:
                found[name] = running.largest_change(state.value, tensor)
        return found

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def raw_model(self) -> nn.Module | None:
        """The model without torch.compile, DistributedDataParallel and DataParallel around it."""
        return unwrapped(self.model) if self.model is not None else None

    @property
    def device(self) -> torch.device:
        """Where the model's first parameter is; the CPU where there is none."""
        tensors = () if self.model is None else (*self.model.parameters(), *self.model.buffers())
        return next((tensor.device for tensor in tensors), torch.device("cpu"))

    @property
    def standard(self) -> bool:
        """Whether model and loss_fn are given and no step: batches are (inputs, target)."""
        return self.model is not None and self.loss_fn is not None and self.step is None

    @cached_property
    def batches(self) -> list[Any]:
        """The first batches of the loader (up to 8, as memory allows), read in this process; [] where none can be."""
        return self._read("loader", self.loader)

    @cached_property
    def val_batches(self) -> list[Any]:
        """The same of val_loader."""
        return self._read("val_loader", self.val_loader)

    def pair(self, batch: Any) -> tuple[Any, Any]:
        """(inputs, target) of a batch on the model's device; raises TypeError where it is no pair."""
        if not isinstance(batch, Sequence) or isinstance(batch, str) or len(batch) != 2:
            size = f" of {len(batch)}" if isinstance(batch, (Sequence, dict)) else ""
            raise TypeError(
                f"with loss_fn a batch has to be (inputs, target), here it is a {type(batch).__name__}{size}. "
                "Give your own training step as step(batch) instead."
            )
        return self.to_device(batch[0]), self.to_device(batch[1])

    def to_device(self, value: Any) -> Any:
        """Tensors inside tuples, lists and mappings on the model's device."""
        device = self.device
        return loading.mapped(lambda tensor: tensor if tensor.device == device else tensor.to(device), value)

    def train_step(self, batch: Any) -> Tensor | None:
        """One step of training, the user's or the standard one; returns the loss where it is a scalar tensor."""
        if self.step is None:
            return running.standard_step(self, batch)
        result = self.step(batch)
        return result if isinstance(result, Tensor) and result.numel() == 1 else None

    @property
    def roots(self) -> list[tuple[str, Any]]:
        """(path, object) of everything that was given."""
        return self._given + self._referred

    def reached(self, kind: type | tuple[type, ...]) -> list[tuple[str, Any]]:
        """(path, object) of everything of a type that model, step, evaluate, loss_fn and loaders refer to."""
        return [(part.path, part.thing) for part in self._keeper.parts if isinstance(part.thing, kind)]

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Every module known by name: "" and "layer.0" of the model, "netG.0" of one that step refers to as netG."""
        return self._names.all(nn.Module)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """Every parameter known, of the model and of modules that step reaches, by name; none twice."""
        return self._names.all(nn.Parameter)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """Every buffer known, by name."""
        return self._names.all(Tensor)

    def name_of(self, thing: Any) -> str:
        """The name of a parameter or module, "" for the model itself, "?" for an unknown one."""
        return self._names.of(thing)

    # --- recordings -------------------------------------------------------------------------------------------------

    @cached_property
    def training(self) -> Recording | None:
        """Some steps of training (user's or standard), recorded and put back; None where none can be run.

        3 at least and 8 where time allows; up to 32 until two steps of an optimizer were seen.
        """
        return recordings.training(self)

    @cached_property
    def evaluation(self) -> Recording | None:
        """evaluate(), recorded and put back; None where it is not given. Starts with the model in training mode."""
        return recordings.evaluation(self)

    @cached_property
    def after_evaluation(self) -> Recording | None:
        """One step, evaluate(), two steps, recorded and put back; None where step or evaluate is missing."""
        return recordings.after_evaluation(self)

    def run_traced(self) -> BaseException | None:
        """What one step, or else evaluate(), raises when torch.compile traces it; None where it raises nothing."""
        return recordings.traced_error(self)

    @property
    def sharded(self) -> bool:
        """Whether parameters are spread over processes; the engine that does it has a state that cannot be kept."""
        return any(type(part.thing).__name__ in _SHARDED for part in self._keeper.parts) or any(
            cls.__name__ in _SHARDED for module in self.modules.values() for cls in type(module).__mro__
        )

    @property
    def untraced(self) -> bool:
        """Whether torch.compile was used on something here, and none of it has been called yet."""
        codes = tracing.compiled_codes(part.thing for part in self._keeper.parts)
        return bool(codes) and not any(tracing.entries(code) for code in codes)

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _given(self) -> list[tuple[str, Any]]:
        named = [("model", self.model)]
        for name, things in (("optimizer", self.optimizers), ("scheduler", self.schedulers)):
            named += [(name if len(things) == 1 else f"{name}s[{i}]", thing) for i, thing in enumerate(things)]
        return [(name, thing) for name, thing in (*named, ("scaler", self.scaler)) if thing is not None]

    @property
    def _referred(self) -> list[tuple[str, Any]]:
        names = ("step", "evaluate", "loss_fn", "loader", "val_loader")
        return [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]

    def _read(self, name: str, loader: Any) -> list[Any]:
        if loader is None:
            return []
        if loading.read_once(loader):
            self.skip(name, "an iterator would be used up by reading it; give the DataLoader or list that it came from")
            return []
        most = self.clock.spent() + self.clock.budget * 0.2
        try:
            with self.scratch(), self.guard.entered(running.quiet(), loading.calm_loaders(lambda: None)):
                batches = loading.first_batches(
                    loader, _MOST_BATCHES, _MOST_BATCH_BYTES, lambda: self.clock.spent() < most
                )
        except (Exception, SystemExit) as error:
            self.errors.append((name, error))
            return []
        if not batches:
            self.skip(name, "it gave no batch")
        return batches

"""The part of the dynamic hooks that notes schedulers, scalers and the state of modules."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor.loss_graph import Graph

if TYPE_CHECKING:
    from course.doctor.watch import Event


class StateHooks:
    """Wrappers around schedulers, scalers and state_dict(); the class that inherits knows the parameters."""

    recorder: Any
    names: dict[int, str]
    depth: dict[str, int]
    scaled: dict[int, Event]
    states: list[tuple[Event, list[weakref.ref[Any]], nn.Module, dict[str, int]]]
    _meet: Callable[..., dict[str, Tensor]]
    _norms: Callable[..., dict[str, float | None]]

    # --- schedulers and scalers ---------------------------------------------------------------------------------

    def scheduler(self, original: Callable[..., Any], scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        if self.depth["scheduler"] or not hasattr(scheduler, "optimizer"):
            return original(scheduler, *args, **kwargs)
        self.recorder.first_seen(scheduler)
        self.depth["scheduler"] += 1
        event = self.recorder.record(
            "scheduler_step",
            scheduler=scheduler,
            optimizer=scheduler.optimizer,
            before=rates_of(scheduler),
            after=None,
            metric=args[0] if args else next(iter(kwargs.values()), None),
        )
        try:
            return original(scheduler, *args, **kwargs)
        finally:
            self.depth["scheduler"] -= 1
            event.after = rates_of(scheduler)

    def scale(self, original: Callable[..., Any], scaler: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        self.recorder.first_seen(scaler)
        event = self.recorder.record(
            "scale",
            scaler=scaler,
            enabled=scaler.is_enabled(),
            scale=None,
            graph=Graph.of([outputs], self.names) if isinstance(outputs, Tensor) else None,
            loss=float(outputs.detach()) if isinstance(outputs, Tensor) and outputs.numel() == 1 else None,
        )
        result = original(scaler, outputs, *args, **kwargs)
        event.scale = scaler.get_scale()
        if scaler.is_enabled() and isinstance(result, Tensor):
            self.scaled = {id(result): event}
        return result

    def scaler(self, name: str, original: Callable[..., Any], scaler: Any, *args: Any, **kwargs: Any) -> Any:
        self.recorder.first_seen(scaler)
        optimizer = args[0] if args and name != "update" else kwargs.get("optimizer")
        parameters = self._meet(optimizer) if isinstance(optimizer, torch.optim.Optimizer) else {}
        kind = {"unscale_": "unscale", "step": "scaler_step", "update": "scaler_update"}[name]
        event = self.recorder.record(
            kind,
            scaler=scaler,
            optimizer=optimizer,
            enabled=scaler.is_enabled(),
            scale=scaler.get_scale(),
            own=self.depth["scaler"] > 0,  # called by scaler.step itself
            gradients=self._norms(parameters),
            error=None,
        )
        self.depth["scaler"] += 1
        try:
            return original(scaler, *args, **kwargs)
        except Exception as error:
            event.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            self.depth["scaler"] -= 1

    def old_name(self, name: str, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.recorder.record("old_name", name=f"torch.cuda.amp.{name}")
        return original(*args, **kwargs)

    # --- state ------------------------------------------------------------------------------------------------

    def state_dict(self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        self.depth["state_dict"] += 1
        holders = holders_of(module) if self.depth["state_dict"] == 1 else {}
        try:
            state = original(module, *args, **kwargs)
        finally:
            self.depth["state_dict"] -= 1
        if self.depth["state_dict"] == 0 and isinstance(state, dict):
            self.recorder.first_seen(module)
            own = {t.data_ptr() for t in (*module.parameters(), *module.buffers()) if t.numel()}
            tensors = [t for t in state.values() if isinstance(t, Tensor) and not isinstance(t, nn.Parameter)]
            references = [weakref.ref(t) for t in tensors if t.numel() and t.data_ptr() in own]
            event = self.recorder.record("state_dict", of=module, aliased=len(references), kept=0)
            self.states.append((event, references, module, holders))
        return state

    def load_state_dict(
        self, original: Callable[..., Any], module: nn.Module, state: Any, *args: Any, **kw: Any
    ) -> Any:
        self.recorder.first_seen(module)
        own = set(module.state_dict()) if self.depth["state_dict"] == 0 else set()
        keys = set(state) if hasattr(state, "keys") else set()
        event = self.recorder.record(
            "load_state_dict",
            of=module,
            strict=args[0] if args else kw.get("strict", True),
            missing=sorted(own - keys),
            unexpected=sorted(keys - own),
            matched=len(own & keys),
            own=len(own),
            error=None,
        )
        try:
            return original(module, state, *args, **kw)
        except Exception as error:
            event.error = f"{type(error).__name__}: {error}"
            raise


def holders_of(module: nn.Module) -> dict[str, int]:
    """How many tensors share the memory of each parameter; {} where this torch does not tell."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    if count is None:
        return {}
    return {
        name: count(p.untyped_storage()._cdata)
        for name, p in module.named_parameters()
        if type(p) is nn.Parameter and p.layout == torch.strided and p.numel()
    }


def count_alive(references: Iterable[weakref.ref[Any]]) -> int:
    return sum(reference() is not None for reference in references)


def number_of(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return math.nan


def rates_of(scheduler: Any) -> list[float]:
    return [number_of(group.get("lr", 0.0)) for group in scheduler.optimizer.param_groups]

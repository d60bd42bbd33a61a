"""State that is kept, saved and loaded while step and evaluate run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

from course.doctor.code_names import names_in
from course.doctor.report import Finding
from course.doctor.setup import Setup
from course.doctor.watch import Recording

_COUNTED = 5  # steps of a schedule, from which on a run is a resumed one


def examine(setup: Setup) -> Iterator[Finding]:
    """state-dict-aliased, nothing-loaded, optimizer-groups-mismatch, optimizer-not-restored."""
    recordings = [r for r in (setup.training, setup.evaluation, setup.after_evaluation) if r is not None]
    yield from nothing_loaded([e for r in recordings for e in r.of("load_state_dict")])
    yield from aliased(setup, recordings)
    for optimizer in setup.optimizers:
        yield from other_shapes(optimizer)
    yield from without_state(setup)


def nothing_loaded(events: list[Any]) -> Iterator[Finding]:
    """load_state_dict(strict=False) that met no name of the model."""
    for event in events:
        if event.strict or event.error or event.matched or not event.own:
            continue
        if not event.unexpected:
            continue  # an empty state: nothing was to be loaded
        yield Finding(
            "nothing-loaded",
            f"load_state_dict(strict=False) on {type(event.of).__name__} matched 0 of {event.own} names: the model has "
            f"{_some(event.missing)}, the state has {_some(event.unexpected)}. The model kept its weights.",
        )
        return


def aliased(setup: Setup, recordings: list[Recording]) -> Iterator[Finding]:
    """A state_dict() that is kept beyond the call and shares memory with weights that go on changing."""
    for recording in recordings:
        for event in recording.of("state_dict"):
            if event.kept and recording.error is None:
                where = f"A state_dict() taken in {event.phase}() is still there afterwards"
                yield _alias(type(event.of).__name__, event.kept, where)
                return
    for path, state in kept_states(setup):
        yield _alias(type(setup.raw_model).__name__, len(state), f"{path} holds a state_dict()")
        return


def _alias(model: str, count: int, where: str) -> Finding:
    return Finding(
        "state-dict-aliased",
        f"{where}, and {count} of its tensors lie in the same memory as the live weights of {model}: every later step "
        "changes them too.",
        severity="warning",
    )


def kept_states(setup: Setup) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """(path, mapping) of what looks like a model's state_dict(), is referred to by step or evaluate, and is no copy."""
    models = [module for name, module in setup.modules.items() if "." not in name]
    if not models or "functional_call" in names_in(setup.step) | names_in(setup.evaluate):
        return
    memory: dict[int, set[int]] = {}
    for path, thing in setup.reached(dict):
        state = {k: v for k, v in thing.items() if isinstance(k, str) and isinstance(v, Tensor)}
        if not state or len(state) < len(thing) or any(isinstance(v, nn.Parameter) for v in state.values()):
            continue
        for model in models:
            own = {name for name, _ in model.named_parameters()}
            if not own or not own <= set(state):
                continue
            if id(model) not in memory:
                memory[id(model)] = {p.data_ptr() for p in model.parameters() if p.numel()}
            if all(state[name].data_ptr() in memory[id(model)] for name in own if state[name].numel()):
                yield path, state
                break


def other_shapes(optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """State of an optimizer that belongs to parameters of other shapes."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            for name in ("exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum"):
                value = state.get(name)
                if isinstance(value, Tensor) and value.dim() and value.shape != parameter.shape:
                    yield Finding(
                        "optimizer-groups-mismatch",
                        f"{type(optimizer).__name__} holds {name} of shape {tuple(value.shape)} for a parameter of "
                        f"shape {tuple(parameter.shape)}: its state belongs to other parameters, or to another order.",
                    )
                    return


def without_state(setup: Setup) -> Iterator[Finding]:
    """A schedule that has counted steps of an optimizer which has made none."""
    for scheduler in [*setup.schedulers, *(thing for _, thing in setup.reached(lr_scheduler.LRScheduler))]:
        optimizer = scheduler.optimizer
        keeps = not isinstance(optimizer, torch.optim.SGD) or optimizer.defaults["momentum"]
        if scheduler.last_epoch >= _COUNTED and not optimizer.state and keeps:
            yield Finding(
                "optimizer-not-restored",
                f"{type(scheduler).__name__} has counted {scheduler.last_epoch} steps, and {type(optimizer).__name__} "
                "has no state of any parameter: its moments start at zero in the middle of the schedule.",
                severity="warning",
            )
            return


def _some(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names[:3]) + (", ..." if len(names) > 3 else "") if names else "none"

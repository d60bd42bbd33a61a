"""Registration: what modules hold, what is made while they run, and what the optimizer knows of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor import registration, tour
from course.doctor.loss_values import size
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup


def examine(setup: Setup) -> Iterator[Finding]:
    """Registration, layers made in forward, sharing, freezing, and what the optimizers hold."""
    tops = roots(setup)
    if not tops:
        return
    run = Run(setup, tops)
    built = list(_built_in_forward(setup, run))
    yield from built
    loose: set[int] = set()
    for name, top in tops:
        yield from _unregistered(setup, run, name, top, [other for _, other in tops if other is not top], loose, built)
        yield from _repeated(setup, name, top)
        yield from _freeze_typo(name, top)
    if not built:
        yield from _coverage(setup, run, loose)


def roots(setup: Setup) -> list[tuple[str, nn.Module]]:
    """(name, module) of the model, or of the modules that the step uses where none is given, outermost only."""
    if setup.raw_model is not None:
        return [("", setup.raw_model)]
    found = [(name, thing) for name, thing in setup.reached(nn.Module) if isinstance(thing, nn.Module)]
    inside = {id(child) for _, top in found for child in top.modules() if child is not top}
    return [(name, top) for name, top in found if id(top) not in inside]


class Run:
    """What the recorded training tells of modules and leaves; empty where nothing could be run.

    called: by id, modules that were called and the numbers of the calls. leaves: by id, tensors that got gradients and
    the numbers of the calls. ran: whether a backward pass was seen.
    """

    def __init__(self, setup: Setup, tops: list[tuple[str, nn.Module]]) -> None:
        recording = setup.training
        self.called: dict[int, tuple[Any, set[int]]] = {}
        self.leaves: dict[int, tuple[Tensor, set[int]]] = {}
        self.calls: set[int] = set()
        self.moved: dict[str, float] = dict(recording.moved) if recording else {}
        self.optimizers: list[Any] = list(setup.optimizers)
        self.events = recording.events if recording else []
        for event in self.events:
            if event.kind == "forward":
                self.called.setdefault(id(event.module), (event.module, set()))[1].add(event.call)
            elif event.kind == "backward" and event.get("error") is None:
                self.calls.add(event.call)
                for fact in event.get("facts") or ():
                    if fact.kind == "leaf":
                        self.leaves.setdefault(id(fact.tensor), (fact.tensor, set()))[1].add(event.call)
            elif event.kind == "optimizer_step" and not any(event.optimizer is known for known in self.optimizers):
                self.optimizers.append(event.optimizer)
        for _, thing in setup.reached(torch.optim.Optimizer):
            if not any(thing is known for known in self.optimizers):
                self.optimizers.append(thing)
        self.ran = bool(self.calls)

    def trains(self, thing: nn.Module | Tensor) -> bool:
        """Whether a gradient reached the thing, or one of its parameters."""
        tensors = thing.parameters() if isinstance(thing, nn.Module) else [thing]
        return any(id(tensor) in self.leaves for tensor in tensors)

    @property
    def held(self) -> dict[int, Tensor]:
        """What the optimizers hold, by id."""
        return {
            id(tensor): tensor
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for tensor in group["params"]
        }


def _count(thing: nn.Module | Tensor) -> int:
    if isinstance(thing, Tensor):
        return thing.numel()
    return sum(parameter.numel() for parameter in thing.parameters())


def _some(names: list[str], most: int = 4) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _join(name: str, path: str) -> str:
    return f"{name}.{path}" if name and path else name or path


def _unregistered(
    setup: Setup,
    run: Run,
    name: str,
    top: nn.Module,
    others: list[nn.Module],
    loose: set[int],
    built: list[Finding],
) -> Iterator[Finding]:
    found = registration.unregistered(top, others)
    for _, thing in found:
        loose.update(id(tensor) for tensor in (thing.parameters() if isinstance(thing, nn.Module) else [thing]))
    if run.ran:
        found = [(path, thing) for path, thing in found if run.trains(thing)]
    own = sum(parameter.numel() for parameter in top.parameters())
    held = run.held
    tensors = [t for _, thing in found for t in (thing.parameters() if isinstance(thing, nn.Module) else [thing])]
    by_hand = bool(tensors) and all(id(tensor) in held for tensor in tensors)
    lost = len({id(tensor) for tensor in tensors}), sum({id(t): t.numel() for t in tensors}.values())
    if found:
        listed = _some([_join(name, path) for path, _ in found])
        gets = " They get gradients in a step." if run.ran else ""
        seen = (
            f"{listed} hold {lost[1]} trainable values in {lost[0]} tensors that are not registered; `parameters()` "
            f"gives {own}.{gets}"
        )
        if own == 0:
            yield Finding("no-parameters", f"`parameters()` of the model is empty. {seen}")
        else:
            yield Finding("unregistered-submodule", seen, severity="note" if by_hand else "error")
    elif own == 0 and not built and not held and not (run.ran and run.leaves):
        learns = setup.loss_fn is not None or setup.step is not None or setup.optimizers
        layers = sum(1 for _ in top.modules())
        yield Finding(
            "no-parameters",
            f"`parameters()` of the {type(top).__name__} is empty, with {layers} module{'s' * (layers > 1)} "
            "registered.",
            severity="error" if learns else "warning",
        )


def _built_in_forward(setup: Setup, run: Run) -> Iterator[Finding]:
    """Modules and parameters that exist during a call only."""
    held = run.held
    new = [
        module
        for module, calls in run.called.values()
        if not setup.knows(module) and len(calls) == 1 and next(module.parameters(recurse=False), None) is not None
        and not any(id(parameter) in held or setup.knows(parameter) for parameter in module.parameters())
    ]  # fmt: skip
    numbers = {call for module, calls in run.called.values() if any(module is one for one in new) for call in calls}
    if new and (len(numbers) > 1 or len(run.calls | numbers) == 1):
        kinds = sorted({type(module).__name__ for module in new})
        yield Finding(
            "layer-built-in-forward",
            f"{len(new)} layers ({', '.join(kinds)}) that no module holds were made and called in {len(numbers)} calls "
            f"of the step, with {_count(new[0])} new random parameters each time.",
        )
        return
    made = [
        (tensor, calls)
        for tensor, calls in run.leaves.values()
        if isinstance(tensor, nn.Parameter) and not setup.knows(tensor) and id(tensor) not in held and len(calls) == 1
    ]
    numbers = {call for _, calls in made for call in calls}
    if len(numbers) > 1:
        yield Finding(
            "layer-built-in-forward",
            f"In each of {len(numbers)} calls of the step a new parameter of shape {size(made[0][0])} was made and "
            "got a "
            "gradient; no module and no optimizer holds it.",
        )


def _repeated(setup: Setup, name: str, top: nn.Module) -> Iterator[Finding]:
    found = [entry for entry in registration.repeated(top) if _meant_as_several(setup, top, *entry)]
    if not found:
        return
    path, names, layer = found[0]
    more = f" The same holds for {len(found) - 1} more." if len(found) > 1 else ""
    yield Finding(
        "shared-by-list-multiplication",
        f"Entries {_some(names)} of `{_join(name, path) or 'the model'}` are one and the same {type(layer).__name__}: "
        f"{_count(layer)} parameters where {len(names)} layers would have {len(names) * _count(layer)}.{more}",
    )


def _meant_as_several(setup: Setup, top: nn.Module, path: str, names: list[str], layer: Any) -> bool:
    """Whether a layer with several names runs one call after another or on one input.

    One layer for different inputs, such as two towers or the heads of several decoder layers, is shared on purpose.
    """
    container = top.get_submodule(path)
    if isinstance(container, (nn.Sequential, nn.ParameterList)) or not isinstance(layer, nn.Module):
        return True
    seen = tour.take(setup)
    if seen is None:
        return isinstance(container, nn.ModuleList)
    return id(layer) in seen.chained


def _freeze_typo(name: str, top: nn.Module) -> Iterator[Finding]:
    found = registration.freeze_typos(top)
    if not found:
        return
    path, attribute, holder = found[0]
    if isinstance(holder, nn.Module):
        number = sum(parameter.requires_grad for parameter in holder.parameters())
        what = f"{number} of its parameters still require gradients"
    else:
        what = "it still requires gradients"
    more = f" The same holds for {len(found) - 1} more." if len(found) > 1 else ""
    yield Finding(
        "freeze-typo",
        f"`{_join(name, path) or 'the model'}` has an attribute `{attribute}` set to False, which torch does not read; "
        f"{what}.{more}",
    )


def _coverage(setup: Setup, run: Run, loose: set[int]) -> Iterator[Finding]:
    """Parameters that get gradients and that no optimizer holds."""
    if not run.optimizers:
        return
    held = run.held
    names = {id(parameter): name for name, parameter in setup.parameters.items()}
    if setup.raw_model is not None:
        names |= {id(parameter): name for name, parameter in setup.raw_model.named_parameters()}
        known = {id(p): p for p in setup.raw_model.parameters()}
    else:
        known = {}
    if run.ran:
        known |= {key: tensor for key, (tensor, calls) in run.leaves.items() if isinstance(tensor, nn.Parameter)}
    missing = {
        key: tensor for key, tensor in known.items() if tensor.requires_grad and key not in held and key not in loose
    }
    if run.ran:
        missing = {key: tensor for key, tensor in missing.items() if key in run.leaves}
        missing = {key: tensor for key, tensor in missing.items() if not run.moved.get(names.get(key, ""), 0)}
    if not missing:
        return
    listed = _some([names.get(key) or f"a parameter of shape {size(tensor)}" for key, tensor in missing.items()])
    stale = [tensor for key, tensor in held.items() if key not in known]
    total = sum(tensor.numel() for tensor in held.values())
    gets = ", though they get gradients" if run.ran else ""
    old = ""
    if stale:
        shapes = ", ".join(dict.fromkeys(size(tensor) for tensor in stale[:4]))
        old = f" It holds {len(stale)} tensors that the model does not use any more, of shapes {shapes}."
    yield Finding(
        "optimizer-misses-parameters",
        f"No optimizer holds {listed}: {sum(t.numel() for t in missing.values())} trainable values{gets}. The "
        f"optimizer{'s' * (len(run.optimizers) > 1)} hold{'s' * (len(run.optimizers) == 1)} {len(held)} tensors with "
        f"{total} values.{old}",
        severity="error" if stale or run.ran else "warning",
    )

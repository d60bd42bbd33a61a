"""Everything that a resumed run needs to be the run that was never interrupted."""

from __future__ import annotations

import copy
import platform
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from course.training.checkpoint.files import CheckpointError, warn
from course.training.checkpoint.random_state import (
    generator_state,
    global_state,
    set_generator_state,
    set_global_state,
)
from course.training.checkpoint.weights import bare_names, compare, load_weights

PARTS = ("optimizer", "scheduler", "scaler", "order", "history")


class RunState:
    """The parts of a training run, saved together and restored together: all of them or none.

    order: a :class:`ResumableBatches`, or what else has state_dict() and load_state_dict(). history: a History.
    generators: torch.Generator or numpy.random.Generator objects, by name ({"crops": g}) or in order.
    config: plain values that describe the run; when they differ at a resume, a CheckpointWarning lists them.
    others: by name, anything else with state_dict() and load_state_dict(): a second scheduler, an averaged model,
        BestWeights.

    Python's, NumPy's and torch's global generators (the CPU's and every accelerator's) are always included. Not
    included: requires_grad flags, hooks, train or eval mode, and random numbers drawn inside loader workers.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: Any = None,
        scaler: Any = None,
        order: Any = None,
        history: Any = None,
        generators: Mapping[str, Any] | Iterable[Any] = (),
        config: Mapping[str, Any] | None = None,
        others: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.optimizer, self.scheduler, self.scaler = model, optimizer, scheduler, scaler
        self.order, self.history = order, history
        if not isinstance(generators, Mapping):
            generators = {str(number): generator for number, generator in enumerate(generators)}
        self.generators = dict(generators)
        for generator in self.generators.values():
            generator_state(generator)  # raises TypeError for anything else
        self.config = dict(config or {})
        self.others = dict(others or {})
        for name, part in self._parts().items():
            if part is not None and not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"{name} should have state_dict() and load_state_dict(); {type(part).__name__} has not")

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values only: it loads with ``weights_only=True``.

        Keys: "model" (names without wrapper prefixes), "optimizer", "parameter_names" (of each optimizer group),
        "scheduler", "scaler", "order", "history", "generators", "others", "rng", "config", "classes", "python".
        As with ``model.state_dict()``, tensors are not copied: save or copy it before the next step.
        """
        weights, names = self.model.state_dict(), self._names()
        return {
            "model": {names[name]: value for name, value in weights.items()},
            "parameter_names": self._parameter_names(),
            **{name: part if part is None else part.state_dict() for name in PARTS for part in [getattr(self, name)]},
            "others": {name: part.state_dict() for name, part in self.others.items()},
            "generators": {name: generator_state(generator) for name, generator in self.generators.items()},
            "rng": global_state(),
            "config": copy.deepcopy(self.config),
            "classes": {name: type(part).__name__ for name, part in self._parts().items() if part is not None},
            "python": platform.python_version(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore all parts. Tensors go to where the model is.

        Raises CheckpointError, and leaves every part as it was, when the model is of another architecture, when the
        groups or parameters of the optimizer changed (lists what differs), when a part is missing in the state or
        here, or is of another class, and when the data order belongs to other data. Warns (CheckpointWarning) about
        another config or dtype, a scaler that is enabled in one of the two only, and accelerators whose random state
        cannot be restored. Needs memory for a second copy of model and optimizer meanwhile, to go back to.
        """
        self._check(state)
        before = copy.deepcopy(self.state_dict())
        try:
            self._set(state)
        except Exception as error:
            self._set(before)
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"the run could not be restored and is as it was: {type(error).__name__}: {error}"
            ) from error
        self._warn(state)

    def _parts(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in PARTS}
        return {**parts, **{f"others[{name!r}]": part for name, part in self.others.items()}}

    def _names(self) -> dict[str, str]:
        names = list(self.model.state_dict())
        bare = bare_names(names)
        # An AveragedModel keeps its counter, so it keeps its prefix.
        return bare if len(bare) == len(names) else {name: name for name in names}

    def _parameter_names(self) -> list[list[str]]:
        bare = self._names()
        names = {id(parameter): bare.get(name, name) for name, parameter in self.model.named_parameters()}
        return [
            [names.get(id(p), f"(not of the model) {tuple(p.shape)}") for p in group["params"]]
            for group in self.optimizer.param_groups
        ]

    def _check(self, state: Mapping[str, Any]) -> None:
        needed = {"model", "parameter_names", *PARTS, "others", "generators", "rng", "config", "classes"}
        if absent := sorted(needed - set(state)):
            raise CheckpointError(
                f"this is not the state of a run: it has no {', '.join(absent)}. For weights alone use load_weights"
            )
        report, _ = compare(self.model, state["model"])
        if not report.complete:
            raise CheckpointError(f"the run was saved with another model. Build the one that was saved:\n{report}")
        problems = _group_differences(state["parameter_names"], self._parameter_names())
        if problems:
            raise CheckpointError(
                "the optimizer has other parameters than the one that was saved, so its state does not fit; make the "
                "same groups in the same order, or load the weights alone:\n" + "\n".join(problems)
            )
        here = {name: type(part).__name__ for name, part in self._parts().items() if part is not None}
        there = state["classes"]
        problems = [
            f"{name}: {there.get(name, 'none')} in the file, {here.get(name, 'none')} here"
            for name in {**there, **here}
            if there.get(name) != here.get(name)
        ]
        if state["generators"].keys() != self.generators.keys():
            problems.append(f"generators: {list(state['generators'])} in the file, {list(self.generators)} here")
        if problems:
            raise CheckpointError("the run was saved with other parts; make the same ones:\n" + "\n".join(problems))

    def _set(self, state: Mapping[str, Any]) -> None:
        load_weights(self.model, state["model"], strict=True)
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        if self.scaler is not None and state["scaler"] and self.scaler.state_dict():
            self.scaler.load_state_dict(state["scaler"])
        if self.order is not None:
            self.order.load_state_dict(state["order"])
        for name, part in self.others.items():
            part.load_state_dict(state["others"][name])
        for name, generator in self.generators.items():
            set_generator_state(generator, state["generators"][name])
        if self.history is not None:
            self.history.load_state_dict(state["history"])
        set_global_state(state["rng"])

    def _warn(self, state: Mapping[str, Any]) -> None:
        here = self.model.state_dict()
        casts = {
            f"{value.dtype} to {here[name].dtype}"
            for name, bare in self._names().items()
            if isinstance(value := state["model"].get(bare), torch.Tensor) and value.dtype != here[name].dtype
        }
        if casts:
            warn(f"weights were cast from {', '.join(sorted(casts))}: the run does not go on bit for bit")
        if self.scaler is not None and bool(state["scaler"]) != bool(self.scaler.state_dict()):
            where = "the file" if state["scaler"] else "this run"
            warn(f"the gradient scaler is enabled in {where} only, so its scale was not restored")
        saved = state["config"]
        differing = [
            f"{key}: {saved.get(key, 'none')!r} in the file, {self.config.get(key, 'none')!r} here"
            for key in {**saved, **self.config}
            if key not in saved or key not in self.config or repr(saved[key]) != repr(self.config[key])
        ]
        if differing:
            warn(
                f"the run was saved with another config ({'; '.join(differing)}); what the optimizer and scheduler "
                "hold now comes from the file"
            )


def _group_differences(saved: list[list[str]], here: list[list[str]]) -> list[str]:
    problems = []
    if len(saved) != len(here):
        problems.append(f"{len(saved)} groups in the file, {len(here)} here")
    for number in range(max(len(saved), len(here))):
        theirs = saved[number] if number < len(saved) else []
        ours = here[number] if number < len(here) else []
        gone = [name for name in theirs if name not in ours]
        new = [name for name in ours if name not in theirs]
        if gone or new:
            problems.append(f"group {number}: only in the file {gone}, only here {new}")
        elif theirs != ours:
            place = next(i for i, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1])
            problems.append(
                f"group {number}: the same parameters in another order, from place {place} on "
                f"({theirs[place]} in the file, {ours[place]} here)"
            )
    return problems

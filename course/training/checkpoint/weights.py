"""Loading weights from a file that was saved from a wrapped model, with another head, or with other shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course.training.checkpoint.files import CheckpointError

PREFIXES = ("module.", "_orig_mod.")
SHOWN = 8


class Mismatch(NamedTuple):
    """A tensor that has another shape in the file than in the model."""

    name: str
    in_file: tuple[int, ...]
    in_model: tuple[int, ...]


@dataclass(frozen=True)
class LoadReport:
    """What a load did. Names are the model's own, without wrapper prefixes.

    loaded, missing (in the model only), unexpected (in the file only): names. mismatched: (name, shape in the file,
    shape in the model). skipped: names left out as asked. ``print(report)`` is made to be read.
    """

    loaded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[Mismatch, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, unexpected or of another shape."""
        return not (self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        shapes = [
            f"{name} {in_file} in the file, {in_model} in the model" for name, in_file, in_model in self.mismatched
        ]
        lines = [f"loaded {_count(self.loaded)}"]
        for title, names in (
            ("missing in the file", self.missing),
            ("not in the model", self.unexpected),
            ("of another shape", shapes),
            ("skipped as asked", self.skipped),
        ):
            if names:
                more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
                lines.append(f"{title}, {_count(names)}: {', '.join([*names[:SHOWN], *more])}")
        return "\n".join(lines)


def strip_prefixes(state: Mapping[str, Any], prefixes: Iterable[str] = PREFIXES) -> dict[str, Any]:
    """The state under the names of the bare model: without the prefixes that DDP, torch.compile, AveragedModel add.

    A prefix goes only when every name has it, again and again, whatever the order of the wrappers. ``n_averaged``, the
    counter of AveragedModel, goes with its ``module.``. The input is not changed; tensors are not copied.
    """
    return {bare: state[name] for name, bare in bare_names(state, prefixes).items()}


def bare_names(names: Iterable[str], prefixes: Iterable[str] = PREFIXES) -> dict[str, str]:
    """Each name and what :func:`strip_prefixes` makes of it; names that go are left out."""
    prefixes = tuple(prefixes)
    if "" in prefixes:
        raise ValueError("an empty prefix has nothing to strip; leave it out")
    bare = {name: name for name in names}
    while True:
        for prefix in prefixes:
            counter = ("n_averaged",) if prefix == "module." else ()
            inner = {name: rest for name, rest in bare.items() if rest not in counter}
            if inner and all(rest.startswith(prefix) and rest != prefix for rest in inner.values()):
                bare = {name: rest[len(prefix) :] for name, rest in inner.items()}
                break
        else:
            return bare


def load_weights(
    model: nn.Module, state: Mapping[str, Any], *, strict: bool = False, skip: Iterable[str] = ()
) -> LoadReport:
    """Load what fits into a model, and report all that did not. Either of the two may be wrapped.

    state: names to tensors, such as ``load(path)["model"]``. skip: names of parameters, buffers or whole submodules
        that keep what the model has, such as ``("head",)`` for ``head.weight`` and ``head.bias``.
    strict: raise CheckpointError when anything is missing, unexpected or of another shape, apart from `skip`.
        A tied tensor that the file holds under one of its names is not missing.

    Raises CheckpointError when nothing fits, also without strict; ValueError for a name in `skip` that neither the
    model nor the state has. The model is unchanged when it raises.
    """
    report, fitting = compare(model, state, skip=skip)
    if not report.loaded and (report.missing or report.unexpected or report.mismatched or report.skipped):
        raise CheckpointError(_nothing(report, state))
    if strict and not report.complete:
        raise CheckpointError(f"the file and the model differ, and strict=True was asked for:\n{report}")
    before = {name: tensor.detach().clone() for name, tensor in _tensors(model).items()}
    try:
        model.load_state_dict(fitting, strict=False)
    except Exception as error:
        with torch.no_grad():
            for name, tensor in _tensors(model).items():
                tensor.copy_(before[name])
        raise CheckpointError(f"the model took the weights in part and was set back: {error}") from error
    return report


def compare(
    model: nn.Module, state: Mapping[str, Any], *, skip: Iterable[str] = ()
) -> tuple[LoadReport, dict[str, Any]]:
    """What :func:`load_weights` would report, and what it would load: the model's names to values of the state."""
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise CheckpointError("weights should be a dict of names to tensors, as model.state_dict() returns it")
    skip = (skip,) if isinstance(skip, str) else tuple(skip)
    target = model.state_dict()
    in_model, in_file = _common_names(target, state)
    names = [*in_model, *(name for name in in_file if name not in in_model)]
    for part in skip:
        if not any(_inside(name, part) for name in names):
            raise ValueError(f"skip names {part!r}, which neither the model nor the file has; names: {_some(names)}")
    skipped = [name for name in names if any(_inside(name, part) for part in skip)]
    left = [name for name in names if name not in set(skipped)]
    fitting, loaded, mismatched = {}, [], []
    for name in left:
        if name not in in_model or name not in in_file:
            continue
        ours, value = target[in_model[name]], state[in_file[name]]
        if isinstance(ours, Tensor) and not isinstance(value, Tensor):
            raise CheckpointError(f"the file holds a {type(value).__name__} for {name}, not a tensor")
        if isinstance(ours, Tensor) and not nn.parameter.is_lazy(ours) and ours.shape != value.shape:
            mismatched.append(Mismatch(name, tuple(value.shape), tuple(ours.shape)))
        else:
            loaded.append(name)
            fitting[in_model[name]] = value
    memory = {_place(target[name]) for name in fitting} - {None}
    report = LoadReport(
        loaded=tuple(loaded),
        missing=tuple(name for name in left if name not in in_file and _place(target[in_model[name]]) not in memory),
        unexpected=tuple(name for name in left if name not in in_model),
        mismatched=tuple(mismatched),
        skipped=tuple(skipped),
    )
    return report, fitting


def _common_names(target: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Names in common to names in the model, and to names in the file: the two views that share most names.

    Views: as they are; without prefixes; and without the `_orig_mod` of submodules that were compiled.
    """

    def views(names: Iterable[str]) -> list[dict[str, str]]:
        bare = bare_names(names)
        eager = {name: ".".join(part for part in rest.split(".") if part != "_orig_mod") for name, rest in bare.items()}
        return [{short: name for name, short in view.items()} for view in ({n: n for n in names}, bare, eager)]

    pairs = [(ours, theirs) for ours in views(target) for theirs in views(state)]
    return max(pairs, key=lambda pair: len(pair[0].keys() & pair[1].keys()))  # the first of equal ones


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return {
        name: value
        for name, value in model.state_dict().items()
        if isinstance(value, Tensor) and not nn.parameter.is_lazy(value)
    }


def _place(value: Any) -> tuple[Any, ...] | None:
    if not isinstance(value, Tensor) or nn.parameter.is_lazy(value) or not value.numel() or value.is_meta:
        return None
    return value.device, value.data_ptr(), tuple(value.shape), value.stride()


def _inside(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part.removesuffix('.')}.")


def _nothing(report: LoadReport, state: Mapping[str, Any]) -> str:
    nested = [key for key, value in state.items() if isinstance(value, Mapping)]
    if nested and not any(isinstance(value, Tensor) for value in state.values()):
        key = next((key for key in nested if key in ("model", "state_dict", "model_state_dict")), nested[0])
        return f"these are not weights but a dict with the keys {_some(state)}; pass the weights in it, state[{key!r}]"
    if report.mismatched or report.skipped:
        return f"nothing was left to load:\n{report}"
    return (
        "no name in the file is a name in the model. "
        f"File: {_some(report.unexpected)}. Model: {_some(report.missing)}. "
        "Build the model that was saved, or rename the keys"
    )


def _count(names: Iterable[str]) -> str:
    count = len(tuple(names))
    return f"{count} tensor{'s' * (count != 1)}"


def _some(names: Iterable[str], count: int = 4) -> str:
    names = list(names)
    return (", ".join(names[:count]) or "none") + (f", ... ({len(names)} in all)" if len(names) > count else "")

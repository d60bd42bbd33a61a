"""Does what was exported compute what the model computes? Differences per output, in the tolerance of its dtype."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course.training.loop import evaluating
from course.training.table import html_table, text_table

# Relative to the largest value of the output. float32 keeps 24 bits, about 1e-7; sums in another order lose some.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-3}


class TrainingMode(ValueError):
    """The model is in training mode, where dropout draws and batch norm uses the batch: nothing to compare with."""


@dataclass(frozen=True)
class Difference:
    """How far one output of one call is off.

    name: of the output. call: shapes of the inputs. largest: max |a - b|. relative: largest / max |a| of the model's
    output, or / 1 where that is all zeros. tolerance: what `relative` may be. problem: why it cannot be compared.
    """

    name: str
    call: str
    largest: float
    relative: float
    tolerance: float
    problem: str = ""

    @property
    def within(self) -> bool:
        return not self.problem and self.relative <= self.tolerance


@dataclass(frozen=True)
class Parity:
    """The differences of all outputs of all calls; true where all are within their tolerance."""

    rows: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return all(row.within for row in self.rows)

    @property
    def largest(self) -> float:
        """The largest absolute difference; infinite where an output cannot be compared."""
        return max(row.largest for row in self.rows)

    @property
    def relative(self) -> float:
        """The largest relative difference; infinite where an output cannot be compared."""
        return max(row.relative for row in self.rows)

    def table(self) -> list[list[str]]:
        head = ["inputs", "output", "max |a - b|", "relative", "tolerance", ""]
        return [head, *([r.call, r.name, *_figures(r), _word(r)] for r in self.rows)]

    def __str__(self) -> str:
        return text_table(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.table())


def parity(
    model: nn.Module,
    exported: Callable[..., Any] | torch.export.ExportedProgram | str | os.PathLike[str],
    inputs: Tensor | tuple[Any, ...] | Sequence[tuple[Any, ...]],
    *,
    tolerance: float | None = None,
) -> Parity:
    """Call a model and what was exported from it with the same inputs, and compare every output.

    model: in evaluation mode; anything else raises TrainingMode, which names the submodules.
    exported: a callable (module, compiled function, :class:`~course.deployment.runtime.OnnxModel`), an ExportedProgram,
        or the path of an ONNX file.
    inputs: one tensor, a tuple of arguments, or a list of such tuples: a call each, such as one for each batch size.
        Each side gets copies of its own.
    tolerance: of the relative difference, by default that of the output's dtype (float32: 1e-4); integers and
        booleans must be equal.

    An output that cannot be compared (another number, shape or dtype, NaN on one side) is a row with its problem.
    """
    training = [name or "the model itself" for name, module in model.named_modules() if module.training]
    if training:
        raise TrainingMode(
            f"the model is in training mode ({_some(training)}); call model.eval() before export and comparison"
        )
    run = _callable(exported)
    rows: list[Difference] = []
    for arguments in _calls(inputs):
        call = ", ".join(_shape(value) for value in arguments)
        with evaluating(model):
            wanted = flat_outputs(model(*_copies(arguments)))
            seen = flat_outputs(run(*_copies(arguments)))
        if len(wanted) != len(seen):
            problem = f"{len(seen)} outputs instead of {len(wanted)}"
            rows.append(Difference("all", call, float("inf"), float("inf"), 0.0, problem))
            continue
        rows += [_difference(name, call, a, b, tolerance) for (name, a), (_, b) in zip(wanted, seen, strict=True)]
    return Parity(tuple(rows))


def flat_outputs(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """The leaves of nested tuples, lists and mappings, in order, named by their paths; "output" for a single one."""
    if isinstance(value, Mapping):
        parts = [(f"{name}.{key}" if name else str(key), part) for key, part in value.items()]
    elif isinstance(value, (tuple, list)):
        parts = [(f"{name}[{index}]", part) for index, part in enumerate(value)]
    else:
        return [(name or "output", value)]
    return [leaf for path, part in parts for leaf in flat_outputs(part, path)]


def _callable(exported: Any) -> Callable[..., Any]:
    if isinstance(exported, torch.export.ExportedProgram):
        return exported.module()
    if isinstance(exported, (str, os.PathLike)):
        from course.deployment.runtime import OnnxModel

        return OnnxModel(exported)
    if not callable(exported):
        raise TypeError(
            "exported should be a callable, an ExportedProgram or the path of an ONNX file, "
            f"not {type(exported).__name__}"
        )
    return exported


def _calls(inputs: Any) -> list[tuple[Any, ...]]:
    if isinstance(inputs, Tensor):
        return [(inputs,)]
    if isinstance(inputs, tuple):
        return [inputs]
    calls = [call if isinstance(call, tuple) else (call,) for call in inputs]
    if not calls:
        raise ValueError("inputs is empty: give one tensor, a tuple of arguments, or a list of such tuples")
    return calls


def _copies(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.detach().clone() if isinstance(value, Tensor) else value for value in arguments)


def _difference(name: str, call: str, wanted: Any, seen: Any, tolerance: float | None) -> Difference:
    infinite = float("inf")
    wanted, seen = torch.as_tensor(wanted), torch.as_tensor(seen)
    if wanted.shape != seen.shape or wanted.dtype != seen.dtype:
        problem = f"{_shape(seen)} {_dtype(seen)} instead of {_shape(wanted)} {_dtype(wanted)}"
        return Difference(name, call, infinite, infinite, 0.0, problem)
    allowed = tolerance if tolerance is not None else TOLERANCES.get(wanted.dtype, 0.0)
    wanted, seen = wanted.detach().cpu(), seen.detach().cpu()
    different = ~((wanted == seen) | (wanted.isnan() & seen.isnan()))
    if not different.any():
        return Difference(name, call, 0.0, 0.0, allowed)
    if not wanted.is_floating_point():
        problem = f"{int(different.sum())} of {different.numel()} differ"
        return Difference(name, call, infinite, infinite, 0.0, problem)
    a, b = wanted.double(), seen.double()
    largest = (a - b)[different].abs().max().item()
    if not largest < infinite:
        return Difference(name, call, infinite, infinite, allowed, "NaN or infinite on one side only")
    finite = a[a.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 0.0
    return Difference(name, call, largest, largest / (scale or 1.0), allowed)


def _figures(row: Difference) -> list[str]:
    return [f"{row.largest:.1e}", f"{row.relative:.1e}", f"{row.tolerance:.0e}"]


def _word(row: Difference) -> str:
    return row.problem or ("within" if row.within else "outside")


def _shape(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def _dtype(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def _some(names: list[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

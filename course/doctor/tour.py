"""Steps of training with the tensors at hand: what layers are given, which activations are dead, what is bypassed."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course.doctor import graph_nodes, loading, registration

if TYPE_CHECKING:
    from course.doctor.setup import Setup

_SEQUENCE = (
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.Transformer,
)
_MOST_BATCHES = 4
_MOST_ELEMENTS = 4_000_000
# Conversions: whoever applies them to a plain tensor has thought of device and dtype.
_CONVERSIONS = {"to", "type_as", "cuda", "cpu", "type", "double", "half"}
_LOOKS_ONLY = {
    "__get__",
    "size",
    "dim",
    "numel",
    "__len__",
    "__repr__",
    "__format__",
    "is_floating_point",
    "is_complex",
}


@dataclass
class Activation:
    """One place where an activation function is applied, over all calls.

    alive: by unit, whether it was ever positive. flat: values where the slope is practically 0, of `values` in all.
    """

    name: str
    kind: str
    rows: int = 0
    alive: Tensor | None = None
    flat: int = 0
    values: int = 0
    is_output: bool = False


@dataclass
class Tour:
    """What was seen.

    firsts: (module, name, input) of the first layer with parameters in each outermost call of the first step, where the
    input is data. sequences: (module, name, shape of its input) of recurrent and attention layers. activations: by
    place. direct: names of modules whose forward was called without __call__, and whether they have hooks. uses: by id
    of plain tensors, the names of functions they were given to. replaced: ids of plain tensors that a step replaced.
    chained: ids of modules of which one call's input was made of another call's output, or that got the
    same input twice. error: what a step raised.
    """

    firsts: list[tuple[nn.Module, str, Tensor]] = field(default_factory=list)
    sequences: list[tuple[nn.Module, str, tuple[int, ...]]] = field(default_factory=list)
    activations: dict[str, Activation] = field(default_factory=dict)
    direct: dict[str, bool] = field(default_factory=dict)
    uses: dict[int, set[str]] = field(default_factory=dict)
    replaced: set[int] = field(default_factory=set)
    chained: set[int] = field(default_factory=set)
    steps: int = 0
    error: BaseException | None = None


def take(setup: Setup) -> Tour | None:
    """The tour of a setup, taken once; None where no step can be run."""
    if "_tour" not in setup.__dict__:
        setup.__dict__["_tour"] = _take(setup)
    tour: Tour | None = setup.__dict__["_tour"]
    return tour


def _take(setup: Setup) -> Tour | None:
    if setup.training is None or not setup.training.calls or not setup.batches:
        return None
    each = setup.training.seconds / setup.training.calls
    if not setup.clock.allows(3 * each):
        setup.skip("layers, activations and plain tensors", "the budget was spent before")
        return None
    tour = Tour()
    with setup.scratch():
        if setup.model is not None:
            setup.model.train()
        roots = list(dict.fromkeys(module for _, module in setup.reached(nn.Module)))
        plain = [entry for top in roots for entry in registration.plain_tensors_of(top)]
        guide = _Guide(setup, tour, {id(tensor) for _, tensor in plain})
        with _forwards(setup, tour, roots), guide.hooks(), guide:
            for batch in setup.batches[:_MOST_BATCHES]:
                try:
                    setup.train_step(setup.to_device(loading.copy_of(batch)))
                except Exception as error:
                    tour.error = error
                    break
                tour.steps += 1
                guide.first_step = False
                if not setup.clock.allows(3 * each):
                    break
        there = {id(tensor) for module in roots for _, tensor in registration.plain_tensors_of(module)}
        tour.replaced = {id(tensor) for _, tensor in plain} - there
    return tour


# --- forward called directly --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _forwards(setup: Setup, tour: Tour, modules: list[nn.Module]) -> Iterator[None]:
    """Each module's own `forward` notes when it is not called by __call__."""
    with contextlib.ExitStack() as stack:
        for module in modules:
            if "forward" in vars(module) or isinstance(module, torch.jit.ScriptModule):
                continue
            stack.enter_context(mock.patch.dict(module.__dict__, {"forward": _noting(setup, tour, module)}))
        yield


def _noting(setup: Setup, tour: Tour, module: nn.Module) -> Any:
    original = type(module).forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        if caller.f_code.co_filename != torch.nn.modules.module.__file__ and registration.users_frame(caller):
            tour.direct.setdefault(setup.name_of(module), _has_hooks(module))
        return original(module, *args, **kwargs)

    return forward


def _has_hooks(module: nn.Module) -> bool:
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    wrapper = isinstance(module, (nn.parallel.DistributedDataParallel, nn.DataParallel))
    return wrapper or any(getattr(module, name, None) for name in names)


# --- the watch ----------------------------------------------------------------------------------------------------


class _Guide(TorchFunctionMode):
    def __init__(self, setup: Setup, tour: Tour, plain: set[int]) -> None:
        super().__init__()
        self.setup = setup
        self.tour = tour
        self.plain = plain
        self.first_step = True
        self.stack: list[nn.Module] = []
        self.fresh = False
        self.counts: dict[str, int] = {}
        self.last: dict[int, tuple[list[int], list[Any]]] = {}

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Global hooks: nothing is left on the modules."""
        before = nn.modules.module.register_module_forward_pre_hook(self.enter)
        after = nn.modules.module.register_module_forward_hook(self.leave)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def enter(self, module: nn.Module, args: Any) -> None:
        if _transformed():
            return
        if not self.stack:
            self.fresh, self.counts = True, {}
        self.stack.append(module)
        given = [value for value in args if isinstance(value, Tensor)]
        if not given:
            return
        leaf = next(module.parameters(recurse=False), None) is not None
        if self.fresh and leaf:
            self.fresh = False
            if self.first_step and given[0].numel() <= _MOST_ELEMENTS and given[0].grad_fn is None:
                entry = (module, self.setup.name_of(module), given[0].detach().clone())
                self.tour.firsts.append(entry)
        if self.first_step:
            if isinstance(module, _SEQUENCE):
                self.tour.sequences.append((module, self.setup.name_of(module), tuple(given[0].shape)))
            self._chain(module, given[0])

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if _transformed():
            return
        if self.stack and self.stack[-1] is module:
            self.stack.pop()
        elif module in self.stack:
            del self.stack[self.stack.index(module) :]
        results = [
            value for value in (output if isinstance(output, (tuple, list)) else [output]) if isinstance(value, Tensor)
        ]
        if self.first_step and results and id(module) in self.last:
            self.last[id(module)][1].append(results[0].grad_fn)
        if not self.stack:
            ids = {id(value) for value in results}
            for activation in self.tour.activations.values():
                if getattr(activation, "_last", None) in ids:
                    activation.is_output = True

    def _chain(self, module: nn.Module, given: Tensor) -> None:
        inputs, outputs = self.last.setdefault(id(module), ([], []))
        if id(given) in inputs or (
            outputs and outputs[-1] is not None and any(node is outputs[-1] for node, _ in graph_nodes.nodes(given))
        ):
            self.tour.chained.add(id(module))
        inputs.append(id(given))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _transformed():
            return result
        if self.plain:
            for value in (*args, *(kwargs or {}).values()):
                if isinstance(value, Tensor) and id(value) in self.plain:
                    self.tour.uses.setdefault(id(value), set()).add(getattr(func, "__name__", "?"))
        kind = _ACTIVATIONS.get(func)
        if kind and self.stack and isinstance(result, Tensor) and result.ndim > 1:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._activation(kind, result)
        return result

    def _activation(self, kind: str, result: Tensor) -> None:
        place = f"{self.setup.name_of(self.stack[-1])}/{kind}"
        number = self.counts[place] = self.counts.get(place, 0) + 1
        seen = self.tour.activations.setdefault(f"{place}/{number}", Activation(place.split("/")[0], kind))
        seen.__dict__["_last"] = id(result)
        if result.numel() > _MOST_ELEMENTS or not result.is_floating_point():
            return
        value = result.detach()
        if kind == "relu":
            axes = {1} if value.ndim in (2, 4, 5) else {1, value.ndim - 1}
            # In (N, T, C) and (N, C, L) the units stand in different axes; the one with fewer dead ones counts.
            alive = max(
                ((value > 0).movedim(axis, 0).flatten(1).any(1) for axis in axes),
                key=lambda a: float(a.double().mean()),
            )
            seen.alive = alive if seen.alive is None or seen.alive.shape != alive.shape else seen.alive | alive
        else:
            edge = value.abs() > 0.99 if kind == "tanh" else (value < 0.01) | (value > 0.99)
            seen.flat += int(edge.sum())
            seen.values += value.numel()
        seen.rows += value.shape[0]


def _activations() -> dict[Any, str]:
    table: dict[Any, str] = {}
    for kind, names in {
        "relu": ("relu", "relu_", "relu6"),
        "tanh": ("tanh", "tanh_"),
        "sigmoid": ("sigmoid", "sigmoid_"),
    }.items():
        for name in names:
            for owner in (torch, Tensor, F, torch._C.TensorBase):
                if callable(function := getattr(owner, name, None)):
                    table[function] = kind
    return table


_ACTIVATIONS = _activations()


def _transformed() -> bool:
    """Whether a function transform, such as vmap or grad, is running: its tensors must not be kept."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def conversions_only(names: set[str]) -> bool:
    """Whether a tensor was converted before use, or only looked at; a conversion may return the tensor itself."""
    return bool(names & _CONVERSIONS) or not (names - _LOOKS_ONLY)

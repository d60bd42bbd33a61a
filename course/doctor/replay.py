"""One more training step, looked at operation by operation: what is too slow or too intrusive for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from course.doctor import running

if TYPE_CHECKING:
    from course.doctor.setup import Setup

# Operations that fill in infinities on purpose.
_FILLS = ("fill", "full", "where", "scalar_tensor", "zeros", "ones", "empty", "copy", "clone", "detach", "index_put")
_GATHERING = ("add", "sub", "lerp")
_HALVES = (torch.float16, torch.bfloat16)
_ADDING = ("add", "radd", "iadd", "sub", "rsub", "isub", "sum", "stack")


@dataclass
class Replay:
    """What one step did.

    overwritten: (shape, dtype) of tensors that were saved for backward and changed before it without a count of the
    change. rebound: names of parameters that became other objects. overflow: (operation, shape, largest finite input)
    where float16 left its range. constant_gradients: results of autograd.grad without create_graph that were added to
    a loss. new_tensors: differences of a parameter and its gradient that went into a tensor of their own. stuck:
    (operation, shape, dtype, share of the entries left as they were) where something was added to a half tensor that
    outlives the step. skipped: why there was no replay.
    """

    overwritten: list[tuple[tuple[int, ...], torch.dtype]] = field(default_factory=list)
    rebound: list[str] = field(default_factory=list)
    overflow: list[tuple[str, tuple[int, ...], float]] = field(default_factory=list)
    constant_gradients: int = 0
    new_tensors: int = 0
    stuck: list[tuple[str, tuple[int, ...], torch.dtype, float]] = field(default_factory=list)
    error: Exception | None = None
    skipped: str = ""


def replay(setup: Setup) -> Replay:
    """Run one step of training with all looks at once; everything is put back. Kept with the setup."""
    known = setup.__dict__.get("_replay")
    if known is not None:
        return known
    setup.__dict__["_replay"] = result = Replay()
    recording = setup.training
    if recording is None or not recording.calls:
        result.skipped = "no step could be run"
    elif recording.error is not None and recording.calls < 2:
        result.skipped = "the step raised an error"
    elif not setup.clock.allows(8 * recording.seconds / recording.calls):
        result.skipped = "not enough time"
    else:
        _run(setup, result)
    return result


def _run(setup: Setup, result: Replay) -> None:
    batch = setup.batches[0] if setup.batches else None
    with setup.scratch(), running.quiet(), contextlib.ExitStack() as stack:
        if setup.model is not None and not setup.model.training:
            setup.model.train()
        before = {name: id(p) for name, p in setup.raw_model.named_parameters()} if setup.raw_model is not None else {}
        leaves = {name: id(t) for name, t in variables(setup.step).items() if t.requires_grad and t.is_leaf}
        buffers = {b.untyped_storage().data_ptr() for b in setup.buffers.values() if b.numel()}
        stack.enter_context(saved_tensors_watched(result, buffers))
        stack.enter_context(_Constants(result))
        stack.enter_context(_Halves(result, half_tensors(setup)))
        try:
            setup.train_step(batch)
        except Exception as error:
            result.error = error
        if setup.raw_model is not None:
            after = {name: id(p) for name, p in setup.raw_model.named_parameters()}
            result.rebound = [name for name, old in before.items() if after.get(name, old) != old]
        now = variables(setup.step)
        result.rebound += [
            n for n, old in leaves.items() if n in now and id(now[n]) != old and now[n].grad_fn is not None
        ]


def variables(function: Any) -> dict[str, Tensor]:
    """Tensors by name that a function's variables hold: its closure, the globals it names, attributes of its object."""
    code, plain = getattr(function, "__code__", None), getattr(function, "__func__", function)
    code = code or getattr(plain, "__code__", None)
    named: dict[str, Any] = {}
    if code is not None:
        for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):
                named[name] = cell.cell_contents
        named |= {name: plain.__globals__[name] for name in code.co_names if name in plain.__globals__}
    owner = getattr(function, "__self__", None if code is not None else function)
    named |= {f"self.{name}": value for name, value in getattr(owner, "__dict__", {}).items()}
    found = {}
    for name, value in named.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, (list, tuple)) and len(value) < 1000:
            found |= {f"{name}[{i}]": member for i, member in enumerate(value) if isinstance(member, Tensor)}
        elif isinstance(value, dict) and len(value) < 1000:
            found |= {f"{name}[{key!r}]": member for key, member in value.items() if isinstance(member, Tensor)}
    return found


@contextlib.contextmanager
def saved_tensors_watched(result: Replay, buffers: set[int] = frozenset()) -> Iterator[None]:
    """Compare each tensor that is saved for backward with itself when backward asks for it.

    buffers: addresses of memory that layers such as BatchNorm write into as they go, and that do not count.
    """

    def pack(tensor: Tensor) -> tuple[Tensor, int, tuple[float, float] | None]:
        plain = tensor.detach()
        return plain, _version(plain), _print_of(plain)

    def unpack(saved: tuple[Tensor, int, tuple[float, float] | None]) -> Tensor:
        tensor, version, seen = saved
        if seen is not None and _version(tensor) == version and _print_of(tensor) != seen:
            address = tensor.untyped_storage().data_ptr()
            if address not in buffers:
                result.overwritten.append((tuple(tensor.shape), tensor.dtype))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _print_of(tensor: Tensor) -> tuple[float, float] | None:
    """Two numbers that change when the values do; None where values are not looked at."""
    if type(tensor) is not Tensor or not tensor.is_floating_point() or not tensor.numel() or tensor.is_inference():
        return None
    if tensor.layout != torch.strided:
        return None
    with torch.no_grad(), torch._C.DisableTorchFunction(), _no_dispatch():
        values = tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
        found = float(values.sum()), float(values.abs().sum())
    return found if found[0] == found[0] else None


def _no_dispatch() -> Any:
    return torch.utils._python_dispatch._disable_current_modes()


class _Constants(TorchFunctionMode):
    """Follow the results of autograd.grad without create_graph to where they are added to something differentiable."""

    def __init__(self, result: Replay) -> None:
        super().__init__()
        self.result = result
        self.tainted: dict[int, Tensor] = {}
        self.slopes: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func is torch.autograd.grad:
            if not kwargs.get("create_graph"):
                self._taint(out)
        elif getattr(func, "__self__", None) is Tensor.grad and isinstance(out, Tensor):
            self.slopes[id(out)] = out
        else:
            if self.tainted:
                self._follow(func, [*args, *kwargs.values()], out)
            if self.slopes:
                self._updates(func, [*args, *kwargs.values()], out)
        return out

    def _updates(self, func: Any, values: list[Any], out: Any) -> None:
        """Follow gradients to where they are subtracted from their leaf."""
        met = list(_tensors(values))
        if not isinstance(out, Tensor) or not any(id(tensor) in self.slopes for tensor in met):
            return
        if any(tensor is out for tensor in met):
            return  # in place
        self.slopes[id(out)] = out
        name = getattr(func, "__name__", "").strip("_")
        if name in _ADDING and any(tensor.is_leaf and tensor.requires_grad for tensor in met):
            self.result.new_tensors += 1

    def _taint(self, out: Any) -> None:
        for tensor in _tensors(out):
            if not tensor.requires_grad:
                self.tainted[id(tensor)] = tensor

    def _follow(self, func: Any, values: list[Any], out: Any) -> None:
        met = [tensor for tensor in _tensors(values) if id(tensor) in self.tainted]
        if not met:
            return
        self._taint(out)
        name = getattr(func, "__name__", "").strip("_")
        for tensor in _tensors(out):
            if (
                torch.is_grad_enabled()
                and tensor.grad_fn is not None
                and all(t.numel() == 1 for t in met)
                and name in _ADDING
            ):
                self.result.constant_gradients += 1


def half_tensors(setup: Setup) -> set[int]:
    """Addresses of half tensors that outlive a step and that no optimizer holds."""
    held = {
        tensor.data_ptr()
        for optimizer in setup.optimizers
        for tensor in _tensors([group["params"] for group in optimizer.param_groups])
    }
    states = [list(state.values()) for optimizer in setup.optimizers for state in optimizer.state.values()]
    held |= {tensor.data_ptr() for tensor in _tensors(states)}
    known = [*setup.parameters.values(), *setup.buffers.values(), *(t for _, t in setup.reached(Tensor))]
    return {t.data_ptr() for t in known if t.dtype in _HALVES and t.numel()} - held


class _Halves(TorchDispatchMode):
    """Operations of the forward pass that give an infinite float16 from finite inputs, and sums that do not grow."""

    def __init__(self, result: Replay, lasting: set[int]) -> None:
        super().__init__()
        self.result = result
        self.lasting = lasting

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(getattr(func, "_opname", ""))
        before = self._before(name, args) if self.lasting else []
        out = func(*args, **(kwargs or {}))
        for tensor, copy in before:
            self._compare(name, tensor, copy)
        if len(self.result.overflow) < 3 and torch._C._current_autograd_node() is None:
            for tensor in _tensors(out):
                if tensor.dtype == torch.float16 and type(tensor) is Tensor and tensor.numel():
                    self._look(func, [*args, *(kwargs or {}).values()], tensor)
        return out

    def _before(self, name: str, args: Any) -> list[tuple[Tensor, Tensor]]:
        if not args or not name.endswith("_") or name.startswith("__") or not any(word in name for word in _GATHERING):
            return []
        return [(t, t.clone()) for t in _tensors(args[0]) if t.dtype in _HALVES and t.data_ptr() in self.lasting]

    def _compare(self, name: str, tensor: Tensor, before: Tensor) -> None:
        same = float((tensor == before).float().mean())
        # A single number to which equal amounts are added stops growing at 256 (2048) times that amount.
        counts = tensor.numel() == 1 and "add" in name and not tensor.requires_grad
        if same > 0.5 or counts:
            self.result.stuck.append((name.strip("_"), tuple(tensor.shape), tensor.dtype, same))

    def _look(self, func: Any, values: list[Any], out: Tensor) -> None:
        name = str(getattr(func, "_opname", func))
        if any(word in name for word in _FILLS) and "to_copy" not in name:
            return
        infinite = torch.isinf(out)
        if not bool(infinite.any()) or ("add" in name and bool((out[infinite] < 0).all())):
            return  # two masks of the lowest number, added up, are no accident
        inputs = [t for t in _tensors(values) if t.is_floating_point() and t.numel()]
        if any(not bool(torch.isfinite(t).all()) for t in inputs) or any(
            value in (float("inf"), -float("inf")) for value in values if isinstance(value, float)
        ):
            return
        largest = max((float(t.detach().abs().max()) for t in inputs), default=0.0)
        if "to_copy" in name and largest < 65504:
            return
        self.result.overflow.append((name.strip("_"), tuple(out.shape), largest))


def _tensors(values: Any, depth: int = 3) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif depth and isinstance(values, (list, tuple)):
        for value in values:
            yield from _tensors(value, depth - 1)

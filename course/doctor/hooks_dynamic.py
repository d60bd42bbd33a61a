"""Note what optimizers, schedulers, scalers, clipping, autograd and state_dict do while a step or evaluation runs.

Everything is patched on classes and modules of torch, so that objects which were not passed to the doctor are seen as
well, and so that functions are seen however they were imported.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import clip_grad
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from course.doctor.hooks_state import StateHooks, count_alive, holders_of, number_of
from course.doctor.loss_graph import Graph
from course.doctor.norms import gradient_norms, largest_change
from course.doctor.watch import Seen

if TYPE_CHECKING:
    from course.doctor.watch import Event


@contextlib.contextmanager
def patches(recorder: Any) -> Iterator[None]:
    """Inside the block every call of these is recorded: the kinds that course.doctor.watch lists from zero_grad on."""
    watcher = _Watcher(recorder)
    with contextlib.ExitStack() as stack:
        pre = register_optimizer_step_pre_hook(watcher.before_step)
        stack.callback(pre.remove)
        post = register_optimizer_step_post_hook(watcher.after_step)
        stack.callback(post.remove)
        seen = register_module_forward_hook(watcher.after_forward)
        stack.callback(seen.remove)
        for owner, name, wrap in _targets(watcher):
            original = vars(owner).get(name)
            if original is not None:
                # Not functools.partial: what is called as a method has to be a function.
                stack.enter_context(mock.patch.object(owner, name, _wrapped(original, wrap)))
        try:
            yield
        finally:
            watcher.finish()


def _targets(watcher: _Watcher) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    yield torch.autograd, "_engine_run_backward", watcher.engine
    for kind in _family(torch.optim.Optimizer, "zero_grad"):
        yield kind, "zero_grad", watcher.zero_optimizer
    for kind in _family(nn.Module, "zero_grad"):
        yield kind, "zero_grad", watcher.zero_module
    yield nn.Module, "state_dict", watcher.state_dict
    yield nn.Module, "load_state_dict", watcher.load_state_dict
    for base in (lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau):
        for kind in _family(base, "step"):
            yield kind, "step", watcher.scheduler
    # clip_grad_norm_ calls this by its module's name, so that the patch is met by every way of importing it.
    yield clip_grad, "_clip_grads_with_norm_", watcher.clip_norm
    for owner in (clip_grad, nn.utils):
        yield owner, "clip_grad_value_", watcher.clip_value
    for owner in (torch.cuda.amp.autocast, torch.cuda.amp.GradScaler):
        for name in ("__init__", "__enter__"):
            yield owner, name, functools.partial(watcher.old_name, owner.__name__)
    yield torch.amp.GradScaler, "scale", watcher.scale
    for name in ("unscale_", "step", "update"):
        yield torch.amp.GradScaler, name, functools.partial(watcher.scaler, name)


def _family(base: type, method: str) -> list[type]:
    """The class and those of its subclasses that have a method of their own of this name."""
    found, queue = [], [base]
    while queue:
        kind = queue.pop()
        queue += [sub for sub in type.__subclasses__(kind) if sub not in queue]
        if method in vars(kind) and kind not in found:
            found.append(kind)
    return found


def _wrapped(original: Callable[..., Any], wrap: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrap(original, *args, **kwargs)

    return call


class _Watcher(StateHooks):
    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.names: dict[int, str] = {}
        self.known: dict[str, Tensor] = {}
        self.depth = {"scheduler": 0, "state_dict": 0, "scaler": 0, "zero_grad": 0, "clip": 0}
        self.open_steps: list[tuple[Event, dict[str, Tensor]]] = []
        self.scaled: dict[int, Event] = {}
        self.states: list[tuple[Event, list[weakref.ref[Any]], nn.Module, dict[str, int]]] = []
        self.outputs: list[tuple[int, weakref.ref[Any]]] = []
        self.graphs: list[tuple[int, weakref.ref[Any]]] = []
        parameters = getattr(recorder, "parameters", None)
        for name, parameter in (parameters() if callable(parameters) else parameters or {}).items():
            self._add(parameter, name)

    def after_forward(self, module: nn.Module, _: Any, output: Any) -> None:
        """In an evaluation that records graphs: how many graphs of earlier batches are still there."""
        recorder = self.recorder
        if not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
            return
        if recorder.phase == "step":
            for value in _outputs(output):
                self._mark(value, recorder.call)
        if recorder.phase != "evaluate" or len(recorder.modules) > 1:
            return
        tensor = next((t for t in _outputs(output) if t.grad_fn is not None), None)
        if tensor is None:
            return
        kept = sum(sign() is not None for call, sign in self.outputs if call == recorder.call)
        if kept >= 2:
            recorder.record("kept_outputs", module=module, kept=kept, forwards=len(self.outputs) + 1)
        with contextlib.suppress(Exception):
            sign = _Sign()
            tensor.grad_fn.metadata["course.doctor"] = sign
            self.outputs.append((recorder.call, weakref.ref(sign)))

    def finish(self) -> None:
        """Before anything is put back: what of that which was handed out is still held by somebody."""
        for event, references, module, holders in self.states:
            event.kept = count_alive(references)
            now = holders_of(module)
            more = [name for name, number in holders.items() if now.get(name, 0) > number]
            # A copy of the mapping may hold other tensors over the same memory.
            if not event.kept and more and len(more) == len(holders):
                event.kept = len(more)
        self.open_steps.clear()

    # --- parameters and gradients -------------------------------------------------------------------------------

    def _add(self, parameter: Tensor, name: str | None = None) -> str:
        if id(parameter) not in self.names:
            name = name or self.recorder.name_of(parameter)
            if name in ("", "?") or name in self.known:
                name = f"parameter {len(self.known)} of shape {tuple(parameter.shape)}"
            self.names[id(parameter)] = name
            self.known[name] = parameter
        return self.names[id(parameter)]

    def _meet(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        self.recorder.first_seen(optimizer)
        return {self._add(p): p for group in optimizer.param_groups for p in group["params"]}

    def _norms(self, parameters: dict[str, Tensor]) -> dict[str, float | None]:
        return gradient_norms(parameters)

    # --- autograd -----------------------------------------------------------------------------------------------

    def engine(self, original: Callable[..., Any], tensors: Any, *args: Any, **kwargs: Any) -> Any:
        roots = [t for t in tensors if isinstance(t, Tensor)]
        if not roots or any(_traced(root) for root in roots):
            return original(tensors, *args, **kwargs)
        _, retain, create, inputs = (*args, None, None, None, None)[:4]
        if not kwargs.get("accumulate_grad"):
            self.recorder.record(
                "grad",
                outputs=[Seen.of(root) for root in roots],
                inputs=[Seen.of(t) for t in inputs or () if isinstance(t, Tensor)],
                of_parameters=[self.names[id(t)] for t in inputs or () if id(t) in self.names],
                create_graph=bool(create),
            )
            return original(tensors, *args, **kwargs)
        nested = self.depth.get("backward", 0) > 0
        self.depth["backward"] = self.depth.get("backward", 0) + 1
        root = roots[0]
        scaled = self.scaled.pop(id(root), None)
        graph = Graph.of(roots, self.names)
        data = {
            "root": Seen.of(root, numbers=root.numel() == 1),
            "loss": float(root.detach()) if root.numel() == 1 else None,
            "retain_graph": bool(retain),
            "create_graph": bool(create),
            "before": self._norms(self.known),
            "graph": graph,
            "facts": _facts(root),
            "nested": nested,
            "in_step": bool(self._open(None)),
            "alive": self._alive(),
            "scale": scaled.scale if scaled is not None else None,
            "scaled_from": scaled.graph if scaled is not None else None,
            "unscaled_loss": scaled.loss if scaled is not None else None,
            "after": {},
            "error": None,
        }
        event = self.recorder.record("backward", **data)
        for entry in self._open(None):
            entry[0].closure = True
        self._mark(root, event.call)
        try:
            return original(tensors, *args, **kwargs)
        except Exception as error:
            event.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            self.depth["backward"] -= 1
            event.after = self._norms(self.known)

    def _mark(self, root: Tensor, call: int) -> None:
        """Leave a sign in the graph that disappears with it."""
        if root.grad_fn is None or len(self.graphs) > 5000:
            return
        with contextlib.suppress(Exception):
            if "course.doctor" not in root.grad_fn.metadata:
                root.grad_fn.metadata["course.doctor"] = sign = _Sign()
                self.graphs.append((call, weakref.ref(sign)))

    def _alive(self) -> list[int]:
        """The calls whose graphs still exist."""
        return sorted({call for call, sign in self.graphs if sign() is not None})

    # --- optimizers ---------------------------------------------------------------------------------------------

    def _open(self, optimizer: Any) -> list[Any]:
        call = getattr(self.recorder, "call", None)
        return [
            entry
            for entry in self.open_steps
            if (optimizer is None or entry[0].optimizer is optimizer) and call in (None, entry[0].call)
        ]

    def before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = self._meet(optimizer)
        event = self.recorder.record(
            "optimizer_step",
            optimizer=optimizer,
            rates=[number_of(group.get("lr", 0.0)) for group in optimizer.param_groups],
            gradients=self._norms(parameters),
            moved={},
            finished=False,
            closure=False,
            by_scaler=self.depth["scaler"] > 0,
            error=None,
        )
        self.open_steps = [entry for entry in self.open_steps if entry[0].optimizer is not optimizer]
        self.open_steps.append((event, {name: p.detach().clone() for name, p in parameters.items()}))

    def after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for event, before in self._open(optimizer):
            with torch.no_grad():
                event.moved = {name: largest_change(value, self.known[name]) for name, value in before.items()}
            event.finished = True
            # Momentum, moments and decay move a parameter without a gradient too; what remains tells whose it was.
            event.held = self._norms({name: self.known[name] for name in before})
        self.open_steps = [entry for entry in self.open_steps if entry[0].optimizer is not optimizer]

    def zero_optimizer(self, original: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        parameters = self._meet(optimizer)
        return self._zero(original, optimizer, parameters, "optimizer", *args, **kwargs)

    def zero_module(self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        parameters = {self._add(p): p for p in module.parameters()}
        return self._zero(original, module, parameters, "module", *args, **kwargs)

    def _zero(
        self,
        original: Callable[..., Any],
        owner: Any,
        parameters: dict[str, Tensor],
        field: str,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        self.depth["zero_grad"] += 1
        try:
            if self.depth["zero_grad"] == 1:
                self.recorder.record(
                    "zero_grad",
                    **{"optimizer": None, "module": None, field: owner},
                    set_to_none=args[0] if args else kwargs.get("set_to_none", True),
                    gradients=self._norms(parameters),
                )
            return original(owner, *args, **kwargs)
        finally:
            self.depth["zero_grad"] -= 1

    def clip_norm(self, original: Callable[..., Any], parameters: Any, max_norm: Any, total: Any, *args: Any) -> Any:
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        self._clip("clip_grad_norm_", parameters, max_norm, number_of(total))
        return original(parameters, max_norm, total, *args)

    def clip_value(self, original: Callable[..., Any], parameters: Any, clip_value: Any, *args: Any, **kw: Any) -> Any:
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        self._clip("clip_grad_value_", parameters, clip_value, None)
        return original(parameters, clip_value, *args, **kw)

    def _clip(self, name: str, parameters: list[Tensor], bound: Any, norm: float | None) -> None:
        named = {self._add(p): p for p in parameters}
        self.recorder.record(
            "clip", name=name, parameters=list(named), bound=number_of(bound), norm=norm, gradients=self._norms(named)
        )


def _outputs(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _outputs(member)
    elif isinstance(value, dict):
        yield from _outputs(list(value.values()))


class _Sign:
    """Something that can be referred to weakly."""


def _facts(root: Tensor) -> list[Any]:
    from course.doctor.graph import look

    return look(root)


def _traced(tensor: Tensor) -> bool:
    """Whether a compiler looks at this tensor, and no training step."""
    return torch.compiler.is_compiling() or type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")

"""Note what modules, losses, dropout and modes do while a step or an evaluation runs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.loss import _Loss
from torch.overrides import TorchFunctionMode

from course.doctor import axis_looks
from course.doctor.loading import mapped
from course.doctor.watch import Seen, origin

if TYPE_CHECKING:
    from course.doctor.watch import Event, Recorder

_LOSSES = {
    getattr(F, name): name
    for name in (
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cosine_embedding_loss",
        "cross_entropy",
        "ctc_loss",
        "gaussian_nll_loss",
        "hinge_embedding_loss",
        "huber_loss",
        "kl_div",
        "l1_loss",
        "margin_ranking_loss",
        "mse_loss",
        "multi_margin_loss",
        "multilabel_margin_loss",
        "multilabel_soft_margin_loss",
        "nll_loss",
        "poisson_nll_loss",
        "smooth_l1_loss",
        "soft_margin_loss",
        "triplet_margin_loss",
        "triplet_margin_with_distance_loss",
    )
    if hasattr(F, name)
}
_DROPOUTS = {
    getattr(F, name): name
    for name in ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
} | {torch.dropout: "dropout", F.scaled_dot_product_attention: "scaled_dot_product_attention"}
_READS = {
    Tensor.item: "item",
    Tensor.tolist: "tolist",
    Tensor.numpy: "numpy",
    Tensor.detach: "detach",
    Tensor.__float__: "float",
}
_MOST_READS = 500
_MOST_KEPT = 2**20  # elements of a loss's input that are kept
_MOST_KEPT_BYTES = 2**25  # of all of them together
_HERE = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)
_DISPATCH = {str(Path(_TORCH, name)) for name in ("overrides.py", "_tensor.py")}


@contextlib.contextmanager
def patches(recorder: Recorder) -> Iterator[None]:
    """Inside the block forward passes, losses, dropout, train(), eval() and reads of values are recorded."""
    watcher = _Watcher(recorder)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(nn.Module, "__call__", _wrapped(nn.Module.__call__, watcher.call)))
        stack.enter_context(mock.patch.object(nn.Module, "train", _wrapped(nn.Module.train, watcher.train)))
        stack.enter_context(_Functions(watcher))
        yield


def _wrapped(original: Callable[..., Any], wrap: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrap(original, self, *args, **kwargs)

    return method


class _Functions(TorchFunctionMode):
    """Sees every function of torch, however it was imported."""

    def __init__(self, watcher: _Watcher) -> None:
        super().__init__()
        self._watcher = watcher

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._watcher.function(func, args, kwargs or {})


class _Watcher:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._bytes_left = _MOST_KEPT_BYTES
        self._reads = 0
        self._modes = 0
        self._called: set[int] = set()
        self._last: tuple[weakref.ref[Tensor], int, Seen] | None = None

    def _idle(self) -> bool:
        # Inside backward a forward pass is one of activation checkpointing, which is run again. Inside vmap and grad of
        # torch.func tensors must not be kept.
        return (
            not self.recorder.here()
            or torch._C._current_graph_task_id() != -1
            or torch._C._functorch.peek_interpreter_stack() is not None
        )

    # --- modules --------------------------------------------------------------------------------------------------

    def call(self, original: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if self._idle() or torch.compiler.is_compiling():
            return original(module, *args, **kwargs)
        recorder = self.recorder
        root = not recorder.modules and not isinstance(module, _Loss)
        if root:
            recorder.first_seen(module)
        with recorder.inside(
            "forward",
            module=module,
            name=recorder.name_of(module),
            root=root,
            training=module.training,
            inputs=[Seen.of(value, numbers=root) for value in tensors((args, kwargs))],
            outputs=[],
            arguments=self._arguments(module, args, kwargs) if root else None,
            error=None,
        ) as event:
            recorder.modules.append(module)
            try:
                result = original(module, *args, **kwargs)
            except Exception as error:
                event.error = f"{type(error).__name__}: {error}"
                raise
            finally:
                recorder.modules.pop()
            event.outputs = [self._seen(value) for value in tensors(result)]
            return result

    def _arguments(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """The arguments, cut off from their graph; None after the first call of a module."""
        if id(module) in self._called:
            return None
        self._called.add(id(module))
        return mapped(Tensor.detach, args), mapped(Tensor.detach, kwargs)

    def _seen(self, tensor: Tensor) -> Seen:
        """Look at an output, once where a container returns what its last module did."""
        version = 0 if tensor.is_inference() else tensor._version
        if self._last is not None and self._last[0]() is tensor and self._last[1] == version:
            return self._last[2]
        seen = Seen.of(tensor, numbers=True)
        self._last = (weakref.ref(tensor), version, seen)
        return seen

    def train(self, original: Any, module: nn.Module, mode: bool = True) -> Any:
        if self._idle() or self._modes:
            return original(module, mode)
        self.recorder.first_seen(module)
        self.recorder.record("mode", module=module, name=self.recorder.name_of(module), training=mode)
        self._modes += 1
        try:
            return original(module, mode)
        finally:
            self._modes -= 1

    # --- functions ------------------------------------------------------------------------------------------------

    def function(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func in _LOSSES and not self._idle():
            return self._loss(func, args, kwargs)
        if func in _DROPOUTS and not self._idle():
            self._dropout(func, args, kwargs)
        elif func in _READS and self._reads < _MOST_READS and not self._idle() and _by_user():
            self._reads += 1
            graph = isinstance(args[0], Tensor) and args[0].grad_fn is not None
            self.recorder.record("read", name=_READS[func], graph=graph)
        elif self.recorder.here():
            self.recorder.check_time()
        look = axis_looks.LOOKS.get(func)
        if look is None or self._idle() or not _by_user():
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        look(self.recorder, func, args, kwargs, result)
        return result

    def _loss(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        values = _arguments(func, args, kwargs)
        names = list(values)
        given = values.pop(names[0]) if names else None
        target = values.pop(next((name for name in ("target", "targets") if name in values), ""), None)
        event: Event = self.recorder.record(
            "loss",
            name=_LOSSES[func],
            input=self._kept(given),
            target=self._kept(target),
            input_seen=Seen.of(given, numbers=True) if isinstance(given, Tensor) else None,
            target_seen=Seen.of(target, numbers=True) if isinstance(target, Tensor) else None,
            options={name: value.detach() if isinstance(value, Tensor) else value for name, value in values.items()},
            origin=origin(given) if isinstance(given, Tensor) else (),
            module=self.recorder.modules[-1] if self.recorder.modules else None,
            value=None,
            error=None,
        )
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            event.error = f"{type(error).__name__}: {error}"
            raise
        if isinstance(result, Tensor) and result.numel() == 1:
            with contextlib.suppress(Exception):
                event.value = float(result.detach())
        return result

    def _kept(self, value: Any) -> Tensor | None:
        if not isinstance(value, Tensor) or value.numel() > _MOST_KEPT or value.device.type == "meta":
            return None
        size = value.numel() * value.element_size()
        if size > self._bytes_left:
            return None
        self._bytes_left -= size
        return value.detach().clone()

    def _dropout(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if func is F.scaled_dot_product_attention:
            p = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
            if not p:
                return
            training = True
        else:
            values = _arguments(func, args, kwargs) if func is not torch.dropout else {}
            p = values.get("p", args[1] if len(args) > 1 else kwargs.get("p", 0.5))
            training = values.get("training", args[2] if len(args) > 2 else kwargs.get("train", True))
        module = self.recorder.modules[-1] if self.recorder.modules else None
        self.recorder.record(
            "dropout",
            name=_DROPOUTS[func],
            p=float(p),
            training=bool(training),
            module=module,
            module_name=self.recorder.name_of(module) if module is not None else "",
        )


@functools.lru_cache(maxsize=64)
def _signature(func: Any) -> inspect.Signature:
    return inspect.signature(func)


def _arguments(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, with defaults; {} for a call that does not fit, which is about to raise."""
    try:
        bound = _signature(func).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {}
    bound.apply_defaults()
    return dict(bound.arguments)


def _by_user() -> bool:
    """Whether the user's code called the function that is looked at, and neither PyTorch nor the doctor."""
    frame = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename in _DISPATCH:
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith((_HERE, _TORCH))


def tensors(value: Any, depth: int = 4) -> list[Tensor]:
    """The tensors in nested tuples, lists, mappings and dataclasses, at most 32."""
    if isinstance(value, Tensor):
        return [value]
    if depth == 0:
        return []
    if isinstance(value, dict):
        members: Any = value.values()
    elif isinstance(value, (tuple, list)):
        members = value
    elif hasattr(value, "__dataclass_fields__"):
        members = vars(value).values() if hasattr(value, "__dict__") else ()
    else:
        return []
    found: list[Tensor] = []
    for member in members:
        found += tensors(member, depth - 1)
        if len(found) >= 32:
            break
    return found

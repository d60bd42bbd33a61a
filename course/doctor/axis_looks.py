"""Note calls of torch functions whose axes or shapes tell of a fault: argmax, softmax, and elementwise pairs.

`LOOKS` is what the watch asks for each torch function that the user's code calls: `LOOKS[func](recorder, func, args,
kwargs, result)`. The events, beside those of course.doctor.watch:

=========  ===========================================================================================================
argmax     ``name``, ``dim`` (not negative; None: over all), ``shape`` (of the input), ``graph`` (it required gradients)
softmax    ``name``, ``dim`` (not negative), ``implicit`` (no dim was given), ``shape``
pair       an elementwise operation whose result has more elements than either operand: ``name``, ``shapes``,
           ``graphs`` (operand requires gradients), ``unsqueezed`` (operand is a view with an axis added), ``related``
           (both operands are views of one tensor), ``shape`` (of the result)
poured     view or reshape gave the same sizes in another order: ``name``, ``before``, ``after``
wrap       arithmetic of uint8 went over 255 or below 0: ``name``, ``number`` (of elements), ``shape``
mean       in an evaluation, the mean of all elements of a tensor: ``value``, ``count``
log        a logarithm without a graph of zeros or negative numbers: ``name``, ``zeros``, ``negatives``, ``shape``
squeeze    squeeze() without an axis took axes away from a batch: ``shape``
cut        a function without gradient was applied to a tensor with a graph: ``name``, ``shape``
=========  ===========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_Look = Callable[[Any, Any, tuple[Any, ...], dict[str, Any], Any], None]

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "less", "greater", "not_equal", "isclose"})
_ARITHMETIC = frozenset({"add", "radd", "sub", "rsub", "subtract", "mul", "rmul", "multiply"})
_MOST_ELEMENTS = 4_000_000
_PAIRS = (
    "add sub subtract rsub mul multiply div divide true_divide logical_and logical_or maximum minimum pow eq ne lt le "
    "gt ge less greater not_equal isclose __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ "
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__"
)
_FLAT = "round sign sgn floor ceil trunc heaviside long int bool byte"


def _argmax(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    tensor = args[0] if args else kwargs.get("input")
    if not isinstance(tensor, Tensor):
        return
    name = func.__name__
    place = 2 if name == "topk" else 1
    dim = kwargs.get("dim", kwargs.get("axis", args[place] if len(args) > place else None))
    if name in ("max", "min") and not isinstance(dim, int):
        return  # the largest element, or an elementwise maximum
    if name == "topk" and dim is None:
        dim = -1
    if isinstance(dim, int) and tensor.ndim:
        dim %= tensor.ndim
    recorder.record("argmax", name=name, dim=dim, shape=tuple(tensor.shape), graph=tensor.requires_grad)
    if name in ("argmax", "argmin") and tensor.requires_grad:
        recorder.record("cut", name=name, shape=tuple(tensor.shape))


def _softmax(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    tensor = args[0] if args else kwargs.get("input", kwargs.get("self"))
    if not isinstance(tensor, Tensor) or not tensor.ndim:
        return
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    implicit = not isinstance(dim, int)
    if implicit:
        dim = 0 if tensor.ndim in (0, 1, 3) else 1  # what torch does, with a warning
    shape = tuple(tensor.shape)
    recorder.record("softmax", name=func.__name__, dim=dim % tensor.ndim, implicit=implicit, shape=shape)


def _pair(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    two = [*args, *kwargs.values()][:2]
    if not isinstance(result, Tensor) or not two:
        return
    name = func.__name__.strip("_")
    if name in _ARITHMETIC and (number := wrapped(func, args, kwargs, result)):
        recorder.record("wrap", name=name, number=number, shape=tuple(result.shape))
    if name in _COMPARISONS and any(isinstance(one, Tensor) and one.requires_grad for one in two):
        recorder.record("cut", name=name, shape=tuple(result.shape))
    if len(two) < 2 or not all(isinstance(one, Tensor) for one in two):
        return
    if result.numel() <= max(one.numel() for one in two):
        return
    recorder.record(
        "pair",
        name=name,
        shapes=tuple(tuple(one.shape) for one in two),
        graphs=tuple(one.requires_grad for one in two),
        unsqueezed=tuple(_unsqueezed(one) for one in two),
        related=_memory(two[0]) == _memory(two[1]),
        shape=tuple(result.shape),
    )


def _moved(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    if args and isinstance(args[0], Tensor) and isinstance(result, Tensor):
        before, after = tuple(args[0].shape), tuple(result.shape)
        if poured(before, after):
            recorder.record("poured", name=func.__name__, before=before, after=after)


def poured(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a new shape has the same sizes in another order: view() cannot move axes, it pours elements over."""
    ours, theirs = [n for n in before if n != 1], [n for n in after if n != 1]
    return len(before) == len(after) >= 3 and ours != theirs and sorted(ours) == sorted(theirs)


def wrapped(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """In how many elements arithmetic of bytes gave another number than that of integers."""
    if not isinstance(result, Tensor) or result.dtype != torch.uint8 or result.numel() > _MOST_ELEMENTS:
        return 0
    wide = tuple(a.int() if isinstance(a, Tensor) and a.dtype == torch.uint8 else a for a in args)
    return int((func(*wide, **kwargs).int() != result.int()).sum())


def _flat(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    if args and isinstance(args[0], Tensor) and args[0].requires_grad:
        recorder.record("cut", name=func.__name__, shape=tuple(args[0].shape))


def _mean(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    # Only where a metric is computed: reading a number costs a wait on an accelerator.
    if getattr(recorder, "phase", "") != "evaluate" or not args or not isinstance(args[0], Tensor):
        return
    if isinstance(result, Tensor) and result.numel() == 1 and args[0].ndim and "forward" not in recorder._within:
        recorder.record("mean", value=float(result.detach()), count=args[0].numel())


def _log(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    given = args[0] if args else None
    if not isinstance(result, Tensor) or not isinstance(given, Tensor) or not given.is_floating_point():
        return
    if given.numel() > _MOST_ELEMENTS or given.requires_grad or bool(torch.isfinite(result).all()):
        return  # with a graph it is seen there
    low = -1 if func.__name__ == "log1p" else 0
    zeros, negatives = int((given == low).sum()), int((given < low).sum())
    if zeros or negatives:
        recorder.record("log", name=func.__name__, zeros=zeros, negatives=negatives, shape=tuple(given.shape))


def _squeeze(recorder: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    # Without an axis all axes of size 1 go, the batch's too where it holds one sample.
    if len(args) == 1 and not kwargs and isinstance(args[0], Tensor) and isinstance(result, Tensor):
        shape = tuple(args[0].shape)
        if len(shape) > 1 and shape[0] > 1 and result.ndim < len(shape):
            recorder.record("squeeze", shape=shape)


def _unsqueezed(tensor: Tensor) -> bool:
    base = tensor._base
    return base is not None and base.ndim < tensor.ndim and base.numel() == tensor.numel()


def _memory(tensor: Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def _table() -> dict[Any, _Look]:
    groups: dict[_Look, str] = {
        _argmax: "argmax argmin max min topk",
        _softmax: "softmax log_softmax",
        _pair: _PAIRS,
        _flat: _FLAT,
        _squeeze: "squeeze",
        _log: "log log2 log10 log1p",
        _moved: "view reshape",
        _mean: "mean",
    }
    table: dict[Any, _Look] = {}
    for look, names in groups.items():
        for name in names.split():
            # As a function, as a method, and as what a method's descriptor is called with.
            for owner in (torch, Tensor, F, torch._C.TensorBase):
                if callable(function := getattr(owner, name, None)):
                    table[function] = look
    return table


LOOKS: dict[Any, _Look] = _table()

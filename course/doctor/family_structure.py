"""Modules at work: axes of sequence layers, flattened sizes, plain tensors, calls that bypass hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor import datasets, registration, tour
from course.doctor.family_modules import roots
from course.doctor.loss_values import size
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup


def examine(setup: Setup) -> Iterator[Finding]:
    """What only shows while modules run."""
    seen = tour.take(setup)
    yield from _plain_tensors(setup, seen)
    if seen is None:
        return
    yield from _direct(setup, seen)
    yield from _flattened(setup)
    with setup.scratch():
        yield from _axes(setup, seen)


# --- plain tensors ------------------------------------------------------------------------------------------------


def _plain_tensors(setup: Setup, seen: tour.Tour | None) -> Iterator[Finding]:
    held = {id(t) for o in setup.optimizers for group in o.param_groups for t in group["params"]}
    trained = set()
    for event in setup.training.of("backward") if setup.training else ():
        trained.update(id(fact.tensor) for fact in event.get("facts") or () if fact.kind == "leaf")
    width = _batch_size(setup)
    for name, top in roots(setup):
        state = top.state_dict()
        for path, module, tensor in registration.plain_tensors(top):
            place = f"{name}.{path}" if name else path
            what = f"`{place}` of the {type(module).__name__} is a plain tensor of shape {size(tensor)}"
            if tensor.requires_grad:
                if tensor.is_leaf and id(tensor) not in held and (id(tensor) in trained or seen is None):
                    yield Finding(
                        "tensor-not-buffer",
                        f"{what} that requires gradients: no parameter, so that `parameters()` does not list it, no "
                        "optimizer holds it and `state_dict()` leaves it out.",
                    )
                    return
                if not tensor.is_leaf and (leaf := _foreign_leaf(tensor, top)) is not None:
                    yield Finding(
                        "nonleaf-parameter",
                        f"{what} and the result of an operation ({tensor.grad_fn.name()}) on a parameter of shape "
                        f"{size(leaf)} that no module holds; no optimizer can train it.",
                    )
                    return
                continue
            if seen is None or not tensor.ndim or (id(tensor) in seen.replaced and width in tuple(tensor.shape)):
                continue
            names = seen.uses.get(id(tensor), set())
            if tour.conversions_only(names) or (
                not tensor.is_floating_point() and names <= {"__getitem__", "embedding"}
            ):
                continue
            yield Finding(
                "tensor-not-buffer",
                f"{what} ({str(tensor.dtype)[6:]}, on {tensor.device}), and a step uses it "
                f"({', '.join(sorted(names)[:3])}). "
                f"`to()` and `double()` pass it over, and none of the {len(state)} entries of `state_dict()` is it.",
                severity="warning",
            )
            return


def _batch_size(setup: Setup) -> int:
    found = datasets.arrays(setup.batches[0]) if setup.batches else []
    return found[0].shape[0] if found and found[0].ndim else 0


def _foreign_leaf(tensor: Tensor, top: nn.Module) -> Tensor | None:
    """A leaf behind a tensor that the model does not hold as a parameter."""
    from course.doctor import graph

    own = {id(parameter) for parameter in top.parameters()}
    leaves = [fact.tensor for fact in graph.look(tensor) if fact.kind == "leaf"]
    return next((leaf for leaf in leaves if id(leaf) not in own), None) if leaves else None


# --- forward called directly --------------------------------------------------------------------------------------


def _direct(setup: Setup, seen: tour.Tour) -> Iterator[Finding]:
    if not seen.direct:
        return
    name = next((name for name, hooks in seen.direct.items() if hooks), next(iter(seen.direct)))
    what = f"`{name}`" if name not in ("", "?") else "the model"
    hooked = seen.direct[name]
    yield Finding(
        "forward-called-directly",
        f"`forward` of {what} is called by name, not through the module"
        + (", and its hooks do not run." if hooked else "; it has no hooks at the moment."),
        severity="warning" if hooked else "note",
    )


# --- flattened sizes ----------------------------------------------------------------------------------------------


def _flattened(setup: Setup) -> Iterator[Finding]:
    """view(-1, k) with a k that is not what one sample has: the batch comes out longer."""
    for event in setup.training.of("loss") if setup.training else ():
        given, target = event.input, event.target
        if not (event.get("error") and isinstance(given, Tensor) and isinstance(target, Tensor)):
            continue
        if given.ndim == 2 and target.ndim >= 1 and given.shape[0] != target.shape[0]:
            width = _batch_size(setup)
            convolves = any(isinstance(m, nn.modules.conv._ConvNd) for _, m in setup.reached(nn.Module))
            if width == target.shape[0] and convolves:
                yield Finding(
                    "flatten-size-mismatch",
                    f"{width} samples go in and {given.shape[0]} rows of outputs come out, {size(given)}: features "
                    "were "
                    "flattened with `view(-1, k)`, and k is not the size of one sample's features.",
                )
        return


# --- batch axis ---------------------------------------------------------------------------------------------------


def _axes(setup: Setup, seen: tour.Tour) -> Iterator[Finding]:
    """A sequence layer whose batch axis is another one than the batch's, and samples that influence each other."""
    width = _batch_size(setup)
    if width < 2 or not _default_order(setup):
        return
    yield from _softmax_over_batch(setup, width)
    wrong = []
    for module, name, shape in seen.sequences:
        first = _batch_first(module)
        axis = 0 if first else 1
        if (len(shape) == 3 and shape[axis] != width and width in shape[:2]) or (
            len(shape) == 3 and shape[0] == shape[1] == width and not first
        ):
            wrong.append((module, name, shape, first))
        elif len(shape) == 2 and shape[0] == width:
            wrong.append((module, name, shape, None))
    if not wrong:
        return
    change = influence(setup)
    if change is None or change <= 0:
        return
    module, name, shape, first = wrong[0]
    if first is None:
        how = "takes a 2-D input for one sequence, without a batch"
    else:
        order = "batch, seq" if first else "seq, batch"
        how = f"was made with batch_first={first} and reads its input as ({order}, features)"
    yield Finding(
        "batch-first-mismatch",
        f"`{name or 'the model'}` ({type(module).__name__}) {how}. A batch has {width} samples, and its input is "
        f"{size(shape)}. With one sample changed, the outputs of others change by up to {change:.3g}.",
    )


def _softmax_over_batch(setup: Setup, width: int) -> Iterator[Finding]:
    """A softmax inside of the model over axis 0, which is the batch, and samples that influence each other."""
    for event in setup.training.of("softmax") if setup.training else ():
        shape = event.shape
        if event.dim or "forward" not in event.within or len(shape) < 2 or shape[0] != width or width in shape[1:]:
            continue
        change = influence(setup)
        if change:
            yield Finding(
                "argmax-wrong-axis",
                f"Inside the model `{event.name}` runs over axis 0 of {size(shape)}"
                + (" (no axis was given)" if event.implicit else "")
                + f", which is the batch. With one sample changed, the outputs of others change by up to {change:.3g}.",
            )
        return


def _batch_first(module: nn.Module) -> bool:
    for part in module.modules():
        if isinstance(value := getattr(part, "batch_first", None), bool):
            return value
    return False


def _default_order(setup: Setup) -> bool:
    """Whether axis 0 of a batch is known to be the batch: torch's own collate, or targets of that length."""
    from torch.utils.data import default_collate

    if getattr(setup.loader, "collate_fn", None) is default_collate:
        return True
    target = datasets.parts(setup.batches[0])[1]
    arrays = datasets.arrays(setup.batches[0])
    return isinstance(target, Tensor) and target.ndim > 0 and bool(arrays) and target.shape[0] == arrays[0].shape[0]


def influence(setup: Setup) -> float | None:
    """How much the outputs of the other samples change when sample 0 does; None where it cannot be tried."""
    found = call_of_model(setup)
    if found is None:
        return None
    model, args, kwargs = found
    given = next((value for value in args if isinstance(value, Tensor)), None)
    if given is None or given.ndim < 2 or given.shape[0] < 2:
        return None
    other = given.detach().clone()
    # The last sample in place of the first: valid values, also for tokens.
    other[0] = given[-1] if not torch.equal(given[0], given[-1]) else given[0].flip(0)
    swapped = tuple(other if value is given else value for value in args)
    model.eval()
    try:
        with torch.no_grad():
            before = _first(model(*args, **kwargs))
            again = _first(model(*args, **kwargs))
            after = _first(model(*swapped, **kwargs))
    except Exception:
        return None
    if before is None or after is None or before.shape != after.shape or before.shape[0] != given.shape[0]:
        return None
    if not torch.equal(before, again):
        return None
    apart = (after[1:] - before[1:]).abs().max()
    scale = before.abs().max().clamp_min(1e-6)
    return float(apart) if float(apart / scale) > 1e-4 else 0.0


def call_of_model(setup: Setup) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]] | None:
    """A module that a step calls and what it calls it with: the given model, or the first one."""
    for event in setup.training.of("forward") if setup.training else ():
        arguments = event.get("arguments")
        if arguments is not None and event.root and (setup.raw_model is None or event.module is setup.raw_model):
            return event.module, tuple(arguments[0]), dict(arguments[1])
    return None


def _first(value: Any) -> Tensor | None:
    found = datasets.arrays(value)
    return found[0].double() if found and not found[0].is_complex() else None

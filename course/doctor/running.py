"""Run the user's step and evaluation under watch, and put everything back."""

from __future__ import annotations

import contextlib
import io
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course.doctor import hooks_dynamic, hooks_static, reach, tracing
from course.doctor.loading import calm_loaders
from course.doctor.watch import Event, OutOfTime, Recorder, Recording

if TYPE_CHECKING:
    from course.doctor.setup import Setup

# Patches are on classes of torch, so that two examinations in two threads have to take turns.
_TURN = threading.RLock()

uncompiled = tracing.uncompiled

Call = tuple[str, Callable[[], Any]]


def record(
    setup: Setup,
    calls: Callable[[Recording], Iterable[Call]],
    *,
    seconds: float,
    train_first: bool = False,
    most_batches: int | None = None,
) -> Recording:
    """Run calls, (phase, function), one after another, note what they do, and put everything back.

    calls: given the recording of what has been seen so far, iterates over them; it decides when to end. seconds: what
    they may take together; what is running then is broken off. train_first: put the model into training mode before
    them, as a loop around a step would. most_batches: let loaders end after so many.
    """
    recording = Recording(shortened=most_batches is not None)
    recorder = Recorder(
        recording,
        deadline=time.perf_counter() + seconds,
        name_of=setup.name_of,
        first_seen=setup.keep_also,
        parameters=setup.parameters,
    )
    with setup.scratch(thorough=True):
        if train_first:
            _begin_epoch(setup.model)
        recording.modes_before = _modes(setup)
        start = time.perf_counter()
        loaders = calm_loaders(recorder.check_time, most_batches)
        with setup.guard.entered(_TURN, _outputs(recording), loaders, *patches(recorder)):
            _run(recorder, calls(recording))
        recording.seconds = time.perf_counter() - start
        recording.modes_after = _modes(setup)
        with torch.no_grad():
            recording.moved = setup.changes(setup.parameters)
            recording.buffers_moved = setup.changes(setup.buffers)
        recording.kept_graphs = _kept_graphs(setup)
    return recording


def _begin_epoch(model: nn.Module | None) -> None:
    """Put the model into training mode, as the loop around a step would.

    A model that is in it, with some of its modules in evaluation mode, was made so on purpose: only where a class has a
    train() of its own, which keeps them so, is it called.
    """
    if model is None:
        return
    own = any(type(module).train is not nn.Module.train for module in model.modules())
    if own or not model.training:
        model.train()


def _run(recorder: Recorder, calls: Iterable[Call]) -> None:
    recording = recorder.recording
    for number, (phase, function) in enumerate(calls):
        recorder.phase, recorder.call = phase, number
        start = time.perf_counter()
        event = Event(error=None)
        try:
            event = recorder.record("call", returned=None, error=None, seconds=0.0, ended=False)
            recording.calls += 1
            event.returned = summary(function())
            event.ended = True
        except OutOfTime:
            recording.complete = False
            return
        except (Exception, SystemExit) as error:
            event.error, recording.error = f"{type(error).__name__}: {error}", error
            return
        finally:
            event.seconds = time.perf_counter() - start


def patches(recorder: Recorder) -> tuple[contextlib.AbstractContextManager[Any], ...]:
    """What has to be entered so that the recorder is told of everything."""
    return hooks_dynamic.patches(recorder), hooks_static.patches(recorder)


@contextlib.contextmanager
def _outputs(recording: Recording) -> Iterator[None]:
    """Keep what the user's code prints and warns of."""
    text = io.StringIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                yield
        finally:
            recording.printed = text.getvalue()[:10_000]
            recording.warnings = [(entry.category.__name__, str(entry.message)) for entry in caught[:200]]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside the block nothing is printed and no warning shown."""
    with _outputs(Recording()):
        yield


def summary(value: Any) -> float | str | None:
    """What is kept of a returned value: a number, or the name of its type."""
    if value is None:
        return None
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
        return float(value.detach())
    if isinstance(value, (int, float)):
        return float(value)
    return type(value).__name__


def _modes(setup: Setup) -> dict[str, bool]:
    return {name: module.training for name, module in setup.modules.items()}


def _kept_graphs(setup: Setup) -> list[tuple[str, int]]:
    """Tensors with a graph that are still referred to from what outlives the calls, and were not before."""
    seen: set[int] = set()
    found = []
    for part in reach.walk(setup.roots, seen, limit=20_000):
        thing = part.thing
        if isinstance(thing, Tensor) and thing.grad_fn is not None and not setup.knows(thing):
            found.append((part.path, graph_size(thing)))
    return found[:200]


def graph_size(tensor: Tensor, most: int = 5000) -> int:
    """How many nodes of the backward graph a tensor keeps alive, counted up to `most`."""
    stack, seen = [tensor.grad_fn], set()
    while stack and len(seen) < most:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        stack.extend(parent for parent, _ in node.next_functions)
    return len(seen)


def standard_step(setup: Setup, batch: Any, model: nn.Module | None = None) -> Tensor:
    """The step of a textbook: zero_grad, forward, loss, backward, step; returns the loss.

    model: as it was given; by default the module inside of its wrappers.
    """
    inputs, target = setup.pair(batch)
    # A distributed wrapper without the other processes would wait for them.
    model = setup.raw_model if model is None else model
    losses: list[Tensor] = []

    def closure() -> Tensor:
        for optimizer in setup.optimizers:
            optimizer.zero_grad()
        if not setup.optimizers:
            model.zero_grad()
        loss = setup.loss_fn(model(inputs), target)
        if setup.scaler is not None and len(setup.optimizers) == 1 and not _needs_closure(setup.optimizers[0]):
            setup.scaler.scale(loss).backward()
        else:
            loss.backward()
        losses.append(loss.detach())
        return loss

    if any(_needs_closure(optimizer) for optimizer in setup.optimizers):
        for optimizer in setup.optimizers:
            optimizer.step(closure)
        return losses[0]
    closure()
    if setup.scaler is not None and len(setup.optimizers) == 1:
        setup.scaler.step(setup.optimizers[0])
        setup.scaler.update()
    else:
        for optimizer in setup.optimizers:
            optimizer.step()
    return losses[0]


def _needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    return isinstance(optimizer, torch.optim.LBFGS)


def largest_change(before: Tensor, now: Tensor) -> float:
    """The largest absolute difference; infinite where shapes differ or only one of two values is NaN."""
    if before.shape != now.shape:
        return math.inf
    if before.numel() == 0:
        return 0.0
    now = now.detach().to(before.device)
    if now.dtype == before.dtype and torch.equal(now, before):
        return 0.0
    if before.is_complex():
        before, now = torch.view_as_real(before), torch.view_as_real(now.resolve_conj())
    before, now = before.to(torch.float64), now.to(torch.float64)
    change = torch.where(torch.isnan(before) & torch.isnan(now), 0.0, (now - before).abs())
    return math.inf if bool(torch.isnan(change).any()) else float(change.max())

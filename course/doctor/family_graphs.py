"""Graphs that are kept, walked twice, bypassed or cut off between one batch and the next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from course.doctor.loss_graph import Graph
from course.doctor.replay import replay, variables
from course.doctor.report import Finding
from course.doctor.setup import Setup
from course.doctor.watch import Recording

_STATES = ("hidden", "state", "memory", "carry", "h0", "c0", "cell", "context")


def examine(setup: Setup) -> Iterator[Finding]:
    """hidden-state-not-detached, backward-twice, step-before-second-backward, graph-retained-in-log,
    data-bypasses-autograd, parameter-rebound, missing-create-graph."""
    training = setup.training
    if training is not None and setup.step is not None:
        recurrent = any(isinstance(m, (nn.RNNBase, nn.RNNCellBase)) for m in setup.modules.values())
        yield from second_backward(training, recurrent)
        yield from growing(training, recurrent)
        yield from kept(training)
    if setup.evaluation is not None:
        yield from kept_by_evaluation(setup.evaluation, training)
    if training is None:
        return
    yield from leaf_behind(setup, training)
    seen = replay(setup)
    if seen.skipped:
        if training.error is None:
            setup.skip("single operations of a step", seen.skipped)
        return
    if seen.overwritten:
        shape, dtype = seen.overwritten[0]
        yield Finding(
            "data-bypasses-autograd",
            f"{len(seen.overwritten)} tensors that were saved for backward, the first of shape {shape} and {dtype}, "
            "had other values when backward used them, and their version counters had not moved: something wrote "
            "through .data or through shared memory.",
        )
    if seen.rebound:
        yield Finding(
            "parameter-rebound",
            f'After one step "{seen.rebound[0]}" is another object than before: it was replaced and not changed in '
            f"place ({len(seen.rebound)} in all).",
            confidence=0.97,
        )
    elif seen.new_tensors and not any(training.moved.values()) and not training.of("optimizer_step"):
        yield Finding(
            "parameter-rebound",
            f"In one step {seen.new_tensors} parameters minus their gradient gave new tensors, and in {training.calls} "
            "steps no parameter changed: the results went under other names, or nowhere.",
            confidence=0.97,
        )
    if seen.constant_gradients:
        yield Finding(
            "missing-create-graph",
            "A result of torch.autograd.grad(), called without create_graph=True, is a constant: "
            f"{seen.constant_gradients} numbers made from it were added to the loss and have no gradient.",
        )


def leaf_behind(setup: Setup, recording: Recording) -> Iterator[Finding]:
    """Tensors that are meant to be trained and are results of an operation on a leaf that has no name."""
    passes = recording.of("backward")
    if not passes or not passes[0].graph.strangers:
        return
    attributes = [
        (f"{name}.{key}" if name else key, value)
        for name, module in setup.modules.items()
        for key, value in vars(module).items()
        if isinstance(value, Tensor)
    ]
    for path, tensor in [*attributes, *variables(setup.step).items()]:
        if not tensor.requires_grad or tensor.is_leaf:
            continue
        behind = Graph.of([tensor], {id(p): n for n, p in setup.parameters.items()})
        shapes = [shape for shape in behind.strangers if shape in passes[0].graph.strangers]
        if behind.parameters or not shapes:
            continue
        yield Finding(
            "nonleaf-parameter",
            f'"{path}" of shape {tuple(tensor.shape)} requires a gradient and is no leaf but the result of '
            f"{tensor.grad_fn.name()}. Its gradient goes to a leaf of shape {shapes[0]} behind it, which no optimizer "
            "holds.",
            confidence=0.98,
        )
        return


def second_backward(recording: Recording, recurrent: bool) -> Iterator[Finding]:
    """Which of the faults an error of backward comes from; its message alone does not tell."""
    text = str(recording.error or "")
    again = "backward through the graph a second time" in text
    changed = "modified by an inplace operation" in text
    if not (again or changed):
        return
    call = max((event.call for event in recording.of("call")), default=0)
    failed = [b for b in recording.of("backward", call=call) if b.error]
    first = bool(failed) and len(recording.of("backward", call=call)) == 1
    if call == 0 or not first:
        if changed and failed:
            yield from stepped_between(recording, failed[0], text)
        return
    if carried(recording, recurrent):
        yield Finding(
            "hidden-state-not-detached",
            f"The first call of step() went through; backward() of call {call + 1} walked into the graph of the call "
            f"before, by a state that carries it over: {_first_line(text)}",
            confidence=0.99,
        )
    elif again:
        yield Finding(
            "backward-twice",
            f"The first call of step() went through; backward() of call {call + 1} walked into a graph of an earlier "
            f"call that was freed: {_first_line(text)}",
            confidence=0.97,
        )


def stepped_between(recording: Recording, failed: Any, text: str) -> Iterator[Finding]:
    """Whether an optimizer's step came between the forward pass and the backward that failed."""
    stepped = [e for e in recording.of("optimizer_step", call=failed.call) if e.index < failed.index]
    if stepped and any(stepped[-1].moved.values()):
        yield Finding(
            "step-before-second-backward",
            f"In one call of step(), {type(stepped[-1].optimizer).__name__}.step() changed weights (by up to "
            f"{max(stepped[-1].moved.values()):.3g}), and a later backward() needed them as they were: "
            f"{_first_line(text)}",
            confidence=0.97,
        )


def carried(recording: Recording, recurrent: bool) -> bool:
    """Whether a state with a graph goes from one call into the next."""
    for event in recording.of("forward"):
        if event.get("root") and event.call and any(seen.requires_grad and seen.origin for seen in event.inputs):
            return True
    paths = [path.lower() for path, _ in recording.kept_graphs]
    return recurrent or any(word in path for path in paths for word in _STATES)


def growing(recording: Recording, recurrent: bool) -> Iterator[Finding]:
    """Backward passes that walk through all batches so far, kept walkable by retain_graph."""
    by_call: dict[int, Any] = {}
    for event in recording.of("backward"):
        if event.retain_graph and not event.create_graph and not event.nested:
            by_call.setdefault(event.call, event)
    sizes = [by_call[call].graph.nodes for call in sorted(by_call)]
    if len(sizes) < 3 or not all(a < b for a, b in itertools.pairwise(sizes)):
        return
    if sizes[-1] < 1.5 * sizes[0]:
        return
    numbers = ", ".join(str(size) for size in sizes[:5])
    if carried(recording, recurrent):
        yield Finding(
            "hidden-state-not-detached",
            f"The graph behind the loss grows from call to call ({numbers} nodes), and retain_graph=True keeps it "
            "walkable: each backward() goes through all batches so far.",
        )
    else:
        yield Finding(
            "graph-retained-in-log",
            f"The graph that backward() walks through grows from call to call ({numbers} nodes): losses of earlier "
            "batches are part of it, kept by retain_graph=True.",
        )


def kept(recording: Recording) -> Iterator[Finding]:
    """Graphs of several earlier calls that are still there when backward runs again."""
    passes = [b for b in recording.of("backward") if not b.nested]
    if not passes or recording.error is not None:
        return
    last = passes[-1]
    stepped = [e.call for e in recording.of("optimizer_step")]
    old = [call for call in last.alive if call < last.call - 1]
    # Losses that wait for a common backward are no log; they are gone with it.
    if len(old) < 2 or (stepped and last.call - old[0] < 3):
        return
    if last.graph.nodes > 1.5 * passes[0].graph.nodes and last.retain_graph:
        return  # told by growing()
    where = next((path for path, _ in recording.kept_graphs), "")
    yield Finding(
        "graph-retained-in-log",
        f"At call {last.call + 1} of step() the graphs of {len(last.alive)} earlier calls still exist"
        + (f", held by {where}" if where else "")
        + f"; each has {passes[0].graph.nodes} nodes.",
        severity="warning",
    )


def kept_by_evaluation(recording: Recording, training: Recording | None) -> Iterator[Finding]:
    """Graphs that pile up in an evaluation without no_grad, or are left by it."""
    piled = recording.of("kept_outputs")
    if piled:
        event = piled[-1]
        yield Finding(
            "graph-retained-in-log",
            f"evaluate() records graphs: at its forward pass {event.forwards} those of {event.kept} earlier batches "
            "were still there, with everything that they saved for backward.",
            severity="warning",
        )
        return
    sizes = [size for _, size in recording.kept_graphs]
    passes = training.of("backward") if training is not None else []
    usual = max((b.graph.nodes for b in passes), default=0)
    if len(sizes) >= 3 or (usual and sum(sizes) > 3 * usual):
        yield Finding(
            "graph-retained-in-log",
            f"After evaluate(), {len(sizes)} tensors with a graph of up to {max(sizes)} nodes are still held, by "
            f"{recording.kept_graphs[0][0]}.",
            severity="warning",
        )


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) < 160 else line[:157] + "..."

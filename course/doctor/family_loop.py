"""The order of a training step: clearing, backward, clipping, stepping, accumulating."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from course.doctor.code_names import names_in
from course.doctor.loop_reading import Clip, Reading, Update, read
from course.doctor.replay import variables
from course.doctor.report import Finding
from course.doctor.setup import Setup

# More micro-batches than this in one group are rare; so many calls without a step are no accumulation.
_LONGEST_GROUP = 16


def examine(setup: Setup) -> Iterator[Finding]:
    """missing-zero-grad, zero-grad-before-step, clip-after-step, clip-before-unscale, accumulation-not-scaled,
    loss-rewrapped, graph-cut, step-missing."""
    recording = setup.training
    if recording is None or setup.step is None:
        return
    reading = read(recording.of(*_KINDS))
    known = {id(parameter) for parameter in setup.parameters.values()}
    sizes = [size_of(batch) for batch in setup.batches]
    # A leaf of the step's own is what it trains, and no loss that was made anew.
    if not any(t.is_leaf and t.requires_grad and id(t) not in known for t in variables(setup.step).values()):
        yield from rewrapped(reading, known)
    for look in (cleared_before_step, never_cleared, clipped_late, clipped_scaled, without_scaler):
        yield from look(reading)
    yield from not_scaled(reading, recording.of("forward"), recording.of("loss"), sizes)
    yield from never_stepped(setup, reading, recording)


_KINDS = (
    "zero_grad",
    "backward",
    "clip",
    "scale",
    "unscale",
    "scaler_step",
    "scaler_update",
    "optimizer_step",
)


def size_of(batch: Any) -> int | None:
    """The number of samples of a batch: the length of the first tensor in it."""
    if hasattr(batch, "shape"):
        return int(batch.shape[0]) if len(batch.shape) else None
    values = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else ()
    return next((size for size in map(size_of, values) if size is not None), None)


def rewrapped(reading: Reading, known: set[int]) -> Iterator[Finding]:
    """Backward passes that end in a fresh leaf, or that reach no parameter at all."""
    passes = [b for b in reading.backwards if b.get("error") is None and not b.create_graph]
    if not passes or any(b.graph.parameters or not b.graph.whole for b in passes):
        return
    if any(after for b in passes for after in b.after.values()):
        return
    first = passes[0]
    groups = [group for update in reading.updates for group in update.event.optimizer.param_groups]
    stepped = {id(parameter) for group in groups for parameter in group["params"]}
    own = bool(stepped) and stepped <= known
    if not own and any(math.prod(shape) > 1 for shape in first.graph.strangers):
        return  # something else is trained, such as an image
    if first.graph.strangers:
        shapes = " and ".join(str(tuple(shape)) for shape in first.graph.strangers[:2])
        kind = "is a leaf without a grad_fn" if first.graph.leaf else f"comes from a new leaf of shape {shapes}"
        yield Finding(
            "loss-rewrapped",
            f"The tensor of value {_short(first.loss)} that backward() is called on {kind}: it was made from numbers. "
            f"No parameter is behind it, and in {len(passes)} backward passes none got a gradient.",
        )
    else:
        yield Finding(
            "graph-cut",
            f"The graph of the loss ({first.graph.nodes} nodes) ends without reaching a parameter: in {len(passes)} "
            "backward passes none got a gradient.",
        )


def cleared_before_step(reading: Reading) -> Iterator[Finding]:
    """Updates whose gradients were all cleared after backward."""
    empty = [update for update in reading.updates if update.cleared is not None]
    if not empty:
        return
    first = empty[0]
    by_call = first.cleared.kind == "zero_grad"
    norm = _total(first.cleared.gradients if by_call else first.cleared.after)
    moved = max(first.event.moved.values(), default=0.0)
    yield Finding(
        "zero-grad-before-step",
        f"backward() left gradients of norm {_short(norm)}; "
        f"{'zero_grad() cleared them' if by_call else 'they were cleared by hand'}, and then "
        f"{_kind(first.event)}.step() ran with none: {len(empty)} of {len(reading.updates)} steps. "
        + ("No parameter moved." if moved == 0 else f"The largest change was {_short(moved)}, not from this gradient."),
        consequences=["The loss cannot fall: the parameters do not follow the gradient."],
    )


def never_cleared(reading: Reading) -> Iterator[Finding]:
    """Updates whose gradients still held those of an earlier update."""
    stale = [u for u in reading.updates if u.stale and 2 * len(u.stale) >= len(u.with_gradient)]
    if not stale:
        return
    update = stale[-1]
    own = _contribution(update)
    yield Finding(
        "missing-zero-grad",
        f"In {len(stale)} of {len(reading.updates)} steps of {_kind(update.event)} the gradients still held those of "
        f"earlier steps: before the last backward() their norm was {_short(update.leftover)} instead of 0, after it "
        f"{_short(own)}.",
    )


def clipped_late(reading: Reading) -> Iterator[Finding]:
    """Clipping of gradients that were used already, or before there are any."""
    late = [
        clip for clip in reading.clips if _limits(clip) and len(clip.used) * 2 > len(clip.names) and not clip.scaled
    ]
    early = [clip for clip in reading.clips if _limits(clip) and clip.empty]
    useful = [clip for clip in reading.clips if _limits(clip) and not clip.empty and not clip.used]
    if useful or not (late or early):
        return
    if late:
        clip = late[0]
        if clip.measured:
            seen = f"The gradients were made smaller, from {_short(clip.measured[0])} to {_short(clip.measured[1])},"
        else:
            norm = clip.event.norm if clip.event.norm is not None else _total(clip.event.gradients)
            seen = f"{clip.event.name} met gradients of norm {_short(norm)} (limit {_short(clip.event.bound)})"
        text = f"{seen} after optimizer.step() had used them: {len(late)} times, and never before a step."
    else:
        text = (
            f"{early[0].event.name} ran {len(early)} times while no parameter had a gradient, before backward(); the "
            f"gradients that the steps used were not clipped (limit {_short(early[0].event.bound)})."
        )
    yield Finding("clip-after-step", text)


def clipped_scaled(reading: Reading) -> Iterator[Finding]:
    """Clipping of gradients that a scaler has multiplied."""
    scale = next((e.scale for e in _scales(reading) if e.scale), None)
    found = [clip for clip in reading.clips if clip.scaled and _limits(clip)]
    found = [clip for clip in found if clip.measured or scale is None or clip.event.bound < scale / 10]
    if not found:
        return
    clip = found[0]
    if clip.measured:
        seen = f"the gradients were made smaller, from {_short(clip.measured[0])} to {_short(clip.measured[1])},"
    else:
        norm = clip.event.norm if clip.event.norm is not None else _total(clip.event.gradients)
        seen = f"{clip.event.name} met a norm of {_short(norm)} (limit {_short(clip.event.bound)})"
    yield Finding(
        "clip-before-unscale",
        f"{seen[0].upper()}{seen[1:]} while the gradients were still multiplied by the scale"
        + (f" {_short(scale)}" if scale else "")
        + f"; scaler.unscale_() came later or not at all ({len(found)} times).",
    )


def without_scaler(reading: Reading) -> Iterator[Finding]:
    """Scaled gradients in an update that does not go through the scaler."""
    found = [update for update in reading.updates if update.scaled and update.contributions]
    if not found:
        return
    scale = next((e.scale for e in _scales(reading) if e.scale), None)
    yield Finding(
        "learning-rate-too-high",
        f"The loss was multiplied by the scaler's scale ({_short(scale)}), and {_kind(found[0].event)}.step() used the "
        f"gradients without dividing: their norm was {_short(_total(found[0].event.gradients))}. The learning rate is "
        "in effect that much larger.",
        fix="Step with scaler.step(optimizer), then scaler.update(); or call scaler.unscale_(optimizer) before.",
    )


def not_scaled(reading: Reading, forwards: list[Any], losses: list[Any], sizes: list[int | None]) -> Iterator[Finding]:
    """Groups of micro-batches whose mean losses were added up."""
    for update in reading.updates:
        if update.stale or not _is_group(update, forwards, sizes):
            continue
        passes, count = update.contributions, len(update.contributions)
        if not all(_plain_mean(b, losses, count, reading) for b in passes):
            continue
        last = _total({name: passes[-1].after.get(name) for name in update.with_gradient})
        used = _total(update.event.gradients)
        clipped = any(passes[-1].index < clip.event.index < update.event.index for clip in reading.clips)
        if not clipped and not update.event.get("by_scaler") and last and abs(used / last - 1) > 0.02:
            continue  # divided afterwards, by the number of micro-batches or of tokens
        values = ", ".join(_short(_loss(b)) for b in passes[:4])
        yield Finding(
            "accumulation-not-scaled",
            f"{count} backward passes on different samples were added up for one step of {_kind(update.event)}; each "
            f"loss ({values}{', ...' if count > 4 else ''}) is a mean over its own micro-batch and is not divided by "
            f"{count}. The gradient is {count} times that of the mean over all: norm {_short(used)}.",
            severity="warning",
        )
        return


def never_stepped(setup: Setup, reading: Reading, recording: Any) -> Iterator[Finding]:
    """No update at all, or updates that change nothing."""
    if recording.error is not None or not reading.backwards:
        return
    if not any(_total(b.after) for b in reading.backwards) or any(recording.moved.values()):
        return
    if any(update.cleared is not None for update in reading.updates):
        return
    steps = recording.of("optimizer_step")
    norm = _total(reading.backwards[-1].after)
    if not steps:
        if recording.of("scaler_step"):
            return  # skipped by the scaler for gradients that are not finite: a matter of precision
        if "step" not in names_in(setup.step) and "grad" in names_in(setup.step) and recording.of("zero_grad"):
            last = reading.backwards[-1]
            later = [
                e for e in recording.of("zero_grad", call=last.call) if e.index > last.index and _total(e.gradients)
            ]
            if later:
                yield Finding(
                    "zero-grad-before-step",
                    f"backward() left gradients of norm {_short(norm)}; zero_grad() cleared them in the same call, "
                    f"before the update by hand could use them: in {recording.calls} calls no parameter changed.",
                )
                return
        mentions = {"step", "apply_gradients", "step_and_update_lr"} & names_in(setup.step)
        if mentions and recording.calls < _LONGEST_GROUP:
            setup.skip("whether the optimizer steps", f"no step() came in {recording.calls} calls")
            return
        yield Finding(
            "step-missing",
            f"In {recording.calls} calls of step(), backward() ran {len(reading.backwards)} times and left gradients "
            f"of norm {_short(norm)}; no optimizer.step() came, and no parameter changed.",
        )
        return
    rates = [rate for event in steps for rate in event.rates]
    if rates and max(rates) == 0:
        return  # the learning rate is zero: family_optimisation
    if any(_present(norm) for event in steps for norm in event.gradients.values()):
        return  # stepped with gradients and nothing moved: rounding, family_precision
    if any(event.finished for event in steps):
        yield Finding(
            "step-missing",
            f"{len(steps)} calls of {_kind(steps[0])}.step() changed no parameter: none of the "
            f"{len(steps[0].gradients)} that it holds has a gradient, while backward() left gradients of norm "
            f"{_short(norm)} elsewhere.",
            fix="Build the optimizer from the parameters of the model that is trained, after the model is complete.",
            confidence=0.6,
        )


# --- details --------------------------------------------------------------------------------------------------------


def _is_group(update: Update, forwards: list[Any], sizes: list[int | None]) -> bool:
    """Whether the backward passes of an update are micro-batches, and no losses of several kinds on one batch."""
    passes = update.contributions
    if len(passes) < 2 or any(b.get("retain_graph") for b in passes):
        return False
    calls = {b.call for b in passes}
    if len(calls) == len(passes):
        return True
    if len(calls) > 1:
        return False
    call = passes[0].call
    own = [f for f in forwards if f.get("root") and f.call == call and f.index < passes[-1].index and f.get("inputs")]
    if len(own) != len(passes) or len({f.module for f in own if f.get("module") is not None}) > 1:
        return False
    # One forward before each backward.
    order = sorted([(f.index, "f") for f in own] + [(b.index, "b") for b in passes])
    if "".join(kind for _, kind in order) != "fb" * len(passes):
        return False
    parts = [f.inputs[0].shape[0] if f.inputs[0].shape else 0 for f in own]
    whole = sizes[call % len(sizes)] if sizes else None
    return sum(parts) == whole


def _plain_mean(event: Any, losses: list[Any], count: int, reading: Reading) -> bool:
    """Whether the root of a backward pass is a mean over its batch that was not divided by the number of passes."""
    value = _loss(event)
    graph = event.get("scaled_from") or event.graph
    since = max((b.index for b in reading.backwards if b.index < event.index), default=-1)
    near = [e for e in losses if e.call == event.call and since < e.index < event.index and e.get("value")]
    if (
        near
        and value is not None
        and len(near) == 1
        and (near[-1].get("options") or {}).get("reduction", "mean") == "mean"
    ):
        ratio = value / near[-1].value
        if abs(ratio * count - 1) < 0.02:
            return False
        if abs(ratio - 1) < 1e-3:
            return True
    return bool(graph.reduction == "mean")


def _loss(event: Any) -> float | None:
    return event.get("unscaled_loss") if event.get("unscaled_loss") is not None else event.loss


def _limits(clip: Clip) -> bool:
    """Whether the clip is meant to limit: a bound of inf or 1e6 only measures the norm."""
    return clip.measured is not None or (math.isfinite(clip.event.bound) and clip.event.bound < 1e6)


def _scales(reading: Reading) -> list[Any]:
    return [b for b in reading.backwards if b.get("scale")]


def _contribution(update: Update) -> float:
    return _total(update.contributions[-1].after if update.contributions else update.event.gradients)


def _present(norm: float | None) -> bool:
    return norm is not None and norm != 0


def _total(norms: dict[str, float | None]) -> float:
    return math.sqrt(sum(norm**2 for norm in norms.values() if norm is not None))


def _short(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.4g}"


def _kind(event: Any) -> str:
    return type(event.optimizer).__name__

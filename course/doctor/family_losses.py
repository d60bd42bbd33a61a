"""Losses and metrics: what they are given, along which axes, and how it is averaged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from course.doctor import loss_rules
from course.doctor.loss_values import labels, outer, size
from course.doctor.losses_of_numbers import squared_probabilities
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup
    from course.doctor.watch import Recording


def examine(setup: Setup) -> Iterator[Finding]:
    """Losses that are fed something else than they take, wrong axes, unwanted broadcasting, means of batch means."""
    found: set[str] = set()
    for recording, place in ((setup.training, "step"), (setup.evaluation, "evaluate")):
        if recording is None:
            continue
        for finding in _look(setup, recording, place):
            if finding.fault not in found:
                found.add(finding.fault)
                yield finding


def _look(setup: Setup, recording: Recording, place: str) -> Iterator[Finding]:
    inputs = _inputs(setup)
    for event in recording.of("loss"):
        for finding in loss_rules.judge(event):
            if finding.fault == "mse-on-probabilities" and is_reconstruction(event.target, inputs):
                continue
            yield finding
    if place == "step":
        for event in recording.of("backward"):
            yield from _by_hand(event, inputs)
    yield from _outer_products(recording, place)
    yield from _axes(recording, place)
    if place == "evaluate":
        yield from _batch_means(recording)


def _inputs(setup: Setup) -> list[Tensor]:
    """Tensors that the model is given, to tell reconstructions from classifications."""
    example = getattr(setup, "example", None)
    found = list(_tensors(example)) if example is not None else []
    for batch in setup.batches[:4]:
        first = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
        found += list(_tensors(first))
    return found


def _tensors(value: Any, depth: int = 4) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth - 1)


def is_reconstruction(target: Tensor | None, inputs: list[Tensor]) -> bool:
    """Whether a target is what the model was given, exactly or as a cleaner copy: then its values are no labels."""
    if target is None:
        return False
    wanted = target.detach().double().flatten().cpu()
    for given in inputs:
        if given.numel() != wanted.numel() or given.is_complex():
            continue
        value = given.detach().double().flatten().cpu()
        if torch.equal(value, wanted):
            return True
        together = torch.stack([value, wanted])
        if wanted.numel() > 8 and together.std(1).min() > 0 and torch.corrcoef(together)[0, 1] > 0.6:
            return True
    return False


def _by_hand(event: Any, inputs: list[Tensor]) -> Iterator[Finding]:
    """The same faults in a loss that was written out."""
    for fact in event.get("facts") or ():
        if fact.kind == "squared" and labels(fact.target, fact.made_by) and not is_reconstruction(fact.target, inputs):
            yield squared_probabilities("A difference", fact.made_by, fact.target.round())
        elif fact.kind == "double_softmax":
            yield Finding(
                "double-softmax",
                f"In the graph of the loss a {_word(fact.outer)} is applied to the result of a {_word(fact.inner)}, "
                "of shape "
                f"{size(fact.shape or ())}: numbers between 0 and 1, where logits are expected.",
            )
        elif fact.kind == "double_sigmoid":
            yield Finding(
                "double-sigmoid",
                f"In the graph of the loss {_word(fact.outer)}, a sigmoid or a function of one, is applied to the "
                "result of "
                f"a sigmoid, of shape {size(fact.shape or ())}: numbers between 0 and 1, where logits are expected.",
            )


def _word(node: str) -> str:
    return {
        "LogSigmoidBackward0": "log_sigmoid",
        "LogSoftmaxBackward0": "log_softmax",
        "SoftplusBackward0": "softplus",
    }.get(node, node.removesuffix("Backward0").lower())


# --- broadcasting -------------------------------------------------------------------------------------------------


def _outer_products(recording: Recording, place: str) -> Iterator[Finding]:
    for event in recording.of("pair"):
        one, other = event.shapes
        if event.related or not outer(one, other) or max(one) < 2:
            continue
        # Inside a model a result of this kind is a table of pairs that somebody wants.
        if "forward" in event.within or all(event.graphs):
            continue
        long = 0 if len(one) > len(other) else 1
        # scores[:, None] against all others is meant: somebody added the axis to the prediction.
        if event.unsqueezed[long] and (event.graphs[long] or not any(event.graphs)):
            continue
        yield Finding(
            "broadcast-outer-product",
            f"In `{place}`, `{event.name}` combines {size(one)} with {size(other)}, which broadcasts to "
            f"{size(event.shape)}: each prediction meets every target, {math.prod(event.shape)} values for "
            f"{max(one[0], other[0])} samples.",
        )


# --- axes ---------------------------------------------------------------------------------------------------------


def _axes(recording: Recording, place: str) -> Iterator[Finding]:
    """argmax and softmax over the batch."""
    outputs = _outputs(recording)
    targets = {event.target.shape[0] for event in recording.of("loss") if _has_axis(event.target)}
    right = {event.call for event in recording.of("argmax") if event.dim not in (0, None)}
    for event in recording.of("argmax"):
        shape = event.shape
        if shape not in outputs or len(shape) < 2 or min(shape[0], shape[1]) < 2 or "forward" in event.within:
            continue
        if event.name in ("max", "min") and event.call in right:
            continue
        if targets and shape[0] not in targets:
            continue
        if event.dim == 0 and event.name != "topk":
            yield Finding(
                "argmax-wrong-axis",
                f"In `{place}`, `{event.name}` is taken over axis 0 of the outputs, {size(shape)}, which is the "
                f"batch: it gives {size(shape[1:])}, and there are {shape[0]} samples.",
            )
        elif event.dim is None and event.name == "argmax" and len(shape) == 2:
            yield Finding(
                "argmax-wrong-axis",
                f"In `{place}`, `argmax` without an axis is taken of the outputs, {size(shape)}: it gives one number "
                f"for all {shape[0]} samples.",
            )
    yield from _class_axis(recording, place, outputs)
    for call, kind, dim, shape in _softmaxes(recording):
        if shape not in outputs or len(shape) < 2 or shape[0] < 2:
            continue
        if dim == 0 and (not targets or shape[0] in targets) and len(shape) == 2 and shape[1] > 1:
            yield Finding(
                "argmax-wrong-axis",
                f"In `{place}`, call {call + 1}, `{kind}` runs over axis 0 of the outputs, {size(shape)}, which is the "
                f"batch: the numbers of one class sum to 1 over the {shape[0]} samples, those of one sample do not.",
            )
        elif shape[dim] == 1:
            yield Finding(
                "argmax-wrong-axis",
                f"In `{place}`, call {call + 1}, `{kind}` runs over axis {dim} of the outputs, {size(shape)}. That "
                "axis "
                "has one entry, so the result is always the same, whatever the model computes.",
            )


def _class_axis(recording: Recording, place: str, outputs: set[tuple[int, ...]]) -> Iterator[Finding]:
    """argmax over positions in place of classes, and outputs (N, C, ...) poured into rows of classes."""
    for event in recording.of("loss"):
        given, name = event.input, event.name
        if name not in ("cross_entropy", "nll_loss") or not isinstance(given, Tensor) or given.ndim < 2:
            continue
        number = given.shape[1]
        for argmax in recording.of("argmax"):
            shape, dim = argmax.shape, argmax.dim
            if (
                argmax.name != "argmax"
                or len(shape) < 3
                or shape not in outputs
                or not dim
                or "forward" in argmax.within
            ):
                continue
            if shape[dim] != number and shape[1:].count(number) == 1:
                yield Finding(
                    "argmax-wrong-axis",
                    f"In `{place}`, `argmax` is taken over axis {dim} of the outputs, {size(shape)}; the {number} "
                    "classes "
                    f"stand in axis {shape.index(number, 1)}.",
                )
        made = [
            step
            for step in event.origin
            if step not in ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")
        ]
        rows = given.shape[0]
        if given.ndim == 2 and len(made) < len(event.origin) and made and "Convolution" in made[0]:
            for shape in outputs:
                if len(shape) > 2 and shape[1] == number and math.prod(shape) == number * rows and rows != shape[0]:
                    yield Finding(
                        "class-axis-misplaced",
                        f"The outputs have shape {size(shape)}, with the {number} classes in axis 1, and `{name}` "
                        "gets them as "
                        f"{size(given)} by view, without moving that axis to the end: each row holds one class at "
                        f"{number} "
                        "positions, not all classes at one.",
                    )


def _outputs(recording: Recording) -> set[tuple[int, ...]]:
    return {
        tuple(seen.shape)
        for event in recording.of("forward")
        if event.get("root")
        for seen in event.get("outputs") or ()
    }


def _softmaxes(recording: Recording) -> Iterator[tuple[int, str, int, tuple[int, ...]]]:
    for event in recording.of("softmax"):
        yield event.call, event.name, event.dim, event.shape
    for event in recording.of("backward"):
        for fact in event.get("facts") or ():
            if fact.kind == "softmax":
                yield event.call, _word(fact.name), fact.dim, fact.shape


def _has_axis(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0


# --- means of batch means -----------------------------------------------------------------------------------------


def _batch_means(recording: Recording) -> Iterator[Finding]:
    """The evaluation returned the plain mean of numbers that stand for batches of different size."""
    if recording.shortened or not recording.complete:
        return
    losses = [
        (event.value, event.input.shape[0])
        for event in recording.of("loss")
        if event.value is not None and _has_axis(event.input) and event.options.get("reduction", "mean") == "mean"
    ]
    means = [(event.value, event.count) for event in recording.of("mean")]
    for what, numbers in (("losses", losses), ("means", means)):
        yield from batch_means(what, numbers, [value for value in recording.returned if isinstance(value, float)])


def batch_means(what: str, numbers: list[tuple[float, int]], returned: list[float]) -> Iterator[Finding]:
    """numbers: (value, samples) of each batch; returned: what the evaluation gave."""
    sizes = [number for _, number in numbers]
    if len(numbers) < 2 or len(set(sizes)) < 2 or any(not math.isfinite(value) for value, _ in numbers):
        return
    plain = sum(value for value, _ in numbers) / len(numbers)
    weighted = sum(value * number for value, number in numbers) / sum(sizes)
    apart = abs(plain - weighted)
    for scale in (1.0, 100.0):
        for value in returned:
            if apart > 1e-6 * abs(weighted) and abs(value - scale * plain) < 0.01 * scale * apart:
                yield Finding(
                    "mean-of-batch-means",
                    f"The evaluation returns {value:.6g}, the plain mean of {len(numbers)} batch {what}. The batches "
                    "hold "
                    f"{max(sizes)} and {min(sizes)} values; the mean over all {sum(sizes)} is {scale * weighted:.6g}.",
                    severity="warning",
                )
                return

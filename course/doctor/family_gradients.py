"""How gradients flow: parameters that get none, and gradients that shrink or grow from layer to layer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from course.doctor import running
from course.doctor.report import Finding
from course.doctor.setup import Setup
from course.doctor.trials import losses_of
from course.doctor.watch import Recording

_DEPTH = 4
_VANISHED = 1e-4
_EXPLODED = 1e4


def examine(setup: Setup) -> Iterator[Finding]:
    """graph-cut (in part), vanishing-gradient, exploding-gradient."""
    recording = setup.training
    if recording is None or not recording.of("backward") or recording.error is not None:
        return
    yield from cut_off(setup, recording)
    yield from vanishing(setup, recording)
    yield from exploding(setup, recording)


# --- parameters without a gradient --------------------------------------------------------------------------------


def cut_off(setup: Setup, recording: Recording) -> Iterator[Finding]:
    """Parameters that an optimizer holds, that the loss depends on, and that get no gradient."""
    passes = [b for b in recording.of("backward") if not b.get("error")]
    reached = {name for b in passes for name in b.graph.parameters} | {
        n for b in passes for n, g in b.after.items() if g
    }
    if not reached or any(not b.graph.whole for b in passes):
        return
    optimizers = [*setup.optimizers, *(event.optimizer for event in recording.of("optimizer_step"))]
    held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    suspects = {
        name: p
        for name, p in setup.parameters.items()
        if p.requires_grad and id(p) in held and name not in reached and not recording.moved.get(name)
    }
    if not suspects:
        return
    if not setup.clock.allows(4 * recording.seconds / max(1, recording.calls)):
        setup.skip("parameters without a gradient", "not enough time")
        return
    plain, again, moved = _losses(setup, {}), _losses(setup, {}), _losses(setup, suspects)
    names = ", ".join(list(suspects)[:3]) + (", ..." if len(suspects) > 3 else "")
    if not plain or not moved or plain != again or len(plain) != len(moved):
        return
    change = max(abs(a - b) for a, b in zip(plain, moved, strict=True))
    if not change > 1e-6 * max(abs(value) for value in plain):
        setup.note(f"{len(suspects)} parameters that the optimizer holds are not used by the loss: {names}.")
        return
    yield Finding(
        "graph-cut",
        f"{len(suspects)} of {len(suspects) + len(reached)} parameters get no gradient in {len(passes)} backward "
        f"passes, although the optimizer holds them and the loss depends on them: {names}. Other values there changed "
        f"the loss from {plain[0]:.5g} to {moved[0]:.5g}. The graph ends between them and the loss.",
        severity="warning",
    )


def _losses(setup: Setup, moved: dict[str, Tensor]) -> list[float]:
    """The losses of one step, with some parameters changed before it; [] where the step raises."""
    found: list[float] = []
    batch = setup.batches[0] if setup.batches else None
    with setup.scratch(), running.quiet():
        if setup.model is not None and not setup.model.training:
            setup.model.train()
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in moved.values():
                size = float(parameter.detach().float().abs().mean()) or 0.1
                parameter.add_(torch.randn_like(parameter) * size)
        torch.manual_seed(0)
        try:
            with losses_of(found):
                setup.train_step(batch)
        except Exception:
            return []
    return found


# --- from layer to layer ------------------------------------------------------------------------------------------


def layers(recording: Recording) -> list[tuple[str, Any]]:
    """(name, forward event) of the linear and convolutional layers, in the order of their first call."""
    found: dict[str, Any] = {}
    for event in recording.of("forward", call=recording.of("forward")[0].call if recording.of("forward") else 0):
        if isinstance(event.module, nn.Linear | _ConvNd) and event.name not in ("?",) and event.phase == "step":
            found.setdefault(event.name, event)
    return list(found.items())


def vanishing(setup: Setup, recording: Recording) -> Iterator[Finding]:
    """Relative gradients of the weights that shrink towards the input, after the first steps."""
    last = [b for b in recording.of("backward") if not b.nested][-1]
    shares = []
    for name, event in layers(recording):
        key = f"{name}.weight" if name else "weight"
        gradient, weight = last.after.get(key), event.module.weight
        if gradient is None or not weight.requires_grad:
            continue
        size = float(weight.detach().float().norm())
        if size > 0 and math.isfinite(gradient):
            shares.append((name, gradient / size))
    if len(shares) <= _DEPTH or shares[-1][1] == 0:
        return
    ratio = shares[0][1] / shares[-1][1]
    if ratio >= _VANISHED or not _falls([share for _, share in reversed(shares)]):
        return
    if ratio == 0 and sum(share == 0 for _, share in shares) < len(shares) - 1 and shares[-2][1] > 1e-2 * shares[-1][1]:
        return  # cut off at one place by a zero, and not shrinking
    yield Finding(
        "vanishing-gradient",
        f"Relative to its weights the gradient of the first layer ({shares[0][0]}) is {shares[0][1]:.2g}, that of the "
        f"last ({shares[-1][0]}) {shares[-1][1]:.2g}: smaller by a factor of "
        + (f"{1 / ratio:.2g}" if ratio else "infinity")
        + f", falling over {len(shares)} layers.",
        severity="warning",
    )


def _falls(values: list[float]) -> bool:
    """Whether numbers fall (nearly) all the way."""
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    return sum(b <= a for a, b in pairs) >= 0.85 * len(pairs)


@dataclass
class Flow:
    """What went through one call of a layer: the 2-norms of its output and of the gradient of that, for each sample."""

    name: str
    output: float
    gradient: float | None = None


def exploding(setup: Setup, recording: Recording) -> Iterator[Finding]:
    """Outputs or gradients that grow by the same factor from call to call, by layers or by time steps."""
    clips = any(clip.norm is not None and math.isfinite(clip.bound) for clip in recording.of("clip"))
    if not setup.clock.allows(3 * recording.seconds / max(1, recording.calls)):
        setup.skip("gradients from layer to layer", "not enough time")
        return
    chain, series = flow(setup)
    outputs = [f.output for f in chain]
    enough = _EXPLODED if _total_norm(recording) < 1e3 else 200.0
    if len(chain) >= _DEPTH and outputs[0] > 0 and _falls(outputs[::-1]) and outputs[-1] / outputs[0] > enough:
        yield Finding(
            "exploding-gradient",
            f"From the first layer call ({chain[0].name}) to the last of {len(chain)} the norm of the outputs grows "
            f"from {outputs[0]:.3g} to {outputs[-1]:.3g}, by a factor of "
            f"{(outputs[-1] / outputs[0]) ** (1 / (len(chain) - 1)):.3g} a layer" + _total(recording),
        )
        return
    yield from steep(setup, recording, clips)
    gradients = [f.gradient for f in chain if f.gradient is not None and math.isfinite(f.gradient)]
    if clips:
        return  # what grows is limited
    ends = (gradients[0], gradients[-1]) if len(gradients) > _DEPTH else (0.0, 0.0)
    if ends[1] > 0 and ends[0] / ends[1] > _EXPLODED and _falls(gradients):
        yield Finding(
            "exploding-gradient",
            f"Backward from the last of {len(chain)} layer calls to the first ({chain[0].name}) the norm of the "
            f"gradient grows from {gradients[-1]:.3g} to {gradients[0]:.3g}" + _total(recording),
        )
        return
    for name, norms in series:
        least = min((n for n in norms if n > 0), default=0.0)
        if len(norms) > _DEPTH and least and _falls(norms) and norms[0] / norms[-1] > _EXPLODED:
            yield Finding(
                "exploding-gradient",
                f"Back through the {len(norms)} time steps of {name} the norm of the gradient grows from "
                f"{norms[-1]:.3g} to {norms[0]:.3g}" + _total(recording),
            )
            return


def steep(setup: Setup, recording: Recording, clips: bool) -> Iterator[Finding]:
    """A weight that is used so often that the loss goes with a high power of it, and a gradient that is huge."""
    first = recording.of("backward")[0]
    loss = first.get("unscaled_loss") or first.loss
    if clips or not loss or not math.isfinite(loss) or first.get("scale") or _total_norm(recording) < 1e3:
        return
    for name, norm in first.after.items():
        parameter = setup.parameters.get(name)
        if parameter is None or not norm or not math.isfinite(norm):
            continue
        power = norm * float(parameter.detach().float().norm()) / abs(loss)
        if power > 15:
            yield Finding(
                "exploding-gradient",
                f"The gradient of {name} has norm {norm:.3g} at a loss of {loss:.3g}: one percent more in this weight "
                f"is about {power:.3g} percent more loss, as if it were multiplied by itself that often"
                + _total(recording),
            )
            return


def _total_norm(recording: Recording) -> float:
    return math.sqrt(sum(norm**2 for norm in recording.of("backward")[0].after.values() if norm))


def _total(recording: Recording) -> str:
    return f". The gradient of all parameters has norm {_total_norm(recording):.3g}."


def flow(setup: Setup) -> tuple[list[Flow], list[tuple[str, list[float]]]]:
    """One step: the norms at each call of a linear, convolutional or recurrent cell, and those of recurrent layers.

    The second list has the gradients of the inputs of nn.RNN, LSTM and GRU, from the first time step to the last.
    """
    chain: list[Flow] = []
    inputs: list[tuple[str, nn.RNNBase, Tensor]] = []
    handles = []

    def after(module: nn.Module, _: Any, output: Any) -> None:
        value = output[0] if isinstance(output, tuple) else output
        if not isinstance(value, Tensor) or not value.requires_grad or len(chain) > 2000:
            return
        entry = Flow(setup.name_of(module), float(value.detach().float().norm()))
        chain.append(entry)
        value.register_hook(lambda grad: setattr(entry, "gradient", float(grad.detach().float().norm())))

    def before(module: nn.Module, args: Any) -> Any:
        if not args or not isinstance(args[0], Tensor) or args[0].dim() != 3:
            return None
        x = args[0] if args[0].requires_grad else args[0].detach().requires_grad_()
        x = x.view_as(x)
        x.retain_grad()
        inputs.append((setup.name_of(module), module, x))
        return (x, *args[1:])

    batch = setup.batches[0] if setup.batches else None
    with setup.scratch(), running.quiet():
        if setup.model is not None and not setup.model.training:
            setup.model.train()
        for module in setup.modules.values():
            if isinstance(module, nn.Linear | _ConvNd | nn.RNNCellBase):
                handles.append(module.register_forward_hook(after))
            elif isinstance(module, nn.RNNBase):
                handles.append(module.register_forward_pre_hook(before))
        try:
            setup.train_step(batch)
        except Exception:
            return [], []
        finally:
            for handle in handles:
                handle.remove()
    series = []
    for name, module, x in inputs:
        if x.grad is not None:
            axes = (0, 2) if module.batch_first else (1, 2)
            series.append((name, x.grad.float().norm(dim=axes).tolist()))
    return chain, series

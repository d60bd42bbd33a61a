"""Training and evaluation mode: where they are wrong, and what that does to dropout and BatchNorm."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from course.doctor.report import Finding
from course.doctor.setup import Setup
from course.doctor.watch import Recording

_ON_PURPOSE = ("mc", "monte", "bayes", "uncertain")


def examine(setup: Setup) -> Iterator[Finding]:
    """eval-mode-missing, train-mode-not-restored, functional-dropout-ignores-eval, frozen-batchnorm-drifts."""
    if setup.evaluation is not None:
        yield from evaluated_in_training_mode(setup.evaluation)
    if setup.after_evaluation is not None:
        yield from trained_in_evaluation_mode(setup.after_evaluation, setup)
    yield from dropout_in_evaluation(setup)
    # Without a step of their own nobody knows which modes the user sets: what is in evaluation mode now is trusted.
    if setup.training is not None and (setup.step is not None or setup.model.training):
        yield from drifting(setup.training, setup)


def depends_on_mode(module: nn.Module) -> bool:
    """Whether a module does something else in training mode."""
    if isinstance(module, _BatchNorm):
        return module.running_mean is not None
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RNNBase):
        return module.dropout > 0 and module.num_layers > 1
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, nn.InstanceNorm1d | nn.InstanceNorm2d | nn.InstanceNorm3d) and module.track_running_stats


def evaluated_in_training_mode(recording: Recording) -> Iterator[Finding]:
    """Modules that were called in training mode by an evaluation."""
    called = _called(recording.of("forward"), True)
    called = {name: m for name, m in called.items() if depends_on_mode(m)}
    trained = {event.call for event in recording.of("backward")}
    if not called or trained:
        return  # an evaluation that trains, such as fitting a probe, is judged by nobody here
    roots = [event for event in recording.of("forward") if event.root]
    if roots and not roots[-1].training and set(called) <= set(_called(recording.of("forward"), False)):
        return  # statistics were computed anew (`update_bn`), then the same modules evaluated
    if not any(event.training for event in roots) and all(isinstance(m, _DropoutNd) for m in called.values()):
        return  # the model is in evaluation mode and dropout was put back on: Monte Carlo dropout
    moved = {n: v for n, v in recording.buffers_moved.items() if v > 0 and n.endswith(("running_mean", "running_var"))}
    examples = ", ".join(f"{name or 'model'} ({type(module).__name__})" for name, module in list(called.items())[:3])
    numbers = f" The running statistics moved by up to {max(moved.values()):.3g}." if moved else ""
    yield Finding(
        "eval-mode-missing",
        f"evaluate() called {len(called)} modules in training mode that behave differently there: {examples}.{numbers}",
        severity="warning",
    )


def _called(forwards: Iterable[Any], training: bool) -> dict[str, nn.Module]:
    found = {}
    for event in forwards:
        if event.training == training and not event.error:
            found.setdefault(event.name if event.name != "?" else type(event.module).__name__, event.module)
    return found


def trained_in_evaluation_mode(recording: Recording, setup: Setup) -> Iterator[Finding]:
    """Modules that the step trained in evaluation mode after evaluate() had run, and in training mode before."""
    if recording.error is not None or not recording.of("backward"):
        return
    forwards = [event for event in recording.of("forward") if event.phase == "step" and event.grad_enabled]
    evaluations = [event.call for event in recording.of("call") if event.phase == "evaluate"]
    if not evaluations:
        return
    before = _called((e for e in forwards if e.call < evaluations[0]), True)
    after = _called((e for e in forwards if e.call > evaluations[0]), False)
    again = _called((e for e in forwards if e.call > evaluations[0]), True)
    changed = {n: m for n, m in after.items() if n in before and n not in again and depends_on_mode(m)}
    if not changed:
        lost = [name for name in after if name in before and name not in again]
        if lost:
            setup.note(
                "After evaluate() the step trained in evaluation mode; no module here behaves differently in it."
            )
        return
    examples = ", ".join(f"{name or 'model'} ({type(module).__name__})" for name, module in list(changed.items())[:3])
    yield Finding(
        "train-mode-not-restored",
        f"Before evaluate() the step trained in training mode, afterwards in evaluation mode, in which {len(changed)} "
        f"modules behave differently: {examples}. Neither evaluate() nor step() calls train().",
        severity="warning",
    )


def dropout_in_evaluation(setup: Setup) -> Iterator[Finding]:
    """Functions of dropout that are active although the module that calls them is in evaluation mode."""
    events = setup.evaluation.of("dropout") if setup.evaluation is not None else []
    found = [e for e in events if e.training and e.p > 0 and _in_evaluation(e)]
    difference: float | None = None
    if setup.raw_model is not None and not _has_own_mode(setup):
        tried, difference = try_in_evaluation_mode(setup)
        found = found or tried
    found = [e for e in found if not _on_purpose(e)]
    if not found:
        return
    first = found[0]
    where = f"in {type(first.module).__name__} " if first.module is not None else ""
    text = f"{first.name}(p={first.p:g}) {where}is active in evaluation mode"
    if difference:
        text += f": two predictions for the same batch differ by up to {difference:.3g}"
    yield Finding("functional-dropout-ignores-eval", text + ".", severity="warning")


def _in_evaluation(event: Any) -> bool:
    return event.module is not None and not event.module.training


def _on_purpose(event: Any) -> bool:
    kind = type(event.module).__name__.lower() if event.module is not None else ""
    return kind.startswith("mc") or any(word in kind for word in _ON_PURPOSE[1:])


def _has_own_mode(setup: Setup) -> bool:
    return any(_on_purpose(_Dropped("", 0.0, module)) for module in setup.modules.values())


class _Dropped:
    """A call of a function of dropout, with the module around it."""

    def __init__(self, name: str, p: float, module: nn.Module | None) -> None:
        self.name, self.p, self.module, self.training = name, p, module, True
        self.in_evaluation = module is None or not module.training


class _Dropouts(TorchFunctionMode):
    """Note calls of functions of dropout that are active."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Dropped] = []
        self.modules: list[nn.Module] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        module = self.modules[-1] if self.modules else None
        if name == "scaled_dot_product_attention":
            p = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
            if p:
                self.found.append(_Dropped(name, float(p), module))
        elif "dropout" in name:
            p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
            if training and isinstance(p, (int, float)) and p > 0:
                self.found.append(_Dropped(name, float(p), module))
        return func(*args, **kwargs)


def try_in_evaluation_mode(setup: Setup) -> tuple[list[Any], float | None]:
    """Predict twice in evaluation mode: the functions of dropout that were active, and the largest difference."""
    call = example(setup)
    if call is None:
        return [], None
    args, kwargs = call
    watcher = _Dropouts()
    model = setup.raw_model

    def enter(module: nn.Module, _: Any) -> None:
        watcher.modules.append(module)

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        if watcher.modules:
            watcher.modules.pop()

    handles = []
    with setup.scratch(), torch.no_grad():
        model.eval()
        for module in model.modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue  # these take no hooks
            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
        try:
            with watcher:
                first = model(*args, **kwargs)
                second = model(*args, **kwargs)
        except Exception:
            return [], None
        finally:
            for handle in handles:
                handle.remove()
    found = [dropped for dropped in watcher.found if dropped.in_evaluation]
    a, b = _first_tensor(first), _first_tensor(second)
    if a is None or b is None or a.shape != b.shape or not a.is_floating_point():
        return found, None
    return found, float((a.float() - b.float()).abs().max()) if a.numel() else None


def example(setup: Setup) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """What the model is called with: arguments and keywords; None where nobody knows."""
    known = getattr(setup, "example", None)
    if known is not None:
        return known
    if setup.standard and setup.batches:
        with contextlib.suppress(TypeError):
            return (setup.pair(setup.batches[0])[0],), {}
    models = (setup.model, setup.raw_model)
    recordings = [r for r in (setup.training, setup.evaluation) if r is not None]
    calls = (event for r in recordings for event in r.of("forward") if event.get("arguments") is not None)
    return next((event.arguments for event in calls if event.module in models), None)


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    members = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next((found for found in map(_first_tensor, members) if found is not None), None)


def drifting(recording: Recording, setup: Setup) -> Iterator[Finding]:
    """BatchNorm whose parameters are frozen and whose running statistics move while others train."""
    if not recording.of("optimizer_step", "scaler_step"):
        return
    trained = {name for name, value in recording.moved.items() if value > 0}
    found: dict[str, float] = {}
    called = {id(event.module) for event in recording.of("forward") if event.training}
    for name, module in setup.modules.items():
        if not isinstance(module, _BatchNorm) or id(module) not in called or module.running_mean is None:
            continue
        own = list(module.parameters(recurse=False))
        if not own or any(p.requires_grad for p in own) or _toggled(recording, module):
            continue
        prefix = f"{name}." if name else ""
        moved = recording.buffers_moved.get(f"{prefix}running_mean", 0.0)
        if moved > 0:
            found[name] = moved
    found = {name: moved for name, moved in found.items() if _trains(setup, name)}
    # With everything else trained it is no frozen part: only the affine parameters of the layer are fixed.
    frozen = {n for n, p in setup.parameters.items() if not p.requires_grad}
    others = {n for n in frozen if not any(n.startswith(f"{name}.") for name in found)}
    if found and others and trained:
        worst = max(found, key=lambda name: found[name])
        yield Finding(
            "frozen-batchnorm-drifts",
            f"{len(found)} BatchNorm layers have frozen parameters and ran in training mode: in {recording.calls} "
            f"steps the running mean of {worst or 'model'} moved by up to {found[worst]:.3g}.",
            severity="warning",
        )


def _trains(setup: Setup, name: str) -> bool:
    """Whether train(), called on the whole model at the start of an epoch, leaves the layer in training mode."""
    with setup.scratch():
        if setup.model is not None:
            setup.model.train()
        return setup.modules[name].training


def _toggled(recording: Recording, module: nn.Module) -> bool:
    """Whether the layer's parameters were trained at some moment, as those of a discriminator are in turn."""
    held = {id(p) for p in module.parameters(recurse=False)}
    return any(
        id(p) in held
        for event in recording.of("optimizer_step")
        for group in event.optimizer.param_groups
        for p in group["params"]
        if event.gradients and any(event.moved.values()) and p.requires_grad
    )

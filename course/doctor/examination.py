"""examine(): look at a training setup the way an expert would."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from course.doctor.causes import root_causes
from course.doctor.report import Finding, Report

if TYPE_CHECKING:
    import torch
    from torch import nn

    from course.doctor.setup import Setup

# Modules of course.doctor, in the order in which they are run: what costs least and explains most comes first.
FAMILIES: tuple[str, ...] = (
    "family_data_workers",
    "family_modules",
    "family_data",
    "family_batches",
    "family_losses",
    "family_numerics",
    "family_structure",
    "family_initialisation",
    "family_scale",
    "family_padding",
    "family_tensors",
    "family_loop",
    "family_graphs",
    "family_modes",
    "family_schedule",
    "family_precision",
    "family_checkpoints",
    "family_compile",
    "family_gradients",
    "family_optimisation",
)

# How sure the explainer has to be of an exception's fault.
_SURE = 0.5


def examine(
    model: nn.Module | None = None,
    loader: Iterable[Any] | None = None,
    loss_fn: Callable[[Any, Any], Any] | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    scaler: torch.amp.GradScaler | None = None,
    step: Callable[..., Any] | None = None,
    evaluate: Callable[[], Any] | None = None,
    val_loader: Iterable[Any] | None = None,
    budget_s: float = 10,
) -> Report:
    """Examine a training setup for faults that raise no error, and for those that do; put everything back.

    Any part may be missing; what is given is examined.

    model: the module that is trained, also compiled or wrapped for distributed training.
    loader: batches for training: a DataLoader, a list, anything that can be iterated over again. With loss_fn a batch
        is (inputs, target), and the loss is ``loss_fn(model(inputs), target)``. Only the first batches are read, in
        this process. A generator or another iterator is not read, as it would be used up.
    optimizer, scheduler: one or a sequence. scaler: the GradScaler.
    step: ``step(batch)``, your own training step, in place of loss_fn; it may train other models and optimizers too.
    evaluate: ``evaluate()``, your own evaluation. val_loader: batches of held-out data.
    budget_s: seconds that the examination may take, first imports aside. What did not fit in is listed in the report.
        Your own code is broken off at the next call into PyTorch; a single call that takes longer is waited for.

    Parameters, buffers, gradients, modes, hooks, the state of optimizers, schedulers, scalers, samplers and random
    generators, and what the step's variables refer to are as before afterwards, bit for bit, also when something raises
    or is interrupted. What cannot be taken back: files that your code writes, what it sends elsewhere, and how far it
    read an iterator of its own. Data of more than 64 MiB is not copied; a change of it is reported.

    An examination takes about as long as 40 training steps, and at its peak up to three times the memory of one
    (tests/doctor/test_budget.py measures both).

    In distributed training every process has to call this with the same arguments where step communicates.

    Raises TypeError or ValueError for arguments that cannot be examined. Exceptions in your code are explained in the
    report; KeyboardInterrupt is raised.
    """
    from course.doctor.clock import Clock
    from course.doctor.keep import NotEnoughMemory
    from course.doctor.setup import Setup

    budget = _budget(budget_s)
    # What the first call of a process imports is not to be taken off what it may examine.
    families = _families()
    clock = Clock(budget)
    _check(model, loader, loss_fn, step, evaluate, val_loader)
    try:
        setup = Setup(
            model=model,
            loader=loader,
            loss_fn=loss_fn,
            optimizers=_several("optimizer", optimizer, ("step", "param_groups")),
            schedulers=_several("scheduler", scheduler, ("step",)),
            scaler=scaler,
            step=step,
            evaluate=evaluate,
            val_loader=val_loader,
            clock=clock,
        )
    except NotEnoughMemory as error:
        return Report(not_examined=[f"everything: {error}"], seconds=clock.spent())
    if setup.sharded:
        reason = "parameters sharded over processes cannot be put back; examine the model before it is sharded"
        return Report(not_examined=[f"everything: {reason}"], seconds=clock.spent())
    examined: list[str] = []
    findings: list[Finding] = []
    try:
        for name, family in families.items():
            findings += _run_family(name, family, setup, examined)
        # Only now is it known which errors the user's code raised; running it is up to the families.
        _trace(setup)
        findings += _explained(setup, findings)
    finally:
        setup.guard.close()
        setup.restore()
    return Report(
        findings=root_causes(findings + setup.findings),
        notes=setup.notes,
        not_examined=setup.not_examined,
        examined=examined,
        seconds=clock.spent(),
    )


def _families() -> dict[str, ModuleType | Exception]:
    """The modules of FAMILIES, or what importing one of them raised."""
    families: dict[str, ModuleType | Exception] = {}
    for name in FAMILIES:
        try:
            families[name] = importlib.import_module(f"course.doctor.{name}")
        except Exception as error:
            families[name] = error
    return families


def _run_family(name: str, family: Any, setup: Setup, examined: list[str]) -> Iterator[Finding]:
    """A family's findings; whatever it leaves changed is put back."""
    from course.doctor.running import quiet

    words = name.removeprefix("family_").replace("_", " ")
    if not setup.clock.allows(0):
        setup.skip(words, f"the budget of {setup.clock.budget:g} s was spent before")
        return
    found: list[Finding] = []
    try:
        if isinstance(family, Exception):
            raise family
        with setup.scratch(), setup.guard.entered(quiet()):
            # As they come: what was found before a failure still counts.
            for finding in family.examine(setup):
                found.append(finding)
        examined.append(words)
    except (Exception, SystemExit) as error:
        setup.skip(f"family {words}", f"{type(error).__name__}: {error}")
    yield from found


def _trace(setup: Setup) -> None:
    """Run what is compiled once as it was given; all else runs it uncompiled."""
    if setup.errors or not setup.untraced:
        return
    # Tracing cannot be broken off, and takes seconds for a large model.
    if not setup.clock.allows(min(1.0, setup.clock.budget / 4)):
        setup.skip("tracing of the compiled code", "too little of the budget is left")
        return
    try:
        error = setup.run_traced()
    except Exception as problem:
        setup.skip("tracing of the compiled code", f"{type(problem).__name__}: {problem}")
        return
    if error is not None:
        setup.errors.append(("the compiled code", error))


def _explained(setup: Setup, found: list[Finding]) -> Iterator[Finding]:
    """A finding for each exception of the user's code that the explainer knows; a note for another."""
    seen = set()
    other = any(finding.severity == "error" for finding in found + setup.findings)
    for where, error in setup.errors:
        message = f"{type(error).__name__}: {_first_line(error)}"
        if message in seen:
            continue
        seen.add(message)
        explained = None
        with contextlib.suppress(Exception):
            from course.doctor.explain import explain

            explained = next(iter(explain(error).findings), None)
        if explained is None or explained.confidence < _SURE:
            known = "It may follow from what was found." if other else "The doctor does not know this error."
            setup.note(f"{where} raised {message.rstrip('.')}. {known}")
            setup.skip(f"what follows the error in {where}", message)
            continue
        yield Finding(
            explained.fault,
            f"{where} raised {message}",
            title=explained.title,
            why=explained.why or "",
            fix=explained.fix or "",
            confidence=explained.confidence,
        )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else "(no message)")[:300]


def _budget(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"budget_s is {seconds!r}; it has to be a number of seconds, such as 10")
    if not seconds > 0:
        raise ValueError(f"budget_s is {seconds!r}; it has to be more than 0 seconds")
    return float(seconds)


def _check(model: Any, loader: Any, loss_fn: Any, step: Any, evaluate: Any, val_loader: Any) -> None:
    from torch import nn
    from torch.utils.data import Dataset, IterableDataset

    if model is not None and not isinstance(model, nn.Module):
        hint = " Give an instance, such as Net()." if isinstance(model, type) else ""
        raise TypeError(f"model is {_kind(model)}; it has to be a torch.nn.Module.{hint}")
    for name, value in (("loss_fn", loss_fn), ("step", step), ("evaluate", evaluate)):
        if value is None:
            continue
        if isinstance(value, type):
            raise TypeError(f"{name} is the class {value.__name__}; give an instance, such as {value.__name__}()")
        if not callable(value):
            raise TypeError(f"{name} is {_kind(value)}; it has to be something that can be called")
    for name, value in (("loader", loader), ("val_loader", val_loader)):
        if value is not None and not (hasattr(value, "__iter__") or hasattr(value, "__getitem__")):
            raise TypeError(f"{name} is {_kind(value)}; it has to give batches when it is iterated over")
        if isinstance(value, Dataset) and not isinstance(value, IterableDataset):
            raise TypeError(
                f"{name} is {_kind(value)}, which gives single samples; give the DataLoader that batches them"
            )


def _several(name: str, value: Any, needs: tuple[str, ...]) -> tuple[Any, ...]:
    if value is None:
        return ()
    things = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for thing in things:
        if isinstance(thing, type) or not all(hasattr(thing, attribute) for attribute in needs):
            raise TypeError(f"{name} is {_kind(thing)}; it has to be one that can step, or a sequence of those")
    return things


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"

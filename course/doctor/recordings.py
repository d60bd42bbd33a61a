"""Which calls of the user's step and evaluation are run under watch, and how many."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from course.doctor import loading, running, tracing

if TYPE_CHECKING:
    from course.doctor.setup import Setup
    from course.doctor.watch import Recording

_MOST_STEPS = 32
_ENOUGH_STEPS = 8
_LEAST_STEPS = 3


def training(setup: Setup) -> Recording | None:
    """Some steps of training; None where none can be run."""
    if not _can_train(setup, "training steps"):
        return None
    most = setup.clock.left()
    # A step that fetches its own batches uses them up.
    count = _MOST_STEPS if setup.step is None or takes_batch(setup.step) else _LEAST_STEPS

    def calls(recording: Recording) -> Iterator[running.Call]:
        start = time.perf_counter()
        for number in range(count):
            if number and not _goes_on(recording, number, time.perf_counter() - start, most):
                return
            batch = setup.batches[number % len(setup.batches)] if setup.batches else None
            yield "step", functools.partial(_step, setup, batch)

    return _examined(setup, "training steps", running.record(setup, calls, seconds=most * 0.8, train_first=True))


def evaluation(setup: Setup) -> Recording | None:
    """evaluate(); where it takes too long, once more with loaders of two batches."""
    if setup.evaluate is None:
        return None
    if not setup.clock.allows(0):
        setup.skip("evaluate", "the budget was spent before")
        return None

    def calls(recording: Recording) -> Iterator[running.Call]:
        yield "evaluate", setup.evaluate

    found = running.record(setup, calls, seconds=setup.clock.left() * 0.4, train_first=True)
    if not found.complete and setup.clock.allows(0):
        found = running.record(setup, calls, seconds=setup.clock.left() * 0.6, train_first=True, most_batches=2)
    return _examined(setup, "evaluate", found)


def after_evaluation(setup: Setup) -> Recording | None:
    """One step, evaluate(), two steps."""
    if setup.evaluate is None or not _can_train(setup, "steps after evaluate"):
        return None

    def calls(recording: Recording) -> Iterator[running.Call]:
        for number, batch in enumerate(((setup.batches or [None]) * 3)[:3]):
            yield "step", functools.partial(_step, setup, batch)
            if number == 0:
                yield "evaluate", setup.evaluate

    before = setup.evaluation
    shorten = 2 if before is None or before.shortened or before.seconds > 0.5 else None
    seconds = setup.clock.left() * 0.6
    found = running.record(setup, calls, seconds=seconds, train_first=True, most_batches=shorten)
    return _examined(setup, "steps after evaluate", found)


def traced_error(setup: Setup) -> BaseException | None:
    """What one step, or else evaluate(), raises when torch.compile traces it.

    Everything else runs compiled models as they were written.
    """
    batch = setup.batches[0] if setup.batches else None
    run: Callable[[], Any]
    if setup.step is not None and (batch is not None or not takes_batch(setup.step)):
        run = functools.partial(_step, setup, batch)
    elif setup.standard and batch is not None:
        run = functools.partial(running.standard_step, setup, batch, setup.model)
    elif setup.evaluate is not None:
        run = setup.evaluate
    else:
        return None
    calm = loading.calm_loaders(lambda: None, 1)
    with setup.scratch(), setup.guard.entered(running.quiet(), calm, tracing.traced()):
        try:
            run()
        except (Exception, SystemExit) as error:
            return error
    return None


def takes_batch(step: Callable[..., Any]) -> bool:
    """Whether a step is called with a batch; one without parameters fetches its own."""
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters)


def _can_train(setup: Setup, what: str) -> bool:
    if setup.step is None and not setup.standard:
        return False
    if not setup.clock.allows(0):
        setup.skip(what, "the budget was spent before")
        return False
    if setup.batches or (setup.step is not None and not takes_batch(setup.step)):
        return True
    if setup.loader is None:
        setup.skip(what, "they need batches; give the loader as well")
    return False


def _step(setup: Setup, batch: Any) -> Any:
    if setup.step is None:
        return running.standard_step(setup, loading.copy_of(batch))
    return setup.step(loading.copy_of(batch)) if takes_batch(setup.step) else setup.step()


def _goes_on(recording: Recording, done: int, seconds: float, most: float) -> bool:
    """Whether another step of training is worth its time."""
    end = seconds * (done + 1) / done
    if done < _LEAST_STEPS:
        return end <= most * 0.5
    enough = _ENOUGH_STEPS if len(recording.of("optimizer_step")) >= 2 else _MOST_STEPS
    return done < enough and end <= most * 0.25


def _examined(setup: Setup, what: str, recording: Recording) -> Recording:
    """Say what was not seen, and keep what was raised for the explainer."""
    if recording.shortened and recording.error is not None:
        # A mean over too few batches, say: perhaps it is only because the loaders were cut.
        setup.skip(what, f"with loaders of two batches it raised {type(recording.error).__name__}: {recording.error}")
    elif recording.error is not None:
        setup.errors.append((what, recording.error))
    elif not recording.complete:
        setup.skip(what, f"broken off after {recording.seconds:.1f} s, as the budget is {setup.clock.budget:g} s")
    elif recording.shortened:
        setup.skip(f"{what} beyond the first batches of each loader", "all of them take longer than the budget")
    return recording

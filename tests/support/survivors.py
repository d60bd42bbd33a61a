"""Judge many answers quickly: stop at the first probe that shows a difference, and look for no diagnosis."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from course.checking import Exercise, check_answer
from course.checking.compare import first_difference
from course.checking.diagnose import expected_observations
from course.checking.isolate import run_isolated
from course.checking.observe import INPUT_SEED, observe_probe
from course.checking.state import preserved_state

LEAST_SECONDS = 3.0
SLOWER = 6  # an answer that takes so many times as long as the reference is taken not to end


def deadline_for(exercise: Exercise) -> float:
    """Wall seconds after which an answer to this exercise is refused."""
    reference = exercise.value_of(exercise.answer_reference)
    check_answer(exercise, reference)  # imports what torch needs for it
    start = time.perf_counter()
    check_answer(exercise, reference)
    return max(LEAST_SECONDS, SLOWER * (time.perf_counter() - start))


def survives(exercise: Exercise, answer: Any, deadline: float) -> bool:
    """Whether ``check`` passes the answer."""
    return not _differs_at_once(exercise, answer, deadline) and check_answer(exercise, answer, deadline=deadline).passed


def _differs_at_once(exercise: Exercise, answer: Any, deadline: float) -> bool:
    """True when the first pass shows a difference or does not end, so that ``check`` must refuse the answer too.

    False says nothing yet: ``check`` runs the probes twice, and knows more reasons.
    """
    expected = expected_observations(exercise)

    def until_it_differs() -> Iterator[bool]:
        for probe, wanted in zip(exercise.probes, expected, strict=True):
            with preserved_state():
                seen = observe_probe(exercise, probe, answer, seed=INPUT_SEED + 1)
            if first_difference(exercise, seen, wanted) is not None:
                yield True
                return

    run = run_isolated(until_it_differs, deadline=deadline)
    return run.timed_out or (run.finished and run.messages == [True])

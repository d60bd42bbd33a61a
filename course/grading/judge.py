"""Judge what the worker observed. Only here, outside of the protection, are references and wrong answers known.

The words are those of `check`: the same comparison, the same diagnosis by example. What differs is where the answer
ran, and that its report is read as one reads a stranger's: in full, in order, in form, or not at all.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from course.checking import Outcome, Verdict
from course.checking.diagnose import expected_observations
from course.checking.exercise import ChoiceExercise, Exercise
from course.checking.isolate import Run
from course.checking.judging import asked_for, not_attempted, prepared, unfinished, verdict_on, wrong_kind
from course.checking.observation import Observation
from course.checking.observe import PASSES, observe_rule
from course.checking.source import is_empty, skeleton, stub_skeleton
from course.checking.state import preserved_state
from course.grading.gate import findings
from course.grading.program import Program
from course.grading.reading import Seen
from course.grading.row import Row

CONTAINED = "CONTAINED"
REVIEW = "It passes every probe, but is not judged by the machine alone. Read this answer:"


# Many submissions have the same text: the stub as it was handed out.
REMEMBERED, REMEMBERED_TEXT = 512, 4_000


def is_stub_text(text: str, stub: str) -> bool:
    """Whether a definition says no more than the stub."""
    return (_known_stub_text if len(text) <= REMEMBERED_TEXT else _is_stub_text)(text, stub)


def _is_stub_text(text: str, stub: str) -> bool:
    try:
        return is_empty(text) or skeleton(text) == stub_skeleton(stub)
    except (SyntaxError, ValueError, RecursionError, MemoryError, AttributeError):
        return False


_known_stub_text = functools.lru_cache(REMEMBERED)(_is_stub_text)


def judged(submission: str, exercise: Exercise, program: Program, seen: Seen) -> Row:
    """The row of one exercise. Never raises because of what was reported."""
    notes = list(program.notes)
    if seen.left:
        notes.append(f"{seen.left} process(es) that it had started were still running; they were ended.")
    try:
        with preserved_state():
            verdict, contained = _judged(exercise, program, seen)
    except Exception as error:
        verdict, contained = None, f"What it reported cannot be judged ({type(error).__name__})."
    if contained:
        notes.insert(0, contained)
    elif verdict is not None and seen.replaced:
        notes.append(f"It replaced {', '.join(seen.replaced)}.")
    note = " ".join(notes) or None
    if verdict is None:
        return Row(submission, exercise.id, CONTAINED, note=note, seconds=seen.seconds)
    outcome = CONTAINED if contained else verdict.outcome.value
    return Row(
        submission,
        exercise.id,
        outcome,
        verdict.diagnosis,
        verdict.fault,
        verdict.wrong_answer,
        verdict.seen,
        verdict.expected,
        note,
        seen.seconds,
    )


def _judged(exercise: Exercise, program: Program, seen: Seen) -> tuple[Verdict | None, str | None]:
    """The verdict, and why it does not stand."""
    if seen.contained:
        return None, seen.contained
    if seen.ended is not None:
        return _cut_short(exercise, seen), None
    if seen.problem is not None:
        return Verdict(exercise.id, Outcome.ERROR, seen.problem), None
    if seen.facts is not None and (unfit := _unfit(exercise, seen.facts)):
        return unfit, None
    turns = _turns(exercise, program, seen)
    verdict = verdict_on(exercise, expected_observations(exercise), *turns)
    if not verdict.passed:
        return verdict, None
    reasons = [f"uses {what}" for what in findings(program.source, exercise)]
    reasons += [f"replaced {what}" for what in seen.replaced]
    return verdict, f"{REVIEW} it {', '.join(reasons)}." if reasons else None


def _cut_short(exercise: Exercise, seen: Seen) -> Verdict:
    messages = [] if seen.started is None else [("start", 0, 0, seen.started)]
    return unfinished(exercise, Run(messages, seen.ended or ""), seen.limit)


def _unfit(exercise: Exercise, facts: dict[str, Any]) -> Verdict | None:
    if facts["ellipsis"]:
        return not_attempted(exercise)
    if exercise.kind in ("value", "choice"):
        return None
    problem = wrong_kind(exercise, _like(facts))
    if problem is None:
        return None
    return Verdict(exercise.id, Outcome.ERROR, problem, seen=facts["what"], expected=f"{asked_for(exercise)} itself")


def _like(facts: dict[str, Any]) -> Any:
    """Some object of the kind that the answer is."""
    if facts["class"]:
        return object
    if not facts["callable"]:
        return None

    def function() -> None: ...

    if facts["compiled"]:
        function._torchdynamo_orig_callable = None
    return function


def _turns(exercise: Exercise, program: Program, seen: Seen) -> list[list[Observation]]:
    # Held against the text that the submission has, not against what its process says it has.
    texts = program.own_texts()
    source = {index: observe_rule(probe, texts) for index, probe in enumerate(exercise.probes) if probe.requirement}
    turns = []
    for turn in range(PASSES):
        turns.append(
            [
                source[index] if index in source else _as_compared(exercise, seen.observations[turn, index])
                for index in range(len(exercise.probes))
            ]
        )
    return turns


def _as_compared(exercise: Exercise, seen: Observation) -> Observation:
    """The worker does not know which values are choices."""
    return replace(seen, value=prepared(exercise, seen.value)) if isinstance(exercise, ChoiceExercise) else seen

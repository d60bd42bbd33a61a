"""Say why an answer was rejected: the catalogued misunderstanding it behaves like, or the smallest difference."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course.checking.compare import Difference, behaves_like, first_difference, same_form
from course.checking.describe import brief, describe, shorten
from course.checking.exercise import Candidate, ChoiceExercise, Exercise, ValueExercise, WrongAnswer
from course.checking.observation import Observation, TensorSeen, leaves
from course.checking.observe import CATALOGUE_SECONDS, CheckFailed, is_diagnosable, is_left_open, observe
from course.checking.verdict import Outcome, Verdict

PARTLY = "This looks partly like a known misunderstanding."
RULE = "The answer breaks a rule that the task states."

ASPECT_SENTENCES = {
    "type": "The result is of another type than the task asks for.",
    "mutation": "The call treats its inputs otherwise than the task asks.",
    "shape": "The shape differs from what the task asks for.",
    "dtype": "The dtype differs from what the task asks for.",
    "sharing": "The result does not use memory in the way that the task asks for.",
    "strides": "The elements are right, but they are laid out otherwise in memory.",
    "gradients": "The values are right, but gradients do not flow as the task asks.",
    "value": "The values differ.",
}


@functools.cache
def expected_observations(exercise: Exercise) -> list[Observation]:
    """What the reference does on every probe; observed once a process."""
    return _catalogue(exercise, [exercise.answer_reference])[0]


@functools.cache
def catalogue_observations(exercise: Exercise) -> list[tuple[WrongAnswer, list[Observation]]]:
    """What every catalogued wrong answer does on every probe; observed once a process, and only when needed."""
    return list(zip(exercise.wrong_answers, _catalogue(exercise, exercise.wrong_answers), strict=True))


@functools.cache
def _failures(exercise: Exercise) -> dict[str, int]:
    """On how many probes each catalogued wrong answer differs from the reference, by its id."""
    expected = expected_observations(exercise)
    return {
        wrong.id: sum(bool(first_difference(exercise, *pair)) for pair in zip(observed, expected, strict=True))
        for wrong, observed in catalogue_observations(exercise)
    }


def _catalogue(exercise: Exercise, candidates: Sequence[Candidate]) -> list[list[Observation]]:
    answers = [exercise.value_of(candidate) for candidate in candidates]
    run, table = observe(exercise, answers, passes=1, deadline=CATALOGUE_SECONDS, ours=True)
    if not run.finished:
        raise CheckFailed(f"the catalogued answers of {exercise.id} could not be observed ({run.ending})")
    return [turns[0] for turns in table]


def probe_words(exercise: Exercise, index: int) -> str:
    return exercise.probes[index].name.replace("_", " ")


@dataclass(frozen=True)
class Match:
    """How far an answer is like a catalogued one: of the probes that it fails, that the other fails, of all."""

    wrong: WrongAnswer
    share: float
    overlap: float
    agreeing: int

    @property
    def is_sure(self) -> bool:
        return self.share == 1 and self.overlap >= 0.5


def rejected(exercise: Exercise, seen: list[Observation], expected: list[Observation], failing: list[int]) -> Verdict:
    """The verdict on an answer that differs from the reference on the probes ``failing``."""
    index = min(failing, key=lambda i: (_is_degenerate(seen[i]), _size(seen[i]), i))
    difference = first_difference(exercise, seen[index], expected[index])
    words = _in_words(exercise, index, seen[index], difference)
    match = best_match(exercise, seen, failing)
    if match is None:
        outcome = Outcome.ERROR if seen[index].error else Outcome.WRONG
        rule = exercise.probes[index].requirement is not None
        text = RULE if rule else _without_match(exercise, seen[index], expected[index], difference)
        return Verdict(exercise.id, outcome, text, seen=words[0], expected=words[1])
    text = match.wrong.message if match.is_sure else f"{PARTLY} {match.wrong.message}"
    return Verdict(exercise.id, Outcome.WRONG, text, match.wrong.id, match.wrong.fault, *words)


def best_match(exercise: Exercise, seen: list[Observation], failing: list[int]) -> Match | None:
    """The catalogued wrong answer that behaves like this one on at least half of the failing probes.

    One that fails mostly elsewhere is a sign only if it agrees on all of them.
    """
    matches, failures = [], _failures(exercise)
    for wrong, observed in catalogue_observations(exercise):
        alike = [
            behaves_like(exercise, mine, theirs) and not (mine.error and not is_diagnosable(mine.error))
            for mine, theirs in zip(seen, observed, strict=True)
        ]
        common = sum(alike[i] for i in failing)
        share, overlap = common / len(failing), common / max(1, failures[wrong.id])
        if share == 1 or (share >= 0.5 and overlap >= 0.5):
            matches.append(Match(wrong, share, overlap, sum(alike)))
    return max(matches, key=lambda match: (match.share, match.agreeing), default=None)


def _is_degenerate(seen: Observation) -> bool:
    """One element or none shows less of what an answer does than an ordinary input."""
    return bool(seen.inputs) and _size(seen) < 2


def _size(seen: Observation) -> float:
    """Elements of the inputs; a probe that calls the answer itself shows no inputs and comes last."""
    return sum(_elements(leaf) for leaf in leaves(seen.inputs)) if seen.inputs else float("inf")


def _elements(value: Any) -> int:
    if not isinstance(value, TensorSeen):
        return 1
    count = 1
    for size in value.shape:
        count *= size
    return count


def _without_match(exercise: Exercise, seen: Observation, expected: Observation, difference: Difference) -> str | None:
    error = seen.error
    if isinstance(exercise, ValueExercise):
        fits = same_form(seen.value, expected.value) and not isinstance(exercise, ChoiceExercise)
        return "The form is right, the value is not." if fits else f"Expected {exercise.expects}."
    if error is None:
        return ASPECT_SENTENCES.get(difference.aspect)
    if is_left_open(error):
        return "Some part still raises NotImplementedError. Replace it and check again."
    if not is_diagnosable(error) and error.type == "TypeError":
        return f"The call did not fit the parameters. The exercise calls `{_signature(exercise)}`."
    if error.line is None:
        return "Using what the answer returned raised an error. Look at the type and shape that the task asks for."
    return "The answer raised an error where a result was expected."


def _signature(exercise: Exercise) -> str:
    text = exercise.stub_source().split("\n", 1)[0]
    return text.removeprefix("def ").removeprefix("class ").rstrip(": ")


def _in_words(exercise: Exercise, index: int, seen: Observation, difference: Difference) -> tuple[str, str]:
    if isinstance(exercise, ValueExercise):
        return describe(seen.value), exercise.expects
    probe = exercise.probes[index]
    if probe.requirement is not None:
        note = f"`{shorten(seen.note)}`" if seen.note else "a breach of a rule that the task states"
        return note, (probe.requirement.__doc__ or probe.name).strip()
    arguments = list(inspect.signature(exercise.stub_object).parameters)[: len(seen.inputs)]
    given = ", with " + "; ".join(map(_assignment, arguments, seen.inputs)) if seen.inputs else ""
    names = [
        name for argument, value in zip(arguments, seen.inputs, strict=False) for name in _leaf_names(argument, value)
    ]
    path = f"result{difference.path}: " if difference.path else ""
    found = f'{_named(path + difference.seen, names)} (probe "{probe_words(exercise, index)}"{given})'
    return found, _named(path + difference.expected, names)


def _leaf_names(argument: str, value: Any) -> list[str]:
    """The names under which a person finds the leaves of an argument: ``x``, or ``index[0]`` and ``index[1]``."""
    count = len(list(leaves(value)))
    return [f"{argument}[{i}]" for i in range(count)] if isinstance(value, (tuple, list)) else [argument] * count


def _assignment(name: str, value: Any) -> str:
    return f"{name} = {brief(value)}"


def _named(text: str, names: list[str]) -> str:
    """Comparisons speak of "input 2"; a person reads the parameter's name."""
    return re.sub(
        r"\binput (\d+)\b",
        lambda found: f"`{names[int(found[1]) - 1]}`" if int(found[1]) <= len(names) else found[0],
        text,
    )

"""Exercises, observations, verdicts and diagnosis. Knows no particular exercise and no notebook."""

from course.checking.check import check_answer
from course.checking.exercise import ChoiceExercise, Exercise, ValueExercise
from course.checking.requirements import no_call, no_python_loop
from course.checking.verdict import Outcome, Verdict

__all__ = [
    "ChoiceExercise",
    "Exercise",
    "Outcome",
    "ValueExercise",
    "Verdict",
    "check_answer",
    "no_call",
    "no_python_loop",
]

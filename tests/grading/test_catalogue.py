"""The exercises of all lessons through the grader: what is right passes, what is wrong gets its own diagnosis."""

from __future__ import annotations

import zlib

import pytest
from support.submitted import as_submitted

from course.curriculum import LESSONS
from course.exercises import load_exercise
from course.grading.grade import Grader, exercises_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_reference_and_one_wrong_answer_of_each_exercise(lesson, contained, notebook):
    """One warm worker a lesson; which wrong answer, the exercise's id decides."""
    exercises = [load_exercise(each) for each in exercises_of(lesson.number)]
    right = [(exercise, exercise.answer_reference) for exercise in exercises]
    wrong = [
        (exercise, exercise.wrong_answers[zlib.crc32(exercise.id.encode()) % len(exercise.wrong_answers)])
        for exercise in exercises
    ]
    with Grader([exercise.id for exercise in exercises]) as grader:
        for answers in (right, wrong):
            cells = [(as_submitted(exercise, candidate), exercise.id) for exercise, candidate in answers]
            rows = grader.grade(notebook(*cells, lesson=lesson.number))
            found = {row.exercise: (row.outcome == "PASSED", row.wrong, row.note) for row in rows}
            assert found == {
                exercise.id: (answers is right, None if answers is right else candidate.id, None)
                for exercise, candidate in answers
            }
        assert grader.starts == 1

"""The twelve broken setups: what the doctor says to each as it was sent in, and to every right repair."""

from __future__ import annotations

import pytest

from course.exercises import exercise_ids, load_exercise
from course.exercises.clinic import _ward

SENT_IN = {
    "column_and_row": "broadcast-outer-product",
    "dead_gauge": "nonfinite-data",
    "deep_sigmoid": "vanishing-gradient",
    "equal_weights": "symmetric-init",
    "labels_apart": None,  # wrong labels look like hard data
    "never_steps": "step-missing",
    "new_head": "optimizer-misses-parameters",
    "one_row": "duplicate-samples",
    "own_logarithm": "log-of-zero",
    "plain_list": "unregistered-submodule",
    "softmax_twice": "double-softmax",
    "too_fast": "learning-rate-too-high",
}
REPORTS = [load_exercise(f"clinic.{name}") for name in SENT_IN]
REPAIRS = [(e, c) for e in REPORTS for c in (e.answer_reference, *e.alternatives)]


def test_all_reports_are_listed():
    assert [f"clinic.{name}" for name in SENT_IN] == [name for name in exercise_ids() if name.startswith("clinic.")]


@pytest.mark.parametrize("exercise", REPORTS, ids=lambda e: e.id)
def test_the_doctor_names_what_is_wrong(exercise):
    wanted = SENT_IN[exercise.id.partition(".")[2]]
    found = [line.partition(" ")[0] for line in _ward.diagnosis(exercise.stub_object)]
    assert found[:1] == ([wanted] if wanted else [])


@pytest.mark.parametrize("exercise", REPORTS, ids=lambda e: e.id)
def test_as_sent_in_the_loss_does_not_fall_far(exercise):
    assert not _ward.falls(exercise.stub_object, to=0.5)


@pytest.mark.parametrize(("exercise", "repair"), REPAIRS, ids=lambda x: getattr(x, "id", getattr(x, "name", "")))
def test_the_doctor_is_silent_after_every_right_repair(exercise, repair):
    assert _ward.diagnosis(repair.obj) == []

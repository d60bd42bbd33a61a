from __future__ import annotations

import pytest

from course.curriculum import Lesson
from course.publishing import UsageError
from course.publishing.parameters import choose, convert, parse

ONE = Lesson("01", "one", "One", 5, "one")
TWO = Lesson("02", "two", "Two", 5, "two", parameters={"steps": 3, "rate": 0.1, "plot": True})


def test_defaults_are_the_manifests():
    chosen = choose([ONE, TWO], {}, device=None, profile=None)
    assert chosen == {"01": dict(ONE.parameters), "02": dict(TWO.parameters)}


def test_device_and_profile_go_to_the_lessons_that_have_them():
    chosen = choose([ONE, TWO], {}, device="cpu", profile="full")
    assert chosen["01"] == {"device": "cpu", "profile": "full"}
    assert chosen["02"] == dict(TWO.parameters)


def test_given_values_take_the_type_of_the_default():
    chosen = choose([TWO], {"steps": "5", "rate": "1e-3", "plot": "False"}, device=None, profile=None)
    assert chosen["02"] == {"steps": 5, "rate": 0.001, "plot": False}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nonsense": "1"}, "has no parameter 'nonsense'. Its parameters are: steps, rate, plot."),
        ({"steps": "1.5"}, "cannot be '1.5'. It is an integer, by default 3."),
        ({"rate": "fast"}, "cannot be 'fast'. It is a number, by default 0.1."),
        ({"plot": "1"}, "It can be: true, false."),
    ],
)
def test_what_is_not_valid_is_named_with_what_is(given, words):
    with pytest.raises(UsageError) as caught:
        choose([TWO], given, device=None, profile=None)
    assert words in str(caught.value)


def test_every_lesson_must_know_a_parameter():
    with pytest.raises(UsageError, match="Lesson 01_one has no parameter 'steps'"):
        choose([ONE, TWO], {"steps": "1"}, device=None, profile=None)


@pytest.mark.parametrize(("name", "valid"), [("device", "auto, cpu, cuda, mps"), ("profile", "smoke, quick, full")])
def test_choices_are_listed(name, valid):
    with pytest.raises(UsageError, match=f"It can be: {valid}"):
        convert(name, "tpu", "auto")


def test_one_thing_is_not_asked_for_twice():
    with pytest.raises(UsageError, match="The device is asked for twice: 'cpu' and 'cuda'"):
        choose([ONE], {"device": "cuda"}, device="cpu", profile=None)
    assert choose([ONE], {"device": "cpu"}, device="cpu", profile=None)["01"]["device"] == "cpu"


def test_assignments_are_split_at_the_first_sign():
    assert parse(["a=b=c", " d = 1 "]) == {"a": "b=c", "d": "1"}


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_half_an_assignment_is_refused(text):
    with pytest.raises(UsageError, match="should look like name=value"):
        parse([text])

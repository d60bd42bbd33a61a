from __future__ import annotations

import json

import pytest

from course import curriculum
from course.curriculum import LESSONS
from course.workspace import status
from course.workspace.progress import ExerciseProgress, Progress, lesson_exercises

IDS = {lesson.number: lesson_exercises(lesson) for lesson in LESSONS}
ALL = [each for ids in IDS.values() for each in ids]
PASSED = ExerciseProgress(passed=True, attempts=2, seconds=700.0, first_passed="2026-11-30T09:00:40+00:00")


@pytest.fixture
def begun() -> Progress:
    """Lesson 00 is finished, one exercise of 01 was tried, another version's was passed, and a file is damaged."""
    return Progress(
        {
            **dict.fromkeys(IDS["00"], PASSED),
            IDS["01"][3]: ExerciseProgress(attempts=3, hints=1, solution_shown=True, seconds=59.6),
            "tensors.of_a_later_course": PASSED,
        },
        ("1 damaged line was passed over in x.jsonl.",),
    )


def test_table(begun):
    lines = status.table(begun).splitlines()
    head, first, second, third, *_ = (" ".join(line.split()) for line in lines)
    total = " ".join(lines[len(LESSONS) + 1].split())
    zero, one, two = (len(IDS[number]) for number in ("00", "01", "02"))
    minutes = zero * 700 // 60
    hours = f"{minutes // 60} h {minutes % 60:02} min"
    assert head == "lesson passed attempts hints time"
    assert first == f"00 Start here {zero} of {zero} {2 * zero} - {hours}"
    assert second == f"> 01 Tensors and strides 0 of {one} 3 1 < 1 min"
    assert third == f"02 Autograd pitfalls 0 of {two} - - -"
    assert total.startswith(f"all {zero} of {len(ALL)} {2 * zero + 3} 1 ")
    for lesson, row in zip(LESSONS, lines[1:], strict=False):
        assert row.startswith(f"{'>' if lesson.number == '01' else ' '} {lesson.number}  {lesson.title}  ")
    note, following, problem = lines[-3:]
    assert note.startswith("time: ")
    assert "10 minutes" in note
    assert [following, problem] == status.next_line(begun).splitlines()


def test_the_table_fits_terminals(begun):
    text = status.table(begun)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 100
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_json(begun):
    data = json.loads(json.dumps(status.to_dict(begun)))
    assert [lesson["number"] for lesson in data["lessons"]] == [lesson.number for lesson in LESSONS]
    assert [each["id"] for lesson in data["lessons"] for each in lesson["exercises"]] == ALL
    first, second, *_ = data["lessons"]
    assert first["exercises"][0] == {
        "id": IDS["00"][0],
        "passed": True,
        "attempts": 2,
        "hints": 0,
        "solution_shown": False,
        "seconds": 700,
        "first_passed": "2026-11-30T09:00:40+00:00",
    }
    assert {key: second[key] for key in ("passed", "total", "attempts", "hints", "seconds", "finished")} == {
        "passed": 0,
        "total": len(IDS["01"]),
        "attempts": 3,
        "hints": 1,
        "seconds": 60,
        "finished": False,
    }
    assert first["finished"] is True
    assert data["overall"]["passed"] == len(IDS["00"])
    assert data["next"] == "01"
    assert data["of_other_versions"] == ["tensors.of_a_later_course"]
    assert data["problems"] == list(begun.problems)


def test_next_line(begun):
    line, problem = status.next_line(begun).splitlines()
    assert problem == begun.problems[0]
    assert f"lesson 01, {curriculum.lesson('01').title} (0 of {len(IDS['01'])} passed)" in line
    assert "`course lab 01`" in line


def test_everything_passed():
    everything = Progress(dict.fromkeys(ALL, PASSED))
    assert status.next_line(everything) == "Every exercise of every lesson is passed."
    assert status.to_dict(everything)["next"] is None
    assert ">" not in status.table(everything)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "-"), (0.5, "< 1 min"), (59.9, "< 1 min"), (60, "1 min"), (3599, "59 min"), (3600, "1 h 00 min")],
)
def test_time_in_words(seconds, text):
    row = status.table(Progress({IDS["00"][0]: ExerciseProgress(seconds=seconds)})).splitlines()[1]
    assert row.split("-  ")[-1].strip() == text

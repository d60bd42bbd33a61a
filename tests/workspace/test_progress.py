"""Merging and reading: `progress.merged` and `progress.read`."""

from __future__ import annotations

import json
import random
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from course import curriculum
from course.workspace import progress
from course.workspace.progress import ExerciseProgress, Progress, merged
from course.workspace.records import FORMAT, LONGEST_LINE, Record, encode

START = datetime(2026, 11, 30, 9, 0, tzinfo=timezone.utc)


def events(kernel: str, *rows: tuple, start: float = 0.0) -> list[Record]:
    """Records of one kernel from (second, event or outcome, exercise)."""
    return [
        Record(
            kernel,
            number,
            START + timedelta(seconds=start + second),
            1000.0 + second,
            what if what in ("hint", "solution") else "check",
            exercise,
            None if what in ("hint", "solution") else what,
        )
        for number, (second, what, exercise) in enumerate(rows, start=1)
    ]


FLATTEN = "tensors.flatten"


def test_attempts_are_answers_up_to_the_first_that_passed():
    rows = events(
        "k",
        (0, "NOT_ATTEMPTED", FLATTEN),
        (10, "WRONG", FLATTEN),
        (20, "ERROR", FLATTEN),
        (25, "hint", FLATTEN),
        (30, "TIMED_OUT", FLATTEN),
        (40, "PASSED", FLATTEN),
        (50, "WRONG", FLATTEN),
        (60, "PASSED", FLATTEN),
        (70, "solution", FLATTEN),
    )
    assert merged(rows) == {
        FLATTEN: ExerciseProgress(
            passed=True,
            attempts=4,
            hints=1,
            solution_shown=True,
            seconds=70.0,
            first_passed="2026-11-30T09:00:40+00:00",
        )
    }


def test_time_is_between_the_events_of_one_kernel_without_breaks():
    one = events("a", (0, "WRONG", FLATTEN), (600, "hint", FLATTEN), (1201, "WRONG", FLATTEN), (1211, "hint", "data.x"))
    other = events("b", (5, "WRONG", FLATTEN), (6.5, "WRONG", FLATTEN))
    result = merged(one + other)
    assert result[FLATTEN].seconds == 601.5
    assert result["data.x"].seconds == 10.0


def test_a_clock_that_runs_backwards_adds_nothing():
    assert merged(events("a", (50, "WRONG", FLATTEN), (10, "WRONG", FLATTEN)))[FLATTEN].seconds == 0.0


def test_neither_order_nor_copies_matter():
    rows = [
        *events("a", (0, "WRONG", FLATTEN), (30, "PASSED", FLATTEN), (31, "hint", "data.x")),
        *events("b", (10, "hint", FLATTEN), (90, "WRONG", FLATTEN), (100, "WRONG", "data.x")),
        *events("c", (0, "WRONG", FLATTEN), start=15.0),
    ]
    expected = merged(rows)
    assert expected[FLATTEN].attempts == 3
    for seed in range(20):
        mixed = rows * 2
        random.Random(seed).shuffle(mixed)
        assert merged(mixed) == expected


@pytest.fixture
def folder(home: Path) -> Path:
    path = home / "progress"
    path.mkdir(parents=True)
    return path


def keep(path: Path, *parts: list[Record] | bytes) -> bytes:
    """Write records and raw bytes into a file; return its content."""
    content = b"".join(part if isinstance(part, bytes) else b"".join(map(encode, part)) for part in parts)
    path.write_bytes(content)
    return content


def test_nothing_kept_is_no_problem(home):
    assert progress.read() == Progress({}, ())
    home.mkdir()
    assert progress.read() == Progress({}, ())


def test_all_files_together(folder):
    keep(folder / "a.jsonl", events("a", (0, "WRONG", FLATTEN)))
    keep(folder / "b.jsonl", events("b", (1, "PASSED", FLATTEN), (2, "PASSED", "tensors.accuracy")))
    shutil.copy(folder / "b.jsonl", folder / "b (copy).jsonl")
    found = progress.read()
    assert found.problems == ()
    assert found.exercise(FLATTEN).attempts == 2
    assert found.exercise("tensors.accuracy").passed
    assert not found.exercise("tensors.brighten").passed


def test_damaged_lines_are_passed_over_said_once_and_kept(folder):
    good = events("a", *((number, "WRONG", FLATTEN) for number in range(4)))
    lines = [encode(each) for each in good]
    content = keep(
        folder / "a.jsonl",
        lines[0],
        b"\x89PNG\r\n\x1a\n",
        # A crash of the machine can leave zeros where a line was.
        bytes(100),
        lines[1],
        lines[2][:50] + b"\n",
        b"\n   \r\n",
        lines[2].replace(b"\n", b"\r\n"),
        b"x" * (3 * LONGEST_LINE) + b"\n",
        lines[3],
        lines[3][:-5],
    )
    other = keep(folder / "b.jsonl", b"\0" * (2 * LONGEST_LINE))
    found = progress.read()
    assert found.exercise(FLATTEN).attempts == 4
    (problem,) = found.problems
    # Two of the PNG header, the zeros, the cut one, the long one, the one without its end, and the other file.
    assert problem.startswith("7 damaged lines were passed over in ")
    assert "a.jsonl and 1 other file." in problem
    assert (folder / "a.jsonl").read_bytes() == content
    assert (folder / "b.jsonl").read_bytes() == other
    assert len(list(folder.iterdir())) == 2


def test_a_newer_version_is_read_as_far_as_it_is_understood(folder):
    known, unknown = events("n", (0, "PASSED", FLATTEN), (1, "hint", FLATTEN))
    understood = keep(folder / "m.jsonl", encode(known._replace(format=FORMAT + 1)))
    keep(folder / "n.jsonl", encode(unknown._replace(format=FORMAT + 1, event="conversation")))
    keep(folder / "o.jsonl", events("o", (0, "hint", FLATTEN)))
    found = progress.read()
    assert found.exercise(FLATTEN).passed
    assert found.exercise(FLATTEN).hints == 1
    (problem,) = found.problems
    assert problem.startswith("A newer version of the course wrote ")
    assert "m.jsonl and 1 other file." in problem
    assert "update the course" in problem
    assert (folder / "m.jsonl").read_bytes() == understood


def test_what_is_no_file_of_ours_is_left_alone(folder):
    (folder / "a.jsonl").mkdir()
    (folder / "notes.txt").write_bytes(b"\xff")
    (folder / "b.jsonl").symlink_to(folder / "gone")
    assert progress.read() == Progress({}, ())


def test_a_file_that_cannot_be_read_costs_only_itself(folder, monkeypatch):
    keep(folder / "a.jsonl", events("a", (0, "PASSED", FLATTEN)))
    keep(folder / "b.jsonl", events("b", (0, "PASSED", "tensors.accuracy")))
    ordinary = open

    def refuse(path, *arguments, **options):
        if Path(path).name == "a.jsonl":
            raise PermissionError(13, "Permission denied")
        return ordinary(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", refuse)
    found = progress.read()
    assert set(found.exercises) == {"tensors.accuracy"}
    (problem,) = found.problems
    assert "a.jsonl cannot be read (Permission denied)" in problem


def test_only_files_that_changed_are_read_again(folder, monkeypatch):
    rows = events("a", (0, "WRONG", FLATTEN), (1, "PASSED", FLATTEN))
    keep(folder / "a.jsonl", rows[:1], b"damaged\n")
    keep(folder / "b.jsonl", events("b", (0, "hint", FLATTEN)))
    keep(folder / "c.jsonl", events("c", (0, "hint", FLATTEN)))
    before = progress.read()
    opened = []
    ordinary = open
    monkeypatch.setattr("builtins.open", lambda path, *rest: opened.append(Path(path).name) or ordinary(path, *rest))
    assert progress.read() == before
    assert opened == []
    keep(folder / "a.jsonl", rows, b"damaged\n")
    (folder / "c.jsonl").unlink()
    after = progress.read()
    assert after.problems == before.problems
    assert (after.exercise(FLATTEN).attempts, after.exercise(FLATTEN).hints) == (2, 1)
    assert set(opened) == {"a.jsonl"}


def test_a_home_that_is_a_file_is_said(home):
    home.write_text("mine", encoding="utf-8")
    found = progress.read()
    assert found.exercises == {}
    (problem,) = found.problems
    assert "cannot be read (Not a directory)" in problem
    assert home.name in problem
    assert home.read_text(encoding="utf-8") == "mine"


def test_fifty_thousand_records_in_many_files(folder):
    exercises = [each for lesson in curriculum.LESSONS for each in progress.lesson_exercises(lesson)][:50]
    (record,) = events("KERNEL", (0, "WRONG", "EXERCISE"))
    line = encode(record).decode().replace("KERNEL", "k%d").replace('"n":1', '"n":%d').replace("EXERCISE", "%s")
    for kernel in range(100):
        rows = (line % (kernel, number, exercises[number % 50]) for number in range(500))
        (folder / f"{kernel:02}.jsonl").write_text("".join(rows), encoding="utf-8")
    found = progress.read()
    assert found.problems == ()
    assert {each: found.exercise(each).attempts for each in exercises} == dict.fromkeys(exercises, 1000)


def passed(*ids: str) -> Progress:
    return Progress({each: ExerciseProgress(passed=True, attempts=1, seconds=2.0) for each in ids})


def test_lessons_count_the_exercises_of_the_installed_course():
    lesson = curriculum.lesson("01")
    ids = progress.lesson_exercises(lesson)
    assert FLATTEN in ids
    found = passed(*ids[1:], "tensors.of_a_later_course", "start.of_an_earlier_one").lesson(lesson)
    assert (found.passed, found.total, found.attempts, found.seconds) == (len(ids) - 1, len(ids), len(ids) - 1, 28.0)
    assert not found.finished
    assert passed(*ids).lesson(lesson).finished


def test_next_lesson_is_the_first_unfinished_one_in_the_order_of_the_course():
    first, second, *_others = curriculum.LESSONS
    assert progress.next_lesson(Progress()) is first
    ids = {lesson.number: progress.lesson_exercises(lesson) for lesson in curriculum.LESSONS}
    assert progress.next_lesson(passed(*ids[first.number])) is second
    assert progress.next_lesson(passed(*ids[second.number])) is first
    assert progress.next_lesson(passed(*(each for some in ids.values() for each in some))) is None
    overall = passed(*ids[second.number]).overall
    assert (overall.passed, overall.total) == (len(ids[second.number]), sum(map(len, ids.values())))


def test_problems_hold_no_path_that_cannot_be_printed(folder):
    name = "b\udcff.jsonl"
    keep(folder / name, b"x\n")
    (problem,) = progress.read().problems
    assert "b\\xff.jsonl" in problem
    json.dumps(problem).encode("utf-8")
    problem.encode("utf-8")

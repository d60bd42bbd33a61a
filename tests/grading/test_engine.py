from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support.played_grader import PlayedSpec, pids, steps

from course.grading import engine, serving
from course.grading.engine import GradingError, grade_all
from course.grading.journal import Journal
from course.grading.serving import GraderLost, Remote, Stopped

TESTS = Path(__file__).resolve().parents[1]
needs_signals = pytest.mark.skipif(os.name != "posix", reason="kills processes by signals")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    # Also for processes that are forked here, while somebody works on the course.
    engine.edition()


def gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_every_submission_is_graded_once_whoever_does_it(spec, hand_in):
    submissions = hand_in(**{f"s{n:02}": f"# {n}" for n in range(12)})
    graded = list(grade_all(submissions, spec, jobs=3))
    assert sorted(each.submission.id for each in graded) == [f"s{n:02}.py" for n in range(12)]
    for each in graded:
        assert [row.exercise for row in each.result.rows] == list(spec.exercises)
        assert {row.submission for row in each.result.rows} == {each.submission.id}
        assert each.result.rows[0].note == str(int(each.submission.id[1:3]))
        assert (each.result.complete, each.result.protection, each.resumed) == (True, "played", False)
    taken = steps(spec.log)
    assert set(taken["begun"].values()) == {1}
    # The start is paid once a process, and each is closed in good order.
    assert 1 <= taken["made"]["-"] <= 3
    assert taken["closed"] == taken["made"]


def test_no_more_processes_are_started_than_there_are_submissions(spec, hand_in):
    list(grade_all(hand_in(only="#"), spec, jobs=4))
    assert steps(spec.log)["made"]["-"] == 1


def test_nothing_to_grade_starts_nothing(spec):
    assert list(grade_all([], spec, jobs=2)) == []
    assert not Path(spec.log).exists()


@needs_signals
def test_a_grader_that_dies_is_replaced_and_the_row_is_written(spec, hand_in):
    submissions = hand_in(a="#", b="die", c="die-once", d="raise badly", e="short", f="#")
    graded = {each.submission.id: each.result for each in grade_all(submissions, spec, jobs=1)}
    assert {name for name, result in graded.items() if result.complete} == {"a.py", "c.py", "f.py"}
    for name, reason in {
        "b.py": "killed by signal 9",
        "d.py": "the grader failed with ValueError: badly",
        "e.py": r"the grader gave rows for ['tensors.flatten']",
    }.items():
        assert [row.exercise for row in graded[name].rows] == list(spec.exercises)
        assert {row.outcome for row in graded[name].rows} == {"ERROR"}
        assert reason in graded[name].rows[0].note
        assert "Grade again with --resume" in graded[name].rows[0].note
    assert steps(spec.log)["begun"] == {"a.py": 1, "b.py": 2, "c.py": 2, "d.py": 2, "e.py": 2, "f.py": 1}


def test_a_grader_that_hangs_is_killed(spec, hand_in, monkeypatch):
    monkeypatch.setattr(engine, "LIMIT_SECONDS", 4.0)
    (graded,) = grade_all(hand_in(a="sleep 600"), spec, jobs=1)
    assert not graded.result.complete
    assert "gave no answer within 4 seconds" in graded.result.rows[0].note
    assert all(gone(pid) for pid in pids(spec.log))


def test_what_a_grader_prints_is_not_taken_for_its_answer(spec, hand_in, capfd):
    (graded,) = grade_all(hand_in(a='print {"rows": []}'), spec, jobs=1)
    assert graded.result.complete
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count('{"rows": []}') == 2


def test_where_no_grader_can_be_made_the_run_ends(tmp_path, hand_in):
    spec = PlayedSpec(log=str(tmp_path / "steps.log"), refuses="This system has no protection.")
    with pytest.raises(GradingError, match=r"^This system has no protection\.$"):
        list(grade_all(hand_in(a="#", b="#"), spec, jobs=2))


def test_a_run_that_is_given_up_leaves_no_process(spec, hand_in):
    run = grade_all(hand_in(a="#", b="sleep 600", c="sleep 600"), spec, jobs=2)
    assert next(run).submission.id == "a.py"
    run.close()
    started = pids(spec.log)
    assert len(started) == 2
    assert all(gone(pid) for pid in started)


@needs_signals
def test_graders_end_when_the_run_is_killed(spec, hand_in, tmp_path):
    """Nobody is there to close them: they see that the pipe has ended."""
    submissions = hand_in(a="#", b="#")
    child = os.fork()
    if child == 0:
        try:
            run = grade_all(submissions, spec, jobs=1)
            next(run)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    started = pids(spec.log)
    assert len(started) == 1
    assert all(gone(pid) for pid in started)


def test_an_interrupted_run_goes_on_without_losing_or_repeating(spec, hand_in, tmp_path):
    submissions = hand_in(**{f"s{n}": f"# {n}" for n in range(8)})
    with Journal(tmp_path / "j") as journal:
        run = grade_all(submissions, spec, jobs=1, journal=journal)
        first = [next(run) for _ in range(3)]
        run.close()
    with Journal(tmp_path / "j") as journal:
        assert journal.interrupted
        kept = {entry["submission"] for entry in journal.entries.values()}
        # Also what was ready and had not been taken.
        assert {each.submission.id for each in first} <= kept
        graded = list(grade_all(submissions, spec, jobs=2, journal=journal))
        journal.finish()
    assert sorted(each.submission.id for each in graded) == [each.id for each in submissions]
    assert {each.submission.id for each in graded if each.resumed} == kept
    by_id = {each.submission.id: each.result for each in graded}
    assert [by_id[each.submission.id] for each in first] == [each.result for each in first]
    assert steps(spec.log)["begun"] == dict.fromkeys((each.id for each in submissions), 1)


@needs_signals
@pytest.mark.parametrize("wait_for", [1, 4])
def test_a_killed_run_goes_on_without_losing_or_repeating(spec, hand_in, tmp_path, wait_for):
    submissions = hand_in(**{f"s{n}": "sleep 0.1" for n in range(8)})
    child = os.fork()
    if child == 0:
        try:
            with Journal(tmp_path / "j") as journal:
                list(grade_all(submissions, spec, jobs=2, journal=journal))
        finally:
            os._exit(1)
    while not ((tmp_path / "j").exists() and (tmp_path / "j").read_bytes().count(b"\n") >= wait_for):
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert all(gone(pid) for pid in pids(spec.log))
    with Journal(tmp_path / "j") as journal:
        kept = {entry["submission"] for entry in journal.entries.values()}
        assert len(kept) >= wait_for
        graded = list(grade_all(submissions, spec, jobs=2, journal=journal))
    assert sorted(each.submission.id for each in graded) == [each.id for each in submissions]
    assert {each.submission.id for each in graded if each.resumed} == kept
    begun = steps(spec.log)["begun"]
    assert {name for name, count in begun.items() if count == 1} >= kept
    # At most what the two processes were working on is graded again.
    assert sum(begun.values()) <= len(submissions) + 2 + 2


def test_only_what_changed_is_graded_again(spec, hand_in, tmp_path, monkeypatch):
    def run(spec=spec, **texts: str) -> set[str]:
        with Journal(tmp_path / "j") as journal:
            return {
                each.submission.id for each in grade_all(hand_in(**texts), spec, journal=journal) if not each.resumed
            }

    assert run(a="# 1", b="# 2") == {"a.py", "b.py"}
    assert run() == set()
    assert run(b="# 3", c="# 4") == {"b.py", "c.py"}
    # Back to what it was: that is known too.
    assert run(b="# 2") == set()
    assert run(PlayedSpec(spec.log, exercises=("tensors.scores",))) == {"a.py", "b.py", "c.py"}
    monkeypatch.setattr(engine, "edition", lambda: "another")
    assert run() == {"a.py", "b.py", "c.py"}


def test_what_the_grader_failed_on_is_tried_again(spec, hand_in, tmp_path):
    for text, expected in (("raise no", [False]), ("raise no", [False]), ("#", [True])):
        with Journal(tmp_path / "j") as journal:
            graded = list(grade_all(hand_in(a=text), spec, journal=journal))
        assert [each.result.complete for each in graded] == expected
        assert not graded[0].resumed


def test_a_closed_remote_answers_nobody(spec, hand_in):
    (submission,) = hand_in(a="sleep 600")
    remote = Remote(spec, limit=120)
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            remote.grade(submission.path, submission.id)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not (Path(spec.log).exists() and steps(spec.log)["begun"]):
        time.sleep(0.02)
    remote.close(0.1)
    thread.join(30)
    assert [type(error) for error in caught] == [Stopped]
    with pytest.raises(Stopped):
        remote.grade(submission.path, submission.id)


def test_a_process_that_cannot_import_its_spec_says_why(hand_in, monkeypatch):
    (submission,) = hand_in(a="#")
    remote = Remote(PlayedSpec(log=os.devnull), limit=120)
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(GradingError, match="support"):
        remote.grade(submission.path, submission.id)
    remote.close()


def test_a_process_that_does_not_start_is_lost_not_waited_for(spec, hand_in, monkeypatch):
    (submission,) = hand_in(a="#")
    monkeypatch.setattr(serving.sys, "executable", "/bin/false" if os.path.exists("/bin/false") else "false")
    remote = Remote(spec, limit=120)
    with pytest.raises(GraderLost, match="ended"):
        remote.grade(submission.path, submission.id)
    remote.close()

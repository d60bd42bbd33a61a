from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support.played_grader import PlayedSpec, pids, steps

from course.grading import cluster, engine
from course.grading.engine import GradingError, grade_all
from course.grading.grade import GraderSpec
from course.grading.journal import Journal
from course.grading.sandbox import protection

distributed = pytest.importorskip("distributed", reason="the extra `grade` is not installed: no cluster was tried")

import dask.config  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="kills workers by signals")]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """A cluster on this machine: two processes of one thread each, which come back when they are killed."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    # On a busy machine a worker needs more than the usual 15 seconds to come back, after which it is given up.
    patience = dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"})
    with (
        patience,
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL + 1,
            local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as started,
    ):
        yield started
    patch.undo()


def worker_pids(address: str) -> list[int]:
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=240)
        return sorted(client.run(os.getpid).values())


def gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_both_workers_grade_and_start_once(two_workers, spec, hand_in):
    submissions = hand_in(**{f"s{n:02}": f"sleep 0.{n % 3}" for n in range(10)})
    graded = list(grade_all(submissions, spec, scheduler=two_workers.scheduler_address))
    assert sorted(each.submission.id for each in graded) == [each.id for each in submissions]
    for each in graded:
        assert {row.submission for row in each.result.rows} == {each.submission.id}
        assert [row.exercise for row in each.result.rows] == list(spec.exercises)
        assert (each.result.complete, each.result.protection) == (True, "played")
    taken = steps(spec.log)
    assert set(taken["begun"].values()) == {1}
    # A grader for each worker, and none is left behind.
    assert taken["made"]["-"] == 2
    assert all(gone(pid) for pid in pids(spec.log))


def test_a_worker_is_killed_midway_and_nothing_is_lost_and_nothing_graded_twice(two_workers, spec, hand_in, tmp_path):
    submissions = hand_in(**{f"s{n:02}": "sleep 0.2" for n in range(16)})
    victim, _ = worker_pids(two_workers.scheduler_address)
    with Journal(tmp_path / "j") as journal:
        graded, ended_before = [], set()
        for each in grade_all(submissions, spec, scheduler=two_workers.scheduler_address, journal=journal):
            graded.append(each)
            if len(graded) == 5:
                ended_before = {one.submission.id for one in graded}
                os.kill(victim, signal.SIGKILL)
        journal.finish()
    # Nothing lost: each has its rows, once, and they are whole.
    assert sorted(each.submission.id for each in graded) == [each.id for each in submissions]
    assert all(each.result.complete and len(each.result.rows) == 2 for each in graded)
    lines = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert sorted(line["submission"] for line in lines if "rows" in line) == [each.id for each in submissions]
    # Nothing graded twice: what was there stayed; only what the dead worker held was begun again.
    begun = steps(spec.log)["begun"]
    again = {name for name, count in begun.items() if count > 1}
    assert not again & ended_before
    assert len(again) <= cluster.AHEAD
    assert max(begun.values()) <= 2
    assert victim not in worker_pids(two_workers.scheduler_address)
    # The dead worker's grading process saw that nobody is there.
    assert all(gone(pid) for pid in pids(spec.log))


REAL = {
    "right": ("return x.reshape(-1)", "PASSED", None),
    "wrong": ("return x.view(-1)", "WRONG", "tensors.flatten/view_only"),
    "stub": ("raise NotImplementedError", "NOT_ATTEMPTED", None),
    "broken": ("return x.reshape(-1", "ERROR", None),
}


def test_the_real_grader_on_two_workers_of_which_one_is_killed_midway(two_workers, hand_in, tmp_path):
    head = "import torch\n\n\ndef flatten_elements(x):\n    "
    kinds = [kind for kind in REAL for _ in range(3)]
    submissions = hand_in(**{f"s{n:02}_{kind}": f"{head}{REAL[kind][0]}\n" for n, kind in enumerate(kinds)})
    # Where there is no protection these answers, which are ours, may run without one.
    spec = GraderSpec(("tensors.flatten",), unprotected=protection().name == "none")
    victim, _ = worker_pids(two_workers.scheduler_address)
    graded = []
    with Journal(tmp_path / "j") as journal:
        for each in grade_all(submissions, spec, scheduler=two_workers.scheduler_address, journal=journal):
            graded.append(each)
            if len(graded) == 4:
                os.kill(victim, signal.SIGKILL)
    assert sorted(each.submission.id for each in graded) == [each.id for each in submissions]
    lines = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert sorted(line["submission"] for line in lines) == [each.id for each in submissions]
    for each in graded:
        (row,) = each.result.rows
        _, outcome, wrong = REAL[each.submission.path.stem.split("_")[1]]
        assert (row.outcome, row.wrong) == (outcome, wrong), row
        assert each.result.protection == protection().sentence
    assert victim not in worker_pids(two_workers.scheduler_address)


def test_a_submission_that_kills_the_grader_costs_no_worker(two_workers, spec, hand_in):
    before = worker_pids(two_workers.scheduler_address)
    submissions = hand_in(a="#", b="die", c="#", d="raise badly")
    graded = {e.submission.id: e.result for e in grade_all(submissions, spec, scheduler=two_workers.scheduler_address)}
    assert {name: result.complete for name, result in graded.items()} == {
        "a.py": True,
        "b.py": False,
        "c.py": True,
        "d.py": False,
    }
    assert "killed by signal 9" in graded["b.py"].rows[0].note
    assert worker_pids(two_workers.scheduler_address) == before


def test_a_run_that_is_given_up_keeps_what_is_ready_and_goes_on(two_workers, spec, hand_in, tmp_path):
    submissions = hand_in(**{f"s{n:02}": "sleep 0.1" for n in range(10)})
    with Journal(tmp_path / "j") as journal:
        run = grade_all(submissions, spec, scheduler=two_workers.scheduler_address, journal=journal)
        first = [next(run) for _ in range(3)]
        run.close()
        kept = {entry["submission"] for entry in journal.entries.values()}
        assert {each.submission.id for each in first} <= kept
    assert all(gone(pid) for pid in pids(spec.log))
    # On this machine this time: a journal knows nothing of where.
    with Journal(tmp_path / "j") as journal:
        graded = list(grade_all(submissions, spec, jobs=1, journal=journal))
    assert {each.submission.id for each in graded if each.resumed} == kept
    assert sorted(each.submission.id for each in graded) == [each.id for each in submissions]


def test_workers_of_another_edition_are_refused(two_workers, spec, hand_in, monkeypatch):
    monkeypatch.setattr(engine, "edition", lambda: "another")
    with pytest.raises(GradingError, match=r"another edition of the course.*same versions"):
        list(grade_all(hand_in(a="#"), spec, scheduler=two_workers.scheduler_address))


def test_workers_that_cannot_make_a_grader_say_why(two_workers, tmp_path, hand_in):
    spec = PlayedSpec(log=str(tmp_path / "steps.log"), refuses="No protection on this worker.")
    with pytest.raises(GradingError, match=r"No protection on this worker"):
        list(grade_all(hand_in(a="#"), spec, scheduler=two_workers.scheduler_address))


def test_an_address_where_no_scheduler_answers(spec, hand_in, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    with pytest.raises(GradingError, match=r"No scheduler answers at tcp://127\.0\.0\.1:1 .*dask scheduler"):
        list(grade_all(hand_in(a="#"), spec, scheduler="tcp://127.0.0.1:1"))
    with pytest.raises(GradingError, match=r"No scheduler answers at nonsense://x"):
        list(grade_all(hand_in(a="#"), spec, scheduler="nonsense://x"))


def test_a_cluster_without_workers_is_waited_for(spec, hand_in, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    said: list[str] = []
    with distributed.LocalCluster(
        n_workers=0,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL + 1,
        local_directory=str(tmp_path / "dask"),
    ) as empty:

        def say(line: str) -> None:
            said.append(line)
            empty.scale(1)

        graded = list(grade_all(hand_in(a="#"), spec, scheduler=empty.scheduler_address, say=say))
    assert [each.result.complete for each in graded] == [True]
    assert len(said) == 1
    assert "has no worker" in said[0]


def test_a_scheduler_that_goes_away_ends_the_run(spec, hand_in, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    submissions = hand_in(a="#", b="sleep 600")
    lost = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL + 1,
        local_directory=str(tmp_path / "dask"),
    )
    with Journal(tmp_path / "j") as journal:
        run = grade_all(submissions, spec, scheduler=lost.scheduler_address, journal=journal)
        assert next(run).submission.id == "a.py"
        closing = threading.Thread(target=lost.close)
        closing.start()
        with pytest.raises(GradingError, match=r"is gone.*--resume"):
            next(run)
        closing.join()
        assert len(journal.entries) == 1
    assert all(gone(pid) for pid in pids(spec.log))


def test_dask_missing_is_said(spec, hand_in, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(
        GradingError, match=r"--scheduler needs dask\.distributed: pip install 'pytorch-course\[grade\]'"
    ):
        list(grade_all(hand_in(a="#"), spec, scheduler="tcp://127.0.0.1:1"))


def test_large_notebooks_travel_without_what_they_printed(tmp_path):
    cell = {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [{"text": "x" * 5_000_000}]}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [cell, {"cell_type": "markdown", "source": "é"}], "metadata": {"a": 1}}))
    sent = json.loads(cluster.portable(path))
    assert sent == {
        "cells": [{**cell, "outputs": []}, {"cell_type": "markdown", "source": "é"}],
        "metadata": {"a": 1},
    }
    small = tmp_path / "b.ipynb"
    small.write_text(json.dumps({"cells": [{**cell, "outputs": [{"text": "x"}]}]}))
    assert cluster.portable(small) == small.read_bytes()
    for number, text in enumerate(
        ["{" * 5_000_000, "[" * 5_000_000, "[]" + " " * 5_000_000, '{"cells": 7}' + " " * 5_000_000]
    ):
        odd = tmp_path / f"{number}.ipynb"
        odd.write_text(text)
        assert cluster.portable(odd) == text.encode()
    assert cluster.portable(tmp_path / "missing.py") == b""

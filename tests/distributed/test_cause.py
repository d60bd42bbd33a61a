from __future__ import annotations

import json
import signal

import pytest

from course.distributed.cause import Ending, endings, find_cause, find_silent, signal_name
from course.distributed.entry import lost_its_peer

CLOSED = "RuntimeError: [/a/b/pair.cc:561] Connection closed by peer [127.0.0.1]:590. This is typically caused by ..."
READ = "RuntimeError: [/a/b/pair.cc:545] Read error [127.0.0.1]:53948: Connection reset by peer. This is typically ..."
TIMED_OUT = "RuntimeError: [/a/b/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"


def lost(rank, error=CLOSED, time=2.0):
    return Ending(rank, code=1, ended="raised", error=error, lost=True, time=time)


def test_a_signal_comes_first():
    cause = find_cause([lost(0), Ending(1, code=-signal.SIGKILL)])
    assert (cause.rank, cause.exit_code, cause.signal) == (1, None, "SIGKILL")
    assert cause.text.startswith("rank 1 of 2 was ended by SIGKILL (the operating system")


def test_an_error_of_its_own_before_one_that_follows_from_it():
    boom = Ending(2, code=1, ended="raised", error="ValueError: boom", time=3.0)
    cause = find_cause([lost(0, time=1.0), lost(1, time=2.0), boom])
    assert (cause.rank, cause.exit_code, cause.line) == (2, 1, "ValueError: boom")


def test_the_earlier_of_two_errors():
    ranks = [Ending(n, code=1, ended="raised", error=f"ValueError: {n}", time=3.0 - n) for n in range(2)]
    assert find_cause(ranks).rank == 1


def test_an_exit_code():
    cause = find_cause([lost(0), Ending(1, code=3, ended="left", time=1.0)])
    assert (cause.text, cause.exit_code) == ("rank 1 of 2 left with exit code 3", 3)
    words = find_cause([lost(0), Ending(1, code=1, ended="left", error="no data", time=1.0)])
    assert words.line == "no data"


def test_an_exit_that_python_did_not_see():
    cause = find_cause([lost(0), Ending(1, code=7)])
    assert (cause.text, cause.exit_code) == ("rank 1 of 2 ended at once with exit code 7", 7)


@pytest.mark.parametrize("gone", [Ending(1, code=0, ended="left", time=1.0), Ending(1)], ids=["exit", "_exit"])
def test_who_left_early_without_an_error(gone):
    cause = find_cause([lost(0, READ), gone, Ending(2, code=-signal.SIGTERM, at="waiting in torch.distributed at ...")])
    assert (cause.rank, cause.exit_code) == (1, 0)
    assert cause.line == "RuntimeError: Read error: Connection reset by peer"


def test_who_kept_the_others_waiting():
    busy = Ending(1, code=-signal.SIGTERM, at="at line 12 of a.py (in main)")
    cause = find_cause([lost(0, TIMED_OUT), busy])
    assert cause.rank == 1
    assert "line 12 of a.py" in cause.text
    assert cause.line == "RuntimeError: Timed out waiting 8000ms for recv operation to complete"


def test_a_rank_that_was_told_to_end_from_outside():
    cause = find_cause([lost(0), Ending(1, code=-signal.SIGTERM, at="at line 12 of a.py (in main)")])
    assert (cause.rank, cause.signal) == (1, "SIGTERM")


def test_nothing_but_lost_peers():
    assert find_cause([lost(0), lost(1, time=1.0)]).rank == 1


def test_time_is_up():
    ranks = [
        Ending(0, at="waiting in torch.distributed at line 3 of a.py (in main)"),
        Ending(1, at="at line 9 of a.py (in main)"),
        Ending(2, ended="left", code=0),
    ]
    cause = find_silent(ranks, 30)
    assert cause.rank == 1
    assert cause.text == (
        "the job did not end within 30 s and was stopped; rank 0 was waiting in torch.distributed at line 3 of a.py "
        "(in main); rank 1 was at line 9 of a.py (in main)"
    )


def test_time_is_up_because_a_rank_has_left():
    ranks = [Ending(0, at="waiting in torch.distributed at line 3 of a.py (in main)"), Ending(1, ended="left", code=0)]
    assert find_silent(ranks, 1).rank == 1
    starting = find_silent([Ending(0), Ending(1)], 1)
    assert starting.text.endswith("rank 0 was still starting; rank 1 was still starting")
    assert starting.line == "did not end within 1 s"


def test_what_the_ranks_left(tmp_path):
    (tmp_path / "failures.json").write_text(json.dumps({"1": -9}))
    (tmp_path / "rank-0.json").write_text(json.dumps({"ended": "left", "code": 0, "error": "", "time": 5.0}))
    (tmp_path / "rank-1.stack").write_text(
        "Current thread 0x0 (most recent call first):\n"
        '  File "/x/site-packages/torch/distributed/c10d.py", line 3 in wait\n'
        '  File "/home/a.py", line 12 in main\n  File "/home/a.py", line 20 in <module>\n'
    )
    first, second, third = endings(tmp_path, 3)
    assert first == Ending(0, code=0, ended="left", time=5.0)
    assert second == Ending(1, code=-9, at="waiting in torch.distributed at line 12 of a.py (in main)")
    assert third == Ending(2)


def test_errors_that_only_say_that_a_peer_is_gone():
    assert lost_its_peer(RuntimeError(CLOSED))
    assert lost_its_peer(RuntimeError(TIMED_OUT))
    assert lost_its_peer(ConnectionResetError("Connection reset by peer"))
    assert not lost_its_peer(RuntimeError("shapes do not match"))
    assert not lost_its_peer(ValueError("timed out"))


def test_names_of_signals():
    assert signal_name(9) == "SIGKILL"
    assert signal_name(250) == "signal 250"

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest

from course.distributed import launch
from course.distributed.launch import LaunchError, torchrun
from course.publishing import guard

# What ranks do in these tests. They need torch only where ranks talk to each other.
ALONE = """
import os, subprocess, sys, time
mark, mode = sys.argv[1:3]
rank = int(os.environ["RANK"])
print(f"rank {rank} started", flush=True)
if mode == "sleep":
    time.sleep(300)
if mode == "family":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", mark], start_new_session=True)
    time.sleep(1)
if rank == 1:
    if mode == "raise":
        raise ValueError("boom")
    if mode == "exit":
        sys.exit("no data for this rank")
    if mode == "kill":
        os.kill(os.getpid(), 9)
if mode in ("raise", "exit", "kill"):
    time.sleep(300)
"""
TOGETHER = """
import os, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
from course.distributed.worker import report, say
mark, mode = sys.argv[1:3]
dist.init_process_group("gloo", timeout=timedelta(seconds=5 if mode == "hang" else 60))
x = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(x)
say("the sum is", x.item(), "with", torch.get_num_threads(), "thread")
if dist.get_rank() == 1:
    if mode == "exit":
        sys.exit(0)
    if mode == "_exit":
        os._exit(0)
    if mode == "hang":
        time.sleep(300)
if mode != "well":
    dist.all_reduce(x)
report({"sum": x.item(), "rank": dist.get_rank(), "world": dist.get_world_size()})
dist.destroy_process_group()
"""


@pytest.fixture
def mark():
    """A word that every process of a test's job carries in its command line; none may be left at the end."""
    word = f"mark-{uuid.uuid4().hex}"
    yield word
    assert gone(word), living(word)


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    path = tmp_path / "alone.py"
    path.write_text(ALONE)
    return path


@pytest.fixture
def together(tmp_path: Path) -> Path:
    path = tmp_path / "together.py"
    path.write_text(TOGETHER)
    return path


def living(word):
    """Command lines of the processes with a mark, zombies aside."""
    found = {}
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if word in one.cmdline() and one.status() != psutil.STATUS_ZOMBIE and one.pid != os.getpid():
                found[one.pid] = one.cmdline()
    return found


def gone(word, seconds=5.0):
    """Whether no marked process is left, or none after a short while: the kernel ends those of a killed parent."""
    return wait_for(lambda: not living(word), seconds)


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def ranks(word):
    return [pid for pid, line in living(word).items() if line[1:4] == ["-u", "-m", "course.distributed.entry"]]


def agents(word):
    return [pid for pid, line in living(word).items() if "course.distributed.agent" in line]


def failing(script, *args, **options):
    with pytest.raises(LaunchError) as raised:
        torchrun(script, *args, echo=False, **options)
    return raised.value


@pytest.mark.slow
def test_a_job_that_ends_well(together, mark, capsys):
    result = torchrun(together, mark, "well", processes=3)
    assert result.exit_code == 0
    assert result.value == {"sum": 6.0, "rank": 0, "world": 3}
    assert sorted(result.lines) == [f"rank {rank}: the sum is 6.0 with 1 thread" for rank in range(3)]
    assert capsys.readouterr().out.splitlines() == list(result.lines)
    assert result.seconds > 0
    assert not living(mark)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "exit_code", "killed_by", "words", "cause"),
    [
        ("raise", 1, None, "rank 1 of 2 raised ValueError: boom", "ValueError: boom"),
        ("exit", 1, None, "rank 1 of 2 left with exit code 1", "no data for this rank"),
        ("kill", None, "SIGKILL", "rank 1 of 2 was ended by SIGKILL", "ended by SIGKILL"),
    ],
)
def test_a_rank_that_fails_while_the_other_works(alone, mark, mode, exit_code, killed_by, words, cause):
    error = failing(alone, mark, mode)
    assert (error.rank, error.exit_code, error.signal, error.cause) == (1, exit_code, killed_by, cause)
    assert words in str(error)
    assert cause in str(error)
    assert "rank 1 started" in error.lines
    assert not living(mark)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["exit", "_exit"])
def test_a_rank_that_leaves_early_is_named_and_not_the_one_that_misses_it(together, mark, mode):
    error = failing(together, mark, mode)
    assert (error.rank, error.exit_code) == (1, 0)
    assert "rank 1 of 2 left early with exit code 0" in str(error)
    assert "127.0.0.1" not in str(error)


@pytest.mark.slow
def test_a_rank_that_keeps_the_others_waiting_is_named(together, mark):
    error = failing(together, mark, "hang")
    assert error.rank == 1
    assert "rank 1 of 2 did not take part" in str(error)
    assert "Timed out waiting" in error.cause


class Clock:
    """A clock that jumps past the time limit once both ranks have said that they started."""

    def __init__(self, printed):
        self.printed = printed
        self.jump = 0.0

    def monotonic(self):
        if not self.jump and {line for line, _ in self.printed} >= {"rank 0 started", "rank 1 started"}:
            time.sleep(0.5)  # from that line on to the next
            self.jump = 10_000.0
        return time.monotonic() + self.jump


@pytest.mark.slow
def test_lines_come_at_once_and_the_time_limit_says_where_the_ranks_were(alone, mark, monkeypatch):
    printed = []
    monkeypatch.setattr("builtins.print", lambda line, **_: printed.append((line, len(ranks(mark)))))
    monkeypatch.setattr(launch, "time", Clock(printed))
    with pytest.raises(LaunchError) as raised:
        torchrun(alone, mark, "sleep", timeout=5000)
    assert sorted(printed) == [("rank 0 started", 2), ("rank 1 started", 2)]
    error = raised.value
    assert "did not end within 5000 s and was stopped" in str(error)
    assert "rank 0 was at line 7 of alone.py" in str(error)
    assert "rank 1 was at line 7 of alone.py" in str(error)
    assert error.rank == 0
    assert not living(mark)


@pytest.mark.slow
def test_a_job_that_has_no_time_to_start(alone, mark):
    error = failing(alone, mark, "sleep", timeout=0)
    assert "rank 0 was still starting" in str(error)
    assert not living(mark)


@pytest.mark.slow
def test_what_ranks_have_started_ends_with_a_job_that_ends_well(alone, mark):
    assert torchrun(alone, mark, "family", echo=False).exit_code == 0
    assert not living(mark)


@pytest.mark.slow
def test_an_interrupt_leaves_no_process(alone, mark):
    def interrupt():
        if wait_for(lambda: len(ranks(mark)) == 2):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        torchrun(alone, mark, "sleep", echo=False)
    assert not living(mark)
    thread.join()


@pytest.mark.slow
def test_killing_torchrun_leaves_no_process(alone, mark):
    def kill():
        if wait_for(lambda: len(ranks(mark)) == 2):
            os.kill(agents(mark)[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    error = failing(alone, mark, "sleep")
    assert (error.rank, error.signal) == (None, "SIGKILL")
    assert "torchrun itself was ended by SIGKILL" in str(error)
    assert not living(mark)
    thread.join()


@pytest.mark.slow
def test_killing_the_process_that_launched_leaves_no_process(alone, mark, tmp_path):
    code = "import sys; from course.distributed.launch import torchrun; torchrun(*sys.argv[1:], echo=False)"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    launcher = subprocess.Popen([sys.executable, "-c", code, str(alone), mark, "sleep"], env=env)
    assert wait_for(lambda: len(ranks(mark)) == 2)
    assert len(agents(mark)) == 1
    launcher.kill()
    launcher.wait()
    assert gone(mark), living(mark)


def test_a_busy_port_is_named(alone, mark):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = failing(alone, mark, "well", port=port)
    assert f"port {port} cannot be used (Address already in use); leave `port` out" in str(error)
    assert "leave `port` out" in str(failing(alone, mark, "well", port=70_000))


@pytest.mark.slow
def test_a_free_port_and_the_guard_of_lessons(together, mark):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = textwrap.dedent("""
        import sys
        from course.distributed.launch import torchrun
        script, mark, port = sys.argv[1:]
        print(torchrun(script, mark, "well", echo=False, port=int(port) or None).value)
        """)
    for chosen in (0, port):
        command = [sys.executable, "-c", code, str(together), mark, str(chosen)]
        done = subprocess.run(command, env=guard.environment(), capture_output=True, text=True)
        assert done.stdout == "{'sum': 3.0, 'rank': 0, 'world': 2}\n", done.stderr


def test_what_cannot_be_run_is_refused_at_once(tmp_path):
    assert "there is no script" in str(failing(tmp_path / "missing.py"))
    unknown = failing("no_such_module_of_mine")
    assert "there is no module 'no_such_module_of_mine'" in str(unknown)
    assert "gradients" in str(unknown)
    assert unknown.rank is None
    with pytest.raises(ValueError, match="at least one process"):
        torchrun("gradients", processes=0)


def test_in_a_notebook_the_error_is_one_line():
    error = failing("no_such_module_of_mine")
    assert error._render_traceback_() == [f"LaunchError: {error}"]


ABORTS = """
import os, sys, time
from pathlib import Path
mode, seen = sys.argv[1], Path(sys.argv[2])
first = not seen.exists()
time.sleep(1)
if os.environ["RANK"] == "0":
    with seen.open("a") as file:
        file.write("started\\n")
    if mode == "late":
        print("at work", flush=True)
    if mode != "once" or first:
        print("terminate called after throwing an instance of 'Played'", file=sys.stderr)
        print("  what():  no peer", file=sys.stderr, flush=True)
        os.abort()
elif mode != "once" or first:
    time.sleep(300)
"""


@pytest.mark.parametrize(("mode", "starts"), [("once", 2), ("always", 2), ("late", 1)])
def test_a_job_aborted_before_its_first_line_is_started_once_more(mode, starts, tmp_path, capfd):
    script, seen = tmp_path / "aborts.py", tmp_path / "seen"
    script.write_text(ABORTS)
    if mode == "once":
        result = torchrun(script, mode, seen)
        assert (result.exit_code, result.lines) == (0, ())
    else:
        with pytest.raises(LaunchError) as caught:
            torchrun(script, mode, seen)
        assert (caught.value.rank, caught.value.signal) == (0, "SIGABRT")
        assert "rank 0 of 2 was ended by SIGABRT; it was at line 15 of aborts.py" in str(caught.value)
        assert str(caught.value).endswith("terminate called after throwing an instance of 'Played' what():  no peer")
    assert len(seen.read_text().splitlines()) == starts
    assert "terminate" not in capfd.readouterr().out


def test_threads_and_exit_handlers_of_a_rank_run_before_it_leaves(tmp_path):
    script = tmp_path / "leaves.py"
    script.write_text(
        "import atexit, threading, time\n"
        "atexit.register(print, 'exit handler')\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\n"
        "print('script', end='')\n"
    )
    assert torchrun(script, processes=1).lines == ("scriptthread", "exit handler")

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from course.distributed import job
from course.distributed.worker import report, say


def test_rank_0_reports_to_the_folder_of_its_job(tmp_path, monkeypatch):
    monkeypatch.setenv(job.FOLDER, str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    report({"loss": [1, 2]})
    assert job.read(tmp_path / "result.json") == {"loss": [1, 2]}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    with pytest.raises(TypeError, match="not JSON serializable"):
        report(object())


def test_other_ranks_report_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    report(1)
    monkeypatch.setenv(job.FOLDER, str(tmp_path))
    report(1)
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().out == ""


def test_started_by_hand_the_report_is_printed(monkeypatch, capsys):
    monkeypatch.delenv(job.FOLDER, raising=False)
    monkeypatch.setenv("RANK", "0")
    report({"loss": 1.5})
    assert json.loads(capsys.readouterr().out) == {"loss": 1.5}


def test_lines_name_their_rank(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "3")
    say("loss", 0.5)
    assert capsys.readouterr().out == "rank 3: loss 0.5\n"


def test_a_file_that_is_missing_or_half_written_reads_as_nothing(tmp_path):
    (tmp_path / "half.json").write_text('{"a": ')
    assert job.read(tmp_path / "half.json") is None
    assert job.read(tmp_path / "missing.json") is None


MIDDLE = """
import os, subprocess, sys
code = '''
import sys, time
from course.distributed import tether
if sys.argv[2] == "watch":
    tether._ask_kernel = lambda: False
tether.end_with_parent(int(sys.argv[1]))
print("tied", flush=True)
time.sleep(300)
'''
parent = os.getpid() + int(sys.argv[2])
child = subprocess.Popen([sys.executable, "-c", code, str(parent), sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip(), child.poll() if sys.argv[2] == "0" else child.wait(), flush=True)
child.wait()
"""


@pytest.mark.parametrize("way", ["kernel", "watch"])
def test_a_tied_process_ends_with_its_parent(way):
    parent = subprocess.Popen([sys.executable, "-c", MIDDLE, way, "0"], stdout=subprocess.PIPE, text=True)
    pid, tied, code = parent.stdout.readline().split()
    assert (tied, code) == ("tied", "None")
    assert alive(int(pid))
    parent.kill()
    parent.communicate()
    end = time.monotonic() + 10
    while alive(int(pid)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(int(pid))


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_process_whose_parent_is_gone_already_ends_at_once():
    parent = subprocess.run([sys.executable, "-c", MIDDLE, "kernel", "1"], capture_output=True, text=True, timeout=60)
    assert parent.stdout.split()[1:] == [str(-signal.SIGKILL)]

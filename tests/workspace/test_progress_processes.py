"""Several processes at once, some of them killed; children of a fork; and what reading imports."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course.workspace import progress, status
from course.workspace.records import Damaged, Record, decode

# A process that looks like a kernel. Importing IPython itself would take longer than the whole test.
KERNEL = """
import os, sys, types
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: True)
from course.workspace import progress
"""
WRITER = (
    KERNEL
    + """
name, number = sys.argv[1], int(sys.argv[2])
said = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while number:
    progress.record("check", f"writers.{name}", outcome="WRONG")
    # Only after `record` has returned: from here on the record must not be lost.
    os.write(said, b".")
    number -= 1
"""
)


def records_in(path: Path) -> tuple[list[Record], list[bytes]]:
    """The records of one file, and its damaged lines."""
    found, damaged = [], []
    for line in path.read_bytes().splitlines():
        try:
            found.append(decode(line))
        except Damaged:
            damaged.append(line)
    return found, damaged


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_eight_processes_at_once_of_which_four_are_killed(home, tmp_path):
    said = [tmp_path / f"said{name}" for name in range(8)]
    # -1 never comes to 0: those run until they are killed.
    numbers = [300, -1] * 4
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(name), str(numbers[name]), str(said[name])])
        for name in range(8)
    ]
    try:
        draw = random.Random(8)
        for process, file, number in zip(processes, said, numbers, strict=True):
            if number < 0:
                while not file.exists() or file.stat().st_size < 20:
                    assert process.poll() is None
                    time.sleep(0.005)
                time.sleep(draw.random() / 100)
                process.kill()
        codes = [process.wait(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0, -9] * 4

    files = {}
    for path in (home / "progress").iterdir():
        found, damaged = records_in(path)
        (exercise,) = {record.exercise for record in found}
        files[exercise] = found, damaged
    assert len(files) == 8
    for name, number in enumerate(numbers):
        found, damaged = files[f"writers.{name}"]
        # One more may be there: killed between its line and what it said of it.
        done = said[name].stat().st_size
        assert done == number or (number < 0 and done >= 20)
        assert len(found) - done in ((0,) if number > 0 else (0, 1))
        assert [record.number for record in found] == list(range(1, len(found) + 1))
        assert len(damaged) <= (number < 0)
    merged = progress.read()
    assert {each: merged.exercise(each).attempts for each in files} == {
        each: len(found) for each, (found, _) in files.items()
    }


FORK = (
    KERNEL
    + """
progress.on_problem(lambda sentence: os.write(2, sentence.encode()))
progress.record("check", "x.parent", outcome="WRONG")
folder = os.path.join(os.environ["COURSE_HOME"], "progress")
# Something that the parent could not write must not be written by the child as well.
os.rename(folder, folder + "-")
open(folder, "w").close()
progress.record("check", "x.parent", outcome="WRONG")
os.unlink(folder)
os.rename(folder + "-", folder)
child = os.fork()
progress.record("check", "x.child" if child == 0 else "x.parent", outcome="WRONG")
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_has_a_file_of_its_own(home):
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Progress cannot be kept in ")
    contents = sorted([r.exercise for r in records_in(path)[0]] for path in (home / "progress").iterdir())
    assert contents == [["x.child"], ["x.parent"] * 3]


READ = """
import json, sys
from course.workspace import progress, status
found = progress.read()
status.table(found), status.next_line(found)
print(json.dumps([status.to_dict(found), sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def test_reading_imports_nothing_heavy(home, kernel):
    progress.record("check", "tensors.flatten", outcome="PASSED")
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    printed, modules = json.loads(done.stdout)
    assert printed == status.to_dict(progress.read())
    assert printed["overall"]["passed"] == 1
    assert "course" in modules
    assert not {"torch", "torchvision", "numpy", "IPython", "matplotlib"} & set(modules)

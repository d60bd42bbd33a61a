from __future__ import annotations

import json
import sys
import time

import psutil
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook

from course.publishing.kernels import OwnInterpreter, Session, interrupt_all

pytestmark = pytest.mark.slow


def execute(session: Session, *sources: str) -> list[str]:
    """Run code cells in the session's kernel; return what each printed."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, kernel_manager_class=session.manager_class, kernel_name="python3")
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
    return ["".join(output.get("text", "") for output in cell.outputs).strip() for cell in notebook.cells]


@pytest.fixture
def decoy(tmp_path, monkeypatch):
    """A kernelspec `python3` that cannot start, where Jupyter looks first."""
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": ["/nonexistent/python", "{connection_file}"], "display_name": "decoy", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))


def test_the_kernel_is_this_interpreter_whatever_kernelspecs_say(decoy):
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] == "/nonexistent/python", "the decoy does not work"
    assert OwnInterpreter().get_kernel_spec("python3").argv[0] == sys.executable
    with Session(seconds=60) as session:
        assert execute(session, "import sys; print(sys.executable)") == [sys.executable]


def test_the_kernel_has_one_thread_and_nobodys_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/nonexistent")
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "mine.py").write_text("print('my startup file')", encoding="utf-8")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    with Session(seconds=60, for_storing=True) as session:
        printed = execute(
            session,
            "import os, torch\nprint(torch.get_num_threads(), torch.cuda.is_available(), os.environ['COURSE_HOME'])",
            "print(os.environ['COURSE_PROGRESS'])",
            "import matplotlib.pyplot, sys; print(matplotlib.matplotlib_fname())",
        )
        assert printed == [f"1 False {session.folder / 'home'}", "off", str(session.folder / "matplotlibrc")]
        folder = session.folder
    assert not folder.exists()


def test_cpu_time_counts_the_children():
    burn = "import time\nwhile time.process_time() < 3: pass"
    with Session(seconds=60) as session:
        execute(session, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])")
    with Session(seconds=60) as idle:
        execute(idle, "1")
    assert session.cpu_seconds >= 3  # the child's own clock says so
    assert 0.1 < idle.cpu_seconds < session.cpu_seconds


def test_no_process_is_left_not_even_one_that_left_the_group():
    start = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session={}).pid)"
    with Session(seconds=60) as session:
        pids = [int(text) for text in execute(session, start.format(False), start.format(True))]
    assert not any(_runs(pid) for pid in pids)


def test_a_session_ends_at_its_time_limit():
    started = time.monotonic()
    loop = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    with Session(seconds=4) as session, pytest.raises(DeadKernelError):
        execute(session, loop)
    assert session.timed_out
    assert time.monotonic() - started < 20


def test_all_kernels_can_be_interrupted_also_one_that_only_starts():
    with Session(seconds=60) as session:
        interrupt_all()
        with pytest.raises((DeadKernelError, RuntimeError)):
            execute(session, "1")
    assert session.interrupted


def test_what_a_dying_kernel_wrote_is_kept():
    with Session(seconds=60) as session:
        with pytest.raises(DeadKernelError):
            execute(session, "import os, sys; os.write(sys.__stderr__.fileno(), b'last words\\n'); os.abort()")
        assert "last words" in session.log_tail()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

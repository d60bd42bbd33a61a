"""Kernels that run lessons: always this interpreter, guarded, measured, and gone when we are.

A `Session` is one kernel with a folder of its own. Its `manager_class` goes to nbclient or papermill; whatever
kernelspec is called `python3` on this machine, the kernel is `sys.executable -m ipykernel_launcher`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from course import curriculum
from course.data import places
from course.publishing import guard

KERNEL_NAME = "python3"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
LOG_LINES = 12


def kernel_environment(
    folder: Path, *, base: Mapping[str, str] | None = None, for_storing: bool = False
) -> dict[str, str]:
    """Return the environment in which a lesson's kernel starts: guarded, one thread, nobody's own settings.

    `folder` is a scratch folder for what would else be read from or written to the home directory; `for_storing=True`
    hides CUDA devices and $COURSE_DATA: stored outputs come from a CPU and the stand-in.
    """
    env = guard.environment(base)
    root = curriculum.checkout()
    if root is not None:
        env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], str(root)])
    env.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    for name, value in (("IPYTHONDIR", "ipython"), ("JUPYTER_CONFIG_DIR", "jupyter"), ("COURSE_HOME", "home")):
        (folder / value).mkdir(exist_ok=True)
        env[name] = str(folder / value)
    # What takes long to draw or decode is drawn once for all runs, not once a kernel.
    env[places.CACHE_VARIABLE] = str(places.cache().absolute())
    style = folder / "matplotlibrc"
    style.touch()
    env.update(MATPLOTLIBRC=str(style), JUPYTER_NO_CONFIG="1", PYTHONUTF8="1", COLUMNS="80", LINES="24")
    # Progress bars, buttons and the record of what was passed are for people; bars in a stored output hold times.
    env.update(TQDM_DISABLE="1", COURSE_PROGRESS="off")
    for name in ("FORCE_COLOR", "NO_COLOR", "PYTHONEXECUTABLE", "PYTHONSTARTUP", "MPLBACKEND"):
        env.pop(name, None)
    if for_storing:
        env["CUDA_VISIBLE_DEVICES"] = ""
        env.pop(places.DATA_VARIABLE, None)
    return env


_live: set[Session] = set()
_live_lock = threading.Lock()


class OwnInterpreter(KernelSpecManager):
    """Answers every question for a kernel with the interpreter that runs this code."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the spec of `sys.executable -m ipykernel_launcher`, whatever `kernel_name` is installed."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, name=kernel_name, display_name="Python 3", language="python")


class _SessionKernelManager(AsyncKernelManager):
    """Starts the kernel of `session`, which each subclass names."""

    session_of: Session

    def __init__(self, **kwargs) -> None:
        kwargs["kernel_spec_manager"] = OwnInterpreter()
        kwargs["connection_file"] = str(self.session_of.folder / "kernel.json")
        super().__init__(**kwargs)

    async def _async_launch_kernel(self, kernel_cmd: list[str], **kwargs) -> None:
        session = self.session_of
        kwargs["env"] = session.env
        kwargs["cwd"] = str(session.work)
        with session.log.open("wb") as log:
            await super()._async_launch_kernel(kernel_cmd, stdout=log, stderr=log, **kwargs)
        session.started(self.provisioner.pid)

    _launch_kernel = None

    async def _async_shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
        self.session_of.measure()
        await super()._async_shutdown_kernel(now=now, restart=restart)

    shutdown_kernel = _async_shutdown_kernel


class Session:
    """One kernel, as a context: a scratch folder, its CPU time, and an end that leaves no process behind.

    `seconds` bounds its life: after that it is killed and `timed_out` is true. `cpu_seconds` is what the kernel
    and its children used, in seconds. `notebooks` is where the lesson looks for built notebooks, by default `folder`.
    """

    def __init__(self, *, seconds: float, notebooks: Path | None = None, for_storing: bool = False) -> None:
        self.seconds = seconds
        self.timed_out = False
        self.interrupted = False
        self.cpu_seconds = 0.0
        self._for_storing = for_storing
        self._notebooks = notebooks
        self._process: psutil.Process | None = None
        self._descendants: set[psutil.Process] = set()
        self._ended = threading.Event()

    def __enter__(self) -> Session:
        self._temporary = tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.log = self.folder / "kernel.log"
        self.env = kernel_environment(self.folder, for_storing=self._for_storing)
        self.env[curriculum.NOTEBOOKS_VARIABLE] = str(self._notebooks or self.folder)
        self.manager_class = type("SessionKernelManager", (_SessionKernelManager,), {"session_of": self})
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        with _live_lock:
            _live.add(self)
        return self

    def __exit__(self, *_exception) -> None:
        self._ended.set()
        self._watcher.join()
        self.kill()
        with _live_lock:
            _live.discard(self)
        self._temporary.cleanup()

    def started(self, pid: int) -> None:
        """Remember the kernel's process; a session that was interrupted meanwhile ends it at once."""
        self._process = psutil.Process(pid)
        if self.interrupted:
            self.kill()

    def measure(self) -> None:
        """Read the CPU time of the kernel, its children that ended and its descendants that live."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.Error):
            own = self._process.cpu_times()
            total = own.user + own.system + own.children_user + own.children_system
            children = self._process.children(recursive=True)
            # Remembered, because a child that outlives the kernel cannot be found from it any more.
            self._descendants.update(children)
            for child in children:
                with contextlib.suppress(psutil.Error):
                    times = child.cpu_times()
                    total += times.user + times.system
            self.cpu_seconds = max(self.cpu_seconds, total)

    def kill(self) -> None:
        """End the kernel's process group and every descendant, also those that left the group."""
        if self._process is None:
            return
        self.measure()
        for child in self._descendants:
            with contextlib.suppress(psutil.Error):
                child.kill()
        if hasattr(os, "killpg"):
            # The kernel leads its own session, so its process id names the group, also when it has ended itself.
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(psutil.Error):
            self._process.kill()

    def interrupt(self) -> None:
        """Kill the kernel because the user stopped the run."""
        self.interrupted = True
        self.kill()

    def log_tail(self) -> str:
        """Return the last lines that the kernel wrote outside of any cell."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])

    def _watch(self) -> None:
        deadline = time.monotonic() + self.seconds
        while not self._ended.wait(0.25):
            self.measure()
            if time.monotonic() >= deadline:
                self.timed_out = True
                self.kill()
                return


def interrupt_all() -> None:
    """Kill every live kernel of this process."""
    with _live_lock:
        sessions = list(_live)
    for session in sessions:
        session.interrupt()

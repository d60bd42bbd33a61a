"""Submissions that want something else than to answer: each is contained, has its row, and disturbs nobody.

One warm worker runs them all. After each of them an honest submission is graded, by the same grader, and passes.
"""

from __future__ import annotations

import functools
import os
import pickle
import socket
import textwrap
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import course

RIGHT = "import torch\n\ndef flatten_elements(x):\n    return x.reshape(-1)\n"
MARK = "the-words-of-" + "somebody-else"
SUBPROCESSES = ("signal", "os", "sys")


@dataclass(frozen=True)
class Hostile:
    """source: the submission. outcomes: what may be said of its exercise. told: what the row has to say, in any of its
    texts. seconds: where it has to be stopped by time, what it gets."""

    source: str
    outcomes: tuple[str, ...]
    told: str = ""
    exercise: str = "tensors.flatten"
    seconds: float | None = None


CASES: dict[str, Hostile] = {}


def case(name: str, source: str, *outcomes: str, **options) -> None:
    CASES[name] = Hostile(textwrap.dedent(source), outcomes, **options)


def tries(name: str, attempt: str, *outcomes: str, **options) -> None:
    """A right answer that tries something first; if that succeeds, it says ESCAPED."""
    source = f"""
import contextlib, os, socket, sys
def attempt():
{textwrap.indent(textwrap.dedent(attempt), "    ")}
def flatten_elements(x):
    with contextlib.suppress(OSError, AttributeError, ImportError, ValueError, LookupError):
        found = attempt()
        if found:
            raise RuntimeError(f"ESCAPED {{found}}")
    return x.reshape(-1)
"""
    CASES[name] = Hostile(source, outcomes, **options)


# It does not end, or ends too early.

case("loops", "def flatten_elements(x):\n    while True: pass", "TIMED_OUT", told="still running", seconds=2)
case(
    "loops and swallows everything",
    """
    import signal
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    def flatten_elements(x):
        while True:
            try:
                while True: pass
            except BaseException:
                pass
    """,
    "TIMED_OUT",
    seconds=2,
)
case("sleeps", "import time\ndef flatten_elements(x):\n    time.sleep(1e6)", "TIMED_OUT", seconds=2)
case(
    "never gets defined",
    "while_true = [0 for _ in iter(int, 1)]\ndef flatten_elements(x, y=while_true): ...\n"
    "flatten_elements = lambda x: while_true",
    "TIMED_OUT",
    "CONTAINED",
    "ERROR",
    seconds=2,
)
case("exits", "import os\ndef flatten_elements(x):\n    os._exit(0)", "ERROR", told="exit code 0")
case("raises SystemExit", "import sys\ndef flatten_elements(x):\n    sys.exit(0)", "ERROR", told="SystemExit")
case(
    "exits while it is defined",
    "import os\nos_exit = os._exit(3)\ndef flatten_elements(x, y=os_exit):\n    return x",
    "ERROR",
    told="exit code 3",
)
case("kills itself", "import os\ndef flatten_elements(x):\n    os.kill(os.getpid(), 9)", "ERROR", told="SIGKILL")
case("breaks its memory", "import ctypes\ndef flatten_elements(x):\n    ctypes.string_at(0)", "ERROR", told="SIGSEGV")
case("recurses", "def flatten_elements(x):\n    return flatten_elements(x)", "ERROR", told="RecursionError")
case(
    "closes everything",
    "import os\ndef flatten_elements(x):\n    os.closerange(0, 1024)\n    return x.reshape(-1)",
    "ERROR",
    "CONTAINED",
)

# It takes what there is.

case(
    "takes 8 GB",
    "import torch\ndef flatten_elements(x):\n    return torch.ones(2**31)",
    "ERROR",
    told="allocate memory",
)
case(
    "takes memory piece by piece",
    """
    pieces = []
    def flatten_elements(x):
        while True:
            pieces.append(bytearray(2**24))
    """,
    # Two limits meet here: of what the process may allocate, and of what its processes hold together.
    "ERROR",
    "CONTAINED",
    told="emory",  # MemoryError, or more memory than a submission may have
)
case(
    "takes memory in many processes",
    """
    import os, time
    def flatten_elements(x):
        for _ in range(8):
            if os.fork() == 0:
                piece = bytearray(os.urandom(2**20) * 120)
                time.sleep(100)
        time.sleep(100)
    """,
    "CONTAINED",
    told="more memory",
)
case(
    "takes memory beside many small processes",
    """
    import subprocess, time
    def flatten_elements(x):
        small = [subprocess.Popen(["sleep", "100"]) for _ in range(20)]
        code = "import os, time; piece = os.urandom(2**20) * 120; time.sleep(100)"
        large = [subprocess.Popen(["python3", "-c", code]) for _ in range(8)]
        time.sleep(100)
    """,
    "CONTAINED",
    told="more memory",
)
case("forks without end", "import os\ndef flatten_elements(x):\n    while True: os.fork()", "ERROR", "CONTAINED")
case(
    "forks without end and without complaint",
    """
    import os
    def flatten_elements(x):
        while True:
            try:
                os.fork()
            except OSError:
                pass
    """,
    "TIMED_OUT",
    "CONTAINED",
    seconds=2,
)
case(
    "starts threads without end",
    """
    import threading, time
    def flatten_elements(x):
        while True:
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    """,
    "ERROR",
    told="start new thread",
)
case(
    "writes a large file",
    """
    def flatten_elements(x):
        with open("large", "wb") as file:
            for _ in range(64):
                file.write(bytes(2**20))
    """,
    "ERROR",
    told="File too large",
)
case(
    "fills the disk",
    """
    import tempfile
    def flatten_elements(x):
        while True:
            with open(tempfile.mkstemp()[1], "wb") as file:
                for _ in range(7):
                    file.write(bytes(2**20))
    """,
    "ERROR",
    told="No space left",
)
case(
    "fills shared memory",
    """
    import tempfile
    def flatten_elements(x):
        while True:
            with open(tempfile.mkstemp(dir="/dev/shm")[1], "wb") as file:
                for _ in range(7):
                    file.write(bytes(2**20))
    """,
    "ERROR",
    told="No space left",
)
case(
    "makes files without end",
    """
    import os
    def flatten_elements(x):
        for i in range(10**9):
            os.mknod(f"{i}")
    """,
    "CONTAINED",
    told="more files",
)
case(
    "opens files without end",
    "files = []\ndef flatten_elements(x):\n    while True: files.append(open('/dev/null'))",
    "ERROR",
    told="Too many open files",
)
case(
    "prints 50 MB", "def flatten_elements(x):\n    print('x' * (50 * 2**20 // 26))\n    return x.reshape(-1)", "PASSED"
)
case("returns long words", "def flatten_elements(x):\n    return ['x' * 2**18 + '\U0001f600'] * 8", "WRONG")
case("returns 50 MB", "def flatten_elements(x):\n    return 'x' * (50 * 2**20)", "WRONG")
case(
    "returns a large tensor",
    "import torch\ndef flatten_elements(x):\n    return torch.zeros(5_000_000)",
    "WRONG",
    "ERROR",
    "CONTAINED",
)
case("returns millions of parts", "def flatten_elements(x):\n    return [[] for _ in range(200_000)]", "WRONG")
case("returns a list in itself", "def flatten_elements(x):\n    a = []\n    a.append(a)\n    return a", "WRONG")
case("returns a huge number", "def flatten_elements(x):\n    return 1 << 10_000_000", "WRONG")
case(
    "returns a view of nothing",
    "import torch\ndef flatten_elements(x):\n    return torch.zeros(1).expand(2**40)",
    "WRONG",
)

tries("takes memory as a file that has no place", 'return os.memfd_create("here")', "PASSED")
tries(
    "takes memory that is nobody's",
    """
    import mmap
    with contextlib.suppress(OSError):
        return len(mmap.mmap(-1, 2**20))
    return len(mmap.mmap(os.open("/dev/zero", os.O_RDWR), 2**20))
    """,
    "CONTAINED",
    told="mmap",
)
case(
    "keeps to itself",
    """
    import os, socket
    def flatten_elements(x):
        os.nice(1)
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        for family in (socket.AF_INET, socket.AF_INET6):
            socket.socket(family).close()
        for end in socket.socketpair():
            end.close()
        return x.reshape(-1)
    """,
    "PASSED",
)

# It leaves something behind.

case(
    "leaves a daemon",
    """
    import os, time
    def flatten_elements(x):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        return x.reshape(-1)
    """,
    "PASSED",
    "CONTAINED",
    told="still running",
)
case(
    "leaves a daemon that wants to disturb",
    """
    import os, time
    def flatten_elements(x):
        if os.fork() == 0:
            os.setsid()
            while True:
                for name in os.listdir("/proc"):
                    if name.isdigit() and int(name) not in (1, os.getpid()):
                        os.kill(int(name), 19)
                for name in os.listdir("/tmp"):
                    os.rename(f"/tmp/{name}", f"/tmp/{name}x")
        time.sleep(0.1)
        return x.reshape(-1)
    """,
    "TIMED_OUT",
    "PASSED",
    "ERROR",
    "CONTAINED",
    seconds=3,
)
case(
    "leaves odd files",
    """
    import os, tempfile
    def flatten_elements(x):
        for folder in (tempfile.mkdtemp(), tempfile.mkdtemp(dir="/tmp")):
            os.makedirs(f"{folder}/a/b/c")
            for name, target in (("root", "/"), ("up", ".."), ("none", "nowhere")):
                os.symlink(target, f"{folder}/{name}")
            os.mkfifo(f"{folder}/pipe")
            os.chmod(f"{folder}/a/b", 0)
            os.chmod(folder, 0)
        return x.reshape(-1)
    """,
    "PASSED",
    "ERROR",
)
case(
    "leaves deep folders",
    """
    import os
    def flatten_elements(x):
        for _ in range(2500):
            os.mkdir("d")
            os.chdir("d")
        return x.reshape(-1)
    """,
    "PASSED",
    "ERROR",
)
case(
    "leaves shared memory",
    """
    import ctypes
    def flatten_elements(x):
        ctypes.CDLL(None).shmget(1234, 4096, 0o1777)
        return x.reshape(-1)
    """,
    "CONTAINED",
    told="ctypes",
)

# It looks around.

tries(
    "reads the grader's environment",
    "return {secret!r} in repr(dict(os.environ))",
    "PASSED",
)
tries(
    "reads the environment of process 1",
    """
    with open("/proc/1/environ", "rb") as file:
        return {secret!r}.encode() in file.read()
    """,
    "CONTAINED",
    told="/proc",
)
tries("reads the memory of process 1", 'return open("/proc/1/mem", "rb")', "CONTAINED", told="/proc")
tries(
    "reads what process 1 has open",
    'return [os.readlink(f"/proc/1/fd/{i}") for i in os.listdir("/proc/1/fd")]',
    "CONTAINED",
)
tries(
    "looks for other processes",
    'return [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]',
    "CONTAINED",
)
tries("reads other submissions", "return os.listdir({submissions!r})", "PASSED")
tries("reads the exercise", "return open({exercise!r}).read()", "PASSED")
tries(
    "looks for the exercise",
    """
    import importlib.util
    found = []
    for folder in sys.path:
        for name in ("tensors/flatten.py", "tensors/__pycache__"):
            path = os.path.join(folder, "course/exercises", name)
            if os.path.isdir(path):
                found += os.listdir(path)
            elif os.path.exists(path) and "by_reshape" in open(path).read():
                found.append(path)
    return found
    """,
    "CONTAINED",
    told="importlib",
)
tries("lists the home folder", "return [n for n in os.listdir({home!r}) if not n.startswith('.')]", "PASSED")
tries("asks who it is", "return os.getuid() == 0 and open('/etc/shadow').read()", "PASSED")
case(
    "uses the reference",
    """
    from course.exercises.tensors import flatten
    def flatten_elements(x):
        return flatten.by_reshape(x)
    """,
    "ERROR",
    told="has no attribute",
)
case(
    "asks for the reference",
    """
    from course.exercises import load_exercise
    def flatten_elements(x):
        return load_exercise("tensors.flatten").answer_reference.obj(x)
    """,
    "ERROR",
    told="has no reference",
)
case(
    "asks for the solution",
    """
    from course.notebook.hints import solution
    def flatten_elements(x):
        return solution("tensors.flatten")
    """,
    "ERROR",
    "WRONG",
)
case(
    "asks for the right choice",
    """
    from course.exercises import load_exercise
    choice = load_exercise("tensors.copy_or_view").answer_reference.obj
    """,
    "ERROR",
    told="has no reference",
    exercise="tensors.copy_or_view",
)
case(
    "reads the memory of the submission before",
    """
    import ctypes
    maps = open("/proc/self/maps")
    def flatten_elements(x):
        wanted = b"the-words-of-" + b"somebody-else"
        for line in maps:
            parts = line.split()
            if parts[1].startswith("rw") and (len(parts) < 6 or parts[5] in ("[heap]",)):
                low, high = (int(part, 16) for part in parts[0].split("-"))
                if high - low < 2**28 and ctypes.string_at(low, high - low).count(wanted) > 1:
                    raise RuntimeError("ESCAPED")
        raise LookupError("nothing but my own")
    """,
    "ERROR",
    told="nothing but my own",
)

# It wants out.

tries("calls home", 'return socket.create_connection(("127.0.0.1", {port}), 2)', "PASSED")
tries(
    "calls an abstract socket",
    r"""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect("\0{abstract}")
        return True
    """,
    "PASSED",
)
tries("calls the internet", 'return socket.create_connection(("192.0.2.1", 80), 2)', "PASSED")
tries(
    "writes outside of its folder",
    """
    for folder in ("/", "/usr", "/etc", "/dev", "/shown", {submissions!r}, {home!r}, *sys.path):
        with contextlib.suppress(OSError):
            with open(os.path.join(folder, "escaped"), "w"):
                return folder
    """,
    "PASSED",
)
tries(
    "mounts",
    """
    import ctypes
    libc = ctypes.CDLL(None)
    mounted = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
    return mounted or libc.unshare(0x20000) == 0 or libc.umount2(b"/usr", 2) == 0
    """,
    "CONTAINED",
    told="ctypes",
)
tries("becomes root", "os.setuid(0)\nreturn True", "PASSED")
tries(
    "raises its limits",
    """
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2**50, 2**50))
    return True
    """,
    "CONTAINED",
    told="resource",
)
tries(
    "lowers the worker's limits",
    """
    import resource
    done = []
    for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
        with contextlib.suppress(OSError):
            done.append(resource.prlimit(1, which))
            resource.prlimit(1, which, (10, 10))
    return done
    """,
    "CONTAINED",
    told="resource",
)
tries(
    "slows the worker down",
    """
    calls = (
        lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
        lambda: os.setpriority(os.PRIO_USER, 0, 19),
        lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))}),
        lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
        lambda: os.sched_setparam(1, os.sched_param(0)),
    )
    done = []
    for number, call in enumerate(calls):
        with contextlib.suppress(OSError):
            call()
            done.append(number)
    return done
    """,
    "PASSED",
)
tries("calls the machine below this one", "socket.socket(40, socket.SOCK_STREAM)\nreturn True", "PASSED")
tries(
    "kills the worker",
    """
    for number in (2, 9, 11, 15, 19):
        with contextlib.suppress(OSError):
            os.kill(os.getppid(), number)
            os.kill(1, number)
    os.kill(-1, 9)
    return False
    """,
    "PASSED",
)
tries(
    "kills everyone it can name",
    """
    for pid in [*range(2, 200), {pid}]:
        if pid != os.getpid():
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
    return False
    """,
    "PASSED",
)
tries(
    "traces the worker",
    """
    import ctypes
    libc = ctypes.CDLL(None)
    return libc.ptrace(16, 1, None, None) == 0 or libc.ptrace(0x4206, 1, None, None) == 0
    """,
    "CONTAINED",
    told="ctypes",
)
tries(
    "reads and writes the worker's memory",
    """
    import ctypes
    buffer = ctypes.create_string_buffer(8)
    class Range(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    mine, other = Range(ctypes.addressof(buffer), 8), Range(id(None), 8)
    libc = ctypes.CDLL(None)
    calls = (libc.process_vm_readv, libc.process_vm_writev)
    return any(call(1, ctypes.byref(mine), 1, ctypes.byref(other), 1, 0) > 0 for call in calls)
    """,
    "CONTAINED",
    told="ctypes",
)

# It wants a better verdict than it earned: all of these are wrong.

WRONG = "    return x.contiguous().view(-1)\n"
case(
    "patches torch",
    """
    import torch
    torch.equal = torch.allclose = lambda *a, **k: True
    torch.testing.assert_close = lambda *a, **k: None
    def flatten_elements(x, y=torch):
    """
    + WRONG,
    "WRONG",
    "ERROR",
    told="It replaced torch.",
)
case(
    "patches the checker",
    """
    import course.checking.compare, course.checking.diagnose, course.checking.judging, course.checking.observe
    def flatten_elements(x):
        for module in (course.checking.compare, course.checking.judging, course.checking.diagnose):
            module.first_difference = lambda *a: None
            module.differences = lambda *a: iter(())
        course.checking.judging.rejected = lambda e, *a: course.checking.judging.Verdict(e.id, "PASSED")
    """
    + WRONG,
    "WRONG",
    told="It replaced course.checking",
)
case(
    "patches the observer",
    """
    import course.checking.observe, course.grading.answering
    from course.checking.observation import Observation
    def flatten_elements(x):
        course.grading.answering.observe_probe = lambda *a, **k: Observation(True)
        course.checking.observe.observe_probe = lambda *a, **k: Observation(True)
    """
    + WRONG,
    "WRONG",
    "CONTAINED",
)
case(
    "patches the tripwire and a probe's helper",
    """
    import course.exercises.autograd._graphs as graphs
    import course.exercises.autograd.loss_log as exercise
    exercise.alive = graphs.alive = lambda witnesses: 0
    class LossLog:
        def __init__(self):
            self.losses = []
            exercise.alive = lambda witnesses: 0
        def add(self, loss, n):
            self.losses.append((loss.clone(), n))
        def mean(self):
            return float(sum(l.item() * n for l, n in self.losses) / sum(n for _, n in self.losses))
    """,
    "CONTAINED",
    "WRONG",
    told="the module course.exercises",
    exercise="autograd.loss_log",
)
case(
    "patches a probe's helper by way of sys.modules",
    """
    import sys
    class LossLog:
        def __init__(self):
            self.losses = []
            sys.modules["course.exercises.autograd.loss_log"].alive = lambda witnesses: 0
        def add(self, loss, n):
            self.losses.append((loss.clone(), n))
        def mean(self):
            return float(sum(l.item() * n for l, n in self.losses) / sum(n for _, n in self.losses))
    """,
    "CONTAINED",
    told="sys.modules",
    exercise="autograd.loss_log",
)
case(
    "patches a probe's helper for a while",
    """
    import torch
    home = torch.sys.modules["course.exercises.autograd.loss_log"]
    real = home.alive
    class LossLog:
        def __init__(self):
            self.losses = []
        def add(self, loss, n):
            self.losses.append((loss, loss.item(), n))
            home.alive = lambda witnesses: 0
        def mean(self):
            home.alive = real
            return sum(v * n for _, v, n in self.losses) / sum(n for _, _, n in self.losses)
    """,
    "CONTAINED",
    told="replaced course.exercises.autograd.loss_log for a while",
    exercise="autograd.loss_log",
)
case(
    "leaves a value in a probe's module",
    """
    import torch
    home = torch.sys.modules["course.exercises.tensors.flatten"]
    def flatten_elements(x):
        home.more = 1
        return x.reshape(-1)
    """,
    "CONTAINED",
    told="replaced course.exercises.tensors.flatten.more",
)
case(
    "hides a method of tensors",
    """
    def flatten_elements(x):
        kind = type(x)
        kind.equal = lambda *a: True
        return x.reshape(-1)
    """,
    "CONTAINED",
    told="replaced torch.Tensor.equal",
)
case(
    "hides a method of tensors until it is used",
    """
    def hide(kind):
        def once(*a):
            del kind.equal
            return True
        kind.equal = once
    def flatten_elements(x):
        hide(type(x))
        x.equal(x)
        return x.reshape(-1)
    """,
    "CONTAINED",
    told="replaced torch.Tensor for a while",
)
case(
    "exchanges the probes",
    """
    import torch
    home = torch.sys.modules["course.exercises.autograd.loss_log"]
    real = list(home.exercise.probes)
    class LossLog:
        def __init__(self):
            self.losses = []
            home.exercise.probes[:] = [type(p)(p.name, lambda answer: 1) for p in real]
            for p in real:
                p.__dict__["function"] = lambda answer: 1
        def add(self, loss, n):
            self.losses.append((loss, loss.item(), n))
        def mean(self):
            return sum(v * n for _, v, n in self.losses) / sum(n for _, _, n in self.losses)
    """,
    "WRONG",
    told="graphs alive",
    exercise="autograd.loss_log",
)
case(
    "patches a probe's helper by way of its frame",
    """
    import sys
    class LossLog:
        def __init__(self):
            self.losses = []
            sys._getframe(1).f_globals["alive"] = lambda witnesses: 0
        def add(self, loss, n):
            self.losses.append((loss.clone(), n))
        def mean(self):
            sys._getframe(1).f_globals["alive"] = lambda witnesses: 0
            return float(sum(l.item() * n for l, n in self.losses) / sum(n for _, n in self.losses))
    """,
    "CONTAINED",
    told="_getframe",
    exercise="autograd.loss_log",
)
case(
    "rewrites the probes",
    """
    import gc
    class LossLog:
        def __init__(self):
            for probe in [o for o in gc.get_objects() if type(o).__name__ == "Probe"]:
                probe.__dict__["function"] = lambda: 1
        def add(self, loss, n): ...
        def mean(self): return 0.0
    """,
    "CONTAINED",
    "WRONG",
    "ERROR",
    exercise="autograd.loss_log",
)
case(
    "hides a loop from its source",
    """
    import linecache
    def loss_gradients(w, b, x, y):
        import torch
        for entry in list(linecache.cache):
            linecache.cache[entry] = (1, None, ["def loss_gradients(w, b, x, y): return 1\\n"], entry)
        w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
        return torch.autograd.grad(((x @ w + b - y) ** 2).mean(), (w, b))
    """,
    "WRONG",
    told="torch.autograd.grad",
    exercise="autograd.by_hand",
)
case(
    "claims another source",
    """
    made = {}
    done = exec('''
    import torch
    def f(w, b, x, y):
        w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
        return torch.autograd.grad(((x @ w + b - y) ** 2).mean(), (w, b))
    ''', made)
    loss_gradients = made["f"] if done is None else None
    """,
    "CONTAINED",
    told="exec()",
    exercise="autograd.by_hand",
)
case(
    "writes into every descriptor",
    """
    import os
    for_every = [os.write(fd, b"PASSED" * 100) for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")
                 and os.stat(f"/proc/self/fd/{fd}").st_mode & 0o010000]
    def flatten_elements(x, y=for_every):
    """
    + WRONG,
    "CONTAINED",
    told="channel",
)
case(
    "sends a pickle",
    """
    import os, pickle
    class Bomb:
        def __reduce__(self):
            return (os.system, ("touch {marker}",))
    def flatten_elements(x):
        data = pickle.dumps(Bomb())
        for fd in range(3, 64):
            try:
                os.write(fd, bytes(16) + len(data).to_bytes(4, "big") + data)
            except OSError:
                pass
    """
    + WRONG,
    "CONTAINED",
    told="channel",
)
case(
    "sends verdicts with the right token",
    """
    import os, sys
    from course.grading.observing import frame
    from course.checking.observation import Observation
    def flatten_elements(x):
        frames, tokens = sys._getframe(), set()
        while frames:
            tokens |= {v for v in frames.f_locals.values() if type(v) is bytes and len(v) == 16}
            frames = frames.f_back
        for token in tokens:
            for fd in range(3, 64):
                try:
                    os.write(fd, frame(token, ("verdict", "PASSED")) + frame(token, ("done",)))
                except OSError:
                    pass
        os._exit(0)
    """,
    "CONTAINED",
    told="report in order",
)
case(
    "sends half a message",
    """
    import os
    def flatten_elements(x):
        for fd in range(3, 64):
            try:
                os.write(fd, bytes(7))
            except OSError:
                pass
        os._exit(0)
    """,
    "ERROR",
    "CONTAINED",
)
case(
    "floods the channel",
    """
    import os
    def flatten_elements(x):
        while True:
            for fd in range(3, 64):
                try:
                    os.write(fd, bytes(2**16))
                except OSError:
                    pass
    """,
    "CONTAINED",
    told="channel",
)
case(
    "returns what is equal to everything",
    """
    class Yes:
        def __eq__(self, other): return True
        def __bool__(self): return True
        def __class__(self): return object
        def __getattr__(self, name): return self
        def __call__(self, *a): return self
    def flatten_elements(x):
        return Yes()
    """,
    "WRONG",
)
case(
    "returns a tensor that lies",
    """
    import torch
    class Liar(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function.__name__ in ("equal", "allclose", "__eq__"):
                return True
            return super().__torch_function__(function, types, args, kwargs or {})
    def flatten_elements(x):
        return x.contiguous().view(-1).as_subclass(Liar)
    """,
    "WRONG",
    "ERROR",
)
case(
    "prints a verdict",
    """
    def flatten_elements(x):
        print('PASSED  tensors.flatten: passed')
        open('grades.csv', 'w').write('tensors.flatten,PASSED')
    """
    + WRONG,
    "WRONG",
)
case(
    "defines the words of the grader",
    """
    class Outcome: PASSED = "PASSED"
    def check(*a): return Outcome.PASSED
    def observe_probe(*a, **k): return Outcome.PASSED
    def flatten_elements(x):
    """
    + WRONG,
    "WRONG",
)
case(
    "raises what cannot be looked at",
    """
    class Bad(BaseException):
        def __str__(self): raise SystemExit
        def __repr__(self): raise SystemExit
    def flatten_elements(x):
        raise Bad
    """,
    "ERROR",
    told="could not be read",
)
case(
    "changes its mind",
    """
    calls = []
    def flatten_elements(x):
        calls.append(1)
        return x.reshape(-1) if len(calls) <= 13 else x
    """,
    "WRONG",
    told="two different results",
)
case("guesses a choice", 'import random\nchoice = random.choice("abce")', "WRONG", exercise="tensors.copy_or_view")
case(
    "answers with an object for a value",
    """
    class Any(tuple):
        def __eq__(self, other): return True
        def __hash__(self): return hash((2, 5))
    strides = Any((1, 1))
    """,
    "WRONG",
    exercise="tensors.read_strides",
)
case(
    "is honest in a suspicious way",
    """
    import inspect
    def flatten_elements(x):
        inspect.currentframe()
        return x.reshape(-1)
    """,
    "CONTAINED",
    told="Read this answer",
)


@pytest.fixture(scope="module")
def outside(tmp_path_factory, secret):
    """Things that a submission might want to reach: a server, an abstract socket, other submissions."""
    folder = tmp_path_factory.mktemp("submissions")
    (folder / "bob.py").write_text(RIGHT)
    server = socket.create_server(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    name = f"grading-test-{os.getpid()}"
    abstract.bind("\0" + name)
    abstract.listen()
    callers = []
    for listening in (server, abstract):
        threading.Thread(target=_listen, args=(listening, callers), daemon=True).start()
    yield {
        "secret": secret,
        "submissions": str(folder),
        "exercise": str(Path(course.__file__).parent / "exercises/tensors/flatten.py"),
        "home": str(Path.home()),
        "port": server.getsockname()[1],
        "abstract": name,
        "pid": os.getpid(),
        "marker": str(folder / "marker"),
    }
    assert callers == []
    assert sorted(os.listdir(folder)) == ["bob.py"]
    server.close()
    abstract.close()


def _listen(listening, callers):
    try:
        while True:
            callers.append(listening.accept())
    except OSError:
        return


@pytest.fixture
def honest(grader, tmp_path):
    """After the test: in the same grader, an honest right answer passes and an honest wrong one is told what it is."""
    yield
    path = tmp_path / "honest.py"
    path.write_text(f"# {MARK}\n{RIGHT}words = {MARK!r}\nstrides = (5, 2)\n")
    rows = graded(grader, path)
    assert rows["tensors.flatten"].outcome == "PASSED", rows["tensors.flatten"]
    assert rows["tensors.read_strides"].wrong == "tensors.read_strides/columns_before_rows"


def graded(grader, path):
    return {row.exercise: row for row in grader.grade(path, "somebody/answers.py")}


def filled(source, outside):
    for name, value in outside.items():
        source = source.replace("{" + name + "!r}", repr(value)).replace("{" + name + "}", str(value))
    return source


def test_there_are_enough_of_them():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_submission_is_contained_and_reported(name, grader, outside, tmp_path, honest, monkeypatch):
    hostile = CASES[name]
    if hostile.seconds is not None:
        patience = hostile.seconds / 10  # of the exercises' ten seconds
        monkeypatch.setattr(grader, "limits", replace(grader.limits, patience=patience))
    path = tmp_path / "hostile.py"
    path.write_text(filled(hostile.source, outside))
    rows = graded(grader, path)
    row = rows[hostile.exercise]
    text = " ".join(filter(None, (row.diagnosis, row.seen, row.note)))
    assert row.outcome in hostile.outcomes, row
    assert hostile.told in text, row
    assert "ESCAPED" not in text
    # One row for each exercise, and nothing for those that it did not answer.
    assert list(rows) == [exercise.id for exercise in grader.exercises]
    assert {each.outcome for each in rows.values() if each is not row} <= {"NOT_ATTEMPTED"}


def test_a_child_that_patches_only_harms_its_own_exercise(grader, tmp_path, honest):
    """All answers of one person: what one of them did to torch is not there for the next."""
    path = tmp_path / "mixed.py"
    path.write_text(
        "import torch, os\n"
        "def loss_gradients(w, b, x, y):\n    torch.Tensor.reshape = None\n    os.kill(os.getpid(), 9)\n"
        "def flatten_elements(x):\n    torch.Tensor.mean = None\n    return x.reshape(-1)\n"
        "strides = (2, 5)\nchoice = 'd'\n"
    )
    rows = graded(grader, path)
    assert rows["tensors.flatten"].outcome == "CONTAINED"
    assert "torch.Tensor.mean" in rows["tensors.flatten"].note
    assert rows["tensors.read_strides"].outcome == rows["tensors.copy_or_view"].outcome == "PASSED"
    assert rows["autograd.by_hand"].outcome == "ERROR"
    assert "SIGKILL" in rows["autograd.by_hand"].diagnosis


def test_pickles_are_not_what_is_spoken():
    from course.grading.observing import Malformed, decode

    with pytest.raises(Malformed):
        decode(pickle.dumps(functools.partial(os.getpid)))

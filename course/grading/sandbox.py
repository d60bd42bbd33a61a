"""The protection behind which submissions run: bubblewrap where it works, else namespaces by the system's own calls.

What is inside: the system's libraries, this Python with its packages, a copy of the course without answers, an empty
folder of limited size. What is not: the network, other processes, the home folder, the submissions, the course's
exercises as they are, the environment. Everything but the empty folder is read-only, and whoever runs there is nobody
in particular, without capabilities.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import course
from course.curriculum import checkout

SHOWN = "/shown"
FOLDER = "/tmp"
FOLDER_BYTES = 256 * 2**20
TRY_SECONDS = 60
NOBODY = 65534
FIRST_USER = 0x7000_0000
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
PACKAGES = ("torch", "torchvision", "numpy")
USEFUL = ("/etc/alternatives", "/etc/ld.so.cache", "/sys/devices/system/cpu")
# In a checkout, and next to an installed package.
SECRET = (".git", "build", "course", "dist", "lessons", "notebooks", "tests")
ENVIRONMENT = {
    "COURSE_HOME": f"{FOLDER}/work",
    "CUDA_VISIBLE_DEVICES": "",
    "HOME": f"{FOLDER}/work",
    "LANG": "C.UTF-8",
    "LOGNAME": "learner",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "TMPDIR": f"{FOLDER}/work",
    "USER": "learner",
}
NONE = (
    "No protection was active: submissions ran with the rights of the person who graded, "
    "held back only by limits of time, memory and file size."
)


class Refused(Exception):
    """Submissions are not run: there is nothing that would contain them. The message says what to do."""


@dataclass(frozen=True)
class Protection:
    """What contains submissions.

    name: "bubblewrap", "namespaces" or "none". sentence: what that means, for a report.
    variant: "user" within a user namespace, "root" where the grader's own rights set it up.
    """

    name: str
    sentence: str
    variant: str = ""

    def __str__(self) -> str:
        return self.sentence

    @property
    def isolates(self) -> bool:
        return self.name != "none"

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@functools.cache
def protection() -> Protection:
    """The best protection that works here; it is tried, not assumed. Needs no torch."""
    if sys.platform.startswith("linux"):
        return next(filter(_works, _candidates()), Protection("none", NONE))
    return Protection("none", NONE)


def _candidates() -> Iterator[Protection]:
    for name in ("bubblewrap", "namespaces"):
        if os.geteuid() == 0:
            yield Protection(name, _sentence(name), "root")
            if name == "namespaces":  # would be the owner of /proc/sys and more
                continue
        yield Protection(name, _sentence(name), "user")


def required(unprotected: bool = False) -> Protection:
    """The protection to use. Raises Refused where there is none, unless told to do without."""
    found = protection()
    if found.isolates or unprotected:
        return found
    raise Refused(
        "Submissions are not run here: neither bubblewrap nor Linux namespaces are available to contain them. Install "
        "bubblewrap (Debian: apt-get install bubblewrap) and allow user namespaces, or grade on another machine. Only "
        "for submissions that you would run yourself: --unprotected."
    )


def _sentence(name: str) -> str:
    tool = "bubblewrap" if name == "bubblewrap" else "Linux namespaces"
    return (
        f"Protected by {tool}: no network, no other processes, an empty environment, a private folder of limited "
        "size, everything else hidden or read-only."
    )


def _works(candidate: Protection) -> bool:
    if candidate.name == "bubblewrap" and shutil.which("bwrap") is None:
        return False
    script = "import os, sys; sys.exit(0 if os.getpid() == 1 else 1)"
    try:
        command = inside(candidate, [sys.executable, "-I", "-S", "-c", script], shown=None)
        return subprocess.run(command, capture_output=True, timeout=TRY_SECONDS, env=ENVIRONMENT).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def inside(chosen: Protection, command: list[str], *, shown: Path | None) -> list[str]:
    """The command line that runs a command behind the protection. shown: the folder to be seen as SHOWN."""
    steps = list(_steps(shown))
    if chosen.name == "bubblewrap":
        return [*_bubblewrap(chosen.variant, steps), "--", *command]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from course.grading.namespaces import enter; enter(sys.argv[2])"
    )
    plan = {"steps": steps, "variant": chosen.variant, "command": command, "environment": ENVIRONMENT}
    return [sys.executable, "-I", "-c", code, str(Path(course.__file__).parents[1]), json.dumps(plan)]


def user_inside(chosen: Protection) -> int | None:
    """Whom the worker is to become: somebody whose processes are not counted with anyone else's; None: as it is."""
    return FIRST_USER + os.getpid() if chosen.variant == "root" else None


# What is mounted, in this order, as ("bind", source, place), ("link", target, place), ("empty", bytes, place),
# ("folder", place), ("dev",) and ("proc",).


def _steps(shown: Path | None) -> Iterator[tuple[Any, ...]]:
    yield ("dev",)
    yield ("empty", FOLDER_BYTES, "/dev/shm")
    yield ("proc",)
    yield ("empty", FOLDER_BYTES, FOLDER)
    binds = _visible()
    for folder in sorted({str(parent) for path in binds for parent in Path(path).parents} - {"/", FOLDER}):
        yield ("folder", folder)
    for path in binds:
        yield ("bind", path, path)
    for path in SYSTEM:
        if os.path.islink(path):
            yield ("link", os.readlink(path), path)
    for path in _secrets():
        if any(Path(bind) in path.parents for bind in binds):
            yield ("empty", 4096, str(path))
    if shown is not None:
        yield ("bind", str(shown), SHOWN)


@functools.cache
def package_folders() -> tuple[str, ...]:
    """Where torch and what it needs are installed. Not all of sys.path: that names the current folder, too."""
    folders = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            folders.append(str(Path(spec.origin).parents[1]))
    return tuple(dict.fromkeys(folders))


def kept_in_folder() -> list[str]:
    """What stands in the worker's folder from the beginning, for a Python that is installed below it."""
    inside_it = [Path(path) for path in _visible() if Path(FOLDER) in Path(path).parents]
    return sorted({path.relative_to(FOLDER).parts[0] for path in inside_it})


@functools.cache
def _visible() -> tuple[str, ...]:
    """Folders and files of the system and of this Python."""
    wanted = ["/usr", *(path for path in SYSTEM if not os.path.islink(path)), *USEFUL]
    wanted += [sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix]
    wanted += package_folders()
    chosen: list[str] = []
    for path in sorted({os.path.abspath(path) for path in wanted if os.path.exists(path)}):
        if path != "/" and not any(Path(other) in Path(path).parents for other in chosen):
            chosen.append(path)
    return tuple(chosen)


def _secrets() -> Iterator[Path]:
    package = Path(course.__file__).resolve().parent
    yield package
    root = checkout()
    if root is not None:
        for name in SECRET:
            if (root / name).is_dir() and root / name != package:
                yield root / name


def _bubblewrap(variant: str, steps: list[tuple[Any, ...]]) -> list[str]:
    command = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if variant == "root":
        # What it takes to become somebody else, which the worker does first.
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    command += ["--as-pid-1", "--new-session", "--die-with-parent", "--hostname", "grading", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    for step in steps:
        match step:
            case ("bind", source, place):
                command += ["--ro-bind", source, place]
            case ("link", target, place):
                command += ["--symlink", target, place]
            case ("empty", size, place):
                command += ["--perms", "1777", "--size", str(size), "--tmpfs", place]
            case ("folder", place):
                command += ["--perms", "0755", "--dir", place]
            case (kind,):
                command += [f"--{kind}", f"/{kind}"]
    # A plain bind lets no device be opened. This one can be mapped as memory that is counted nowhere.
    command += ["--ro-bind", "/dev/zero", "/dev/zero"]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]

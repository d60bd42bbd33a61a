"""What a kernel that runs a lesson must not do: reach beyond this machine, or warn.

`environment()` is for whoever starts a kernel: it puts the folder `path/` in front of PYTHONPATH, so that the
`sitecustomize` there calls `install()` in the kernel and in every Python process that the kernel starts. The guard acts
on Python's `socket` module: connections that C or C++ code opens by itself, and programs that are not Python, are
not seen. The standard library is all that this module may import: it runs before anything else does.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).resolve().parent / "path"

DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
GUARDED_MODULES = r"(torch|torchvision|course|__main__)(\.|$)"


@dataclass(frozen=True)
class Allowed:
    """One warning that is let through, and why. `message` and `module` are regular expressions, `since` a Python."""

    category: type[Warning]
    message: str
    module: str
    reason: str
    since: tuple[int, int] = (3, 10)


ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        category=DeprecationWarning,
        message=r".*use of fork\(\) may lead to deadlocks in the child",
        module=r"",
        reason="Python 3.12 and later warn when a process with threads forks; a kernel always has threads, and the "
        "exercise checks and the DataLoader's default workers fork on Linux.",
        since=(3, 12),
    ),
    Allowed(
        category=PendingDeprecationWarning,
        message=r"For consistency across implementations, it is recommended that `do_shutdown`",
        module=r"ipykernel\.",
        reason="ipykernel warns about its own kernel while it shuts down; as an error it keeps the kernel alive.",
    ),
    Allowed(
        category=FutureWarning,
        message=r".isinstance\(treespec, LeafSpec\). is deprecated",
        module=r"",
        reason="torch 2.11 says this to itself whenever it exports a model; nothing in a lesson can avoid it.",
    ),
    Allowed(
        category=DeprecationWarning,
        message=r"`torch\.jit\.script_method` is deprecated",
        module=r"torch\.jit\._script",
        reason="torch 2.11 says this to itself when the first torch.compile imports the compiler.",
    ),
    Allowed(
        category=UserWarning,
        message=r"The given buffer is not writable",
        module=r"torch\.export\.pt2_archive\._package",
        reason="torch 2.11 says this to itself whenever torch.export.load reads weights.",
    ),
    Allowed(
        category=ResourceWarning,
        message=r"",
        module=r"",
        reason="Given by destructors, where an error cannot fail the cell and only prints noise.",
    ),
)


class NetworkBlocked(OSError):
    """A lesson tried to reach another machine while lessons run without a network."""

    def __init__(self, host: object) -> None:
        super().__init__(
            f"Blocked: this code tried to reach {host!s}, and lessons run without a network (this machine itself is "
            "allowed). Use the offline data, or ask the learner before anything is downloaded."
        )


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a copy of `base` (default: this process's environment) in which every Python process is guarded."""
    env = dict(os.environ if base is None else base)
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(PATH)]
    env["PYTHONPATH"] = os.pathsep.join([str(PATH), *paths])
    # IPython adds filters of its own for __main__ unless sys.warnoptions says that the user has chosen.
    env["PYTHONWARNINGS"] = ",".join(f"error::{category.__name__}" for category in DEPRECATIONS)
    return env


def install(allowed: tuple[Allowed, ...] = ALLOWED) -> None:
    """Guard this process: warnings of lessons, torch and course become errors, foreign hosts out of reach."""
    guard_warnings(allowed)
    guard_network()


def guard_warnings(allowed: tuple[Allowed, ...] = ALLOWED) -> None:
    """Turn deprecations anywhere, and any warning attributed to GUARDED_MODULES, into errors, but for `allowed`."""
    for category in DEPRECATIONS:
        warnings.filterwarnings("error", category=category)
    warnings.filterwarnings("error", module=GUARDED_MODULES)
    for entry in allowed:
        if sys.version_info >= entry.since:
            warnings.filterwarnings("ignore", entry.message, entry.category, entry.module)


def guard_network() -> None:
    """Replace the functions of `socket` that name another machine; a second call changes nothing."""
    if getattr(socket, "_course_guard", False):
        return
    socket._course_guard = True
    for name in ("connect", "connect_ex"):
        _guard_method(name, lambda args: args[0])
    for name in ("sendto", "sendmsg"):
        # sendto(data, [flags,] address); sendmsg(buffers, [ancillary, [flags, [address]]])
        position = 3 if name == "sendmsg" else 1
        _guard_method(name, lambda args, position=position: args[-1] if len(args) > position else None)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        _guard_lookup(name)


def _guard_method(name, address_of) -> None:
    original = getattr(socket.socket, name)

    def guarded(self, *args):
        address = address_of(args)
        if self.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple):
            _refuse_foreign(address[0])
        return original(self, *args)

    guarded.__name__ = name
    setattr(socket.socket, name, guarded)


def _guard_lookup(name) -> None:
    original = getattr(socket, name)

    def guarded(host, *args, **kwargs):
        _refuse_foreign(host)
        return original(host, *args, **kwargs)

    guarded.__name__ = name
    setattr(socket, name, guarded)


def _refuse_foreign(host: object) -> None:
    text = (host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")).lower()
    # A machine may look up its own name; a connection still has to go to a loopback address.
    if text in ("", "localhost", socket.gethostname().lower()):
        return
    try:
        address = ipaddress.ip_address(re.sub(r"%.*", "", text))
    except ValueError:
        raise NetworkBlocked(text) from None
    # Connecting to the unspecified address reaches this machine; binding to it passes through getaddrinfo.
    if not (address.is_loopback or address.is_unspecified):
        raise NetworkBlocked(text)

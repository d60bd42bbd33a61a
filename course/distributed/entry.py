"""`python -m course.distributed.entry SCRIPT ...`: one rank. It runs the script and writes down how that ended.

The standard library alone, so that a rank whose parent is gone notices before it imports anything large.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib.util
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from course.distributed import job
from course.distributed.tether import end_with_parent


def main(target: str, arguments: list[str]) -> int:
    """Run `target` (a path ending in .py, or a module) as __main__ with these arguments; return the exit code."""
    end_with_parent(int(os.environ[job.PARENT]))
    folder, rank = job.folder(), int(os.environ["RANK"])
    # One write a line: the lines of several ranks then do not run into each other.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=False)
    stack = open(folder / f"rank-{rank}.stack", "w")  # noqa: SIM115 (open as long as the process lives)
    faulthandler.enable(file=stack, all_threads=False)  # for SIGABRT and SIGSEGV
    if hasattr(faulthandler, "register"):
        # Where this rank was when it was told to end: also while it waits in C++ code, where no Python handler runs.
        faulthandler.register(signal.SIGTERM, file=stack, all_threads=False, chain=True)
    ending, code = _run(target, arguments)
    job.write(folder / f"rank-{rank}.json", {**ending, "time": time.time()})
    return code


def _run(target: str, arguments: list[str]) -> tuple[dict[str, Any], int]:
    sys.argv = [target, *arguments]
    try:
        if target.endswith(".py"):
            sys.path[0] = str(Path(target).resolve().parent)
            runpy.run_path(target, run_name="__main__")
        else:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            code, words = leaving.code or 0, ""
        else:
            code, words = 1, str(leaving.code)
            print(words, file=sys.stderr)
        return {"ended": "left", "code": code, "error": words}, code
    except BaseException as error:
        _print_from_script(error, target)
        return {"ended": "raised", "code": 1, "error": last_line(error), "lost": lost_its_peer(error)}, 1
    return {"ended": "left", "code": 0, "error": ""}, 0


def last_line(error: BaseException) -> str:
    """`ValueError: ...`, as the last line of a traceback says it, without notes."""
    return traceback.format_exception_only(type(error), error)[0].strip()


def lost_its_peer(error: BaseException) -> bool:
    """Whether an error only says that another rank is gone or silent."""
    words = str(error).lower()
    signs = ("closed by peer", "reset by peer", "connection refused", "broken pipe", "timed out", "timeout")
    return isinstance(error, (RuntimeError, OSError)) and any(sign in words for sign in signs)


def _print_from_script(error: BaseException, target: str) -> None:
    """Print the traceback from the script's first frame on, leaving out those that started it."""
    spec = None
    if not target.endswith(".py"):
        with contextlib.suppress(ImportError):
            spec = importlib.util.find_spec(target)
    origin = target if target.endswith(".py") else (spec.origin if spec else None)
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != origin:
        frame = frame.tb_next
    traceback.print_exception(type(error), error, frame or error.__traceback__)


def leave(code: int) -> NoReturn:
    """End this process after its threads and exit handlers, as Python does, but take no C++ object apart.

    A rank that has done its work must not fail because a thread of gloo or of autograd outlives what it uses.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # nobody may be reading any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main(sys.argv[1], sys.argv[2:]))

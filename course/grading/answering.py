"""In the child that one submission gets: run its definitions, give them to the probes, and report what was seen.

This process belongs to the answer. Nothing that it says is believed but observations, and those only as far as they
are right; see :mod:`course.grading.judge`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import linecache
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import getpid
from types import ModuleType
from typing import Any

import torch

from course.checking.exercise import Exercise, Probe, ValueExercise
from course.checking.judging import in_words, prepared
from course.checking.observe import INPUT_SEED, PASSES, observe_probe
from course.checking.state import preserved_state
from course.exercises import exercise_path, load_exercise
from course.grading.intact import Baseline, changed_for_a_while, replaced
from course.grading.observing import MAX_FRAME, frame

MAX_NAMES = 8
PR_SET_DUMPABLE = 4
FAILED_STATUS = 70


def take_part(job: int, result: int, folder: str, before: Baseline) -> None:
    """Do one job and end this process.

    job: descriptor of a file with the job as JSON. result: descriptor that takes frames. folder: the private folder,
    empty. before: what torch and Python looked like.
    """
    try:
        with os.fdopen(job, "rb") as file:
            work = json.load(file)
        os.setsid()
        _be_measurable()
        _confine(work["limits"], keep=result)
        os.chdir(folder)
        os.environ.update(HOME=folder, TMPDIR=folder)
        _report(work, result, folder, before)
    finally:
        os._exit(FAILED_STATUS)


def _be_measurable() -> None:
    """Let the worker see how much of this process's memory is its own; see sweeping."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def _confine(limits: dict[str, int], keep: int) -> None:
    """No descriptor but one, no signal handlers, and limits that cannot be raised again."""
    gc.freeze()  # finalizers of the worker's objects must not run here
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for first, last in ((3, keep), (keep + 1, highest if highest > 0 else 65_536)):
        os.closerange(first, last)
    sys.stdin = os.fdopen(0)
    sys.stdout = sys.stderr = os.fdopen(1, "w")
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["files"],
        resource.RLIMIT_AS: _address_space() + limits["memory_bytes"],
    }
    if sys.platform.startswith("linux"):
        wanted[resource.RLIMIT_NPROC] = limits["processes"]
        wanted[resource.RLIMIT_MSGQUEUE] = 0
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _address_space() -> int:
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 8 * 2**30


def _report(work: dict[str, Any], result: int, folder: str, before: Baseline) -> None:
    own_pid, token = getpid(), bytes.fromhex(work.pop("token"))
    torch.set_num_threads(1)
    for message in _messages(work["tasks"], folder, before):
        if getpid() != own_pid:  # the answer forked; only the original process reports
            os._exit(0)
        data = frame(token, message)
        if len(data) > MAX_FRAME:
            data = frame(token, ("large", len(data)))
        view = memoryview(data)
        while view:
            view = view[os.write(result, view) :]
    os._exit(0)


def _messages(tasks: list[dict[str, Any]], folder: str, before: Baseline) -> Iterator[tuple[Any, ...]]:
    for number, task in enumerate(tasks):
        yield ("task", number)
        exercise = load_exercise(task["exercise"])
        probes = tuple(replace(probe) for probe in exercise.probes)  # which the answer has not seen
        text = _text_of(exercise.id)
        changed_for_a_while(before)
        answer, problem = _run(task, folder)
        yield ("answer", problem, None if problem else _facts(exercise, answer))
        if problem is None:
            yield from _observations(exercise, probes, answer)
        changed = [*replaced(before), *changed_for_a_while(before, text)]
        yield ("end", number, changed[:MAX_NAMES])
        del answer
    yield ("done",)


def _text_of(exercise: str) -> str:
    """What is shown here of an exercise's file and of the helpers beside it."""
    path = exercise_path(exercise)
    return "".join(each.read_text(encoding="utf-8") for each in (path, *path.parent.glob("_*.py")))


def _observations(exercise: Exercise, probes: Sequence[Probe], answer: Any) -> Iterator[tuple[Any, ...]]:
    answer = prepared(exercise, answer)
    for turn in range(PASSES):
        for index, probe in enumerate(probes):
            if probe.requirement is not None:  # the grader reads the source itself
                continue
            yield ("start", turn, index)
            with preserved_state():
                seen = observe_probe(exercise, probe, answer, seed=INPUT_SEED + 1 + turn)
            yield ("seen", turn, index, seen)


def _facts(exercise: Exercise, answer: Any) -> dict[str, Any]:
    """What kind of thing the answer is."""
    kind = type(answer)
    compiled = kind.__module__.startswith("torch.jit") or "_torchdynamo_orig_callable" in getattr(
        answer, "__dict__", ()
    )
    return {
        "ellipsis": answer is ...,
        "class": issubclass(kind, type),
        "callable": callable(answer),
        "compiled": bool(compiled),
        "what": None if isinstance(exercise, ValueExercise) else in_words(answer)[:400],
    }


def _run(task: dict[str, Any], folder: str) -> tuple[Any, str | None]:
    """The answer that a program defines, and a sentence where it could not be made."""
    module = ModuleType("answer")
    path = os.path.join(folder, "answer.py")
    module.__file__ = path
    # Registered, so that `inspect` finds the source of classes.
    sys.modules["answer"] = module
    source = "".join(text for text, _ in task["pieces"])
    linecache.cache[path] = (len(source), None, [f"{line}\n" for line in source.split("\n")[:-1]], path)
    home = sys.modules[f"course.exercises.{task['exercise']}"]
    module.__dict__.update({name: vars(home)[name] for name in task["fallback"] if name in vars(home)})
    line, flags = 0, 0
    for text, may_fail in task["pieces"]:
        try:
            code = compile("\n" * line + text, path, "exec", flags, dont_inherit=True)
            flags |= code.co_flags & FUTURE_FLAGS
            exec(code, module.__dict__)
        except BaseException as error:
            if not (may_fail and isinstance(error, Exception)):
                return None, _stopped(task["name"], text, error)
        line += text.count("\n")
    if task["name"] not in module.__dict__:
        return None, f"Running the definitions left no `{task['name']}`."
    return module.__dict__[task["name"]], None


FUTURE_FLAGS = __import__("__future__").annotations.compiler_flag


def _stopped(name: str, text: str, error: BaseException) -> str:
    try:
        message = str(error)[:300]
    except BaseException:
        message = "(its message could not be read)"
    first = text.strip().split("\n", 1)[0][:120]
    detail = f": {message}" if message else ""
    return f"What defines `{name}` stopped at `{first}` with {type(error).__name__}{detail}."

"""Lesson 00: choose the device by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch

from course.checking import Exercise

exercise = Exercise(
    "start.choose_device",
    title="Choose the device by hand",
    task="""
        `pick_device()` takes nothing and returns the `torch.device` that this machine can compute on:
        `torch.device("cuda")` where CUDA can be **used**, else `torch.device("mps")` where MPS can be used, else
        `torch.device("cpu")`. It must not raise on any machine.

        The check plays several machines, by replacing what `torch.cuda`, `torch.backends.mps` and `torch.accelerator`
        answer. Write it without `course.choose_device`.
        """,
    hints=(
        "Of each kind of device torch tells two things: whether this build was made for it, and whether it can be used "
        "here and now. Which of the two must decide?",
        "`torch.cuda.is_available()` and `torch.backends.mps.is_available()` are the two questions. Ask them in the "
        "order of the task; what is left is the CPU.",
    ),
)


@exercise.stub
def pick_device() -> torch.device:
    """Return the device to compute on: cuda, else mps, else cpu."""
    raise NotImplementedError


@exercise.reference
def by_asking_in_order():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@exercise.alternative
def by_asking_for_the_accelerator():
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


@exercise.alternative
def by_a_list_of_questions():
    questions = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available, "cpu": lambda: True}
    return torch.device(next(kind for kind, usable in questions.items() if usable()))


@exercise.wrong(
    "This asks what the build of torch was made for, as `is_built()` does, and `current_accelerator()` unless it is "
    "told to check. A CUDA build on a machine without an NVIDIA GPU, or with a driver that is too old, answers yes "
    "and then fails at the first tensor. The question is whether the device can be used.",
    fault="cpu-build-installed",
)
def what_was_built():
    if torch.backends.cuda.is_built():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_built() else "cpu")


@exercise.wrong(
    "`torch.version.cuda` is the version of the runtime that came with torch. It says nothing of a driver or a GPU: "
    "with a CUDA build it is set on every machine.",
    fault="cpu-build-installed",
)
def runtime_version_decides():
    return torch.device("cuda" if torch.version.cuda else "mps" if torch.backends.mps.is_available() else "cpu")


@exercise.wrong(
    "Apple's GPU is never chosen here: on a Mac everything would run on the CPU, and nothing would say so.",
    fault="model-left-on-cpu",
)
def cuda_or_nothing():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@exercise.wrong(
    "The CPU is there on every machine, so this is never wrong, and never uses an accelerator either.",
    fault="model-left-on-cpu",
)
def always_the_cpu():
    return torch.device("cpu")


@exercise.wrong(
    "A name is not a device. torch functions take either, but a string has no `.type`, and `'cuda' == "
    "torch.device('cuda')` is False, so comparisons with it go wrong quietly. The task asks for a `torch.device`."
)
def a_name_instead():
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


@exercise.wrong(
    "The device is named with an index here. `torch.device('cuda')` is whatever GPU is current; `cuda:0` is always the "
    "first, and the two do not compare equal. The task asks for the one without an index."
)
def always_the_first_one():
    if torch.cuda.is_available():
        return torch.device("cuda:0")
    return torch.device("mps:0") if torch.backends.mps.is_available() else torch.device("cpu")


@exercise.wrong(
    "MPS is asked before CUDA. Where both can be used the task wants CUDA: the order of the questions is the order of "
    "preference."
)
def mps_before_cuda():
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def machine(*, build: str, usable: bool, mps_too: bool = False) -> Iterator[None]:
    """Let torch answer as a build for "cpu", "cuda" or "mps" does, on a machine that has that device or has not.

    mps_too: MPS can be used beside what the build was made for.
    """

    def accelerator(check_available: bool = False) -> torch.device | None:
        return torch.device(build) if build != "cpu" and (usable or not check_available) else None

    def has(kind: str, *, asked: bool) -> Callable[[], bool]:
        return lambda: (build == kind and (usable or not asked)) or (mps_too and kind == "mps")

    answers = [
        (torch.cuda, "is_available", has("cuda", asked=True)),
        (torch.cuda, "device_count", lambda: int(build == "cuda" and usable)),
        (torch.backends.cuda, "is_built", has("cuda", asked=False)),
        (torch.version, "cuda", "13.0" if build == "cuda" else None),
        (torch.backends.mps, "is_available", has("mps", asked=True)),
        (torch.backends.mps, "is_built", has("mps", asked=False)),
        (torch.mps, "is_available", has("mps", asked=True)),
        (torch.accelerator, "is_available", lambda: build != "cpu" and usable),
        (torch.accelerator, "device_count", lambda: int(build != "cpu" and usable)),
        (torch.accelerator, "current_accelerator", accelerator),
    ]
    with ExitStack() as stack:
        for owner, name, answer in answers:
            if hasattr(owner, name):
                stack.enter_context(mock.patch.object(owner, name, answer))
        yield


def chosen(answer: Callable[[], object], **described: object) -> tuple[str, str]:
    """What an answer returns on such a machine: its type and its name."""
    with machine(**described):
        device = answer()
    return type(device).__name__, str(device)


@exercise.probe
def cuda_build_with_a_gpu(answer):
    return chosen(answer, build="cuda", usable=True)


@exercise.probe
def cuda_build_without_a_gpu(answer):
    return chosen(answer, build="cuda", usable=False)


@exercise.probe
def cpu_build(answer):
    return chosen(answer, build="cpu", usable=False)


@exercise.probe
def apple_chip(answer):
    return chosen(answer, build="mps", usable=True)


@exercise.probe
def apple_build_on_an_old_system(answer):
    return chosen(answer, build="mps", usable=False)


@exercise.probe
def both_can_be_used(answer):
    return chosen(answer, build="cuda", usable=True, mps_too=True)

"""Lesson 07: load a file wherever it was written."""

from __future__ import annotations

import os
from typing import ClassVar
from unittest import mock

import torch

from course.checking import Exercise
from course.exercises.checkpoints._files import folder, saved_as_if_on

exercise = Exercise(
    "checkpoints.cross_device",
    title="Load on this machine what another one wrote",
    task="""
        `load_on(path, device)` returns what `torch.save` wrote to the file, with every tensor on `device`, whatever
        device it was saved from: CPU, `cuda:0`, `cuda:1`. The state is nested: a model's and an optimizer's state in
        one dict, and numbers beside them.

        Files come from other people. One that holds more than tensors and plain containers must be refused, not run.

        (The check has no GPU. It writes files whose tensors are tagged as a GPU's, which is all that a file knows of
        its device. As a device other than the CPU it asks for `"meta"`, which holds shapes and no numbers.)
        """,
    hints=(
        "A file remembers the device of each tensor, and torch.load first asks for that device. One argument sends all "
        "of them elsewhere.",
        "torch.load(path, map_location=...) takes a device, and then every tensor arrives there. What weights_only "
        "says by default depends on the version of torch: name it.",
    ),
)


@exercise.stub
def load_on(path: str | os.PathLike[str], device: str | torch.device) -> dict:
    """Return the state in the file with every tensor on device; refuse a file that would run code."""
    raise NotImplementedError


@exercise.reference
def mapped_to_the_device(path, device):
    return torch.load(path, map_location=device, weights_only=True)


@exercise.alternative
def through_the_cpu(path, device):
    def moved(value):
        if isinstance(value, dict):
            return type(value)((key, moved(item)) for key, item in value.items())
        if isinstance(value, (list, tuple)):
            return type(value)(moved(item) for item in value)
        return value.to(device) if isinstance(value, torch.Tensor) else value

    return moved(torch.load(path, map_location="cpu", weights_only=True))


@exercise.wrong(
    "Without map_location every tensor goes back to the device that it was saved from. On a machine without that "
    "device torch.load stops.",
    fault="cuda-checkpoint-on-cpu",
)
def no_map_location(path, device):
    return torch.load(path, weights_only=True)


@exercise.wrong(
    "The tensors arrive on the CPU, whatever device was asked for. A training step would then meet weights and batches "
    "on different devices.",
    fault="device-mismatch",
)
def always_the_cpu(path, device):
    return torch.load(path, map_location="cpu", weights_only=True)


@exercise.wrong(
    "Only one tag is mapped. A file from the second GPU says `cuda:1`, one from a CPU says `cpu`; a device as "
    "map_location covers them all.",
    fault="cuda-checkpoint-on-cpu",
)
def one_tag_mapped(path, device):
    return torch.load(path, map_location={"cuda:0": device}, weights_only=True)


@exercise.wrong(
    "weights_only=False lets the file call any function while it is read. With a file from elsewhere that is running a "
    "stranger's program.",
    fault="weights-only-refused",
)
def runs_the_file(path, device):
    return torch.load(path, map_location=device, weights_only=False)


@exercise.wrong(
    "`.to(device)` comes too late: torch.load has to put the tensors somewhere before anything can be moved.",
    fault="cuda-checkpoint-on-cpu",
)
def moved_after_loading(path, device):
    state = torch.load(path, weights_only=True)
    return {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in state.items()}


@exercise.wrong(
    "Dicts are searched for tensors, and lists are not: `param_groups` of an optimizer is a list, and a learning rate "
    "in it may be a tensor.",
    fault="device-mismatch",
)
def only_in_dicts(path, device):
    def moved(value):
        if isinstance(value, dict):
            return {key: moved(item) for key, item in value.items()}
        return value.to(device) if isinstance(value, torch.Tensor) else value

    return moved(torch.load(path, map_location="cpu", weights_only=True))


@exercise.wrong(
    "Only tensors at the top are moved. Those inside, of a model and an optimizer, stay on the CPU.",
    fault="device-mismatch",
)
def only_the_top(path, device):
    state = torch.load(path, map_location="cpu", weights_only=True)
    return {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in state.items()}


def state():
    return {
        "model": {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)},
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.ones(2, 3)}},
            "param_groups": [{"lr": torch.tensor(0.1)}],
        },
        "scale": torch.tensor([2.0]),
        "epoch": 7,
    }


def loaded(answer, written_on, device, kind=str):
    with folder() as place, mock.patch.object(torch.cuda, "is_available", return_value=False):
        return answer(kind(saved_as_if_on(written_on, state(), place / "run.pt")), device)


@exercise.probe
def from_a_gpu_to_the_cpu(answer):
    return loaded(answer, "cuda:0", "cpu")


@exercise.probe
def from_the_second_gpu(answer):
    return loaded(answer, "cuda:1", torch.device("cpu"))


@exercise.probe
def from_the_cpu_to_the_cpu(answer):
    return loaded(answer, "cpu", "cpu", kind=lambda path: path)


@exercise.probe
def from_a_gpu_to_another_device(answer):
    return loaded(answer, "cuda:0", "meta")


@exercise.probe
def from_the_cpu_to_another_device(answer):
    return loaded(answer, "cpu", torch.device("meta"))


class Runs:
    """A stranger's object: reading it without care calls a function."""

    calls: ClassVar[list[str]] = []

    def __reduce__(self):
        return Runs.call, ()

    @staticmethod
    def call():
        Runs.calls.append("called")
        return "called"


@exercise.probe
def a_file_that_calls_a_function(answer):
    Runs.calls.clear()
    with folder() as place:
        torch.save(state() | {"more": Runs()}, place / "run.pt")
        try:
            answer(place / "run.pt", "cpu")
        except NotImplementedError:
            raise
        except Exception:
            return "refused", list(Runs.calls)
    return "loaded", list(Runs.calls)


@exercise.probe
def a_file_that_is_not_there(answer):
    """The message of the error holds the folder's name, which is another one each time."""
    with folder() as place:
        try:
            return answer(place / "missing.pt", "cpu")
        except FileNotFoundError:
            return "not found"

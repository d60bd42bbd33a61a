"""Lesson 07: everything that a run needs to go on as if nothing had happened."""

from __future__ import annotations

import copy
import io
import pickle
import random

import torch
from torch import nn
from torch.optim import lr_scheduler

from course.checking import Exercise

exercise = Exercise(
    "checkpoints.resume",
    title="Resume as if nothing had happened",
    task="""
        `TrainingState(model, optimizer, scheduler)` takes and puts back the state of a run, so that k steps, a restart
        and m more steps give the same weights as k + m steps.

        - `state()` returns a dict that `torch.save` writes and `torch.load(..., weights_only=True)` reads. It holds the
          three objects' states and those of the global generators of **torch (CPU)** and of Python's **`random`**. It
          must not change when training goes on.
        - `restore(state)` puts everything back, in place, in this process or in a new one whose objects were built
          afresh. It can be called again later with the same dict, after more training, and gives the same run again.
        """,
    hints=(
        "What does each of the next steps read? The weights, the optimizer's moments, the learning rate and where its "
        "schedule is, random numbers. state_dict() copies nothing, and neither does every load_state_dict.",
        "state(): a deep copy of the three state dicts, torch.get_rng_state() and random.getstate(). restore(): "
        "load_state_dict for the three, from a deep copy, because an optimizer goes on to write into what it loads; "
        "then torch.set_rng_state and random.setstate.",
    ),
)


@exercise.stub
class TrainingState:
    """Takes and puts back all that the next training step depends on."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: lr_scheduler.LRScheduler) -> None:
        raise NotImplementedError

    def state(self) -> dict:
        """Return the state of the run now, as plain values and tensors that later steps do not change."""
        raise NotImplementedError

    def restore(self, state: dict) -> None:
        """Put a state back, in place; state itself stays as it is."""
        raise NotImplementedError


@exercise.reference
class AllThatAStepReads:
    def __init__(self, model, optimizer, scheduler):
        self.parts = [model, optimizer, scheduler]

    def state(self):
        states = [part.state_dict() for part in self.parts]
        return copy.deepcopy({"parts": states, "torch": torch.get_rng_state(), "random": random.getstate()})

    def restore(self, state):
        state = copy.deepcopy(state)
        for part, its_state in zip(self.parts, state["parts"]):
            part.load_state_dict(its_state)
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])


@exercise.alternative
class AFileInMemory:
    def __init__(self, model, optimizer, scheduler):
        self.objects = [model, optimizer, scheduler]

    def state(self):
        states = [one.state_dict() for one in self.objects] + [torch.random.get_rng_state(), random.getstate()]
        torch.save(states, file := io.BytesIO())
        return {"file": file.getvalue()}

    def restore(self, state):
        *states, torch_state, python_state = torch.load(io.BytesIO(state["file"]), weights_only=True)
        for one, its_state in zip(self.objects, states):
            one.load_state_dict(its_state)
        random.setstate(python_state)
        torch.default_generator.set_state(torch_state)


@exercise.wrong(
    "Only the weights come back. The optimizer starts with empty moments, the schedule at its beginning, the "
    "generators where the new process has them: four silent changes at once.",
    fault="optimizer-not-restored",
)
class OnlyTheModel:
    def __init__(self, model, optimizer, scheduler):
        self.model = model

    def state(self):
        return {"model": copy.deepcopy(self.model.state_dict())}

    def restore(self, state):
        self.model.load_state_dict(state["model"])


@exercise.wrong(
    "The optimizer's state is left out. Its momentum or moments start from zero, and the learning rate is the one of "
    "its construction: the first steps after the restart go elsewhere.",
    fault="optimizer-not-restored",
)
class WithoutTheOptimizer:
    def __init__(self, model, optimizer, scheduler):
        self.parts = {"model": model, "scheduler": scheduler}

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return copy.deepcopy(states | {"torch": torch.get_rng_state(), "random": random.getstate()})

    def restore(self, state):
        state = copy.deepcopy(state)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])


@exercise.wrong(
    "The scheduler's state is left out. The rate itself comes back with the optimizer, but the schedule counts from 0 "
    "again, and lowers the rate at the wrong steps.",
    fault="scheduler-not-restored",
)
class WithoutTheScheduler:
    def __init__(self, model, optimizer, scheduler):
        self.parts = {"model": model, "optimizer": optimizer}

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return copy.deepcopy(states | {"torch": torch.get_rng_state(), "random": random.getstate()})

    def restore(self, state):
        state = copy.deepcopy(state)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])


@exercise.wrong(
    "torch's generator is left out: dropout draws other masks after the restart than the run would have drawn.",
    fault="seed-incomplete",
)
class WithoutTorchsGenerator:
    def __init__(self, model, optimizer, scheduler):
        self.parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return copy.deepcopy(states | {"random": random.getstate()})

    def restore(self, state):
        state = copy.deepcopy(state)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        random.setstate(state["random"])


@exercise.wrong(
    "Python's `random` is left out. Every library has a generator of its own, and an augmentation that draws from this "
    "one goes on with other numbers.",
    fault="seed-incomplete",
)
class WithoutPythonsGenerator:
    def __init__(self, model, optimizer, scheduler):
        self.parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return copy.deepcopy(states | {"torch": torch.get_rng_state()})

    def restore(self, state):
        state = copy.deepcopy(state)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["torch"])


@exercise.wrong(
    "A seed says where the random numbers began, not how many were drawn since. After restoring a seed the first "
    "numbers of the run come again. Keep the state of the generator.",
    fault="seed-incomplete",
)
class TheSeedAgain:
    def __init__(self, model, optimizer, scheduler):
        self.parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return copy.deepcopy(states | {"seed": torch.initial_seed(), "random": random.getstate()})

    def restore(self, state):
        state = copy.deepcopy(state)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.manual_seed(state["seed"])
        random.setstate(state["random"])


@exercise.wrong(
    "state() hands out the live tensors. When training goes on, what was kept goes on with it, and restoring puts back "
    "the last weights.",
    fault="state-dict-aliased",
)
class LiveStates:
    def __init__(self, model, optimizer, scheduler):
        self.parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return states | {"torch": torch.get_rng_state(), "random": random.getstate()}

    def restore(self, state):
        state = copy.deepcopy(state)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])


@exercise.wrong(
    "optimizer.load_state_dict keeps the tensors that it is given. The steps after the restart write into the dict, "
    "and restoring it a second time gives another run. Hand over a copy.",
    fault="state-dict-aliased",
)
class GivesTheDictAway:
    def __init__(self, model, optimizer, scheduler):
        self.parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return copy.deepcopy(states | {"torch": torch.get_rng_state(), "random": random.getstate()})

    def restore(self, state):
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])


@exercise.wrong(
    "Whole objects are pickled. A file with them is refused by weights_only=True, and breaks as soon as a class moves "
    "or changes. Keep their state dicts.",
    fault="weights-only-refused",
)
class PickledObjects:
    def __init__(self, model, optimizer, scheduler):
        self.objects = (model, optimizer, scheduler)

    def state(self):
        return {"objects": copy.deepcopy(self.objects), "torch": torch.get_rng_state(), "random": random.getstate()}

    def restore(self, state):
        for mine, theirs in zip(self.objects, copy.deepcopy(state["objects"])):
            mine.load_state_dict(theirs.state_dict())
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])


@exercise.wrong(
    "restore() puts back what the last call of state() kept in the object, not the dict that it is given. An older "
    "checkpoint cannot be chosen."
)
class TheLastStateTaken:
    def __init__(self, model, optimizer, scheduler):
        self.parts, self.kept = {"model": model, "optimizer": optimizer, "scheduler": scheduler}, None

    def state(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        self.kept = copy.deepcopy(states | {"torch": torch.get_rng_state(), "random": random.getstate()})
        return self.kept

    def restore(self, state):
        state = copy.deepcopy(self.kept or state)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])


class Run:
    """A small run. Its parts can be switched on one by one, so that a probe shows what is missing."""

    def __init__(self, answer, *, dropout=0.0, shift=False, schedule=False, momentum=False, warmup=False, seed=0):
        torch.manual_seed(seed)
        random.seed(seed)
        self.shift = shift
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(dropout), nn.Linear(4, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9 * momentum)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=3, gamma=0.1 if schedule else 1.0)
        if warmup:
            parts = [torch.optim.lr_scheduler.LinearLR(self.optimizer, total_iters=3), self.scheduler]
            self.scheduler = torch.optim.lr_scheduler.SequentialLR(self.optimizer, parts, milestones=[3])
        self.keeper = answer(self.model, self.optimizer, self.scheduler)
        self.done = 0

    def steps(self, count):
        for _ in range(count):
            x = torch.sin(torch.arange(12.0).reshape(4, 3) + self.done)
            if self.shift:
                x = x + random.random()
            self.optimizer.zero_grad()
            self.model(x).square().mean().backward()
            self.optimizer.step()
            self.scheduler.step()
            self.done += 1
        return self

    def weights(self):
        return [tensor.detach().clone() for tensor in self.model.state_dict().values()]


def through_a_file(state):
    torch.save(state, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=True)


def resumed(answer, before=4, after=3, **options):
    """Steps, a file, a process with other random numbers and objects built afresh, more steps: its weights."""
    first = Run(answer, **options).steps(before)
    state = first.keeper.state()
    try:
        state = through_a_file(state)
    except pickle.UnpicklingError:
        return "weights_only=True refuses the file"
    second = Run(answer, seed=5, **options)
    random.random(), torch.rand(3)
    second.keeper.restore(state)
    second.done = first.done
    return second.steps(after).weights()


@exercise.probe
def nothing_but_weights(answer):
    return resumed(answer)


@exercise.probe
def momentum(answer):
    return resumed(answer, momentum=True)


@exercise.probe
def a_schedule(answer):
    return resumed(answer, schedule=True)


@exercise.probe
def a_schedule_of_two_parts(answer):
    return resumed(answer, before=4, after=4, schedule=True, warmup=True)


@exercise.probe
def dropout(answer):
    return resumed(answer, dropout=0.5)


@exercise.probe
def an_augmentation_of_python(answer):
    return resumed(answer, shift=True)


@exercise.probe
def all_of_it(answer):
    return resumed(answer, dropout=0.5, shift=True, schedule=True, momentum=True)


@exercise.probe
def before_the_first_step(answer):
    return resumed(answer, before=0, dropout=0.5, shift=True, schedule=True, momentum=True)


@exercise.probe
def training_goes_on_after_state(answer):
    run = Run(answer, dropout=0.5, momentum=True).steps(2)
    state = run.keeper.state()
    run.steps(2)
    run.keeper.restore(state)
    run.done = 2
    return run.weights(), run.steps(2).weights()


@exercise.probe
def restored_twice(answer):
    run, ends = Run(answer, dropout=0.5, shift=True, momentum=True, schedule=True).steps(2), []
    state = through_a_file(run.keeper.state())
    for _ in range(2):
        run.keeper.restore(state)
        run.done = 2
        ends.append(run.steps(3).weights())
    return ends


@exercise.probe
def the_older_of_two_states(answer):
    run = Run(answer, dropout=0.5, shift=True, momentum=True, schedule=True).steps(2)
    state = run.keeper.state()
    run.steps(2).keeper.state()
    run.keeper.restore(state)
    run.done = 2
    return run.steps(3).weights()


@exercise.probe
def taking_the_state_changes_nothing(answer):
    run = Run(answer, dropout=0.5, shift=True).steps(2)
    run.keeper.state()
    return run.steps(2).weights()


@exercise.probe
def parameters_stay_the_same_objects(answer):
    run = Run(answer).steps(1)
    before = [id(parameter) for parameter in run.model.parameters()]
    run.keeper.restore(run.keeper.state())
    return before == [id(parameter) for parameter in run.model.parameters()]

from __future__ import annotations

import copy
import random
import warnings
from typing import ClassVar

import numpy
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, OneCycleLR, StepLR
from torch.optim.swa_utils import AveragedModel

from course.training.best import BestWeights
from course.training.checkpoint import (
    CheckpointError,
    CheckpointWarning,
    ResumableBatches,
    RunState,
    load,
    random_state,
    save_atomically,
)
from course.training.history import History

DATA = torch.randn(6, 2, generator=torch.Generator().manual_seed(4))


class Wrapped(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module


def net(width=4):
    return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width), nn.Dropout(0.5), nn.Linear(width, 3))


def make(seed=0, model=None, optimizer=None, **changes):
    """A run of all parts; the same seed gives the same run."""
    torch.manual_seed(seed)
    model = net() if model is None else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01) if optimizer is None else optimizer(model)
    parts = {
        "scheduler": StepLR(optimizer, 2, gamma=0.5),
        "scaler": torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2),
        "order": ResumableBatches((DATA, torch.arange(6) % 3), 2, seed=3),
        "history": History(),
        "generators": {"crops": torch.Generator().manual_seed(seed), "mix": numpy.random.default_rng(seed)},
        "config": {"lr": 0.01, "name": "first"},
        "others": {"best": BestWeights()},
        **changes,
    }
    return RunState(model, optimizer, **parts)


def go(run, steps):
    """Some steps that use every part; returns what was drawn and computed."""
    seen = []
    batches = iter(run.order)
    for _ in range(steps):
        inputs, targets = next(batches)
        inputs = inputs + 0.1 * torch.randn(inputs.shape, generator=run.generators["crops"])
        inputs = inputs * float(run.generators["mix"].normal()) + random.random() + numpy.random.normal()
        run.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run.model(inputs.float()), targets)
        run.scaler.scale(loss).backward()
        run.scaler.step(run.optimizer)
        run.scaler.update()
        run.scheduler.step()
        run.history.append(loss=loss.item())
        run.others["best"].update(run.model, -loss.item(), epoch=len(run.history))
        seen.append(loss.item())
    return seen


def snapshot(run):
    return copy.deepcopy(run.state_dict())


@pytest.fixture
def saved(tmp_path):
    """A run after two steps, its file, and what its third step gives."""
    run = make()
    go(run, 2)
    path = save_atomically(run.state_dict(), tmp_path / "run.pt")
    return path, go(run, 1), snapshot(run)


def test_a_restored_run_goes_on_as_the_first_did(saved, differences):
    path, wanted, end = saved
    other = make(seed=9)
    other.load_state_dict(load(path))
    assert go(other, 1) == wanted
    assert differences(snapshot(other), end) == []


@pytest.mark.parametrize(
    "part",
    [
        "model",
        "optimizer",
        "scheduler",
        "scaler",
        "order",
        "history",
        "others",
        "generators",
        "python",
        "numpy",
        "torch",
    ],
)
def test_no_part_can_be_left_out(saved, part, differences):
    """Each part matters: with one of them as it was in the new run, the third step or its end is another."""
    path, wanted, end = saved
    other = make(seed=9)
    random.seed(9)
    numpy.random.seed(9)
    fresh = snapshot(other)
    state = load(path)
    if part in ("python", "numpy", "torch"):
        state["rng"][part] = fresh["rng"][part]
    else:
        state[part] = fresh[part]
    other.load_state_dict(state)
    seen = go(other, 1)
    assert seen != wanted or differences(snapshot(other), end)


def test_the_state_holds_the_agreed_keys():
    run = make()
    state = run.state_dict()
    assert list(state["model"]) == list(run.model.state_dict())
    assert state["parameter_names"] == [["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]]
    assert state["classes"]["optimizer"] == "AdamW"
    assert state["config"] == {"lr": 0.01, "name": "first"}
    assert state["python"].count(".") == 2


def test_parts_may_be_left_out_everywhere(tmp_path):
    model = net()
    run = RunState(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    path = save_atomically(run.state_dict(), tmp_path / "a.pt")
    run.load_state_dict(load(path))
    assert load(path)["scheduler"] is None


@pytest.mark.parametrize(
    "schedule",
    [
        lambda o: OneCycleLR(o, 0.1, total_steps=10),
        lambda o: CosineAnnealingLR(o, 10),
        lambda o: LambdaLR(o, lambda step: 1 / (1 + step)),
        lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o),
        lambda o: torch.optim.lr_scheduler.SequentialLR(o, [StepLR(o, 1), CosineAnnealingLR(o, 5)], milestones=[2]),
        lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2, cycle_momentum=False),
    ],
    ids=["one cycle", "cosine", "lambda", "plateau", "sequential", "cyclic"],
)
def test_schedulers_save_and_load(tmp_path, schedule):
    def build():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return RunState(model, optimizer, schedule(optimizer))

    def step(run):
        run.optimizer.step()
        run.scheduler.step(*([1.0] if type(run.scheduler).__name__ == "ReduceLROnPlateau" else []))
        return run.optimizer.param_groups[0]["lr"]

    run, other = build(), build()
    for _ in range(3):
        step(run)
    other.load_state_dict(load(save_atomically(run.state_dict(), tmp_path / "a.pt")))
    assert [step(other) for _ in range(4)] == [step(run) for _ in range(4)]


# States that do not fit


@pytest.fixture
def refused(differences):
    def check(run, state, message):
        before = snapshot(run)
        with pytest.raises(CheckpointError, match=message) as info:
            run.load_state_dict(state)
        assert differences(snapshot(run), before) == []
        return str(info.value)

    return check


def test_another_architecture(saved, refused):
    text = refused(make(model=net(width=5)), load(saved[0]), "saved with another model")
    assert "0.weight (4, 2) in the file, (5, 2) in the model" in text
    deeper = nn.Sequential(*net(), nn.Linear(3, 3))
    assert "missing in the file, 2 tensors: 4.weight, 4.bias" in refused(
        make(model=deeper), load(saved[0]), "another model"
    )
    shorter = net()[:3]
    assert "not in the model, 2 tensors: 3.weight, 3.bias" in refused(
        make(model=shorter), load(saved[0]), "another model"
    )


def test_changed_optimizer_groups(saved, refused):
    def two(model):
        groups = [{"params": list(model[0].parameters())}, {"params": [*model[1].parameters(), *model[3].parameters()]}]
        return torch.optim.AdamW(groups, lr=0.01)

    text = refused(make(optimizer=two), load(saved[0]), "other parameters")
    assert "1 groups in the file, 2 here" in text
    assert "group 0: only in the file ['1.weight', '1.bias', '3.weight', '3.bias'], only here []" in text

    def frozen(model):
        return torch.optim.AdamW(list(model.parameters())[1:], lr=0.01)

    assert "only in the file ['0.weight'], only here []" in refused(make(optimizer=frozen), load(saved[0]), "group 0")

    def turned(model):
        return torch.optim.AdamW(list(model.parameters())[::-1], lr=0.01)

    text = refused(make(optimizer=turned), load(saved[0]), "the same parameters in another order, from place 0 on")
    assert "0.weight in the file, 3.bias here" in text

    loss = nn.Linear(1, 7)

    def more(model):
        return torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=0.01)

    assert "(not of the model) (7, 1)" in refused(make(optimizer=more), load(saved[0]), "only here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scheduler": None}, "scheduler: StepLR in the file, none here"),
        ({"scaler": None}, "scaler: GradScaler in the file, none here"),
        ({"history": None}, "history: History in the file, none here"),
        ({"optimizer": lambda m: torch.optim.Adam(m.parameters())}, "optimizer: AdamW in the file, Adam here"),
        (
            {"others": {"best": BestWeights(), "ema": AveragedModel(net())}},
            r"others\['ema'\]: none in the file, Averaged",
        ),
        (
            {"generators": {"mix": numpy.random.default_rng()}},
            r"generators: \['crops', 'mix'\] in the file, \['mix'\] here",
        ),
        ({"others": {"best": BestWeights(higher_is_better=False)}}, "is as it was: ValueError: the best weights"),
        (
            {"generators": {"crops": numpy.random.default_rng(), "mix": torch.Generator()}},
            "another kind of generator than Generator",
        ),
        (
            {"order": ResumableBatches((torch.zeros(6), torch.zeros(6)), 3, seed=3)},
            "another order .*: batch_size 2 in the file, 3 here",
        ),
    ],
    ids=["scheduler", "scaler", "history", "optimizer", "others", "generators", "direction", "kinds", "order"],
)
def test_other_parts(saved, changes, message, refused):
    refused(make(**changes), load(saved[0]), message)


def test_another_schedule_class_is_not_taken_for_this_one(saved, refused):
    run = make()
    run.scheduler = CosineAnnealingLR(run.optimizer, 3)
    refused(run, load(saved[0]), "scheduler: StepLR in the file, CosineAnnealingLR here")


def test_weights_alone_are_no_run(saved, refused):
    refused(make(), load(saved[0])["model"], "not the state of a run: it has no classes, config")


def test_a_failure_in_the_last_part_sets_all_back(saved, monkeypatch, refused):
    run, calls = make(seed=9), []
    go(run, 1)
    set_state = random_state.torch.set_rng_state

    def fail(state):
        calls.append(None)
        if len(calls) == 1:
            raise OSError("no generator")
        set_state(state)

    monkeypatch.setattr(random_state.torch, "set_rng_state", fail)
    refused(run, load(saved[0]), "is as it was: OSError: no generator")
    assert len(calls) == 2


def test_parts_without_state_are_refused_early():
    with pytest.raises(TypeError, match="scheduler should have state_dict"):
        make(scheduler=object())
    with pytest.raises(TypeError, match=r"others\['x'\] should have"):
        make(others={"x": 3})
    with pytest.raises(TypeError, match="should be a torch or NumPy Generator, not int"):
        make(generators=[3])


# What is said and not refused


def test_another_config_is_told(saved):
    run = make(config={"lr": 0.1, "name": "first", "new": 1})
    with pytest.warns(CheckpointWarning, match="another config") as seen:
        run.load_state_dict(load(saved[0]))
    assert len(seen) == 1
    assert "(lr: 0.01 in the file, 0.1 here; new: 'none' in the file, 1 here)" in str(seen[0].message)
    assert seen[0].filename == __file__


def test_a_scaler_of_another_machine_is_told(saved):
    run = make(scaler=torch.amp.GradScaler("cpu", enabled=False))
    with pytest.warns(CheckpointWarning, match="enabled in the file only"):
        run.load_state_dict(load(saved[0]))
    disabled = snapshot(run)
    with pytest.warns(CheckpointWarning, match="enabled in this run only"):
        make().load_state_dict(disabled)


def test_other_dtypes_are_told(saved):
    state = load(saved[0])
    state["model"] = {name: v.double() if v.is_floating_point() else v for name, v in state["model"].items()}
    with pytest.warns(CheckpointWarning, match=r"cast from torch.float64 to torch.float32"):
        make().load_state_dict(state)


def test_accelerators_that_are_not_here_are_told(saved):
    state = load(saved[0])
    state["rng"]["accelerator"], state["rng"]["accelerators"] = "tpu", [torch.zeros(16, dtype=torch.uint8)]
    with pytest.warns(CheckpointWarning, match="saved with 1 tpu device and goes on with"):
        make().load_state_dict(state)


def test_accelerator_states_are_saved_and_set_back_by_device(monkeypatch):
    """The calls, on a machine without one; the module stands for torch.cuda."""

    class Module:
        states: ClassVar = [torch.tensor([1], dtype=torch.uint8), torch.tensor([2], dtype=torch.uint8)]

        @classmethod
        def get_rng_state_all(cls):
            return [state.clone() for state in cls.states]

        @classmethod
        def set_rng_state_all(cls, states):
            raise AssertionError("would change devices that the file does not know")

        @classmethod
        def set_rng_state(cls, state, device):
            cls.states[device] = state

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: {"cuda": Module}[kind])
    state = random_state.global_state()
    assert (state["accelerator"], len(state["accelerators"])) == ("cuda", 2)
    Module.states = [torch.zeros(1, dtype=torch.uint8)] * 2
    random_state.set_global_state(state)
    assert [s.item() for s in Module.states] == [1, 2]
    Module.states = [torch.zeros(1, dtype=torch.uint8)]
    with pytest.warns(CheckpointWarning, match="2 cuda devices and goes on with 1 cuda device: random numbers"):
        random_state.set_global_state(state)
    assert [s.item() for s in Module.states] == [1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_dropout_on_a_gpu_resumes():
    state = random_state.global_state()
    wanted = torch.rand(4, device="cuda")
    random_state.set_global_state(state)
    assert torch.equal(torch.rand(4, device="cuda"), wanted)


def test_a_file_loaded_to_another_device_still_restores_generators(saved):
    """map_location moves the states of generators, too; they have to come back to the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().load_state_dict(load(saved[0], map_location=torch.device("cpu")))


# Wrapped models


@pytest.mark.parametrize(
    "wrap", [Wrapped, torch.compile, lambda m: torch.compile(Wrapped(m))], ids=["ddp", "compile", "both"]
)
def test_runs_change_their_wrapper(saved, wrap, differences):
    bare, wrapped = make(seed=9), make(seed=9, model=wrap(net()))
    wrapped.load_state_dict(load(saved[0]))
    state = snapshot(wrapped)
    assert list(state["model"]) == list(bare.state_dict()["model"])
    assert state["parameter_names"] == bare.state_dict()["parameter_names"]
    bare.load_state_dict(state)
    assert differences(snapshot(bare)["model"], load(saved[0])["model"]) == []


def test_an_averaged_model_keeps_its_count():
    model = AveragedModel(net())
    model.update_parameters(net())
    run = make(model=model)
    state = snapshot(run)
    assert state["model"]["n_averaged"] == 1
    model.update_parameters(net())
    run.load_state_dict(state)
    assert model.n_averaged == 1


def test_an_average_beside_the_model_is_restored(differences):
    model = net()
    average = AveragedModel(model)
    run = make(model=model, others={"ema": average})
    average.update_parameters(net())
    state = snapshot(run)
    average.update_parameters(net())
    run.load_state_dict(state)
    assert differences(snapshot(run)["others"], state["others"]) == []
    assert average.n_averaged == 1


# The states of generators


@pytest.mark.parametrize(
    "bits",
    [numpy.random.PCG64, numpy.random.MT19937, numpy.random.Philox, numpy.random.SFC64],
    ids=lambda b: b.__name__,
)
def test_numpy_generators_of_every_kind(tmp_path, bits):
    generator = numpy.random.Generator(bits(1))
    generator.integers(7, dtype=numpy.uint32)  # leaves half a word
    path = save_atomically({"g": random_state.generator_state(generator)}, tmp_path / "g.pt")
    wanted = generator.integers(1 << 30, size=5, dtype=numpy.uint32).tolist()
    random_state.set_generator_state(generator, load(path)["g"])
    assert generator.integers(1 << 30, size=5, dtype=numpy.uint32).tolist() == wanted


def test_pending_gaussians_are_restored(tmp_path):
    random.seed(1)
    numpy.random.seed(1)
    random.gauss(0, 1)
    numpy.random.normal()
    path = save_atomically(random_state.global_state(), tmp_path / "g.pt")
    wanted = random.gauss(0, 1), numpy.random.normal(), torch.randn(3).tolist()
    random_state.set_global_state(load(path))
    assert (random.gauss(0, 1), numpy.random.normal(), torch.randn(3).tolist()) == wanted


def test_saving_draws_nothing(differences):
    run = make()
    before = snapshot(run)
    run.state_dict()
    assert differences(snapshot(run), before) == []

"""What the catalogue says of checkpoints, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import copy
import io
import pickle
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from torch.optim import SGD, Adam, lr_scheduler
from torch.optim.swa_utils import AveragedModel

from course.faults import FAULTS


def refuses(call: Callable[[], object], kind: type[Exception], words: str = "") -> bool:
    try:
        call()
    except kind as error:
        return words in str(error)
    return False


def file_of(state: object, device: str | None = None) -> io.BytesIO:
    file = io.BytesIO()
    if device is None:
        torch.save(state, file)
    else:
        with mock.patch.object(torch.serialization, "location_tag", return_value=device):
            torch.save(state, file)
    file.seek(0)
    return file


def loads(state: object) -> bool:
    return not refuses(lambda: torch.load(file_of(state), weights_only=True), pickle.UnpicklingError)


def without_cuda(call: Callable[[], object]) -> object:
    with mock.patch.object(torch.cuda, "is_available", return_value=False):
        return call()


def trained(optimizer_class: type[torch.optim.Optimizer] = Adam, **options: float) -> tuple[nn.Module, object]:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = optimizer_class(model.parameters(), **({"lr": 0.1} | options))
    step(model, optimizer)
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.tensor([[1.0, 2.0]])).square().sum().backward()
    optimizer.step()


def keys_of(model: nn.Module) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(model.state_dict())


def consumed() -> bool:
    state = nn.DataParallel(nn.Linear(1, 1)).state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    return list(state) == ["weight", "bias"]


def compiled_in_place() -> list[str]:
    model = nn.Linear(1, 1)
    model.compile()
    return keys_of(model)


def nothing_loads() -> bool:
    model = nn.Linear(2, 2)
    before = model.weight.clone()
    result = model.load_state_dict(nn.DataParallel(nn.Linear(2, 2)).state_dict(), strict=False)
    return (
        torch.equal(model.weight, before)
        and result.missing_keys == ["weight", "bias"]
        and result.unexpected_keys == ["module.weight", "module.bias"]
    )


def follows(keep: Callable[[nn.Module], dict[str, torch.Tensor]]) -> bool:
    model = nn.Linear(1, 1)
    kept, before = keep(model), model.weight.item()
    with torch.no_grad():
        model.weight.add_(1)
    return kept["weight"].item() != before


def optimizer_writes_into_what_it_loads() -> bool:
    model, optimizer = trained()
    state = copy.deepcopy(optimizer.state_dict())
    fresh = Adam(model.parameters(), lr=0.1)
    fresh.load_state_dict(state)
    before = state["state"][0]["exp_avg"].clone()
    step(model, fresh)
    return not torch.equal(state["state"][0]["exp_avg"], before)


def rate_restored(build_last: bool) -> float:
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=1)
    optimizer.step()
    scheduler.step()
    fresh = SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    if build_last:
        fresh.load_state_dict(optimizer.state_dict())
        fresh_scheduler = lr_scheduler.LambdaLR(fresh, lambda count: 0.1**count)
    else:
        fresh_scheduler = lr_scheduler.StepLR(fresh, step_size=1)
        fresh.load_state_dict(optimizer.state_dict())
        fresh_scheduler.load_state_dict(scheduler.state_dict())
    return round(fresh.param_groups[0]["lr"], 6)


def swapped_in_silence() -> bool:
    model, optimizer = trained()
    other = Adam(list(model.parameters())[::-1], lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    return other.state[model.weight]["exp_avg"].shape == model.bias.shape


def steps_of_a_fresh_adam() -> bool:
    """After many steps with small gradients behind large ones, only a fresh Adam takes a step of the size of lr."""
    w = nn.Parameter(torch.zeros(1))
    optimizer = Adam([w], lr=0.1)
    moves = []
    for gradient, restart in ((1.0, False), (0.001, False), (0.001, True)):
        if restart:
            optimizer = Adam([w], lr=0.1)
        before = w.item()
        w.grad = torch.tensor([gradient])
        optimizer.step()
        moves.append(abs(w.item() - before))
    return round(moves[2], 4) == 0.1 and moves[1] < 0.09


def partly_copied() -> bool:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
    state = {name: torch.full_like(tensor, 7) for name, tensor in model.state_dict().items()} | {
        "1.weight": torch.ones(10, 2)
    }
    refused = refuses(lambda: model.load_state_dict(state, strict=False), RuntimeError, "size mismatch")
    return refused and bool((model[0].weight == 7).all())


def only_torch_is_seeded() -> bool:
    drawn = []
    for _ in range(2):
        torch.manual_seed(0)
        drawn.append((torch.rand(1).item(), random.random(), np.random.rand()))
    return drawn[0][0] == drawn[1][0] and drawn[0][1:] != drawn[1][1:]


def sums_by_threads() -> int:
    x = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0))
    threads, sums = torch.get_num_threads(), set()
    try:
        for count in range(1, 9):
            torch.set_num_threads(count)
            sums.add(x.sum().item())
    finally:
        torch.set_num_threads(threads)
    return len(sums)


def deterministic(call: Callable[[], object]) -> bool:
    """True when the operation raises because it has no deterministic implementation."""
    torch.use_deterministic_algorithms(True)
    try:
        return refuses(call, RuntimeError, "does not have a deterministic implementation")
    finally:
        torch.use_deterministic_algorithms(False)


FACTS: dict[str, list[Callable[[], bool]]] = {
    "cuda-checkpoint-on-cpu": [
        lambda: without_cuda(
            lambda: refuses(lambda: torch.load(file_of({"w": torch.ones(1)}, "cuda:0")), RuntimeError, "map_location")
        ),
        lambda: torch.load(file_of({"w": torch.ones(1)}, "cuda:3"), map_location="cpu")["w"].device.type == "cpu",
    ],
    "wrapper-prefix": [
        lambda: keys_of(nn.DataParallel(nn.Linear(1, 1))) == ["module.weight", "module.bias"],
        lambda: keys_of(AveragedModel(nn.Linear(1, 1))) == ["n_averaged", "module.weight", "module.bias"],
        lambda: keys_of(torch.compile(nn.Linear(1, 1))) == ["_orig_mod.weight", "_orig_mod.bias"],
        lambda: compiled_in_place() == ["weight", "bias"],
        consumed,
    ],
    "nothing-loaded": [nothing_loads],
    "weights-only-refused": [
        lambda: not loads({"best": np.float64(0.9)}) and loads({"best": float(np.float64(0.9))}),
        lambda: not loads({"folder": Path("runs")}) and loads({"folder": str(Path("runs"))}),
        lambda: not loads(nn.Linear(1, 1)) and loads(nn.Linear(1, 1).state_dict()),
        lambda: loads({"a": [1, 2.0, "x", True, None, (1, 2)], "b": {"w": torch.ones(2)}}),
    ],
    "state-dict-aliased": [
        lambda: follows(lambda model: model.state_dict()),
        lambda: follows(lambda model: dict(model.state_dict())) and follows(lambda model: model.state_dict().copy()),
        lambda: not follows(lambda model: copy.deepcopy(model.state_dict())),
        optimizer_writes_into_what_it_loads,
    ],
    "optimizer-not-restored": [steps_of_a_fresh_adam],
    "scheduler-not-restored": [
        lambda: rate_restored(build_last=False) == 0.01,
        lambda: rate_restored(build_last=True) != 0.01,
    ],
    "optimizer-groups-mismatch": [
        lambda: refuses(
            lambda: Adam([nn.Parameter(torch.ones(1))]).load_state_dict(trained()[1].state_dict()), ValueError
        ),
        swapped_in_silence,
    ],
    "shape-mismatch-on-load": [partly_copied],
    "seed-incomplete": [only_torch_is_seeded],
    "nondeterministic-kernel": [
        lambda: sums_by_threads() > 1,
        lambda: deterministic(lambda: torch.zeros(5).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))),
        lambda: (
            not deterministic(
                lambda: torch.zeros(5).index_put_((torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
            )
        ),
    ],
}


def test_every_fault_of_the_checkpoint_lesson_is_tried():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if entry.lesson == "07"}


def test_every_fault_of_the_checkpoint_lesson_is_explained():
    for fault_id in FACTS:
        entry = FAULTS[fault_id]
        assert entry.why, fault_id
        assert entry.fix, fault_id
        assert entry.section, fault_id


@pytest.mark.parametrize("fault_id", FACTS)
def test_facts(fault_id):
    failed = [number for number, fact in enumerate(FACTS[fault_id], start=1) if not fact()]
    assert failed == []

"""Sound training setups raise no alarm, and are left as they were."""

from __future__ import annotations

import itertools

import pytest
import torch
from doctor.fingerprint import differences, fingerprint
from doctor.score import alarms, surroundings
from doctor.zoo import ZOO


def test_the_zoo_is_large() -> None:
    assert len(ZOO) >= 30


@pytest.mark.parametrize("name", ZOO)
def test_sound_setup_is_silent_and_left_alone(name: str) -> None:
    with surroundings():
        arguments = ZOO[name]()
        before = fingerprint(arguments)
        found = alarms(arguments)
        after = fingerprint(arguments)
    assert not found, "\n".join(f"{finding.fault}: {finding.evidence}" for finding in found)
    assert not differences(before, after)


@pytest.mark.parametrize("name", ["q_learning", "warmup_from_zero", "scaler_enabled", "average_of_weights"])
def test_fingerprint_sees_a_step(name: str) -> None:
    with surroundings():
        arguments = ZOO[name]()
        before = {key: fingerprint(value) for key, value in arguments.items()}
        arguments["step"](next(iter(arguments["loader"])))
        changed = {key: differences(before[key], fingerprint(value)) for key, value in arguments.items()}
    assert any("[state]" in line for line in changed["optimizer"])
    assert any("[generator]" in line for line in changed["loader"])
    if name == "warmup_from_zero":  # the rate is zero, so no parameter moves, but gradients are there
        assert any("[last_epoch]" in line for line in changed["scheduler"])
        assert all(".grad" in line for line in changed["model"] if "_parameters" in line)
    else:
        assert any("[weight]:" in line for line in changed["model"])
    if name == "q_learning":
        assert any("<count>[steps]" in line for line in changed["step"])


def test_fingerprint_sees_generators_modes_and_hooks() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    generator = torch.Generator()
    before = fingerprint([model, generator])
    assert not differences(before, fingerprint([model, generator]))
    model.eval()
    generator.manual_seed(3)
    model[0].register_forward_hook(lambda *_: None)
    torch.rand(1)
    changed = "\n".join(differences(before, fingerprint([model, generator])))
    for part in ("training", "[1]:", "_forward_hooks", "torch.random"):
        assert part in changed


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("name", ["cnn_with_batchnorm_and_dropout", "teacher_that_follows", "warmup_then_cosine"])
@pytest.mark.parametrize("call", [1, 3, 10])
def test_left_alone_when_a_forward_pass_raises(name: str, call: int, error: type[BaseException]) -> None:
    with surroundings():
        arguments = ZOO[name]()
        calls = itertools.count(1)  # which is not put back, unlike a number

        def sabotage(module: torch.nn.Module, inputs: tuple) -> None:
            if next(calls) >= call:
                raise error("from a hook")

        layer = next(module for module in arguments["model"].modules() if isinstance(module, torch.nn.Linear))
        layer.register_forward_pre_hook(sabotage)
        before = fingerprint(arguments)
        try:
            alarms(arguments)
        except KeyboardInterrupt:
            assert error is KeyboardInterrupt
        else:
            assert error is not KeyboardInterrupt
        changed = differences(before, fingerprint(arguments))
    assert next(calls) > call
    assert not changed

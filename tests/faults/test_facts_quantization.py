"""What the catalogue says of quantization, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

from course.deployment import int8
from course.faults import FAULTS

ROWS = torch.linspace(-1, 1, 32).view(8, 4)


def message(work: Callable[[], object], kind: type[Exception]) -> str:
    """What an error of this class says; empty without one."""
    try:
        int8.deprecated(work)
    except kind as error:
        return str(error)
    return ""


def eager_static(model: nn.Module) -> nn.Module:
    def convert() -> nn.Module:
        old = torch.ao.quantization
        model.eval().qconfig = old.get_default_qconfig("x86")
        prepared = old.prepare(model)
        prepared(ROWS)
        return old.convert(prepared)

    return int8.deprecated(convert)


def wrapped() -> nn.Module:
    return eager_static(torch.ao.quantization.QuantWrapper(nn.Sequential(nn.Linear(4, 2))))


class Residual(nn.Module):
    def __init__(self, module: bool) -> None:
        super().__init__()
        old = torch.ao.quantization
        self.enter, self.layer, self.leave = old.QuantStub(), nn.Linear(4, 4), old.DeQuantStub()
        self.add = torch.ao.nn.quantized.FloatFunctional() if module else None

    def forward(self, x):
        x = self.enter(x)
        y = self.layer(x)
        return self.leave(self.add.add(y, x) if self.add is not None else y + x)


def after_quantize_dynamic() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)).eval()
    return int8.deprecated(lambda: torch.ao.quantization.quantize_dynamic(model, {nn.Linear, nn.Conv2d}))


def small() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    return model.eval().requires_grad_(False)


def warns_without_calibration() -> bool:
    with int8.quiet(), torch.no_grad():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        prepared = prepare_pt2e(int8.exported(small()), int8.x86_quantizer())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        convert_pt2e(prepared)
    return any("must run observer before calling calculate_qparams" in str(w.message) for w in seen)


def apart(calibration: torch.Tensor | None) -> float:
    """Largest difference of the converted network from the float one."""
    images = torch.linspace(-0.2, 0.3, 4 * 3 * 32 * 32).view(4, 3, 32, 32).sin()
    with torch.no_grad():
        return (int8.pt2e_int8(small(), calibration)(images) - small()(images)).abs().max().item()


def codes_used(high: float) -> int:
    step = (high + 1) / 255
    x = torch.linspace(-1, 1, 2001)
    return torch.fake_quantize_per_tensor_affine(x, step, round(1 / step), 0, 255).unique().numel()


def second_row(scales: list[float]) -> torch.Tensor:
    weight, zeros = torch.tensor([[10.0, -10.0], [0.03, 0.03]]), torch.zeros(2, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, torch.tensor(scales), zeros, 0, -127, 127)[1]


def quantized_by_torchao() -> tuple[object, list[str]]:
    with int8.quiet():
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        model = copy.deepcopy(small())
        returned = quantize_(model, Int8WeightOnlyConfig())
    names = [
        n for n, m in model.named_modules() if "Int8" in type(getattr(getattr(m, "weight", 0), "data", 0)).__name__
    ]
    return returned, names


def fuse(train: bool) -> str:
    pair = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).train(train)
    return message(lambda: torch.ao.quantization.fuse_modules(pair, [["0", "1"]]), AssertionError)


def load(strict: bool) -> object:
    return nn.Linear(4, 2).load_state_dict(int8.deprecated(wrapped().module[0].state_dict), strict=strict)


FACTS: dict[str, list[Callable[[], bool]]] = {
    "quantization-skips-layer": [
        lambda: type(after_quantize_dynamic()[0]) is nn.Conv2d,
        lambda: type(after_quantize_dynamic()[2]) is not nn.Linear,
        lambda: quantized_by_torchao()[1] == ["4"],
        lambda: int8.int8_layers(int8.pt2e_int8(small(), torch.ones(2, 3, 32, 32))) == ("0", "4"),
    ],
    "quantization-uncalibrated": [
        warns_without_calibration,
        lambda: apart(None) > 3 * apart(torch.linspace(-0.2, 0.3, 12288).view(4, 3, 32, 32).sin()),
    ],
    "quantization-outlier": [
        lambda: codes_used(1.0) > 250,
        lambda: codes_used(100.0) < 10,
    ],
    "quantization-per-tensor-weights": [
        lambda: second_row([10 / 127, 10 / 127]).tolist() == [0, 0],
        lambda: torch.allclose(second_row([10 / 127, 0.03 / 127]), torch.full((2,), 0.03)),
    ],
    "quantization-missing-stub": [
        lambda: (
            "'CPU' backend" in message(lambda: eager_static(nn.Sequential(nn.Linear(4, 2)))(ROWS), NotImplementedError)
        ),
        lambda: wrapped()(ROWS).shape == (8, 2),
    ],
    "quantization-functional-op": [
        lambda: "aten::add.out" in message(lambda: eager_static(Residual(False))(ROWS), NotImplementedError),
        lambda: int8.deprecated(lambda: eager_static(Residual(True))(ROWS)).shape == (8, 4),
    ],
    "fuse-in-train-mode": [
        lambda: "Fusion only for eval" in fuse(train=True),
        lambda: fuse(train=False) == "",
        lambda: (
            message(lambda: nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), AssertionError) != ""
        ),
    ],
    "quantized-state-dict": [
        lambda: "Missing key(s)" in message(lambda: load(strict=True), RuntimeError),
        lambda: load(strict=False).missing_keys == ["weight", "bias"],
        lambda: int8.deprecated(lambda: wrapped().load_state_dict(wrapped().state_dict())).missing_keys == [],
    ],
    "inplace-api-returns-none": [
        lambda: quantized_by_torchao()[0] is None,
    ],
}


def test_every_fault_of_the_lesson_is_tried():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if entry.lesson == "13"}


@pytest.mark.parametrize("fault_id", FACTS)
def test_every_fault_of_the_lesson_is_explained(fault_id):
    entry = FAULTS[fault_id]
    assert entry.why
    assert entry.fix
    assert entry.section


@pytest.mark.parametrize("fault_id", FACTS)
def test_facts(fault_id):
    failed = [number for number, fact in enumerate(FACTS[fault_id], start=1) if not fact()]
    assert failed == []

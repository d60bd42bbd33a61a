"""What the catalogue says of exported models, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, export

from course.deployment.parity import TrainingMode, parity
from course.deployment.runtime import InputMismatch, OnnxModel, external_files
from course.faults import FAULTS

pytestmark = pytest.mark.slow
TOPIC = {entry.id for entry in FAULTS.values() if entry.topic == "export"}


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x - 1
        return x + 1


class Cond(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x - 1, lambda x: x + 1, (x,))


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def traced(model: nn.Module, example: torch.Tensor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(model, example, check_trace=False)


def onnx_file(path, model, **options):
    torch.onnx.export(model, (torch.zeros(2, 4),), path, verbose=False, **options)
    return path


def test_the_topic_is_explained():
    assert {
        "trace-loses-branch",
        "trace-in-train-mode",
        "static-shape-export",
        "runtime-input-dtype",
        "external-weights-missing",
        "opset-not-honoured",
    } == TOPIC
    for fault_id in TOPIC:
        entry = FAULTS[fault_id]
        assert entry.why, fault_id
        assert entry.fix, fault_id
        assert entry.section, fault_id


def test_trace_loses_branch():
    x = torch.ones(3)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        lost = torch.jit.trace(Branching(), x, check_trace=False)
    assert {torch.jit.TracerWarning, FutureWarning} <= {warning.category for warning in heard}
    assert torch.equal(lost(x), Branching()(x))
    assert not torch.equal(lost(-x), Branching()(-x))
    with pytest.raises(RuntimeError, match="data-dependent"):
        export(Branching(), (x,))
    kept = export(Cond(), (x,)).module()
    assert all(torch.equal(kept(value), Branching()(value)) for value in (x, -x))


def test_trace_in_train_mode():
    model, x = nn.Dropout(0.5).train(), torch.ones(1, 1000)
    baked = traced(model, x).eval()
    assert not torch.equal(baked(x), x)
    program = export(model, (x,)).module()
    assert not torch.equal(program(x), x)
    with pytest.raises(NotImplementedError):
        program.eval()
    with pytest.raises(TrainingMode):
        parity(model, program, x)
    model.eval()
    assert parity(model, export(model, (x,)), x)


def test_static_shape_export():
    model = small()
    for shapes, example in ((None, torch.zeros(2, 4)), (({0: Dim.AUTO},), torch.zeros(1, 4))):
        with pytest.raises(AssertionError, match="Guard failed"):
            export(model, (example,), dynamic_shapes=shapes).module()(torch.zeros(7, 4))
    with pytest.raises(RuntimeError, match="Constraints violated"):
        export(model, (torch.zeros(1, 4),), dynamic_shapes=({0: Dim("batch")},))
    program = export(model, (torch.zeros(2, 4),), dynamic_shapes=({0: Dim("batch")},))
    assert parity(model, program, [(torch.randn(n, 4),) for n in (1, 2, 7, 64)])


def test_runtime_input_dtype(tmp_path):
    run = OnnxModel(onnx_file(tmp_path / "m.onnx", small(), dynamic_shapes=({0: "batch"},), external_data=False))
    (entry,) = run._session.get_inputs()
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    with pytest.raises(InvalidArgument, match="Unexpected input data type"):
        run._session.run(None, {entry.name: np.zeros((2, 4))})
    with pytest.raises(InvalidArgument, match="invalid dimensions"):
        run._session.run(None, {entry.name: np.zeros((2, 5), np.float32)})
    with pytest.raises(InputMismatch):
        run(torch.zeros(2, 4, dtype=torch.float64))


def test_external_weights_missing(tmp_path):
    path = onnx_file(tmp_path / "m.onnx", small())
    assert external_files(path) == ["m.onnx.data"] or (tmp_path / "m.onnx.data").exists()
    big = tmp_path / "big.onnx"
    torch.onnx.export(nn.Linear(64, 64).eval(), (torch.zeros(1, 64),), big, verbose=False)
    assert external_files(big) == ["big.onnx.data"]
    (tmp_path / "alone").mkdir()
    with pytest.raises(FileNotFoundError, match=r"big\.onnx\.data"):
        OnnxModel(shutil.copy(big, tmp_path / "alone"))
    torch.onnx.export(nn.Linear(64, 64).eval(), (torch.zeros(1, 64),), big, verbose=False, external_data=False)
    assert OnnxModel(shutil.copy(big, tmp_path / "alone"))(torch.zeros(1, 64)).shape == (1, 64)


@pytest.mark.parametrize(("asked", "given"), [(11, 18), (18, 18), (20, 20)])
def test_opset_not_honoured(tmp_path, asked, given):
    import onnx

    path = onnx_file(tmp_path / "m.onnx", small(), opset_version=asked)
    assert [entry.version for entry in onnx.load(path).opset_import if entry.domain == ""] == [given]

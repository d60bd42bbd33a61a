"""OnnxModel: an ONNX file called like a module, and what it refuses."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from course.deployment.runtime import InputMismatch, OnnxModel, external_files


def test_calls_agree_with_the_module(exported):
    model, path = exported
    x = torch.randn(5, 4)
    run = OnnxModel(path)
    torch.testing.assert_close(run(x), model(x).detach())
    assert run.inputs == [("x", torch.float32, ("batch", 4))]
    assert run.outputs == ["y"]


def test_views_and_tensors_that_require_grad_may_come(exported):
    model, path = exported
    x = torch.randn(4, 5, requires_grad=True).t()
    torch.testing.assert_close(OnnxModel(path)(x), model(x).detach())


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((torch.zeros(2, 5),), r"x is float32 \(2, 5\); the model was exported for float32 \(batch, 4\)"),
        ((torch.zeros(4),), r"x is float32 \(4,\)"),
        ((torch.zeros(2, 4, dtype=torch.float64),), "x is float64"),
        (([[0.0] * 4],), "x should be a tensor, not list"),
        ((), "0 inputs were given, the model takes 1: x"),
        ((torch.zeros(2, 4), torch.zeros(2, 4)), "2 inputs were given"),
    ],
    ids=["size", "axes", "dtype", "list", "none", "two"],
)
def test_other_inputs_are_refused(exported, inputs, message):
    with pytest.raises(InputMismatch, match=message):
        OnnxModel(exported[1])(*inputs)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file absent\.onnx"):
        OnnxModel(tmp_path / "absent.onnx")


def test_weights_that_were_left_behind_are_named(tmp_path):
    model = nn.Linear(64, 64).eval()
    path = tmp_path / "big.onnx"
    torch.onnx.export(model, (torch.zeros(1, 64),), path, dynamo=True, verbose=False, external_data=True)
    assert external_files(path) == ["big.onnx.data"]
    x = torch.randn(1, 64)
    torch.testing.assert_close(OnnxModel(path)(x), model(x).detach())
    (tmp_path / "alone").mkdir()
    alone = shutil.copy(path, tmp_path / "alone")
    with pytest.raises(FileNotFoundError, match=r"keeps its weights in big\.onnx\.data, which is not beside it"):
        OnnxModel(alone)


def test_a_single_file_has_no_others(exported):
    assert external_files(exported[1]) == []

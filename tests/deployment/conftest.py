"""A tiny model and its ONNX file, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn


class TwoOutputs(nn.Module):
    """Sum and product with a learned vector: two float outputs and an integer one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, x):
        return {"sum": x + self.weight, "parts": (x * self.weight, x.argmax(dim=1))}


@pytest.fixture
def two_outputs() -> nn.Module:
    return TwoOutputs().eval()


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> tuple[nn.Module, Path]:
    """A small network in evaluation mode and its ONNX file with a dynamic batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    torch.onnx.export(
        model,
        (torch.zeros(2, 4),),
        path,
        dynamo=True,
        verbose=False,
        dynamic_shapes={"input": {0: "batch"}},
        input_names=["x"],
        output_names=["y"],
        external_data=False,
    )
    return model, path

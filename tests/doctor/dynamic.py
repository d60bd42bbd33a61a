"""Setups with a training step that is written as a list of what it does, for the tests of the dynamic families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from doctor.made import blobs, loader
from doctor.score import surroundings
from torch import nn

from course.doctor import examine


def net(features: int = 8, classes: int = 4, width: int = 24) -> nn.Sequential:
    """A small classifier."""
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, classes))


def setup(step: Callable[..., Any], model: nn.Module, **more: Any) -> dict[str, Any]:
    """Arguments for examine() with a step over the blobs."""
    return {"model": model, "loader": more.pop("loader", None) or loader(*blobs()), "step": step, **more}


def seen(arguments: dict[str, Any]) -> list[str]:
    """The faults that examine() reports as errors or warnings; no family may fail.

    Where the budget was spent, as on a busy machine that leaves out what there is no time for, a second examination
    gets ten times as long.
    """
    with surroundings():
        for budget in (10.0, 100.0):
            report = examine(**arguments, budget_s=budget)
            if report.seconds < 0.5 * budget:
                break
    failed = [line for line in report.not_examined if line.startswith("family ")]
    assert not failed, failed
    return [finding.fault for finding in report.findings if finding.severity != "note"]


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross-entropy of a batch of (inputs, classes)."""
    return F.cross_entropy(model(batch[0]), batch[1])

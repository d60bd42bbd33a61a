"""Compiled models: faults and their sound neighbours."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from doctor.dynamic import net, seen
from doctor.made import blobs, loader
from torch import nn


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, between=lambda self, h: h):
        super().__init__()
        self.body, self.head, self.between, self.count = nn.Linear(8, 24), nn.Linear(24, 4), between, 0

    def forward(self, x):
        return self.head(self.between(self, self.body(x).relu()))


def breaks(_, h):
    torch._dynamo.graph_break()
    return h


def prints(_, h):
    print(end="")
    return h


def branches(_, h):
    return h / 10 if h.sum() > 1e6 else h


def loops(_, h):
    while h.abs().max() > 1e6:
        h = h / 2
    return h


def counts(self, h):
    self.count += 1
    return h + 0.0 * self.count


def chooses(_, h):
    return torch.where(h.sum() > 1e6, h / 10, h) if h.shape[0] > 1 else h


def standard(model):
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    return {"model": model, "loader": loader(*blobs()), "loss_fn": nn.CrossEntropyLoss(), "optimizer": opt}


@pytest.mark.parametrize(
    ("between", "wanted"),
    [
        (breaks, ["graph-break"]),
        (prints, ["graph-break"]),
        (branches, ["data-dependent-branch"]),
        (loops, ["data-dependent-branch"]),
        (counts, ["recompiles"]),
        (chooses, []),
        (lambda self, h: F.dropout(h, 0.1, self.training), []),
    ],
)
def test_what_a_compiled_model_becomes(between, wanted):
    assert seen(standard(torch.compile(Net(between), backend="eager"))) == wanted


def test_compiled_in_place():
    model = Net(prints)
    model.compile(backend="eager")
    assert seen(standard(model)) == ["graph-break"]


def test_a_model_that_is_not_compiled_may_print():
    assert seen(standard(Net(prints))) == []


def test_last_short_batch_is_sound():
    arguments = standard(torch.compile(net(), backend="eager"))
    arguments["loader"] = loader(*blobs(), batch_size=24)
    assert seen(arguments) == []


def reads(self, h):
    self.largest = h.max().item()
    return h


def test_a_value_read_inside_forward_breaks_the_graph():
    model = torch.compile(Net(reads), backend="eager")
    arguments = {
        "model": model,
        "loader": loader(*blobs()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }
    assert seen(arguments) == ["graph-break"]


def test_a_hook_whose_list_the_step_clears_is_sound():
    inner, outputs = Net(), []
    inner.body.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    model = torch.compile(inner, backend="eager")
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(batch):
        outputs.clear()
        opt.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1]) + 1e-3 * sum(output.abs().mean() for output in outputs)
        loss.backward()
        opt.step()
        return loss.item()

    assert seen({"model": model, "loader": loader(*blobs()), "step": step, "optimizer": opt}) == []

"""Training and evaluation mode: faults and their sound neighbours."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from doctor.dynamic import loss_of, seen, setup
from doctor.made import blobs
from torch import nn


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def net(kind="dropout"):
    between = nn.Dropout(0.3) if kind == "dropout" else nn.BatchNorm1d(24)
    return nn.Sequential(nn.Linear(8, 24), between, nn.ReLU(), nn.Linear(24, 4))


def trained(model, evaluate=None, *, train=True, **more):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(batch):
        if train:
            model.train()
        loss = loss_of(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()

    return setup(step, model, optimizer=opt, evaluate=evaluate, **more)


def evaluation(model, *, off, back, graphs=False):
    x, y = blobs()

    def evaluate():
        if off:
            model.eval()
        with contextlib.nullcontext() if graphs else torch.no_grad():
            right = (model(x).argmax(1) == y).float().mean().item()
        if back:
            model.train()
        return right

    return evaluate


@pytest.mark.parametrize("kind", ["dropout", "norm"])
@pytest.mark.parametrize("graphs", [False, True])
def test_eval_mode_missing(kind, graphs):
    model = net(kind)
    assert seen(trained(model, evaluation(model, off=False, back=False, graphs=graphs))) == ["eval-mode-missing"]
    model = net(kind)
    assert seen(trained(model, evaluation(model, off=True, back=True, graphs=graphs))) == []


def test_only_a_part_is_switched():
    model = nn.ModuleDict({"a": net(), "b": nn.Linear(4, 4)})
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    x, y = blobs()

    def forward(x):
        return model["b"](model["a"](x))

    def step(batch):
        model.train()
        loss = F.cross_entropy(forward(batch[0]), batch[1])
        opt.zero_grad()
        loss.backward()
        opt.step()

    def evaluate(parts=("b",)):
        for part in parts:
            model[part].eval()
        with torch.no_grad():
            return (forward(x).argmax(1) == y).float().mean().item()

    assert seen(setup(step, model, optimizer=opt, evaluate=evaluate)) == ["eval-mode-missing"]
    assert seen(setup(step, model, optimizer=opt, evaluate=lambda: evaluate(("a", "b")))) == []


@pytest.mark.parametrize("kind", ["dropout", "norm"])
def test_train_mode_not_restored(kind):
    model = net(kind)
    arguments = trained(model, evaluation(model, off=True, back=False), train=False)
    assert seen(arguments) == ["train-mode-not-restored"]
    model = net(kind)
    assert seen(trained(model, evaluation(model, off=True, back=False), train=True)) == []
    model = net(kind)
    assert seen(trained(model, evaluation(model, off=True, back=True), train=False)) == []


def test_a_model_without_modes_is_sound():
    model = nn.Sequential(nn.Linear(8, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 4))
    assert seen(trained(model, evaluation(model, off=False, back=False), train=False)) == []
    assert seen(trained(model, evaluation(model, off=True, back=False), train=False)) == []


def test_monte_carlo_dropout_is_sound():
    model = net()
    x, y = blobs()

    def evaluate():
        model.eval()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.train()
        with torch.no_grad():
            mean = torch.stack([model(x).softmax(1) for _ in range(4)]).mean(0)
        model.train()
        return (mean.argmax(1) == y).float().mean().item()

    assert seen(trained(model, evaluate)) == []


class Functional(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.first, self.last, self.drop = nn.Linear(8, 24), nn.Linear(24, 4), drop

    def forward(self, x):
        return self.last(self.drop(self, self.first(x).relu()))


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (lambda m, h: F.dropout(h, 0.3), lambda m, h: F.dropout(h, 0.3, m.training)),
        (lambda m, h: torch.dropout(h, 0.3, True), lambda m, h: torch.dropout(h, 0.3, m.training)),
        (lambda m, h: F.alpha_dropout(h, 0.3, training=True), lambda m, h: F.alpha_dropout(h, 0.3, m.training)),
        (lambda m, h: nn.Dropout(0.3)(h), lambda m, h: h),
    ],
)
def test_functional_dropout(bad, good):
    assert seen(trained(Functional(bad)))[:1] == ["functional-dropout-ignores-eval"]
    assert seen(trained(Functional(good))) == []


class Frozen(nn.Module):
    def __init__(self, norm, keep):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 24), norm(24), nn.ReLU())
        self.head, self.keep = nn.Linear(24, 4), keep
        self.trunk.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if self.keep:
            self.trunk.eval()
        return self

    def forward(self, x):
        return self.head(self.trunk(x))


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d, lambda n: nn.SyncBatchNorm(n) if False else nn.BatchNorm1d(n, momentum=0.01)]
)
def test_frozen_batchnorm(norm):
    def arguments(keep):
        model = Frozen(norm, keep)
        opt = torch.optim.SGD(model.head.parameters(), 0.1)

        def step(batch):
            model.train()
            loss = loss_of(model, batch)
            opt.zero_grad()
            loss.backward()
            opt.step()

        return setup(step, model, optimizer=opt)

    assert seen(arguments(False)) == ["frozen-batchnorm-drifts"]
    assert seen(arguments(True)) == []


def test_trained_batchnorm_and_frozen_layernorm_are_sound():
    model = net("norm")
    model[0].requires_grad_(False)
    assert seen(trained(model)) == []
    model = Frozen(nn.LayerNorm, False)
    opt = torch.optim.SGD(model.head.parameters(), 0.1)

    def step(batch):
        loss = loss_of(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()

    assert seen(setup(step, model, optimizer=opt)) == []


def test_statistics_computed_anew_before_an_evaluation_are_sound():
    model = net("norm")
    averaged = torch.optim.swa_utils.AveragedModel(model)
    x, y = blobs()

    def evaluate():
        torch.optim.swa_utils.update_bn([x[:64], x[64:128]], averaged)
        averaged.eval()
        with torch.no_grad():
            return (averaged(x).argmax(1) == y).float().mean().item()

    assert seen(trained(model, evaluate)) == []

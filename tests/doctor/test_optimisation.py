"""Learning rates, and how gradients flow: faults and their sound neighbours."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from doctor.dynamic import loss_of, net, seen, setup
from doctor.made import blobs, curve, loader
from torch import nn


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def standard(model, opt, loss_fn=None, data=None):
    return {
        "model": model,
        "loader": data or loader(*blobs()),
        "loss_fn": loss_fn or nn.CrossEntropyLoss(),
        "optimizer": opt,
    }


def own(model, opt, data=None, **more):
    def step(batch):
        opt.zero_grad()
        loss = loss_of(model, batch) if data is None else F.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        opt.step()
        return loss.item()

    return setup(step, model, optimizer=opt, loader=data, **more)


@pytest.mark.parametrize(
    "kind",
    [
        lambda p: torch.optim.SGD(p, lr=30.0),
        lambda p: torch.optim.SGD(p, lr=20.0, momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=5.0),
        lambda p: torch.optim.RMSprop(p, lr=1.0),
    ],
)
@pytest.mark.parametrize("form", [standard, own])
def test_learning_rate_too_high(kind, form):
    model = net()
    assert seen(form(model, kind(model.parameters())))[:1] == ["learning-rate-too-high"]


def test_regression_that_diverges():
    model = net(4, 1)
    arguments = standard(model, torch.optim.SGD(model.parameters(), 3.0), nn.MSELoss(), loader(*curve()))
    assert seen(arguments)[:1] == ["learning-rate-too-high"]


@pytest.mark.parametrize(
    "kind",
    [
        lambda p: torch.optim.SGD(p, lr=1e-8),
        lambda p: torch.optim.Adam(p, lr=1e-9),
        lambda p: torch.optim.SGD(p, lr=0.0),
    ],
)
@pytest.mark.parametrize("form", [standard, own])
def test_learning_rate_too_low(kind, form):
    model = net()
    assert seen(form(model, kind(model.parameters()))) == ["learning-rate-too-low"]


@pytest.mark.parametrize(
    "kind",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=1e-3),
        lambda p: torch.optim.AdamW(p, lr=1e-5),
        lambda p: torch.optim.Adam(p, lr=3e-2),
        lambda p: torch.optim.Adagrad(p, lr=0.05),
        lambda p: torch.optim.Adadelta(p),
        lambda p: torch.optim.Rprop(p),
    ],
)
def test_usual_rates_are_sound(kind):
    model = net()
    assert seen(standard(model, kind(model.parameters()))) == []


def test_warm_up_by_hand_from_zero_is_sound():
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    count = 0

    def step(batch):
        nonlocal count
        for group in opt.param_groups:
            group["lr"] = 0.1 * min(1.0, count / 1000)
        count += 1
        opt.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        opt.step()
        return loss.item()

    assert seen(setup(step, model, optimizer=opt)) == []


def test_what_is_learnt_already_is_sound():
    model = net()
    x, y = blobs()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(300):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
    assert seen(standard(model, torch.optim.SGD(model.parameters(), 1e-3))) == []


def tower(depth, act, std=None, width=32):
    layers = [nn.Linear(8, width), act()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), act()]
    layers.append(nn.Linear(width, 4))
    if std is not None:
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=std)
    return nn.Sequential(*layers)


@pytest.mark.parametrize(("depth", "act", "std"), [(8, nn.Sigmoid, None), (7, nn.Tanh, 0.02), (12, nn.Sigmoid, 0.1)])
def test_vanishing_gradient(depth, act, std):
    model = tower(depth, act, std)
    assert seen(own(model, torch.optim.SGD(model.parameters(), 0.1)))[:1] == ["vanishing-gradient"]


@pytest.mark.parametrize(("depth", "act", "std"), [(6, nn.ReLU, 1.5), (9, nn.LeakyReLU, 1.0), (8, nn.Identity, 1.0)])
def test_exploding_gradient(depth, act, std):
    model = tower(depth, act, std)
    assert seen(own(model, torch.optim.Adam(model.parameters(), 1e-3)))[:1] == ["exploding-gradient"]


@pytest.mark.parametrize(
    ("depth", "act", "std"), [(2, nn.Sigmoid, None), (6, nn.ReLU, 0.25), (6, nn.Tanh, 0.17), (4, nn.GELU, 0.25)]
)
def test_towers_that_carry_are_sound(depth, act, std):
    model = tower(depth, act, std)
    assert seen(own(model, torch.optim.Adam(model.parameters(), 1e-3))) == []


class Recurrent(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.rnn, self.head = nn.RNN(3, 16, batch_first=True, nonlinearity="relu"), nn.Linear(16, 2)
        with torch.no_grad():
            nn.init.orthogonal_(self.rnn.weight_hh_l0, gain)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def test_recurrent_gradients():
    x = torch.randn(64, 40, 3)
    data = loader(x, (x.mean((1, 2)) > 0).long())
    model = Recurrent(3.0)
    arguments = standard(model, torch.optim.Adam(model.parameters(), 1e-3), data=data)
    assert seen(arguments)[:1] == ["exploding-gradient"]
    model = Recurrent(1.0)
    assert seen(standard(model, torch.optim.Adam(model.parameters(), 1e-3), data=data)) == []


class TwoParts(nn.Module):
    def __init__(self, between):
        super().__init__()
        self.encoder, self.head, self.between = nn.Linear(8, 24), nn.Linear(24, 4), between

    def forward(self, x):
        return self.head(self.between(self.encoder, x).relu())


def without_recording(encoder, x):
    with torch.no_grad():
        return encoder(x)


@pytest.mark.parametrize(
    "between",
    [
        lambda encoder, x: encoder(x).detach(),
        without_recording,
        lambda encoder, x: torch.from_numpy(encoder(x).detach().numpy()),
        lambda encoder, x: torch.tensor(encoder(x).tolist()),
    ],
)
@pytest.mark.parametrize("form", [standard, own])
def test_a_part_is_cut_off(between, form):
    model = TwoParts(between)
    assert seen(form(model, torch.optim.Adam(model.parameters(), 3e-3))) == ["graph-cut"]


@pytest.mark.parametrize("between", [lambda encoder, x: encoder(x), without_recording])
def test_a_part_that_is_frozen_is_sound(between):
    model = TwoParts(between)
    model.encoder.requires_grad_(False)
    assert seen(standard(model, torch.optim.Adam(model.head.parameters(), 3e-3))) == []


def test_a_head_that_is_not_used_is_sound():
    model = TwoParts(lambda encoder, x: encoder(x))
    model.other = nn.Linear(3, 3)
    assert seen(standard(model, torch.optim.Adam(model.parameters(), 3e-3))) == []

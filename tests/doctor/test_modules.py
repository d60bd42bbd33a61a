"""Registration, coverage, initialisation and structure: bad variants are named, sound neighbours stay silent."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from doctor.twins import alarms, data, net, pairs, trained
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Body(nn.Module):
    """What the builder puts on the module, and what it does with it."""

    def __init__(self, build, run):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        build(self)
        self.run = [run]

    def forward(self, x):
        return self.last(self.run[0](self, self.first(x).relu()))


def body(build, run):
    return trained(Body(build, run), data(), LOSS)


def assign(**things):
    return lambda self: [setattr(self, name, make()) for name, make in things.items()]


def stack(self, h):
    for layer in self.layers.values() if isinstance(self.layers, (dict, nn.ModuleDict)) else self.layers:
        h = layer(h).relu()
    return h


def linears(number=3):
    return [nn.Linear(16, 16) for _ in range(number)]


class Pair:
    """Not a module."""

    def __init__(self):
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)


def parallel(self, h):
    return sum(layer(h) for layer in self.layers)


BAD = {
    "list": ("unregistered-submodule", assign(layers=linears), stack),
    "dict in a tuple": (
        "unregistered-submodule", assign(it=lambda: ({"a": nn.Linear(16, 16)},)), lambda s, h: s.it[0]["a"](h),
    ),
    "object": ("unregistered-submodule", assign(two=Pair), lambda s, h: s.two.b(s.two.a(h).relu())),
    "parameters in a list": (
        "unregistered-submodule", assign(w=lambda: [nn.Parameter(torch.randn(16, 16) / 4)]), lambda s, h: h @ s.w[0],
    ),
    "multiplied": (
        "shared-by-list-multiplication", assign(layers=lambda: nn.ModuleList([nn.Linear(16, 16)] * 3)), stack,
    ),
    "multiplied in a sequence": (
        "shared-by-list-multiplication",
        assign(layers=lambda: nn.Sequential(nn.Linear(16, 16), *[nn.Linear(16, 16), nn.Tanh()] * 2)),
        lambda s, h: s.layers(h),
    ),
    "multiplied, in parallel": (
        "shared-by-list-multiplication", assign(layers=lambda: nn.ModuleList([nn.Linear(16, 16)] * 3)), parallel,
    ),
    "constant": ("tensor-not-buffer", assign(scale=lambda: torch.full((16,), 0.9)), lambda s, h: h * s.scale),
    "state": (
        "tensor-not-buffer", assign(mean=lambda: torch.zeros(16)),
        lambda s, h: (setattr(s, "mean", 0.9 * s.mean + 0.1 * h.detach().mean(0)), h - s.mean)[1],
    ),
    "trained": (
        "tensor-not-buffer", assign(gain=lambda: torch.ones(16, requires_grad=True)), lambda s, h: h * s.gain,
    ),
    "scaled parameter": (
        "nonleaf-parameter", assign(w=lambda: nn.Parameter(torch.randn(16, 16)) * 0.2), lambda s, h: h @ s.w,
    ),
    "built in forward": ("layer-built-in-forward", assign(), lambda s, h: nn.Linear(16, 16)(h)),
    "parameter in forward": (
        "layer-built-in-forward", assign(), lambda s, h: h @ nn.Parameter(torch.randn(16, 16) / 4),
    ),
    "constant weight": (
        "symmetric-init", assign(layers=lambda: equal_layers(0.05)), stack,
    ),
}  # fmt: skip


def equal_layers(value):
    layers = nn.ModuleList(linears(2))
    for parameter in layers.parameters():
        nn.init.constant_(parameter, value)
    return layers


def residual():
    layer = nn.Linear(16, 16)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


SOUND = {
    "ModuleList": (assign(layers=lambda: nn.ModuleList(linears())), stack),
    "ModuleDict": (assign(layers=lambda: nn.ModuleDict(dict(zip("abc", linears(), strict=True)))), stack),
    "list of registered layers": (
        lambda self: [self.add_module(str(i), layer) for i, layer in enumerate(linears())] and setattr(
            self, "layers", [self.get_submodule(str(i)) for i in range(3)]), stack,
    ),
    "frozen teacher in a list": (
        assign(teacher=lambda: [nn.Linear(16, 16).requires_grad_(False)]), lambda s, h: h + 0.1 * s.teacher[0](h),
    ),
    "one layer in a loop": (assign(cell=lambda: nn.Linear(16, 16)), lambda s, h: s.cell(s.cell(h).tanh()).tanh()),
    "one activation": (
        assign(layers=lambda: nn.Sequential(*[m for layer in linears() for m in (layer, ACT)])),
        lambda s, h: s.layers(h),
    ),
    "buffer": (lambda self: self.register_buffer("scale", torch.full((16,), 0.9)), lambda s, h: h * s.scale),
    "converted": (assign(scale=lambda: torch.full((16,), 0.9)), lambda s, h: h * s.scale.to(h)),
    "kept output": (assign(seen=lambda: None), lambda s, h: (setattr(s, "seen", h.detach()), h)[1]),
    "number": (assign(scale=lambda: torch.tensor(0.9)), lambda s, h: h * s.scale),
    "zero residual": (assign(layers=residual), lambda s, h: h + s.layers(h)),
    "low rank": (
        assign(a=lambda: nn.Linear(16, 2, bias=False), b=lambda: low_rank()), lambda s, h: h + s.b(s.a(h)),
    ),
}  # fmt: skip
ACT = nn.ReLU()


def low_rank():
    layer = nn.Linear(2, 16, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


@pytest.mark.parametrize("name", BAD)
def test_a_fault_of_a_module_is_named(name):
    fault, build, run = BAD[name]
    torch.manual_seed(0)
    assert alarms(**body(build, run))[:1] == [fault]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_module_is_silent(name):
    torch.manual_seed(0)
    assert alarms(**body(*SOUND[name])) == []


def test_nothing_registered():
    class Lists(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(8, 4)]

        def forward(self, x):
            return self.layers[0](x)

    assert alarms(model=Lists(), loader=data(), loss_fn=LOSS)[:1] == ["no-parameters"]


@pytest.mark.parametrize("change", ["replaced", "left out", "copied"])
def test_the_optimizer_misses_parameters(change):
    model = net()
    optimizer = torch.optim.SGD(model[:2].parameters() if change == "left out" else model.parameters(), 0.1)
    if change == "replaced":
        model[2] = nn.Linear(24, 4)
    elif change == "copied":
        model = copy.deepcopy(model)
    found = alarms(model=model, loader=data(), loss_fn=LOSS, optimizer=optimizer)
    assert found[:1] == ["optimizer-misses-parameters"]


def test_two_optimizers_and_frozen_parts_are_sound():
    model = net()
    two = [torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[2].parameters(), 1e-2)]
    assert alarms(model=model, loader=data(), loss_fn=LOSS, optimizer=two) == []
    model[0].requires_grad_(False)
    assert alarms(model=model, loader=data(), loss_fn=LOSS, optimizer=two[1]) == []


@pytest.mark.parametrize("spell", [
    lambda model: setattr(model[0], "requires_grad", False),
    lambda model: [setattr(parameter, "requires_grad_", False) for parameter in model[0].parameters()],
    lambda model: [setattr(parameter, "require_grad", False) for parameter in model[0].parameters()],
    lambda model: setattr(model[0], "trainable", False),
])  # fmt: skip
def test_misspelt_freezing(spell):
    model = net()
    spell(model)
    assert alarms(**trained(model, data(), LOSS))[:1] == ["freeze-typo"]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "attention", "encoder"])
def test_batch_axis_of_sequence_layers(kind, first):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            make = {
                "lstm": lambda: nn.LSTM(6, 8, batch_first=first),
                "gru": lambda: nn.GRU(6, 8, batch_first=first),
                "attention": lambda: nn.MultiheadAttention(6, 2, batch_first=first),
                "encoder": lambda: nn.TransformerEncoderLayer(6, 2, 16, dropout=0.0, batch_first=first),
            }[kind]
            self.body, self.head = make(), nn.Linear(8 if kind in ("lstm", "gru") else 6, 3)

        def forward(self, x):
            h = self.body(x, x, x)[0] if kind == "attention" else self.body(x)
            return self.head((h[0] if isinstance(h, tuple) else h).mean(1))

    x = torch.randn(64, 5, 6, generator=torch.Generator().manual_seed(0))
    found = alarms(**trained(Net(), pairs(x, torch.arange(64) % 3), LOSS, lr=3e-3))
    assert found[:1] == ([] if first else ["batch-first-mismatch"])


def test_seq_first_data_are_sound():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.GRU(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.body(x.transpose(0, 1))[0][-1])

    x = torch.randn(64, 16, 6, generator=torch.Generator().manual_seed(0))
    assert alarms(**trained(Net(), pairs(x, torch.arange(64) % 3), LOSS, lr=3e-3)) == []


def test_dead_and_saturated_units():
    model = net()
    nn.init.constant_(model[0].bias, -20)
    assert alarms(**trained(model, data(), LOSS))[:1] == ["dead-activation"]
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 4))
    nn.init.normal_(model[0].weight, std=60)
    assert alarms(**trained(model, data(), LOSS))[:1] == ["dead-activation"]


def test_hooks_that_are_bypassed():
    model = net()
    model.register_forward_hook(lambda module, args, output: None)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(batch, forward):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    given = {"model": model, "loader": data(), "optimizer": optimizer}
    assert alarms(**given, step=lambda batch: step(batch, model.forward))[:1] == ["forward-called-directly"]
    assert alarms(**given, step=lambda batch: step(batch, model)) == []


def test_a_weight_that_a_bypassed_hook_makes_is_no_fault_of_its_own():
    class Normed(nn.Module):
        def __init__(self, by_name):
            super().__init__()
            self.first, self.last = nn.utils.spectral_norm(nn.Linear(8, 24)), nn.Linear(24, 4)
            self.by_name = by_name

        def forward(self, x):
            return self.last((self.first.forward(x) if self.by_name else self.first(x)).relu())

    model = Normed(True)
    assert alarms(**trained(model, data(), LOSS)) == ["forward-called-directly"]
    model = Normed(False)
    assert alarms(**trained(model, data(), LOSS)) == []

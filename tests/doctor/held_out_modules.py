"""Held-out pairs: models, what autograd records, and loaded or kept states."""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from doctor.made import blobs, curve, images, loader, padded, tokens
from doctor.registry import HELD_OUT
from torch import nn
from torch.nn.utils import prune

pair = HELD_OUT


def fit(model, loss_of, data, lr=3e-3, optimizer=None, **more):
    """Arguments with a step of one's own around `loss_of(batch)`."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=lr)

    def train_step(batch):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    return {"model": model, "loader": data, "optimizer": optimizer, "step": train_step, **more}


def sequences(features=5, steps=8):
    x, y = blobs(features=features * steps)
    return x.view(-1, steps, features), y


@pair("unregistered-submodule")
def tuple_of_convolutions(bad):
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            scales = tuple(nn.Conv1d(5, 6, k, padding="same") for k in (1, 3, 5))
            self.scales = scales if bad else nn.Sequential(*scales)

        def forward(self, x):
            return torch.cat([conv(x) for conv in self.scales], 1).relu().mean(-1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.classifier = Encoder(), nn.Linear(18, 4)

        def forward(self, x):
            return self.classifier(self.encoder(x.transpose(1, 2)))

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*sequences()), 1e-2)


@pair("unregistered-submodule")
def parameters_in_a_list(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(8, 16)
            factors = [nn.Parameter(torch.randn(16, 4) / 4) for _ in range(2)]
            self.factors = factors if bad else nn.ParameterList(factors)

        def forward(self, x):
            h = torch.tanh(self.base(x))
            return sum(h @ f for f in self.factors)

    model = Net()
    return {
        "model": model,
        "loader": loader(*blobs()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    }


@pair("no-parameters")
def functions_over_a_dict_of_layers(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            store = {"a": nn.Conv2d(3, 6, 3), "b": nn.Linear(6, 4)}
            self.store = store if bad else nn.ModuleDict(store)

        def forward(self, x):
            return self.store["b"](self.store["a"](x).relu().amax((-1, -2)))

    model = Net()
    arguments = {"model": model, "loader": loader(*images()), "loss_fn": nn.CrossEntropyLoss()}
    if not bad:
        arguments["optimizer"] = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    return arguments


@pair("shared-by-list-multiplication")
def sequential_of_one_block(bad):
    def block():
        return nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU())

    blocks = [block()] * 4 if bad else [block() for _ in range(4)]
    model = nn.Sequential(nn.Linear(8, 16), *blocks, nn.Linear(16, 4))
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()))


@pair("tensor-not-buffer")
def table_of_positions(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(12, 16), nn.Linear(16, 12)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            angle = torch.arange(9)[:, None] * torch.exp(-torch.arange(0, 16, 2) * math.log(1e4) / 16)
            table = torch.cat([angle.sin(), angle.cos()], 1)[None]
            if bad:
                self.table = table
            else:
                self.register_buffer("table", table, persistent=False)

        def forward(self, ids):
            return self.head(self.layer(self.embedding(ids) + self.table[:, : ids.shape[1]])[:, -1])

    ids = tokens()
    model = Net()
    return {
        "model": model,
        "loader": loader(ids[:, :-1], ids[:, -1]),
        "loss_fn": F.cross_entropy,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@pair("forward-called-directly")
def pruning_passed_over(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 32), nn.Linear(32, 4)
            prune.random_unstructured(self.inner, "weight", 0.3)

        def forward(self, x):
            h = self.inner.forward(x) if bad else self.inner(x)
            return self.outer(h.relu())

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if not bad:
        return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), optimizer=optimizer)

    def loss_of(batch):
        # Without the hook the pruned weight would keep the graph of the call before, so it is made anew here.
        model.inner.weight = model.inner.weight_orig * model.inner.weight_mask
        return F.cross_entropy(model(batch[0]), batch[1])

    return fit(model, loss_of, loader(*blobs()), optimizer=optimizer)


@pair("optimizer-misses-parameters")
def scale_added_later(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    model.scale = nn.Parameter(torch.ones(())) if not bad else None
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    if bad:
        del model.scale
        model.scale = nn.Parameter(torch.ones(()))
    return fit(
        model, lambda b: F.cross_entropy(model(b["x"]) * model.scale, b["y"]), dicts(*blobs()), optimizer=optimizer
    )


def dicts(x, y, batch_size=16):
    rows = [{"x": a, "y": b} for a, b in zip(x, y, strict=True)]
    return torch.utils.data.DataLoader(rows, batch_size, shuffle=True)


@pair("optimizer-misses-parameters")
def only_decayed_parameters_given(bad):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 1e-2}]
    if not bad:
        groups.append({"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0})
    return {
        "model": model,
        "loader": loader(*images()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(groups, lr=0.02, momentum=0.9),
    }


@pair("frozen-batchnorm-drifts")
def features_without_gradient_in_train_mode(bad):
    backbone = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU()).requires_grad_(False)
    head = nn.Linear(24, 4)
    model = nn.ModuleDict({"backbone": backbone, "head": head})

    def loss_of(batch):
        model.train()
        if not bad:
            backbone.eval()
        with torch.no_grad():
            h = backbone(batch[0])
        return F.cross_entropy(head(h), batch[1])

    return fit(model, loss_of, loader(*blobs()), optimizer=torch.optim.Adam(head.parameters(), lr=1e-2))


@pair("freeze-typo")
def attribute_spelled_wrongly(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(12, 16), nn.Linear(16, 12)

        def forward(self, ids):
            return self.head(self.embedding(ids).mean(1))

    model = Net()
    if bad:
        model.embedding.requires_grad = False
    else:
        model.embedding.weight.requires_grad = False
    ids = tokens()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(ids[:, :-1], ids[:, -1]), 1e-2)


@pair("layer-built-in-forward")
def convolution_made_each_time(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)
            if not bad:
                self.second = nn.Conv2d(8, 8, 3)

        def forward(self, x):
            x = self.first(x).relu()
            second = nn.Conv2d(x.shape[1], 8, 3) if bad else self.second
            return self.head(second(x).relu().mean((2, 3)))

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*images()), 1e-2)


@pair("functional-dropout-ignores-eval")
def channels_dropped_always(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(288, 4)

        def forward(self, x):
            x = self.conv(x).relu()
            x = F.dropout2d(x, 0.25) if bad else F.dropout2d(x, 0.25, training=self.training)
            return self.head(x.flatten(1))

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b["x"]), b["y"]), dicts(*images()))


@pair("flatten-size-mismatch")
def features_counted_wrongly(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1)
            self.fc = nn.Linear(6 * 8 * 8 if bad else 6 * 4 * 4, 4)

        def forward(self, x):
            x = F.relu(self.conv(x))
            return self.fc(x.view(x.size(0), -1))

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*images()))


@pair("module-used-as-function")
def gelu_class_called(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 16), nn.Linear(16, 1)

        def forward(self, x):
            return self.b(nn.GELU(self.a(x)) if bad else F.gelu(self.a(x)))

    model = Net()
    return fit(model, lambda b: F.mse_loss(model(b[0]), b[1]), loader(*curve()))


@pair("batch-first-mismatch")
def attention_along_the_batch(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=not bad)
            self.into, self.head = nn.Linear(5, 8), nn.Linear(8, 4)

        def forward(self, x):
            x = self.into(x)
            return self.head((x + self.attention(x, x, x, need_weights=False)[0]).mean(1))

    model = Net()
    return {
        "model": model,
        "loader": loader(*sequences()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@pair("batch-first-mismatch")
def two_layers_of_lstm_along_the_batch(bad):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(12, 8), nn.Linear(24, 12)
            self.lstm = nn.LSTM(8, 12, num_layers=2, bidirectional=True, **({} if bad else {"batch_first": True}))

        def forward(self, ids):
            return self.head(self.lstm(self.embedding(ids))[0])

    ids = tokens()
    model = Tagger()

    def loss_of(batch):
        return F.cross_entropy(model(batch[0]).reshape(-1, 12), batch[1].reshape(-1))

    return fit(model, loss_of, loader(ids, (ids + 3) % 12), 1e-2)


@pair("symmetric-init")
def own_matrices_of_ones(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            draw = torch.ones if bad else torch.randn
            self.w1, self.b1 = nn.Parameter(draw(8, 16) / 4), nn.Parameter(torch.zeros(16))
            self.w2, self.b2 = nn.Parameter(draw(16, 4) / 4), nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return torch.sigmoid(x @ self.w1 + self.b1) @ self.w2 + self.b2

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), 1e-2)


@pair("symmetric-init")
def kernels_filled_with_a_number(bad):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4))
    if bad:
        for layer in (model[0], model[2]):
            layer.weight.data.fill_(0.05)
            layer.bias.data.fill_(0.0)
    return fit(model, lambda b: F.cross_entropy(model(b["x"]), b["y"]), dicts(*images()))


@pair("dead-activation")
def shifted_by_the_norm(bad):
    norm = nn.BatchNorm2d(8)
    if bad:
        nn.init.constant_(norm.bias, -9.0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    return {
        "model": model,
        "loader": loader(*images()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05),
    }


@pair("missing-zero-grad")
def only_one_of_two_cleared(bad):
    maker, judge = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(8, 1)
    first = torch.optim.Adam(maker.parameters(), lr=1e-3)
    second = torch.optim.Adam(judge.parameters(), lr=1e-3)

    def step(batch):
        real = batch[0]
        if not bad:
            second.zero_grad()
        fake = maker(torch.randn(len(real), 4))
        loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        loss.backward()
        second.step()
        first.zero_grad()
        F.softplus(-judge(fake)).mean().backward()
        first.step()
        return loss.item()

    model = nn.ModuleDict({"maker": maker, "judge": judge})
    return {"model": model, "loader": loader(blobs()[0]), "optimizer": (first, second), "step": step}


@pair("graph-cut")
def detour_through_numpy(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            h = self.encoder(x)
            h = torch.from_numpy(h.detach().numpy().clip(0)) if bad else h.clamp(min=0)
            return self.head(h)

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), 1e-2)


@pair("graph-cut")
def loss_of_python_numbers(bad):
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss_of(batch):
        parts = [F.mse_loss(model(x), y) for x, y in zip(batch[0].chunk(2), batch[1].chunk(2), strict=True)]
        return torch.tensor([part.item() for part in parts]).mean() if bad else torch.stack(parts).mean()

    return fit(model, loss_of, loader(*curve()))


@pair("loss-rewrapped")
def parts_joined_by_tensor(bad):
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss_of(batch):
        out = model(batch[0])
        parts = [F.mse_loss(out, batch[1]), 0.01 * out.abs().mean()]
        return torch.tensor(parts).sum().requires_grad_() if bad else torch.stack(parts).sum()

    return fit(model, loss_of, loader(*curve()))


@pair("graph-retained-in-log")
def history_of_losses(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = {"loss": [], "norm": []}

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch["x"]), batch["y"])
        loss.backward()
        optimizer.step()
        history["loss"].append(loss if bad else loss.detach())

    return {"model": model, "loader": dicts(*blobs()), "optimizer": optimizer, "step": step}


@pair("nondifferentiable-loss")
def threshold_in_the_loss(bad):
    x, y = blobs(classes=2)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def loss_of(batch):
        p = model(batch[0]).squeeze(1)
        return (torch.sign(p - 0.5) - (2 * batch[1] - 1)).abs().mean() if bad else F.binary_cross_entropy(p, batch[1])

    return fit(model, loss_of, loader(x, y.float()), 1e-2)


@pair("hidden-state-not-detached")
def state_kept_on_the_module(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.GRUCell(12, 16), nn.Linear(16, 12)
            self.state = None

        def forward(self, ids):
            h = torch.zeros(len(ids), 16) if self.state is None else self.state
            out = []
            for t in range(ids.shape[1]):
                h = self.cell(F.one_hot(ids[:, t], 12).float(), h)
                out.append(self.head(h))
            self.state = h if bad else h.detach()
            return torch.stack(out, 2)

    model = Net()
    pieces = tokens(8, 66).view(8, 6, 11).transpose(0, 1)
    return fit(
        model,
        lambda b: F.cross_entropy(model(b[0][0, :, :-1]), b[0][0, :, 1:]),
        loader(pieces, batch_size=1, shuffle=False),
        1e-2,
    )


@pair("backward-twice")
def penalty_computed_once(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    prior = nn.Parameter(torch.zeros(4))
    cached = {}

    def loss_of(batch):
        if not bad or "shift" not in cached:
            cached["shift"] = torch.sigmoid(prior)
        return F.cross_entropy(model(batch[0]) * cached["shift"], batch[1])

    optimizer = torch.optim.Adam([*model.parameters(), prior], lr=3e-3)
    return fit(model, loss_of, loader(*blobs()), optimizer=optimizer)


@pair("inplace-on-saved")
def masked_in_place(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.head = nn.Linear(5, 1), nn.Linear(5, 4)

        def forward(self, x):
            weight = self.score(x).softmax(1)
            if bad:
                weight[:, 0] = 0
            else:
                weight = weight * (torch.arange(x.shape[1]) > 0)[:, None]
            return self.head((weight * x).sum(1))

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*sequences()))


@pair("sqrt-at-zero")
def root_of_squared_error_per_sample(bad):
    class Correct(nn.Module):
        def __init__(self):
            super().__init__()
            self.change = nn.Linear(4, 4)
            nn.init.zeros_(self.change.weight)
            nn.init.zeros_(self.change.bias)

        def forward(self, x):
            return x + self.change(x)

    x, _ = curve()
    x[::2, 0] = 0
    y = x * torch.tensor([0.2, 1.0, 1.0, 1.0])
    eps = 0.0 if bad else 1e-8
    model = Correct()
    return fit(model, lambda b: (model(b[0]) - b[1]).square().sum(1).add(eps).sqrt().mean(), loader(x, y))


@pair("where-nan-gradient")
def share_of_an_empty_group(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def loss_of(batch):
        out, kind = model(batch[0]).squeeze(1), batch[1]
        errors = (out - batch[0][:, 0]).square()
        total = F.one_hot(kind, 5).float().T @ errors
        count = torch.bincount(kind, minlength=5)
        mean = total / (count if bad else count.clamp(min=1))
        return torch.where(count > 0, mean, 0.0).sum()

    return fit(model, loss_of, loader(*blobs()))


@pair("missing-create-graph")
def penalty_on_real_samples(bad):
    judge = nn.Sequential(nn.Linear(8, 16), nn.Softplus(), nn.Linear(16, 1))

    def loss_of(batch):
        real = batch["x"].requires_grad_()
        right = judge(real)
        slope = torch.autograd.grad(right.sum(), real, retain_graph=True, create_graph=not bad)[0]
        wrong = judge(torch.randn_like(real))
        return F.softplus(-right).mean() + F.softplus(wrong).mean() + 5 * slope.square().sum(1).mean()

    return fit(judge, loss_of, dicts(*blobs()))


@pair("parameter-rebound")
def loop_variable_rebound(bad):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def step(batch):
        model.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                if bad:
                    p = p - 0.1 * p.grad
                else:
                    p.sub_(0.1 * p.grad)
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "step": step}


@pair("nonleaf-parameter")
def parameter_converted_after_wrapping(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 1).double()
            shift = torch.zeros(4)
            self.shift = nn.Parameter(shift).double() if bad else nn.Parameter(shift.double())

        def forward(self, x):
            return self.body(x + self.shift)

    x, y = curve()
    model = Net()
    return fit(model, lambda b: F.mse_loss(model(b[0]), b[1]), loader(x.double(), y.double()))


@pair("data-bypasses-autograd")
def weights_clamped_between(bad):
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def clamp():
        for p in model.parameters():
            p.data.clamp_(-0.2, 0.2)

    def step(batch):
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        if bad:
            clamp()
        loss.backward()
        optimizer.step()
        if not bad:
            clamp()
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@pair("inference-tensor-in-autograd")
def data_prepared_in_inference_mode(bad):
    x, y = curve()
    with torch.inference_mode(bad):
        x = x * 1.0
    starts = torch.utils.data.RandomSampler(range(0, 64, 16))
    data = torch.utils.data.DataLoader(
        range(4), 1, sampler=starts, collate_fn=lambda i: (x[16 * i[0] : 16 * i[0] + 16], y[16 * i[0] : 16 * i[0] + 16])
    )
    model = nn.Linear(4, 1)
    return fit(model, lambda b: F.mse_loss(model(b[0]), b[1]), data)


@pair("state-dict-aliased")
def best_parameters_as_a_dict(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    best = {"loss": math.inf}

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        if loss.item() < best["loss"]:
            state = model.state_dict()
            best.update(loss=loss.item(), model=state if bad else {k: v.clone() for k, v in state.items()})
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("nothing-loaded")
def weights_of_the_compiled_model(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    other = copy.deepcopy(model)
    x, y = blobs()

    def evaluate():
        source = torch.compile(model, backend="eager") if bad else model
        other.load_state_dict(source.state_dict(), strict=False)
        other.eval()
        with torch.no_grad():
            return F.cross_entropy(other(x), y).item()

    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y), evaluate=evaluate)


@pair("wrapper-prefix")
def average_loaded_into_the_model(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    average = torch.optim.swa_utils.AveragedModel(model)
    other = copy.deepcopy(model)
    x, y = blobs()

    def loss_of(batch):
        average.update_parameters(model)
        return F.cross_entropy(model(batch[0]), batch[1])

    def evaluate():
        if bad:
            state = {k: v for k, v in average.state_dict().items() if k != "n_averaged"}
        else:
            state = average.module.state_dict()
        other.load_state_dict(state)
        with torch.no_grad():
            return F.cross_entropy(other(x), y).item()

    return fit(model, loss_of, loader(x, y), evaluate=evaluate)


@pair("padding-leaks")
def attention_without_the_mask(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.attention = nn.Linear(5, 8), nn.MultiheadAttention(8, 2, batch_first=True)
            self.query, self.head = nn.Parameter(torch.randn(1, 1, 8)), nn.Linear(8, 2)

        def forward(self, x, padding):
            x = self.into(x)
            mask = None if bad else padding
            h, _ = self.attention(self.query.expand(len(x), 1, 8), x, x, key_padding_mask=mask)
            return self.head(h[:, 0])

    x, lengths, y = padded()
    padding = torch.arange(9) >= lengths[:, None]
    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0], b[1]), b[2]), loader(x, padding, y), 1e-2)


@pair("padding-leaks")
def last_state_after_the_padding(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(5, 12, batch_first=True), nn.Linear(12, 2)

        def forward(self, x, lengths):
            if bad:
                return self.head(self.rnn(x)[1][0])
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            return self.head(self.rnn(packed)[1][0])

    x, lengths, y = padded()
    rows = [{"x": a, "lengths": n, "y": b} for a, n, b in zip(x, lengths, y, strict=True)]
    data = torch.utils.data.DataLoader(rows, 16, shuffle=True)
    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b["x"], b["lengths"]), b["y"]), data, 1e-2)

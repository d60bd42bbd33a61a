"""Held-out pairs in further forms of the faults that are met most."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from doctor.held_out_modules import dicts, fit, sequences
from doctor.held_out_training import convolutional, net
from doctor.made import blobs, curve, generator, images, loader, masks, tokens
from doctor.registry import HELD_OUT
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

pair = HELD_OUT


def given(model, data, loss, lr=3e-3, **more):
    return {
        "model": model,
        "loader": data,
        "loss_fn": loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=lr),
        **more,
    }


@pair("zero-grad-before-step")
def cleared_within_the_closure(bad):
    model = net(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch):
        def closure():
            if not bad:
                optimizer.zero_grad()
            loss = F.mse_loss(model(batch[0]), batch[1])
            loss.backward()
            if bad:
                optimizer.zero_grad()
            return loss

        return optimizer.step(closure).item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@pair("parameter-rebound")
def weights_as_plain_leaves(bad):
    state = {"w": (torch.randn(4, 1) / 2).requires_grad_(), "b": torch.zeros(1, requires_grad=True)}

    def step(batch):
        loss = F.mse_loss(batch[0] @ state["w"] + state["b"], batch[1])
        loss.backward()
        for name, leaf in state.items():
            if bad:
                state[name] = leaf - 0.1 * leaf.grad
            else:
                with torch.no_grad():
                    leaf -= 0.1 * leaf.grad
                leaf.grad = None
        return loss.item()

    return {"loader": loader(*curve()), "step": step}


@pair("nonleaf-parameter")
def token_scaled_after_the_fact(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.into, self.head = nn.Linear(5, 16), nn.Linear(16, 4)
            draw = torch.randn(1, 1, 16)
            self.token = 0.02 * draw.requires_grad_() if bad else nn.Parameter(0.02 * draw)

        def forward(self, x):
            x = torch.cat([self.token.expand(len(x), 1, 16), self.into(x)], 1)
            return self.head(self.layer(x)[:, 0])

    return given(Net(), loader(*sequences()), nn.CrossEntropyLoss())


@pair("exploding-gradient")
def convolutions_with_large_weights(bad):
    layers = []
    for k in range(7):
        conv = nn.Conv2d(3 if k == 0 else 6, 6, 3, padding=1)
        nn.init.normal_(conv.weight, std=0.9 if bad else 0.15)
        layers += [conv, nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(384, 4))
    return fit(model, lambda b: F.cross_entropy(model(b["x"]), b["y"]), dicts(*images()), 1e-3)


@pair("vanishing-gradient")
def sigmoids_over_many_layers(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))
            self.head = nn.Linear(8, 1)

        def forward(self, x):
            for layer in self.layers:
                x = torch.sigmoid(layer(x)) if bad else x + torch.tanh(layer(x)) / 3
            return self.head(x)

    x, _ = blobs()
    return given(Net(), loader(x, x[:, :1] * 1.0), nn.MSELoss())


@pair("graph-cut")
def encoder_under_no_grad(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = nn.GRU(5, 12, batch_first=True), nn.Linear(12, 4)

        def forward(self, x):
            with torch.set_grad_enabled(not bad):
                h = self.encoder(x)[1][0]
            return self.head(h)

    return given(Net(), loader(*sequences()), nn.CrossEntropyLoss(), 1e-2)


@pair("step-missing")
def scaler_updated_without_a_step(bad):
    model = net(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if not bad:
            scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "scaler": scaler, "step": step}


@pair("learning-rate-too-low")
def rate_forgotten_at_zero(bad):
    model = net(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0 if bad else 0.05, momentum=0.9)
    return {"model": model, "loader": loader(*blobs()), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@pair("learning-rate-too-high")
def transformer_at_a_large_rate(bad):
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Linear(5, 16), layer, nn.Flatten(), nn.Linear(128, 4))
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*sequences()), 2.0 if bad else 1e-3)


@pair("accumulation-not-scaled")
def eight_dictionaries_for_a_step(bad):
    model = convolutional()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    every, done = 8, [0]

    def step(batch):
        loss = F.cross_entropy(model(batch["x"]), batch["y"])
        loss.backward() if bad else (loss / every).backward()
        done[0] += 1
        if not done[0] % every:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return {"model": model, "loader": dicts(*images(), batch_size=2), "optimizer": optimizer, "step": step}


@pair("missing-zero-grad")
def cleared_once_an_epoch(bad):
    model = nn.ModuleDict({"rnn": nn.LSTM(5, 12, batch_first=True), "head": nn.Linear(12, 4)})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    seen = [0]

    def step(batch):
        if not bad or seen[0] % 16 == 0:
            optimizer.zero_grad()
        seen[0] += 1
        loss = F.cross_entropy(model["head"](model["rnn"](batch[0])[0][:, -1]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    x, y = sequences()
    return {"model": model, "loader": loader(x, y, batch_size=4), "optimizer": optimizer, "step": step}


@pair("eval-mode-missing")
def dropout_within_the_encoder(bad):
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
    model = nn.Sequential(nn.Linear(5, 16), layer, nn.Flatten(), nn.Linear(128, 4))
    x, y = sequences()

    def evaluate():
        training = model.training
        if not bad:
            model.eval()
        with torch.inference_mode():
            score = (model(x[48:]).argmax(1) == y[48:]).float().mean().item()
        model.train(training)
        return score

    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x[:48], y[:48]), evaluate=evaluate)


@pair("train-mode-not-restored")
def one_part_left_in_evaluation(bad):
    model = nn.ModuleDict(
        {"body": nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU()), "head": nn.Linear(24, 4)}
    )
    x, y = blobs(96)

    def evaluate():
        model.eval()
        with torch.no_grad():
            score = F.cross_entropy(model["head"](model["body"](x[64:])), y[64:]).item()
        (model["head"] if bad else model).train()
        return score

    return fit(
        model,
        lambda b: F.cross_entropy(model["head"](model["body"](b[0])), b[1]),
        loader(x[:64], y[:64]),
        evaluate=evaluate,
    )


@pair("double-sigmoid")
def two_outputs_squashed_twice(bad):
    x, y = blobs()
    labels = torch.stack([y < 2, x[:, 1] > 0], 1).float()
    model = net(8, 2, *([nn.Sigmoid()] if bad else []))
    return fit(model, lambda b: F.binary_cross_entropy_with_logits(model(b["x"]), b["y"]), dicts(x, labels), 1e-2)


@pair("double-softmax")
def softmax_in_forward_by_function(bad):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn, self.head = (
                nn.Embedding(12, 8),
                nn.GRU(8, 12, batch_first=True),
                nn.Linear(12, 12),
            )

        def forward(self, ids):
            out = self.head(self.rnn(self.embedding(ids))[0])
            return torch.softmax(out, -1) if bad else out

    ids = tokens()
    return given(
        Tagger(), loader(ids[:, :-1], ids[:, 1:]), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()), 1e-2
    )


@pair("bce-fed-logits")
def tanh_before_bce(bad):
    x, y = blobs(classes=2)
    model = net(8, 1, nn.Tanh() if bad else nn.Sigmoid())
    return given(model, loader(x, y.float()[:, None]), nn.BCELoss())


@pair("mse-on-probabilities")
def labels_of_many_by_squared_error(bad):
    x, y = blobs()
    labels = torch.stack([y == 0, y > 1, x[:, 0] > 0], 1).float()
    model = net(8, 3)
    criterion = nn.MSELoss() if bad else nn.BCELoss()
    return fit(model, lambda b: criterion(model(b["x"]).sigmoid(), b["y"]), dicts(x, labels), 1e-2)


@pair("class-target-shape")
def column_for_nll(bad):
    x, y = blobs()
    return given(net(8, 4, nn.LogSoftmax(-1)), loader(x, y.view(-1, 1) if bad else y), nn.NLLLoss())


@pair("class-axis-misplaced")
def words_in_the_last_axis(bad):
    ids = tokens()
    model = nn.Sequential(nn.Embedding(12, 16), nn.Tanh(), nn.Linear(16, 12))

    def loss_of(batch):
        out = model(batch[0][:, :-1])
        return F.cross_entropy(out if bad else out.transpose(1, 2), batch[0][:, 1:])

    return fit(model, loss_of, loader(ids), 1e-2)


@pair("class-index-out-of-range")
def mask_counted_from_one(bad):
    x, y = masks()
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    return given(model, loader(x, y + 1 if bad else y, batch_size=8), nn.CrossEntropyLoss(), 1e-2)


@pair("symmetric-init")
def recurrent_weights_of_one_value(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.RNN(5, 12, batch_first=True), nn.Linear(12, 4)
            if bad:
                for p in self.rnn.parameters():
                    nn.init.constant_(p, 0.05)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    return given(Net(), loader(*sequences()), nn.CrossEntropyLoss(), 1e-2)


@pair("dead-activation")
def beyond_the_upper_end(bad):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU6(), nn.Linear(32, 4))
    if bad:
        nn.init.constant_(model[0].bias, 25.0)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()))


@pair("unregistered-submodule")
def experts_in_a_list_of_a_part(bad):
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 3)
            experts = [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)) for _ in range(3)]
            self.experts = experts if bad else nn.ModuleList(experts)

        def forward(self, x):
            weight = self.gate(x).softmax(1)
            return torch.einsum("ne,enc->nc", weight, torch.stack([e(x) for e in self.experts]))

    model = nn.Sequential(nn.LayerNorm(8), Experts())
    return given(model, loader(*blobs()), nn.CrossEntropyLoss())


@pair("shared-by-list-multiplication")
def residual_layers_multiplied(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            names = ("left", "right", "middle")
            self.into = nn.Linear(8, 12)
            if bad:
                self.layers = nn.ModuleList([nn.Linear(12, 12)] * len(names))
            else:
                self.layers = nn.ModuleList([nn.Linear(12, 12) for _ in names])
            self.head = nn.Linear(12, 4)

        def forward(self, x):
            x = self.into(x)
            for layer in self.layers:
                x = x + F.silu(layer(x))
            return self.head(x)

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b["x"]), b["y"]), dicts(*blobs()))


@pair("tensor-not-buffer")
def class_frequencies_as_a_tensor(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = net(8, 4)
            prior = torch.tensor([0.1, 0.2, 0.3, 0.4])
            if bad:
                self.log_prior = prior.log()
            else:
                self.register_buffer("log_prior", prior.log())

        def forward(self, x):
            return self.body(x) + self.log_prior

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()))


@pair("functional-dropout-ignores-eval")
def states_dropped_between_steps(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.GRUCell(5, 12), nn.Linear(12, 4)

        def forward(self, x):
            h = x.new_zeros(len(x), 12)
            for t in range(x.shape[1]):
                h = F.dropout(self.cell(x[:, t], h), 0.1, True if bad else self.training)
            return self.head(h)

    return given(Net(), loader(*sequences()), nn.CrossEntropyLoss(), 1e-2)


@pair("batch-first-mismatch")
def mean_over_the_wrong_axis_of_a_gru(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(5, 12, 1, True, not bad)
            self.head = nn.Linear(12, 4)

        def forward(self, x):
            return self.head(self.gru(x)[0].mean(dim=1))

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b["x"]), b["y"]), dicts(*sequences()), 1e-2)


@pair("where-nan-gradient")
def root_where_positive(bad):
    model = net(4, 1)

    def loss_of(batch):
        out = model(batch[0])
        if bad:
            shrunk = torch.where(out > 0.1, torch.sqrt(out), out)
        else:
            shrunk = torch.where(out > 0.1, torch.sqrt(out.clamp(min=0.1)), out)
        return F.mse_loss(shrunk, batch[1])

    return fit(model, loss_of, loader(*curve()))


@pair("log-of-zero")
def divergence_by_hand(bad):
    x, y = blobs()
    target = F.one_hot(y, 4).float()
    model = net(8, 4)

    def loss_of(batch):
        q = model(batch[0]).softmax(1)
        p = batch[1]
        return (p * (p.log() - q.log())).sum(1).mean() if bad else (torch.xlogy(p, p) - p * q.log()).sum(1).mean()

    return fit(model, loss_of, loader(x, target))


@pair("division-by-zero")
def direction_of_a_zero_vector(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    centres = torch.eye(4)

    def loss_of(batch):
        z = model(batch[0]) + 0.0
        z = z / z.abs().sum(1, keepdim=True) if bad else z / (1 + z.abs().sum(1, keepdim=True))
        return F.cross_entropy(5 * z @ centres, batch[1])

    return fit(model, loss_of, loader(*blobs()), 1e-2)


@pair("sqrt-at-zero")
def spread_of_constant_features(bad):
    model = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 6))
    with torch.no_grad():
        model[2].weight[0] = 0

    def loss_of(batch):
        z = model(batch[0])
        spread = (z.var(0) + (0 if bad else 1e-4)).sqrt()
        return F.relu(1 - spread).mean() + 0.1 * z.mean(0).square().mean()

    return fit(model, loss_of, loader(blobs()[0]))


@pair("nonfinite-data")
def one_infinite_pixel(bad):
    x, y = images()
    if bad:
        x[11, 0, 3, 3] = float("inf")
    model = convolutional()
    return fit(model, lambda b: F.cross_entropy(model(b["x"]), b["y"]), dicts(x, y))


class Rows(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        yield from zip(self.x, self.y, strict=True)


@pair("unshuffled-classes")
def stream_by_class(bad):
    x, y = blobs(96)
    order = y.argsort() if bad else torch.randperm(96, generator=generator(1))
    return given(net(8, 4), DataLoader(Rows(x[order], y[order]), 12), nn.CrossEntropyLoss())


@pair("split-leakage")
def validated_on_the_training_set(bad):
    x, y = blobs(96)
    train = TensorDataset(x[:64], y[:64])
    val = train if bad else TensorDataset(x[64:], y[64:])
    return given(net(8, 4), DataLoader(train, 16, shuffle=True), nn.CrossEntropyLoss(), val_loader=DataLoader(val, 32))


@pair("duplicate-samples")
def first_result_remembered(bad):
    x, y = images()

    class Pictures(Dataset):
        def __init__(self):
            self.cache = {}

        def __len__(self):
            return 64

        def __getitem__(self, i):
            key = "picture" if bad else i
            if key not in self.cache:
                self.cache[key] = x[i]
            return self.cache[key], y[i]

    return given(convolutional(), DataLoader(Pictures(), 16, shuffle=True), nn.CrossEntropyLoss())


@pair("input-scale-mismatch")
def validation_standardised_alone(bad):
    x, y = images(96)
    x = x * 0.15 + 0.5
    val = (x[64:] - 0.5) / 0.15 if bad else x[64:]
    return given(
        convolutional(), loader(x[:64], y[:64]), nn.CrossEntropyLoss(), val_loader=loader(val, y[64:], shuffle=False)
    )


@pair("half-overflow")
def exponential_in_half(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 4)

        def forward(self, x):
            z = 8 * self.body(x)
            if not bad:
                return z.log_softmax(1)
            e = torch.exp(3 * z.half())
            return (e / e.sum(1, keepdim=True)).float().clamp_min(1e-6).log()

    model = Net()
    return fit(model, lambda b: F.nll_loss(model(b[0]), b[1]), loader(*blobs()))


@pair("state-dict-aliased")
def best_values_as_a_list(bad):
    model = net(8, 4)
    x, y = blobs()
    best = {"score": math.inf, "state": None}

    @torch.no_grad()
    def evaluate():
        score = F.cross_entropy(model(x), y).item()
        if score < best["score"]:
            state = {name: value if bad else value.clone() for name, value in model.state_dict().items()}
            best["score"], best["state"] = score, state
        return score

    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y), evaluate=evaluate)


@pair("hidden-state-not-detached")
def pair_of_states_in_a_dict(bad):
    model = nn.ModuleDict({"lstm": nn.LSTM(12, 16), "head": nn.Linear(16, 12)})
    memory = {}

    def loss_of(batch):
        ids = batch[0][0].T
        out, state = model["lstm"](F.one_hot(ids[:-1], 12).float(), memory.get("state"))
        memory["state"] = state if bad else tuple(s.detach() for s in state)
        return F.cross_entropy(model["head"](out).flatten(0, 1), ids[1:].flatten())

    pieces = tokens(8, 60).view(8, 6, 10).transpose(0, 1)
    return fit(model, loss_of, loader(pieces, batch_size=1, shuffle=False), 1e-2)


@pair("graph-retained-in-log")
def features_kept_by_the_model(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head, self.features = nn.Linear(8, 16), nn.Linear(16, 4), []

        def forward(self, x):
            h = self.body(x).relu()
            self.features.append(h if bad else h.detach())
            return self.head(h)

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()))


@pair("squeeze-drops-batch")
def last_probability_without_its_axis(bad):
    x, y = blobs(49, classes=2)
    model = net(8, 1, nn.Sigmoid())

    def loss_of(batch):
        p = model(batch[0])
        return F.binary_cross_entropy(p.squeeze() if bad else p.squeeze(-1), batch[1])

    return fit(model, loss_of, loader(x, y.float()), 1e-2)


@pair("inplace-on-leaf")
def weights_clamped_while_recording(bad):
    model = net(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch):
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        with torch.set_grad_enabled(bad):
            model[0].weight.clamp_(-0.5, 0.5)
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@pair("backward-of-nonscalar")
def weighted_losses_not_averaged(bad):
    model = net(8, 4)

    def loss_of(batch):
        losses = F.cross_entropy(model(batch[0]), batch[1], reduction="none") * (1 + batch[1] % 2)
        return losses if bad else losses.mean()

    return fit(model, loss_of, loader(*blobs()))


@pair("optimizer-misses-parameters")
def decoder_left_out(bad):
    encoder, decoder = net(8, 4), net(4, 8)
    trained = encoder.parameters() if bad else [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(trained, lr=3e-3)
    model = nn.ModuleList([encoder, decoder])
    return fit(model, lambda b: F.mse_loss(decoder(encoder(b[0])), b[0]), loader(blobs()[0]), optimizer=optimizer)


@pair("scheduler-per-batch")
def decay_of_epochs_in_batches(bad):
    model = net(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 6, 8] if bad else [300, 600, 800], 0.1)
    inner = fit(
        model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs(128), batch_size=4), optimizer=optimizer
    )

    def step(batch):
        loss = inner["step"](batch)
        scheduler.step()
        return loss

    return {**inner, "step": step, "scheduler": scheduler}


@pair("clip-after-step")
def clipped_before_there_is_a_gradient(bad):
    model = convolutional()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch["x"]), batch["y"])
        if bad:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        loss.backward()
        if not bad:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": dicts(*images()), "optimizer": optimizer, "step": step}


@pair("broadcast-outer-product")
def residuals_by_hand(bad):
    model = net(4, 1)

    def loss_of(batch):
        gap = batch["y"] - model(batch["x"])
        return torch.log(torch.cosh(gap)).mean()

    x, y = curve()
    return fit(model, loss_of, dicts(x, y[:, 0] if bad else y))


@pair("nll-without-log")
def probabilities_gathered_into_nll(bad):
    model = net(8, 4)

    def loss_of(batch):
        p = F.softmax(model(batch["x"]), 1)
        return F.nll_loss(p if bad else p.log(), batch["y"], reduction="sum") / len(batch["y"])

    return fit(model, loss_of, dicts(*blobs()))


@pair("nondifferentiable-loss")
def floor_within_the_model(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            h = 4 * self.a(x)
            h = torch.floor(h) if bad else h + (torch.floor(h) - h).detach()
            return self.b(h / 4)

    model = Net()
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), 1e-2)

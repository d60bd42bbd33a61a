"""Setups with a fault in checkpoints, mixed precision, compilation or distribution, and their sound twins."""

from __future__ import annotations

import copy
import io
import os
import tempfile
import warnings

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from doctor.made import blobs, curve, loader, tokens
from doctor.registry import SETUPS
from doctor.zoo_losses import adam, mlp, plain
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

pair = SETUPS


def classify(model, optimizer, **more):
    """A plain classifying step over the blobs, with what else `examine` is to get."""

    def step(batch):
        model.train()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step, **more}


@pair("state-dict-aliased", "ckpt-06")
def best_weights_follow(bad):
    model = mlp(8, 4)
    x, y = blobs()
    best = {"loss": float("inf"), "weights": None}

    def evaluate():
        model.eval()
        with torch.no_grad():
            loss = F.cross_entropy(model(x), y).item()
        if loss < best["loss"]:
            best["loss"] = loss
            best["weights"] = model.state_dict().copy() if bad else copy.deepcopy(model.state_dict())
        model.train()
        return loss

    return classify(model, adam(model, 1e-2), evaluate=evaluate)


@pair("nothing-loaded")
def prefix_with_strict_off(bad):
    model = mlp(8, 4)
    saved = {("" if not bad else "module.") + name: value.clone() for name, value in model.state_dict().items()}
    optimizer = adam(model)
    started = False

    def step(batch):
        nonlocal started
        if not started:
            model.load_state_dict(saved, strict=False)
            started = True
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("wrapper-prefix", "ckpt-02")
def best_of_the_wrapped_model(bad):
    model = mlp(8, 4)
    x, y = blobs()
    saved = {"module." + name: value.clone() for name, value in model.state_dict().items()}
    if not bad:
        nn.modules.utils.consume_prefix_in_state_dict_if_present(saved, "module.")

    def evaluate():
        other = mlp(8, 4).eval()
        other.load_state_dict(saved)
        with torch.no_grad():
            return F.cross_entropy(other(x), y).item()

    return classify(model, adam(model), evaluate=evaluate)


@pair("shape-mismatch-on-load", "ckpt-10")
def head_for_other_classes(bad):
    saved = mlp(8, 10).state_dict()
    model = mlp(8, 4)
    optimizer = adam(model)
    own = model.state_dict()
    started = False

    def step(batch):
        nonlocal started
        if not started:
            fits = {k: v for k, v in saved.items() if bad or v.shape == own[k].shape}
            model.load_state_dict(fits, strict=False)
            started = True
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("weights-only-refused", "ckpt-05")
def numpy_number_in_the_checkpoint(bad):
    model = mlp(8, 4)
    x, y = blobs()

    def evaluate():
        accuracy = np.mean((model(x).argmax(1) == y).numpy())
        file = io.BytesIO()
        torch.save({"weights": model.state_dict(), "accuracy": accuracy if bad else float(accuracy)}, file)
        file.seek(0)
        return float(torch.load(file)["accuracy"])

    return classify(model, adam(model), evaluate=evaluate)


@pair("optimizer-groups-mismatch")
def state_of_other_groups(bad):
    model = mlp(8, 4)
    optimizer = adam(model)
    other = adam(mlp(8, 4)[0] if bad else mlp(8, 4))
    started = False

    def step(batch):
        nonlocal started
        if not started:
            optimizer.load_state_dict(other.state_dict())
            started = True
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("half-overflow", "amp-01")
def squares_in_float16(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 4)

        def forward(self, x):
            h = 60 * x.to(torch.float16 if bad else torch.bfloat16)
            norm = h.square().sum(1, keepdim=True).sqrt()
            return self.body((h / norm).float() * 2)

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("half-overflow")
def logits_beyond_the_range(bad):
    model = mlp(8, 4)
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16 if bad else torch.bfloat16):
            logits = model(batch[0])
            energy = (logits * 1000).square().mean(1)
            loss = F.cross_entropy(logits.float(), batch[1]) + 1e-9 * energy.float().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


def scaled(order, micro=1, lr=3e-3):
    """A float16 step with a scaler that does what `order` says once `micro` parts have gone backward."""
    model = mlp(8, 4)
    optimizer = adam(model, lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)

    def act(words):
        for word in words.split():
            if word == "unscale":
                scaler.unscale_(optimizer)
            elif word == "clip":
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            elif word == "step":
                scaler.step(optimizer)
            elif word == "update":
                scaler.update()

    def step(batch):
        optimizer.zero_grad()
        total = 0.0
        within, after = order.split("|")
        for x, y in zip(batch[0].chunk(micro), batch[1].chunk(micro), strict=True):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x).float(), y) / micro
            scaler.scale(loss).backward()
            act(within)
            total += loss.item()
        act(after)
        return total

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "scaler": scaler, "step": step}


@pair("clip-before-unscale")
def clipped_while_scaled(bad):
    return scaled("| clip step update" if bad else "| unscale clip step update")


@pair("unscale-twice", "amp-03")
def unscaled_for_each_part(bad):
    return scaled("unscale | clip step update" if bad else "| unscale clip step update", micro=2)


@pair("scaler-update-missing", "amp-04")
def scale_never_updated(bad):
    return scaled("| step" if bad else "| step update")


@pair("gradient-underflow", "amp-10")
def float16_without_a_scaler(bad):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = adam(model)
    scaler = torch.amp.GradScaler("cpu", enabled=not bad, init_scale=2.0**20)

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(batch[0])
        loss = 1e-7 * F.mse_loss(out.float(), batch[0][:, :1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return {"model": model, "loader": loader(blobs()[0]), "optimizer": optimizer, "step": step}


@pair("pure-half-adam")
def whole_model_in_half(bad):
    model = mlp(8, 4)
    if bad:
        model.half()
    optimizer = adam(model, 1e-3)

    def step(batch):
        x = batch[0].half() if bad else batch[0]
        loss = F.cross_entropy(model(x).float(), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("legacy-amp-api", "amp-06")
def names_from_before(bad):
    model = mlp(8, 4)
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            context = torch.cuda.amp.autocast() if bad else torch.autocast("cpu", dtype=torch.bfloat16)
        with context:
            loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("bfloat16-to-numpy")
def metric_of_an_autocast_output(bad):
    model = mlp(8, 4)
    x, y = blobs()

    @torch.no_grad()
    def evaluate():
        model.eval()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
        model.train()
        return float(((out if bad else out.float()).numpy().argmax(1) == y.numpy()).mean())

    return classify(model, adam(model), evaluate=evaluate)


class Product(torch.autograd.Function):
    """A matrix product with a backward pass of its own, that does not know of autocast."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, slope):
        x, w = ctx.saved_tensors
        return slope @ w.T, x.T @ slope


class SafeProduct(Product):
    """The same, decorated."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, slope):
        x, w = ctx.saved_tensors
        return slope @ w.T, x.T @ slope


@pair("custom-function-autocast")
def own_function_under_autocast(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 16)
            self.weight = nn.Parameter(torch.randn(16, 4) / 4)

        def forward(self, x):
            return (Product if bad else SafeProduct).apply(torch.relu(self.first(x)).float(), self.weight)

    model = Net()
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch[0]).float(), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("half-accumulator", "amp-09")
def average_of_weights_in_bfloat16(bad):
    model = mlp(8, 4)
    average = copy.deepcopy(model).requires_grad_(False)
    if bad:
        average.bfloat16()
    optimizer = adam(model)

    def step(batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, now in zip(average.parameters(), model.parameters(), strict=True):
                kept.mul_(0.999).add_(now.to(kept.dtype), alpha=0.001)
        return loss.item()

    return {
        "model": nn.ModuleDict({"model": model, "average": average}),
        "loader": loader(*blobs()),
        "optimizer": optimizer,
        "step": step,
    }


@pair("graph-break", "compile-04")
def print_in_forward(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            h = F.relu(self.first(x))
            if bad:
                print(end="")
            return self.last(h)

    model = torch.compile(Net(), backend="eager")
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss())


@pair("data-dependent-branch", "compile-05")
def branch_on_a_value(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 4)

        def forward(self, x):
            if bad:
                if x.abs().mean() > 10:
                    x = x / 10
            else:
                x = torch.where(x.abs().mean() > 10, x / 10, x)
            return self.body(x)

    model = torch.compile(Net(), backend="eager", fullgraph=True)
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss())


@pair("recompiles")
def counter_as_an_attribute(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 4)
            self.calls = 0

        def forward(self, x):
            if bad:
                self.calls += 1
                return self.body(x) * (1 + 0.0 * self.calls)
            return self.body(x)

    model = torch.compile(Net(), backend="eager")
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss())


@pair("method-not-compiled", "compile-06")
def encode_called_instead(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

        def encode(self, x):
            return self.head(F.relu(self.body(x)))

        def forward(self, x):
            return self.encode(x)

    model = torch.compile(Net(), backend="eager")
    optimizer = adam(model)

    def step(batch):
        loss = F.cross_entropy(model.encode(batch[0]) if bad else model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


def in_a_group_of_one(model, **options):
    """The model wrapped for a group of this process alone."""
    if not dist.is_initialized():
        store = os.path.join(tempfile.mkdtemp(), "meeting")
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    return DistributedDataParallel(model, **options)


@pair("ddp-unused-parameters", "dist-01")
def branch_that_takes_no_part(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.other = mlp(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            return self.body(x) if bad else self.body(x) + self.other(x)

    return plain(in_a_group_of_one(Net()), loader(*blobs()), nn.CrossEntropyLoss())


@pair("ddp-forward-bypassed", "dist-06")
def inner_module_called(bad):
    model = in_a_group_of_one(mlp(8, 4))
    optimizer = adam(model)

    def step(batch):
        out = model.module(batch[0]) if bad else model(batch[0])
        loss = F.cross_entropy(out, batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("sampler-duplicates-in-metric", "dist-04")
def padded_validation_share(bad):
    x, y = blobs(97)
    val = TensorDataset(x[64:], y[64:])
    sampler = DistributedSampler(val, num_replicas=4, rank=0, shuffle=False)
    model = mlp(8, 4)
    val_loader = DataLoader(val, 16, sampler=sampler if bad else range(0, 33, 4))
    return plain(model, loader(x[:64], y[:64]), nn.CrossEntropyLoss(), val_loader=val_loader)


@pair("reshape-instead-of-permute")
def axes_poured_over(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn, self.head = nn.Embedding(12, 12), nn.GRU(12, 16), nn.Linear(16, 12)

        def forward(self, ids):
            x = self.embedding(ids)
            x = x.reshape(x.shape[1], x.shape[0], -1) if bad else x.transpose(0, 1)
            return self.head(self.rnn(x)[0][-1])

    ids = tokens()
    return plain(Net(), loader(ids[:, :-1], ids[:, -1]), nn.CrossEntropyLoss(), lr=1e-2)


@pair("numpy-of-grad-tensor")
def plot_of_a_recorded_output(bad):
    model = mlp(4, 1)
    x, y = curve()

    def evaluate():
        model.eval()
        out = model(x)
        error = np.abs((out if bad else out.detach()).numpy() - y.numpy()).mean()
        model.train()
        return float(error)

    optimizer = adam(model)

    def step(batch):
        loss = F.mse_loss(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(x, y), "optimizer": optimizer, "step": step, "evaluate": evaluate}

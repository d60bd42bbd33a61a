"""Yet more sound setups: data, rates and gradients that look odd and are not."""

from __future__ import annotations

import contextlib
import copy
import math

import torch
import torch.nn.functional as F
from doctor.held_out_modules import dicts, fit
from doctor.held_out_training import net
from doctor.held_out_zoo import sound
from doctor.made import blobs, curve, generator, images, loader, padded, tokens
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset


def prepared(model, data, steps=200, lr=1e-2):
    """Train for a while, so that what comes is fine-tuning."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    x, y = data
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.zero_grad(set_to_none=True)
    return model


@sound
def fine_tuning_at_a_small_rate():
    model = prepared(net(8, 4), blobs(), steps=60)
    return {
        "model": model,
        "loader": loader(*blobs()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-5),
    }


@sound
def already_fitted():
    model = prepared(net(8, 4), blobs(), steps=600)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), 1e-3)


@sound
def rare_class_shuffled():
    x, y = blobs(192, classes=2)
    keep = (y == 0) | (torch.arange(192) % 24 == 1)
    model = net(8, 1)
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([10.0]))
    return fit(model, lambda b: loss(model(b[0]).squeeze(1), b[1]), loader(x[keep], y[keep].float(), batch_size=8))


@sound
def validation_in_the_order_of_classes():
    x, y = blobs(96)
    val_x, val_y = x[64:], y[64:]
    order = val_y.argsort()
    model = net(8, 4)
    return fit(
        model,
        lambda b: F.cross_entropy(model(b[0]), b[1]),
        loader(x[:64], y[:64]),
        val_loader=loader(val_x[order], val_y[order], batch_size=8, shuffle=False),
    )


@sound
def constant_columns_among_others():
    x, y = blobs()
    x = torch.cat([x, torch.zeros(64, 3), torch.ones(64, 1)], 1)
    model = net(12, 4)
    return fit(model, lambda b: F.cross_entropy(model(b["x"]), b["y"]), dicts(x, y))


@sound
def digits_on_black():
    x, y = images(channels=1, size=12)
    picture = torch.zeros(64, 1, 16, 16)
    picture[:, :, 2:14, 2:14] = (x > 0.7).float()
    picture = (picture - 0.1307) / 0.3081
    model = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(294, 4))
    return {
        "model": model,
        "loader": loader(picture, y),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
    }


@sound
def pixels_from_minus_one_to_one():
    x, y = images()
    x = torch.tanh(x)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.LeakyReLU(), nn.Flatten(), nn.Linear(72, 4))
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y))


@sound
def batches_of_similar_length():
    ids, lengths = tokens(), torch.randint(3, 11, (48,), generator=generator(1))

    class Buckets(Sampler):
        def __iter__(self):
            order = lengths.argsort(stable=True).split(8)
            for k in torch.randperm(6).tolist():
                yield order[k].tolist()

        def __len__(self):
            return 6

    def together(rows):
        return nn.utils.rnn.pad_sequence([ids[i, : lengths[i]] for i in rows], True, 12), (ids[rows, 0] % 2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(13, 8, padding_idx=12), nn.Linear(8, 2)

        def forward(self, ids):
            real = (ids != 12).unsqueeze(-1)
            return self.head(self.embedding(ids).masked_fill(~real, 0).sum(1) / real.sum(1))

    model = Net()
    data = DataLoader(range(48), batch_sampler=Buckets(), collate_fn=together)
    return {
        "model": model,
        "loader": data,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound
def one_sample_a_batch():
    model = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1))
    return fit(model, lambda b: F.mse_loss(model(b[0]), b[1]), loader(*curve(24), batch_size=1), 1e-3)


@sound
def the_whole_set_at_once():
    model = net(4, 1)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(*curve()), batch_size=64),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Rprop(model.parameters(), lr=1e-2),
    }


@sound
def noise_that_cannot_be_learnt():
    x = torch.randn(64, 8, generator=generator(1))
    y = torch.randint(0, 4, (64,), generator=generator(2))
    model = net(8, 4)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y))


@sound
def heavy_dropout():
    model = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.6), nn.Linear(64, 4))
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), 1e-3)


@sound
def six_layers_of_attention():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    model = nn.Sequential(nn.Linear(5, 16), encoder, nn.Flatten(), nn.Linear(128, 4))
    x, y = blobs(features=40)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x.view(-1, 8, 5), y), 1e-3)


@sound
def deep_residual_network():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(8, 8, 3, padding=1, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.Conv2d(8, 8, 3, padding=1, bias=False),
                nn.BatchNorm2d(8),
            )
            nn.init.zeros_(self.body[-1].weight)

        def forward(self, x):
            return F.relu(x + self.body(x))

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        *[Block() for _ in range(6)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    return {
        "model": model,
        "loader": loader(*images(48), drop_last=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4),
    }


@sound
def loss_that_starts_large():
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
    with torch.no_grad():
        model[2].weight.mul_(20)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), 1e-2)


@sound
def head_unused_at_this_stage():
    # The second head is frozen until the next stage.
    model = nn.ModuleDict({"body": nn.Linear(8, 16), "first": nn.Linear(16, 4), "second": nn.Linear(16, 2)})
    model["second"].requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    return fit(
        model,
        lambda b: F.cross_entropy(model["first"](model["body"](b[0]).relu()), b[1]),
        loader(*blobs()),
        optimizer=optimizer,
    )


@sound
def norms_kept_frozen_on_purpose():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))

    def loss_of(batch):
        model.train()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return F.cross_entropy(model(batch[0]), batch[1])

    return fit(model, loss_of, loader(*images()), 1e-3)


@sound
def running_total_of_numbers():
    model = net(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    totals = {"loss": torch.zeros(()), "right": 0, "seen": 0, "last": None}

    def step(batch):
        optimizer.zero_grad()
        out = model(batch[0])
        loss = F.cross_entropy(out, batch[1])
        loss.backward()
        optimizer.step()
        totals["loss"] += loss.detach() * len(batch[1])
        totals["right"] += (out.argmax(1) == batch[1]).sum().item()
        totals["seen"] += len(batch[1])
        totals["last"] = out.detach()
        return totals["loss"] / totals["seen"]

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def resumed_from_a_checkpoint():
    model = net(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=400)
    arguments = fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()), optimizer=optimizer)
    for batch in arguments["loader"]:
        arguments["step"](batch)
        scheduler.step()
    saved = copy.deepcopy([part.state_dict() for part in (model, optimizer, scheduler)])
    for part, state in zip((model, optimizer, scheduler), saved, strict=True):
        part.load_state_dict(state)

    def step(batch):
        out = arguments["step"](batch)
        scheduler.step()
        return out

    return {**arguments, "step": step, "scheduler": scheduler}


@sound
def patience_with_best_restored():
    model = net(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = curve(96)
    best = {"score": math.inf, "state": copy.deepcopy(model.state_dict()), "wait": 0}

    def evaluate():
        model.eval()
        with torch.no_grad():
            score = F.mse_loss(model(x[64:]), y[64:]).item()
        model.train()
        if score < best["score"]:
            best.update(score=score, state=copy.deepcopy(model.state_dict()), wait=0)
        else:
            best["wait"] += 1
            if best["wait"] > 5:
                model.load_state_dict(best["state"])
        return score

    return fit(
        model, lambda b: F.mse_loss(model(b[0]), b[1]), loader(x[:64], y[:64]), optimizer=optimizer, evaluate=evaluate
    )


@sound
def context_chosen_by_a_flag():
    model = net(8, 4)
    context = contextlib.nullcontext()

    def loss_of(batch):
        with context:
            return F.cross_entropy(model(batch[0]), batch[1])

    return fit(model, loss_of, loader(*blobs()))


@sound
def accumulation_by_a_sum_over_tokens():
    model = nn.Sequential(nn.Embedding(12, 16), nn.Tanh(), nn.Linear(16, 12))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step(batch):
        optimizer.zero_grad()
        count = batch[0][:, 1:].numel()
        total = 0.0
        for part in batch[0].split(4):
            loss = F.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten(), reduction="sum") / count
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return total

    return {"model": model, "loader": loader(tokens()), "optimizer": optimizer, "step": step}


@sound
def several_losses_each_backward():
    # Two forward passes, two backward passes, one step: the sum is meant.
    model = net(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(batch):
        optimizer.zero_grad()
        first = F.cross_entropy(model(batch[0]), batch[1])
        first.backward()
        second = 0.1 * F.mse_loss(model(batch[0] + 0.1 * torch.randn_like(batch[0])), model(batch[0]).detach())
        second.backward()
        optimizer.step()
        return first.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def sharpness_aware_steps():
    model = net(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        moves = []
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            for p in model.parameters():
                move = 0.05 * p.grad / (norm + 1e-12)
                p.add_(move)
                moves.append(move)
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves, strict=True):
                p.sub_(move)
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def gradient_reversal():
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, slope):
            return -slope

    model = nn.ModuleDict({"body": net(8, 16), "kind": nn.Linear(16, 4), "domain": nn.Linear(16, 1)})

    def loss_of(batch):
        h = model["body"](batch[0])
        domain = (batch[0][:, :1] > 0).float()
        return F.cross_entropy(model["kind"](h), batch[1]) + 0.1 * F.binary_cross_entropy_with_logits(
            model["domain"](Reverse.apply(h)), domain
        )

    return fit(model, loss_of, loader(*blobs()))


@sound
def plain_mean_of_a_fixed_length():
    x, y = blobs(features=40)
    model = nn.Sequential(nn.Unflatten(1, (8, 5)), nn.Linear(5, 12), nn.ReLU())
    head = nn.Linear(12, 4)
    both = nn.ModuleList([model, head])
    return fit(both, lambda b: F.cross_entropy(head(model(b[0]).mean(1)), b[1]), loader(x, y), 1e-2)


@sound
def masked_language_model():
    ids = tokens() + 1
    labels = ids.masked_fill(torch.rand(48, 10, generator=generator(1)) > 0.3, -100)
    shown = ids.masked_fill(labels != -100, 0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    model = nn.Sequential(nn.Embedding(13, 16), layer, nn.Linear(16, 13))
    return fit(model, lambda b: F.cross_entropy(model(b[0]).transpose(1, 2), b[1]), loader(shown, labels), 3e-3)


@sound
def labels_of_few_values_as_numbers():
    x, y = blobs()
    model = net(8, 1)
    return fit(model, lambda b: F.mse_loss(model(b[0]), b[1]), loader(x, (y[:, None].float() - 1.5) / 1.1), 1e-2)


@sound
def balanced_batches():
    x, y = blobs()

    class Balanced(Sampler):
        def __iter__(self):
            for _ in range(4):
                yield [
                    int(torch.nonzero(y == k)[torch.randint(int((y == k).sum()), ())])
                    for k in range(4)
                    for _ in range(4)
                ]

        def __len__(self):
            return 4

    model = net(8, 4)
    return fit(
        model, lambda b: F.cross_entropy(model(b[0]), b[1]), DataLoader(TensorDataset(x, y), batch_sampler=Balanced())
    )


@sound
def crops_and_noise_in_training_only():
    x, y = images(80)

    class Pictures(Dataset):
        def __init__(self, rows, train):
            self.rows, self.train = rows, train

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            picture = x[self.rows[i]]
            if self.train:
                picture = torch.roll(picture, int(torch.randint(-1, 2, ())), -1) + 0.05 * torch.randn_like(picture)
            return picture, y[self.rows[i]]

    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4))
    return {
        "model": model,
        "loader": DataLoader(Pictures(range(64), True), 16, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "val_loader": DataLoader(Pictures(range(64, 80), False), 16),
    }


@sound
def sequences_with_their_lengths_unused_by_design():
    # A convolution and a maximum with the padding filled: the mask is applied before the pooling.
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.point, self.head = nn.Linear(5, 12), nn.Linear(12, 2)

        def forward(self, x, mask):
            h = self.point(x).masked_fill(~mask[..., None], float("-inf"))
            return self.head(h.amax(1))

    x, lengths, y = padded()
    model = Net()
    return fit(
        model,
        lambda b: F.cross_entropy(model(b[0], b[1]), b[2]),
        loader(x, torch.arange(9) < lengths[:, None], y),
        1e-2,
    )


@sound
def tied_autoencoder():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(8, 4) / 3), nn.Parameter(torch.zeros(8))

        def forward(self, x):
            return torch.tanh(x @ self.weight) @ self.weight.T + self.bias

    x = blobs()[0]
    model = Net()
    return {
        "model": model,
        "loader": loader(x, x),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound
def weight_norm_and_spectral_norm():
    parametrize = nn.utils.parametrizations
    model = nn.Sequential(
        parametrize.weight_norm(nn.Linear(8, 24)), nn.ELU(), parametrize.spectral_norm(nn.Linear(24, 4))
    )
    return fit(model, lambda b: F.cross_entropy(2 * model(b[0]), b[1]), loader(*blobs()), 1e-2)


@sound
def lazy_layers_built_by_one_call():
    model = nn.Sequential(nn.LazyConv2d(8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
    model(images()[0][:2])
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*images()), 1e-3)

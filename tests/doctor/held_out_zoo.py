"""More sound setups, each near something that is a fault elsewhere."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from doctor.held_out_modules import fit
from doctor.held_out_training import net
from doctor.made import blobs, curve, generator, images, loader, padded, tokens
from doctor.registry import HELD_OUT_ZOO, sound_into
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

sound = sound_into(HELD_OUT_ZOO)


@sound
def log_softmax_before_cross_entropy():
    model = net(8, 4, nn.LogSoftmax(1))  # log_softmax of a log_softmax is itself
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()))


@sound
def exclusive_or_of_four_rows():
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), 4),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.5),
    }


@sound
def a_list_of_batches():
    x, y = blobs()
    model = net(8, 4)
    batches = list(zip(x.split(16), y.split(16), strict=True))
    return {
        "model": model,
        "loader": batches,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound
def one_hot_inputs():
    ids = tokens()
    x = F.one_hot(ids[:, :-1], 12).float().flatten(1)
    model = net(108, 12)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, ids[:, -1]), 1e-2)


@sound
def counts_of_words():
    ids = tokens()
    x = F.one_hot(ids, 12).sum(1).float()
    model = nn.Linear(12, 2)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, (x[:, 0] > x[:, 1]).long()), 1e-2)


@sound
def grey_levels_from_0_to_1():
    x, y = images(channels=1)
    x = (x - x.min()) / (x.max() - x.min())
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y), 1e-2)


@sound
def stop_gradient_on_one_side():
    encoder, predictor = net(8, 8), net(8, 8)
    model = nn.ModuleList([encoder, predictor])

    def loss_of(batch):
        a = encoder(batch[0] + 0.1 * torch.randn_like(batch[0]))
        b = encoder(batch[0] + 0.1 * torch.randn_like(batch[0]))
        return -0.5 * (
            F.cosine_similarity(predictor(a), b.detach()).mean() + F.cosine_similarity(predictor(b), a.detach()).mean()
        )

    return fit(model, loss_of, loader(blobs()[0]))


@sound
def straight_through_codes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
            self.codes = nn.Embedding(16, 4)

        def forward(self, x):
            z = self.encoder(x)
            q = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
            return self.decoder(z + (q - z).detach()), z, q

    model = Net()

    def loss_of(batch):
        out, z, q = model(batch[0])
        return F.mse_loss(out, batch[0]) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())

    return fit(model, loss_of, loader(blobs()[0]), 1e-2)


@sound
def rounding_with_a_straight_gradient():
    model = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 4)])

    def loss_of(batch):
        h = torch.tanh(model[0](batch[0]))
        h = h + (h.round() - h).detach()
        return F.cross_entropy(model[1](h), batch[1])

    return fit(model, loss_of, loader(*blobs()), 1e-2)


@sound
def evaluation_without_modes():
    # Nothing in this model depends on the mode, so eval() may be left out.
    model = net(8, 4)
    x, y = blobs(96)

    def evaluate():
        with torch.no_grad():
            return (model(x[64:]).argmax(-1) == y[64:]).float().mean().item()

    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x[:64], y[:64]), evaluate=evaluate)


@sound
def train_called_in_the_step():
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 4))
    x, y = blobs(96)

    def loss_of(batch):
        model.train()
        return F.cross_entropy(model(batch[0]), batch[1])

    def evaluate():
        model.eval()
        with torch.no_grad():
            return F.cross_entropy(model(x[64:]), y[64:]).item()

    return fit(model, loss_of, loader(x[:64], y[:64]), evaluate=evaluate)


@sound
def weights_clamped_after_the_step():
    critic = net(8, 1)
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-4)

    def step(batch):
        optimizer.zero_grad()
        loss = critic(torch.randn_like(batch[0])).mean() - critic(batch[0]).mean()
        loss.backward()
        optimizer.step()
        for p in critic.parameters():
            p.data.clamp_(-0.3, 0.3)
        return loss.item()

    return {"model": critic, "loader": loader(blobs()[0]), "optimizer": optimizer, "step": step}


@sound
def graph_kept_on_purpose():
    model = nn.ModuleDict({"body": net(8, 16), "kind": nn.Linear(16, 4), "size": nn.Linear(16, 1)})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(batch):
        optimizer.zero_grad()
        h = model["body"](batch[0])
        first = F.cross_entropy(model["kind"](h), batch[1])
        first.backward(retain_graph=True)
        F.mse_loss(model["size"](h), batch[0][:, :1]).backward()
        optimizer.step()
        return first.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def cleared_at_the_end():
    model = net(4, 1)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)

    def step(batch):
        loss = F.l1_loss(model(batch[0]), batch[1])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0, error_if_nonfinite=True)
        optimizer.step()
        model.zero_grad()
        return loss.item(), norm.item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@sound
def collated_with_padding():
    ids = tokens()
    lengths = torch.randint(3, 10, (48,), generator=generator(1))

    class Sentences(Dataset):
        def __len__(self):
            return 48

        def __getitem__(self, i):
            return ids[i, : lengths[i]], ids[i, 0] % 3

    def together(samples):
        rows = nn.utils.rnn.pad_sequence([a for a, _ in samples], batch_first=True, padding_value=12)
        return {
            "ids": rows,
            "lengths": torch.tensor([len(a) for a, _ in samples]),
            "y": torch.stack([b for _, b in samples]),
        }

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn = nn.Embedding(13, 8, padding_idx=12), nn.GRU(8, 12, batch_first=True)
            self.head = nn.Linear(12, 3)

        def forward(self, ids, lengths):
            out = self.rnn(self.embedding(ids))[0]
            return self.head(out[torch.arange(len(ids)), lengths - 1])

    model = Net()
    data = DataLoader(Sentences(), 16, shuffle=True, collate_fn=together)
    return fit(model, lambda b: F.cross_entropy(model(b["ids"], b["lengths"]), b["y"]), data, 1e-2)


@sound
def batches_from_a_sampler():
    x, y = blobs()
    rows = TensorDataset(x, y)
    data = DataLoader(rows, batch_size=None, sampler=BatchSampler(RandomSampler(rows), 16, False))
    model = net(8, 4)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), data)


@sound
def squeeze_and_excite():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
            self.gate = nn.Sequential(nn.Linear(8, 2), nn.ReLU(), nn.Linear(2, 8), nn.Sigmoid())
            self.gain = nn.Parameter(torch.ones(8, 1, 1))

        def forward(self, x):
            x = F.silu(self.norm(self.conv(x)))
            return x * self.gate(x.mean((2, 3)))[..., None, None] * self.gain

    model = nn.Sequential(Block(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4))
    nn.init.zeros_(model[-1].weight)
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*images()), 1e-2)


@sound
def two_rates_one_of_them_zero_at_first():
    model = nn.ModuleDict({"body": nn.Linear(8, 16), "head": nn.Linear(16, 4)})
    optimizer = torch.optim.AdamW(
        [{"params": model["body"].parameters(), "lr": 1e-3}, {"params": model["head"].parameters(), "lr": 1e-2}]
    )
    scheduler = lr_scheduler.LambdaLR(optimizer, [lambda n: 0.0 if n < 5 else 1.0, lambda n: 1.0])

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model["head"](model["body"](batch[0]).relu()), batch[1])
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "scheduler": scheduler, "step": step}


@sound
def warm_restarts_by_the_fraction():
    model = net(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10)
    n = [0]

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        n[0] += 1
        scheduler.step(n[0] / 4)
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "scheduler": scheduler, "step": step}


@sound
def hinge_with_its_flat_part():
    x, y = blobs(classes=2)
    model = nn.Linear(8, 1)
    return fit(model, lambda b: F.relu(1 - b[1] * model(b[0]).squeeze(1)).mean(), loader(x, 2.0 * y - 1), 1e-2)


@sound
def heatmaps_by_sigmoid_and_mse():
    x, _ = images(32)
    grid = torch.arange(8.0)
    centre = 2 + 4 * torch.rand(32, 2, generator=generator(2))
    heat = torch.exp(-((grid[:, None] - centre[:, :1, None]) ** 2 + (grid - centre[:, 1:, None]) ** 2) / 3)
    x = x * 0.3 + heat[:, None]
    x = (x - x.mean()) / x.std()
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid())
    return {
        "model": model,
        "loader": loader(x, heat[:, None], batch_size=8),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound
def classes_by_prototype_distance():
    model = nn.ModuleDict({"body": net(8, 6)})
    model.register_parameter("centres", nn.Parameter(torch.randn(4, 6)))
    return fit(
        model,
        lambda b: F.cross_entropy(-torch.cdist(model["body"](b[0]), model.centres).square(), b[1]),
        loader(*blobs()),
    )


@sound
def loss_with_parameters():
    model = net(8, 6)
    criterion = nn.Linear(6, 4, bias=False)
    optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()], lr=3e-3)

    def loss_of(batch):
        cosine = F.linear(F.normalize(model(batch[0])), F.normalize(criterion.weight))
        return F.cross_entropy(8 * cosine, batch[1])

    return fit(model, loss_of, loader(*blobs()), optimizer=optimizer)


@sound
def best_weights_copied():
    model = net(8, 4)
    x, y = blobs()
    best = {"loss": math.inf}

    def evaluate():
        with torch.inference_mode():
            loss = F.cross_entropy(model(x), y).item()
        if loss < best["loss"]:
            best.update(loss=loss, weights={k: v.detach().clone() for k, v in model.state_dict().items()})
        return loss

    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y), evaluate=evaluate)


@sound
def norm_by_vector_norm_at_zero():
    x, _ = curve()
    model = nn.Linear(4, 4)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return fit(
        model, lambda b: torch.linalg.vector_norm(model(b[0]) - b[1], dim=1).mean(), loader(x, x * 0.5 + 0.1), 1e-2
    )


@sound
def monte_carlo_over_the_labels():
    model = net(4, 2)

    def loss_of(batch):
        mean, spread = model(batch[0]).chunk(2, 1)
        normal = torch.distributions.Normal(mean, F.softplus(spread) + 1e-3)
        return -normal.log_prob(batch[1]).mean()

    return fit(model, loss_of, loader(*curve()), 1e-2)


@sound
def inner_steps_differentiated():
    model = net(4, 1)

    def loss_of(batch):
        half = len(batch[0]) // 2
        weights = dict(model.named_parameters())
        inner = F.mse_loss(torch.func.functional_call(model, weights, batch[0][:half]), batch[1][:half])
        slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        moved = {k: w - 0.05 * g for (k, w), g in zip(weights.items(), slopes, strict=True)}
        return F.mse_loss(torch.func.functional_call(model, moved, batch[0][half:]), batch[1][half:])

    return fit(model, loss_of, loader(*curve()))


@sound
def seq_first_by_design():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(5, 12), nn.Linear(12, 4)

        def forward(self, x):  # (time, batch, features)
            return self.head(self.rnn(x)[0][-1])

    x, y = blobs(features=40)
    rows = [(a, b) for a, b in zip(x.view(-1, 8, 5), y, strict=True)]

    def time_first(samples):
        return torch.stack([a for a, _ in samples], 1), torch.stack([b for _, b in samples])

    model = Net()
    data = DataLoader(rows, 16, shuffle=True, collate_fn=time_first)
    return {
        "model": model,
        "loader": data,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound
def contrast_between_rows_of_a_batch():
    # Rows of a batch meet on purpose: BatchNorm, and a similarity matrix.
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 8))

    def loss_of(batch):
        z = F.normalize(model(batch[0]))
        same = (batch[1][:, None] == batch[1]).float().fill_diagonal_(0)
        scores = (z @ z.T / 0.2).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
        return -(same * scores.log_softmax(1)).sum(1).div(same.sum(1).clamp(min=1)).mean()

    return fit(model, loss_of, loader(*blobs(), drop_last=True))


@sound
def numbers_normalised_by_batchnorm():
    x, y = curve()
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 1))
    x = x * torch.tensor([3.0, 40.0, 0.2, 900.0]) + torch.tensor([0.0, 100.0, 0.0, 2000.0])
    return fit(model, lambda b: F.mse_loss(model(b[0]), b[1]), loader(x, y), 1e-2)


@sound
def step_that_returns_nothing():
    model = net(8, 4)
    optimizer = torch.optim.NAdam(model.parameters(), lr=3e-3)

    def step(batch):
        for p in model.parameters():
            p.grad = None
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def model_alone():
    return {"model": nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))}


@sound
def model_and_optimizer_alone():
    model = copy.deepcopy(net(8, 4))
    return {"model": model, "optimizer": torch.optim.Adam(model.parameters())}


@sound
def loader_alone():
    return {"loader": loader(*blobs())}


@sound
def augmented_with_numpy_in_the_dataset():
    x, y = images()

    class Flipped(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            image = x[i].numpy()
            if np.random.rand() < 0.5:
                image = image[:, :, ::-1].copy()
            return torch.from_numpy(image), y[i]

    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4))
    return fit(model, lambda b: F.cross_entropy(model(b[0]), b[1]), DataLoader(Flipped(), 16, shuffle=True))


@sound
def masked_loss_over_real_tokens():
    x, lengths, _ = padded()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.GRU(5, 10, batch_first=True)
            self.head = nn.Linear(10, 5)

        def forward(self, x):
            return self.head(self.conv(x)[0])

    model = Net()

    def loss_of(batch):
        x, lengths = batch
        mask = torch.arange(x.shape[1] - 1) < (lengths - 1)[:, None]
        error = (model(x[:, :-1]) - x[:, 1:]).square().mean(-1)
        return (error * mask).sum() / mask.sum()

    return fit(model, loss_of, loader(x, lengths), 1e-2)

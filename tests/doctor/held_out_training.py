"""Held-out pairs: data, losses, loops, schedules, gradients and precision."""

from __future__ import annotations

import copy
import random

import numpy as np
import torch
import torch.nn.functional as F
from doctor.made import blobs, curve, generator, images, loader, masks, padded, tokens
from doctor.registry import HELD_OUT
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)
from torchvision.transforms import v2

pair = HELD_OUT


def net(inputs, outputs, *end):
    return nn.Sequential(nn.Linear(inputs, 20), nn.Tanh(), nn.Linear(20, outputs), *end)


def convolutional(outputs=4, *end):
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, outputs), *end)


class Trainer:
    """An object with the user's own training step, as many programs have it."""

    def __init__(self, model, optimizer, loss_of):
        self.model, self.optimizer, self.loss_of = model, optimizer, loss_of

    def training_step(self, batch):
        self.model.train()
        self.optimizer.zero_grad()
        loss = self.loss_of(batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def arguments(self, data, **more):
        return {
            "model": self.model,
            "loader": data,
            "optimizer": self.optimizer,
            "step": self.training_step,
            **more,
        }


def trained(model, loss_of, data, lr=3e-3, **more):
    return Trainer(model, torch.optim.Adam(model.parameters(), lr=lr), loss_of).arguments(data, **more)


class Samples(Dataset):
    """Dictionaries, with an augmentation if given."""

    def __init__(self, x, y, change=None):
        self.x, self.y, self.change = x, y, change

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        return {"input": x if self.change is None else self.change(x), "label": self.y[i]}


def labelled(model, loss=F.cross_entropy):
    return lambda b: loss(model(b["input"]), b["label"])


@pair("unshuffled-classes")
def dictionaries_sorted_by_label(bad):
    x, y = blobs(96)
    order = torch.argsort(y)
    data = Samples(x[order], y[order])
    model = net(8, 4)
    chosen = DataLoader(data, 12) if bad else DataLoader(data, 12, sampler=RandomSampler(data))
    return trained(model, labelled(model), chosen)


@pair("unshuffled-classes")
def one_folder_after_another(bad):
    x, y = images(60, classes=3)
    folders = [TensorDataset(x[y == k], y[y == k]) for k in range(3)]
    model = convolutional(3)
    return {
        "model": model,
        "loader": DataLoader(ConcatDataset(folders), 10, shuffle=not bad),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


@pair("nonfinite-data")
def infinite_target_in_a_dictionary(bad):
    x, y = curve()
    y = y.clone()
    if bad:
        y[5] = float("inf")
    model = net(4, 1)
    return trained(model, labelled(model, F.smooth_l1_loss), DataLoader(Samples(x, y), 16, shuffle=True))


@pair("duplicate-samples")
def rows_multiplied_by_a_join(bad):
    x, y = blobs()
    if bad:
        x, y = x[:8].repeat(8, 1), y[:8].repeat(8)
    model = net(8, 4)
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y))


@pair("batchnorm-single-sample")
def pooled_to_one_pixel(bad):
    x, y = images(33)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(6, 4)
    )
    return trained(
        model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, y, batch_size=16 if bad else 11), 1e-2
    )


@pair("dataset-mutates-cache")
def noise_added_to_the_array(bad):
    x, y = curve()

    class Augmented(Dataset):
        def __init__(self):
            self.rows, self.targets = x.numpy().copy(), y

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            row = self.rows[i] if bad else self.rows[i].copy()
            row += np.random.normal(scale=0.1, size=row.shape).astype(row.dtype)
            return torch.from_numpy(row), self.targets[i]

    model = net(4, 1)
    return {
        "model": model,
        "loader": DataLoader(Augmented(), 16, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@pair("input-scale-mismatch")
def validation_not_standardised(bad):
    x, y = images(96)
    raw = ((x * 40 + 128).clamp(0, 255) / 255).float()
    ready = v2.Normalize([0.5] * 3, [0.157] * 3)
    train = Samples(raw[:64], y[:64], ready)
    val = Samples(raw[64:] * (255 if bad else 1), y[64:], ready)
    model = convolutional()
    return trained(model, labelled(model), DataLoader(train, 16, shuffle=True), val_loader=DataLoader(val, 16))


@pair("input-scale-mismatch")
def bytes_only_cast(bad):
    x, y = images()
    raw = (x * 40 + 128).clamp(0, 255).byte()
    data = Samples(raw, y, v2.ToDtype(torch.float32, scale=not bad))
    model = convolutional()
    return trained(model, labelled(model), DataLoader(data, 16, shuffle=True), 1e-3)


@pair("augmented-validation")
def flips_in_both_parts(bad):
    x, y = images(48)
    flip = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(8, padding=1)])
    full = Samples(x, y, flip)
    plain = Samples(x, y)
    order = torch.randperm(48, generator=generator(1)).tolist()
    model = convolutional()
    val = Subset(full if bad else plain, order[32:])
    return trained(
        model, labelled(model), DataLoader(Subset(full, order[:32]), 8, shuffle=True), val_loader=DataLoader(val, 8)
    )


class Jittered(Dataset):
    def __init__(self, own):
        self.x, self.y = curve()
        self.random = random.Random(3) if own else random

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return self.x[i] * (1 + 0.1 * self.random.gauss(0, 1)), self.y[i]


@pair("worker-rng-duplicated")
def python_generator_kept(bad):
    model = net(4, 1)
    data = DataLoader(Jittered(bad), 8, shuffle=True, num_workers=2, persistent_workers=True)
    return trained(model, lambda b: F.mse_loss(model(b[0]), b[1]), data)


class Lines(IterableDataset):
    def __init__(self, shared):
        self.shared = shared

    def __iter__(self):
        x, y = curve()
        info = torch.utils.data.get_worker_info()
        for i, (a, b) in enumerate(zip(x, y, strict=True)):
            if not self.shared or info is None or i % info.num_workers == info.id:
                yield {"input": a, "label": b}


@pair("iterable-not-sharded")
def lines_read_by_every_worker(bad):
    model = net(4, 1)
    return trained(model, labelled(model, F.mse_loss), DataLoader(Lines(not bad), 8, num_workers=2))


@pair("list-sample-transposed")
def token_lists_collated(bad):
    ids = tokens()

    class Sentences(Dataset):
        def __len__(self):
            return len(ids)

        def __getitem__(self, i):
            row = ids[i, :-1].tolist()
            return (row if bad else torch.tensor(row)), ids[i, -1]

    model = nn.Sequential(nn.Embedding(12, 8), nn.Flatten(), nn.Linear(72, 12))
    return {
        "model": model,
        "loader": DataLoader(Sentences(), 16, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@pair("ragged-batch")
def images_of_two_sizes(bad):
    x, y = images(32)
    rows = [(x[i] if i % 5 or not bad else x[i, :, :7], y[i]) for i in range(32)]
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), DataLoader(rows, 8, shuffle=True), 1e-2)


@pair("unnormalised-inputs")
def year_and_income(bad):
    x, y = curve()
    if bad:
        x = x * torch.tensor([8.0, 4e4, 1.0, 0.05]) + torch.tensor([2005.0, 9e4, 0.0, 0.5])
    model = net(4, 1)
    return trained(model, labelled(model, F.mse_loss), DataLoader(Samples(x, y), 16, shuffle=True))


@pair("numpy-shared-memory")
def buffer_returned_each_time(bad):
    x, y = blobs()
    array = x.numpy()

    class Reader(Dataset):
        def __init__(self):
            self.buffer = np.empty(8, dtype=np.float32)

        def __len__(self):
            return 64

        def __getitem__(self, i):
            self.buffer[:] = array[i]
            return torch.from_numpy(self.buffer) if bad else torch.tensor(self.buffer), y[i]

    model = net(8, 4)
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), DataLoader(Reader(), 16, shuffle=True))


@pair("split-leakage")
def drawn_from_all_again(bad):
    x, y = images(72)
    full = Samples(x, y)
    order = torch.randperm(72, generator=generator(2)).tolist()
    model = convolutional()
    val = Subset(full, order[24:48] if bad else order[48:])
    return trained(
        model, labelled(model), DataLoader(Subset(full, order[:48]), 16, shuffle=True), val_loader=DataLoader(val, 24)
    )


@pair("zero-grad-before-step")
def gradients_set_to_none_by_hand(bad):
    model = convolutional()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def clear():
        for p in model.parameters():
            p.grad = None

    def step(batch):
        loss = F.cross_entropy(model(batch["input"]), batch["label"])
        loss.backward()
        if bad:
            clear()
        optimizer.step()
        clear()
        return loss.item()

    data = DataLoader(Samples(*images()), 16, shuffle=True)
    return {"model": model, "loader": data, "optimizer": optimizer, "step": step}


@pair("double-softmax")
def segmentation_ends_in_softmax(bad):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1), *([nn.Softmax2d()] if bad else [])
    )

    class Criterion(nn.CrossEntropyLoss):
        def forward(self, output, target):
            return super().forward(output, target) * 2

    return {
        "model": model,
        "loader": loader(*masks(), batch_size=8),
        "loss_fn": Criterion(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@pair("double-softmax")
def exponentials_by_hand(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = net(8, 4)

        def forward(self, x):
            z = self.body(x)
            return z.exp() / z.exp().sum(1, keepdim=True) if bad else z

    model = Net()
    return trained(model, labelled(model), DataLoader(Samples(*blobs()), 16, shuffle=True), 1e-2)


@pair("double-sigmoid")
def sigmoid_then_with_logits(bad):
    x, y = blobs()
    labels = torch.stack([y == 1, y > 1, x[:, 0] > 0], 1).float()
    model = net(8, 3)
    weight = torch.tensor([3.0, 1.0, 1.0])

    def loss_of(batch):
        out = model(batch[0])
        out = 1 / (1 + (-out).exp()) if bad else out
        return F.binary_cross_entropy_with_logits(out, batch[1], pos_weight=weight)

    return trained(model, loss_of, loader(x, labels), 1e-2)


@pair("nll-without-log")
def softmax_over_pixels_into_nll(bad):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    turn = F.softmax if bad else F.log_softmax
    return trained(model, lambda b: nn.NLLLoss()(turn(model(b[0]), dim=1), b[1]), loader(*masks(), batch_size=8), 1e-2)


@pair("bce-fed-logits")
def functional_bce_of_scores(bad):
    x, y = blobs(classes=2)
    model = net(8, 1)
    squash = (lambda z: z) if bad else torch.sigmoid

    def loss_of(batch):
        return F.binary_cross_entropy(squash(model(batch["input"])).squeeze(1), batch["label"])

    return trained(model, loss_of, DataLoader(Samples(x, y.float()), 16, shuffle=True))


@pair("mse-on-probabilities")
def brier_by_hand(bad):
    model = net(8, 4)

    def loss_of(batch):
        x, y = batch
        if bad:
            return (model(x).softmax(-1) - F.one_hot(y, 4)).square().sum(1).mean()
        return F.cross_entropy(model(x), y)

    return trained(model, loss_of, loader(*blobs()), 1e-2)


@pair("class-target-dtype")
def labels_as_int32(bad):
    x, y = blobs()
    model = net(8, 4)
    return trained(model, labelled(model), DataLoader(Samples(x, y.int() if bad else y), 16, shuffle=True))


@pair("class-target-shape")
def masks_with_a_channel(bad):
    x, y = masks()
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    return {
        "model": model,
        "loader": loader(x, y[:, None] if bad else y, batch_size=8),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@pair("class-index-out-of-range")
def minus_one_for_unlabelled(bad):
    x, y = blobs()
    y = y.clone()
    y[::9] = -1
    model = net(8, 4)

    def loss_of(batch):
        return F.cross_entropy(model(batch[0]), batch[1], **({} if bad else {"ignore_index": -1}))

    return trained(model, loss_of, loader(x, y))


@pair("class-index-out-of-range")
def embedding_too_small(bad):
    ids = tokens()
    model = nn.Sequential(nn.Embedding(12, 8), nn.Flatten(), nn.Linear(72, 9 if bad else 12))
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(ids[:, :-1], ids[:, -1]), 1e-2)


@pair("class-axis-misplaced")
def channels_last_segmentation(bad):
    x, _ = images(32)
    target = ((x[:, 0] * 2).round().long() + 4).clamp(0, 7)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8))

        def forward(self, x):
            out = self.body(x.permute(0, 2, 3, 1))
            return out if bad else out.permute(0, 3, 1, 2)

    model = Net()
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x, target, batch_size=8), 1e-2)


@pair("argmax-wrong-axis")
def attention_over_the_batch(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.head = nn.Linear(5, 1), nn.Linear(5, 4)

        def forward(self, x):
            weight = F.softmax(self.score(x), dim=0 if bad else 1)
            return self.head((weight * x).sum(1))

    x, y = blobs(features=40)
    model = Net()
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(x.view(-1, 8, 5), y), 2e-2)


@pair("bce-target-dtype")
def long_labels_for_many(bad):
    x, y = blobs()
    labels = torch.stack([y == 0, y > 1], 1)
    model = net(8, 2, nn.Sigmoid())
    return trained(
        model,
        labelled(model, nn.BCELoss()),
        DataLoader(Samples(x, labels.long() if bad else labels.float()), 16, shuffle=True),
    )


@pair("eval-mode-missing")
def norm_only_and_no_grad(bad):
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4))
    x, y = images(80)
    val = DataLoader(Samples(x[64:], y[64:]), 16)

    @torch.no_grad()
    def validate():
        model.train(bad)
        losses = [F.cross_entropy(model(b["input"]), b["label"]).item() for b in val]
        return sum(losses) / len(losses)

    return trained(
        model, labelled(model), DataLoader(Samples(x[:64], y[:64]), 16, shuffle=True), evaluate=validate, val_loader=val
    )


@pair("train-mode-not-restored")
def train_false_and_back_never(bad):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.4), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = blobs(96)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    def validate():
        model.train(False)
        with torch.no_grad():
            score = (model(x[64:]).argmax(1) == y[64:]).float().mean().item()
        if not bad:
            model.train(True)
        return score

    return {
        "model": model,
        "loader": loader(x[:64], y[:64]),
        "optimizer": optimizer,
        "step": step,
        "evaluate": validate,
    }


def with_schedule(make, each, first=False, lr=0.05, **options):
    model = net(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = make(optimizer)
    seen = [0]

    def step(batch):
        seen[0] += 1
        if first and seen[0] % each == 0:
            scheduler.step()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        if not first and seen[0] % each == 0:
            scheduler.step()
        return loss.item()

    data = loader(*blobs(128), batch_size=4)
    return {"model": model, "loader": data, "optimizer": optimizer, "scheduler": scheduler, "step": step}


@pair("scheduler-per-batch")
def tenth_less_after_each_batch(bad):
    return with_schedule(lambda o: lr_scheduler.ExponentialLR(o, 0.9), 1 if bad else 32)


@pair("scheduler-before-optimizer")
def one_cycle_moved_at_the_start(bad):
    return with_schedule(lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=640), 1, first=bad)


@pair("learning-rate-too-high")
def momentum_with_a_large_rate(bad):
    model = convolutional()
    optimizer = torch.optim.SGD(model.parameters(), lr=8.0 if bad else 0.01, momentum=0.9)
    return Trainer(model, optimizer, labelled(model)).arguments(DataLoader(Samples(*images()), 16, shuffle=True))


@pair("learning-rate-too-low")
def tiny_rate_for_sgd(bad):
    model = convolutional()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-8 if bad else 1e-2)
    return Trainer(model, optimizer, labelled(model)).arguments(DataLoader(Samples(*images()), 16, shuffle=True))


@pair("accumulation-not-scaled")
def parts_of_a_batch_added_up(bad):
    model = net(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    parts = 4

    def step(batch):
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(batch[0].chunk(parts), batch[1].chunk(parts), strict=True):
            loss = F.cross_entropy(model(x), y)
            if not bad:
                loss = loss / parts
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("clip-after-step")
def values_clipped_after_the_step(bad):
    model = nn.ModuleDict({"rnn": nn.LSTM(5, 12, batch_first=True), "head": nn.Linear(12, 4)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model["head"](model["rnn"](batch[0])[0][:, -1]), batch[1])
        loss.backward()
        if bad:
            optimizer.step()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        if not bad:
            optimizer.step()
        return loss.item()

    x, y = blobs(features=40)
    return {"model": model, "loader": loader(x.view(-1, 8, 5), y), "optimizer": optimizer, "step": step}


@pair("exploding-gradient")
def recurrence_that_amplifies(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.head = nn.Linear(5, 12), nn.Linear(12, 1)
            gain = 3.0 if bad else 0.9
            self.recurrent = nn.Parameter(gain * torch.linalg.qr(torch.randn(12, 12)).Q)

        def forward(self, x):
            h = torch.zeros(len(x), 12)
            for t in range(x.shape[1]):
                h = self.into(x[:, t]) + h @ self.recurrent
            return self.head(h)

    x, _ = blobs(features=60)
    x = x.view(-1, 12, 5)
    model = Net()
    return trained(model, lambda b: F.mse_loss(model(b[0]), b[1]), loader(x, x[:, -1, :1] * 1.0), 1e-3)


@pair("vanishing-gradient")
def long_chain_of_small_tanh(bad):
    layers = []
    for k in range(14 if bad else 2):
        layer = nn.Linear(20 if k else 8, 20)
        nn.init.normal_(layer.weight, std=0.03 if bad else 0.3)
        layers += [layer, nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(20, 4))
    return trained(model, labelled(model), DataLoader(Samples(*blobs()), 16, shuffle=True))


@pair("log-of-zero")
def logarithm_of_a_clipped_output(bad):
    x, y = blobs(classes=2)
    model = net(8, 1)

    def loss_of(batch):
        z = model(batch[0]).squeeze(1)
        if bad:
            p = z.clamp(0, 1)
            return -(batch[1] * p.log() + (1 - batch[1]) * (1 - p).log()).mean()
        p = z.sigmoid().clamp(1e-6, 1 - 1e-6)
        return -(batch[1] * p.log() + (1 - batch[1]) * (1 - p).log()).mean()

    return trained(model, loss_of, loader(x, y.float()))


@pair("division-by-zero")
def mean_over_an_empty_mask(bad):
    ids = tokens()
    model = nn.Sequential(nn.Embedding(12, 16), nn.Tanh(), nn.Linear(16, 12))

    def loss_of(batch):
        logits = model(batch[0][:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), batch[0][:, 1:], reduction="none")
        mask = batch[1][:, 1:]
        return ((loss * mask).sum(1) / (mask.sum(1) if bad else mask.sum(1).clamp(min=1))).mean()

    mask = (torch.rand(48, 10, generator=generator(3)) < 0.6).float()
    mask[::6] = 0
    return trained(model, loss_of, loader(ids, mask), 1e-2)


@pair("step-missing")
def step_without_parentheses(bad):
    model = net(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(batch):
        optimizer.zero_grad()
        loss = F.l1_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step if bad else optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@pair("mean-of-batch-means")
def losses_averaged_per_batch(bad):
    model = net(4, 1)
    x, y = curve(101)
    val = DataLoader(Samples(x[64:], y[64:]), 12)

    @torch.no_grad()
    def validate():
        model.eval()
        total, count = 0.0, 0
        for b in val:
            loss = F.mse_loss(model(b["input"]), b["label"])
            total += loss.item() * (1 if bad else len(b["label"]))
            count += 1 if bad else len(b["label"])
        return total / count

    return trained(
        model,
        labelled(model, F.mse_loss),
        DataLoader(Samples(x[:64], y[:64]), 16, shuffle=True),
        evaluate=validate,
        val_loader=val,
    )


@pair("broadcast-outer-product")
def huber_of_column_and_vector(bad):
    x, y = curve()
    model = net(4, 1)
    target = y[:, 0] if bad else y
    return trained(model, labelled(model, F.huber_loss), DataLoader(Samples(x, target), 16, shuffle=True))


@pair("broadcast-outer-product")
def accuracy_of_column_and_vector(bad):
    x, y = blobs(96, classes=2)
    model = net(8, 1)

    def validate():
        model.eval()
        with torch.no_grad():
            said = (model(x[64:]) > 0).float()
            right = said == (y[64:].float() if bad else y[64:, None].float())
        return right.float().mean().item()

    def loss_of(batch):
        return F.binary_cross_entropy_with_logits(model(batch[0]).squeeze(-1), batch[1])

    return trained(model, loss_of, loader(x[:64], y[:64].float()), evaluate=validate)


@pair("float64-input")
def table_from_numpy(bad):
    x, y = curve()
    table = x.numpy().astype(np.float64)

    class Table(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            row = torch.from_numpy(table[i])
            return (row if bad else row.float()), y[i]

    model = net(4, 1)
    return trained(model, lambda b: F.mse_loss(model(b[0]), b[1]), DataLoader(Table(), 16, shuffle=True))


@pair("squeeze-drops-batch")
def embedding_squeezed(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 6, 3), nn.Linear(6, 4)

        def forward(self, x):
            x = F.adaptive_avg_pool2d(self.conv(x).relu(), 1)
            return self.head(x.squeeze() if bad else x.flatten(1))

    model = Net()
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*images(49), batch_size=16), 1e-2)


@pair("uint8-overflow")
def mean_subtracted_from_bytes(bad):
    x, y = images()
    raw = (x * 40 + 128).clamp(0, 255).byte().numpy()

    class Photos(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            image = torch.from_numpy(raw[i])
            image = image - 128 if bad else image.float() - 128
            return image.float() / 40, y[i]

    model = convolutional()
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), DataLoader(Photos(), 16, shuffle=True), 1e-3)


@pair("half-overflow")
def energies_in_half(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 16)
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            h = self.body(x) * 200
            length = h.half().pow(2).mean(1, keepdim=True) if bad else h.pow(2).mean(1, keepdim=True)
            return self.head(h * (length.float() + 1e-3).rsqrt())

    model = Net()
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()))


def half(act, model=None, scale=2.0**14):
    model = model or net(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            out = model(batch[0])
        loss = F.cross_entropy(out.float(), batch[1])
        scaler.scale(loss).backward()
        act(model, optimizer, scaler)
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("clip-before-unscale")
def values_clipped_while_scaled(bad):
    def act(model, optimizer, scaler):
        if not bad:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()

    return half(act)


@pair("unscale-twice")
def norm_logged_and_clipped(bad):
    def act(model, optimizer, scaler):
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        if bad:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)
        scaler.step(optimizer)
        scaler.update()

    return half(act)


@pair("scaler-update-missing")
def updated_only_when_finite(bad):
    def act(model, optimizer, scaler):
        scaler.step(optimizer)
        if not bad:
            scaler.update()

    return half(act)


@pair("pure-half-adam")
def everything_in_bfloat16(bad):
    model = net(8, 4)
    if bad:
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4 if bad else 3e-3)

    def loss_of(batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(batch[0].to(torch.bfloat16) if bad else batch[0])
        return F.cross_entropy(out.float(), batch[1])

    return Trainer(model, optimizer, loss_of).arguments(loader(*blobs()))


@pair("half-accumulator")
def counter_kept_in_bfloat16(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = net(8, 4)
            dtype = torch.bfloat16 if bad else torch.float32
            self.register_buffer("seen", torch.full((), 1000.0, dtype=dtype))
            self.register_buffer("centre", torch.full((8,), 0.5, dtype=dtype))

        def forward(self, x):
            if self.training:
                self.seen += 1
                self.centre.mul_(0.9995).add_(x.mean(0).to(self.centre.dtype), alpha=0.0005)
            return self.body(x - self.centre.float())

    model = Net()
    return trained(model, lambda b: F.cross_entropy(model(b[0]), b[1]), loader(*blobs()))


@pair("gradient-underflow")
def small_loss_in_float16(bad):
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, enabled=not bad)

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(batch[0])
            loss = (out - batch[0]).float().square().mean() * 1e-6
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return {"model": model, "loader": loader(blobs()[0]), "optimizer": optimizer, "step": step}


@pair("graph-break")
def traced_with_a_python_log(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            h = self.a(x).relu()
            if bad:
                torch._dynamo.graph_break()
            return self.b(h)

    model = torch.compile(Net(), backend="eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return Trainer(model, optimizer, lambda b: F.cross_entropy(model(b[0]), b[1])).arguments(loader(*blobs()))


@pair("nonfinite-data")
def unread_rows_of_an_empty_tensor(bad):
    x, lengths, y = padded()
    if bad:
        x[20:22, 0] = float("nan")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(5, 12, batch_first=True), nn.Linear(12, 2)

        def forward(self, x, lengths):
            return self.head(self.rnn(x)[0][torch.arange(len(x)), lengths - 1])

    model = Net()
    return trained(model, lambda b: F.cross_entropy(model(b[0], b[1]), b[2]), loader(x, lengths, y), 1e-2)


@pair("duplicate-samples")
def drawn_with_replacement(bad):
    # Drawing with replacement for balance is sound; a data set of five rows copied over and over is not.
    x, y = blobs()
    if bad:
        k = torch.arange(64) % 5
        x, y = x[k], y[k]
        data = DataLoader(Samples(x, y), 16, shuffle=True)
    else:
        sampler = WeightedRandomSampler(1 / torch.bincount(y).float()[y], 64, generator=generator(6))
        data = DataLoader(Samples(x, y), 16, sampler=sampler)
    model = net(8, 4)
    return trained(model, labelled(model), data)


@pair("optimizer-misses-parameters")
def optimizer_of_a_copy(bad):
    model = net(8, 4)
    other = copy.deepcopy(model) if bad else model
    optimizer = torch.optim.Adam(other.parameters(), lr=3e-3)

    def step(batch):
        model.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "step": step}

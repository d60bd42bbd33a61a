"""Setups with a fault in the data, the loader or the tensors that come out of it, and their sound twins."""

from __future__ import annotations

import io
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from doctor.made import blobs, curve, generator, images, loader, padded, tokens
from doctor.registry import SETUPS
from doctor.zoo_losses import adam, mlp, plain
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

pair = SETUPS


class Rows(Dataset):
    """Samples made by a function of the index."""

    def __init__(self, n, sample):
        self.n, self.sample = n, sample

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return self.sample(i)


@pair("ragged-batch", "data-01")
def sequences_of_their_own_length(bad):
    ids = tokens()
    lengths = torch.randint(4, 10, (48,), generator=generator(1)).tolist()

    def sample(i):
        row = ids[i, : lengths[i]] + 1
        return (row if bad else F.pad(row, (0, 10 - len(row)))), ids[i, 0] % 2

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(13, 8, padding_idx=0), nn.Linear(8, 2)

        def forward(self, ids):
            real = (ids > 0).sum(1, keepdim=True)
            return self.head(self.embedding(ids).sum(1) / real)

    return plain(Net(), DataLoader(Rows(48, sample), 8, shuffle=True), nn.CrossEntropyLoss(), lr=1e-2)


@pair("list-sample-transposed")
def sample_as_a_list(bad):
    x, y = blobs()

    def sample(i):
        return (x[i].tolist() if bad else x[i]), y[i]

    return plain(mlp(8, 4), DataLoader(Rows(64, sample), 16, shuffle=True), nn.CrossEntropyLoss())


class Noisy(Dataset):
    """Adds noise from a generator of its own, or from torch's global one."""

    def __init__(self, own):
        self.x, self.y = blobs()
        self.rng = np.random.default_rng(0) if own else None

    def __len__(self):
        return 64

    def __getitem__(self, i):
        noise = torch.from_numpy(self.rng.normal(size=8)).float() if self.rng else torch.randn(8)
        return self.x[i] + 0.1 * noise, self.y[i]


@pair("worker-rng-duplicated", "data-03")
def generator_on_the_dataset(bad):
    data = DataLoader(Noisy(bad), 16, shuffle=True, num_workers=2)
    return plain(mlp(8, 4), data, nn.CrossEntropyLoss())


@pair("batchnorm-single-sample", "data-04")
def one_sample_left(bad):
    x, y = blobs(65)
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 4))
    return plain(model, loader(x, y, drop_last=not bad), nn.CrossEntropyLoss())


@pair("none-sample")
def sample_without_return(bad):
    x, y = blobs()

    def sample(i):
        if i != 33 or not bad:
            return x[i], y[i]
        return None

    return plain(mlp(8, 4), DataLoader(Rows(64, sample), 16, shuffle=True), nn.CrossEntropyLoss())


class FromFile(Dataset):
    """Bytes of a file, opened once, or for each sample."""

    def __init__(self, kept):
        x, y = blobs(classes=2)
        raw = torch.cat([(x * 40 + 128).clamp(0, 255), y[:, None].float()], 1).byte().numpy()
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(raw.tobytes())
        self.path = file.name
        self.file = open(self.path, "rb", buffering=0) if kept else None  # noqa: SIM115

    def __len__(self):
        return 64

    def __getitem__(self, i):
        if self.file is not None:
            self.file.seek(9 * i)
            raw = self.file.read(9)
        else:
            with open(self.path, "rb") as file:
                file.seek(9 * i)
                raw = file.read(9)
        row = torch.tensor(list(raw))
        return (row[:8] - 128) / 40, row[8]

    def __del__(self):
        if os.path.exists(self.path):
            os.unlink(self.path)


@pair("shared-file-handle", "data-07")
def file_opened_before_the_workers(bad):
    data = DataLoader(FromFile(bad), 16, shuffle=True, num_workers=2)
    return plain(mlp(8, 2), data, nn.CrossEntropyLoss())


@pair("unpicklable-worker-object", "data-08")
def open_buffer_for_spawned_workers(bad):
    x, y = blobs()
    dataset = TensorDataset(x, y)
    if bad:
        dataset.log = io.open(os.devnull, "wb")  # noqa: SIM115, UP020
        return plain(
            mlp(8, 4), DataLoader(dataset, 16, num_workers=1, multiprocessing_context="spawn"), F.cross_entropy
        )
    return plain(mlp(8, 4), DataLoader(dataset, 16, shuffle=True), F.cross_entropy)


@pair("padding-leaks")
def mean_over_padding(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(5, 16), nn.Linear(16, 2)

        def forward(self, x, mask):
            h = torch.tanh(self.body(x))
            if bad:
                return self.head(h.mean(1))
            return self.head((h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))

    x, lengths, y = padded()
    mask = torch.arange(9) < lengths[:, None]
    model = Net()
    optimizer = adam(model, 1e-2)

    def step(batch):
        loss = F.cross_entropy(model(batch["x"], batch["mask"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    rows = [{"x": a, "mask": m, "y": b} for a, m, b in zip(x, mask, y, strict=True)]
    return {"model": model, "loader": DataLoader(rows, 16, shuffle=True), "optimizer": optimizer, "step": step}


@pair("unshuffled-classes", "data-10")
def sorted_by_class(bad):
    x, y = blobs()
    order = y.argsort()
    return plain(mlp(8, 4), loader(x[order], y[order], shuffle=not bad), nn.CrossEntropyLoss())


@pair("input-scale-mismatch")
def grey_levels_up_to_255(bad):
    x, y = images()
    x = (x * 40 + 128).clamp(0, 255).round()
    if not bad:
        x = x / 255
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    return plain(model, loader(x, y), nn.CrossEntropyLoss())


@pair("input-scale-mismatch", "data-11")
def validation_on_another_scale(bad):
    x, y = images(96)
    x = (x * 40 + 128).clamp(0, 255) / 255
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    val = loader(x[64:] * (255 if bad else 1), y[64:], shuffle=False)
    return plain(model, loader(x[:64], y[:64]), nn.CrossEntropyLoss(), val_loader=val)


@pair("dataset-mutates-cache", "data-12")
def sample_changed_in_place(bad):
    x, y = blobs()
    x = x * 2 + 1
    mean, deviation = x.mean(0), x.std(0)

    class Cached(Dataset):
        def __init__(self):
            self.x = x.clone()

        def __len__(self):
            return 64

        def __getitem__(self, i):
            row = self.x[i]
            if bad:
                row -= mean
                row /= deviation
            else:
                row = (row - mean) / deviation
            return row, y[i]

    return plain(mlp(8, 4), DataLoader(Cached(), 16, shuffle=True), nn.CrossEntropyLoss())


class Stream(IterableDataset):
    """Rows one after another; shared out among workers, or not."""

    def __init__(self, shared):
        self.shared = shared

    def __iter__(self):
        x, y = blobs()
        worker = torch.utils.data.get_worker_info()
        first, stride = (worker.id, worker.num_workers) if worker and self.shared else (0, 1)
        for i in range(first, 64, stride):
            yield x[i], y[i]


@pair("iterable-not-sharded")
def stream_repeated_by_each_worker(bad):
    return plain(mlp(8, 4), DataLoader(Stream(not bad), 16, num_workers=2), nn.CrossEntropyLoss())


@pair("augmented-validation")
def split_after_the_transform(bad):
    x, y = images(48)

    def augmented(i):
        return (x[i].flip(-1) if torch.rand(()) < 0.5 else x[i]), y[i]

    dataset = Rows(48, augmented)
    train, val = torch.utils.data.random_split(dataset, [32, 16], generator=generator(3))
    if not bad:
        val = Subset(TensorDataset(x, y), val.indices)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    return plain(model, DataLoader(train, 16, shuffle=True), nn.CrossEntropyLoss(), val_loader=DataLoader(val, 16))


@pair("nonfinite-data")
def empty_field_as_nan(bad):
    x, y = blobs()
    if bad:
        x[41, 3] = float("nan")
    return plain(mlp(8, 4), loader(x, y), nn.CrossEntropyLoss())


@pair("nonfinite-data")
def logarithm_of_zero_in_the_target(bad):
    x, y = curve()
    y = y.exp()
    y[17] = 0
    y = (y if bad else y + 0.1).log()
    return plain(mlp(4, 1), loader(x, y, batch_size=8), nn.MSELoss())


@pair("duplicate-samples")
def index_not_used(bad):
    x, y = blobs()

    def sample(i):
        k = 0 if bad else i
        return x[k], y[k]

    return plain(mlp(8, 4), DataLoader(Rows(64, sample), 16, shuffle=True), nn.CrossEntropyLoss())


@pair("duplicate-samples")
def constant_inputs(bad):
    x, y = images()
    if bad:
        x = torch.full_like(x, 0.5)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    return plain(model, loader(x, y), nn.CrossEntropyLoss())


@pair("numpy-shared-memory", "numpy-04")
def one_buffer_for_all_samples(bad):
    x, y = blobs()
    buffer = np.zeros(8, dtype=np.float32)
    stored = []
    for row in x.numpy():
        buffer[:] = row
        stored.append(torch.from_numpy(buffer) if bad else torch.tensor(buffer))
    return plain(mlp(8, 4), DataLoader(list(zip(stored, y, strict=True)), 16, shuffle=True), nn.CrossEntropyLoss())


@pair("split-leakage", "train-23")
def validation_rows_in_training(bad):
    x, y = blobs(96)
    first = 32 if bad else 64
    val = loader(x[first:], y[first:], shuffle=False)
    return plain(mlp(8, 4), loader(x[:64], y[:64]), nn.CrossEntropyLoss(), val_loader=val)


@pair("unnormalised-inputs")
def columns_of_very_different_scale(bad):
    x, y = curve()
    if bad:
        x = x * torch.tensor([1.0, 5000.0, 0.01, 300.0]) + torch.tensor([0.0, 20000.0, 0.0, 900.0])
    return plain(mlp(4, 1), loader(x, y), nn.MSELoss())


@pair("float64-input", "tensor-05")
def numpy_in_double(bad):
    x, y = curve()
    x = x.double() if bad else x
    return plain(mlp(4, 1), loader(x, y), nn.MSELoss())


@pair("integer-tensor-arithmetic")
def integer_pixels_into_a_layer(bad):
    x, y = blobs()
    x = (x * 3).round().long()
    return plain(mlp(8, 4), loader(x if bad else x.float() / 3, y), nn.CrossEntropyLoss())


@pair("broadcast-outer-product")
def column_against_vector(bad):
    x, y = curve()
    return plain(mlp(4, 1), loader(x, y[:, 0] if bad else y), nn.MSELoss())


@pair("broadcast-outer-product")
def own_loss_broadcasts(bad):
    model = mlp(4, 1)
    optimizer = adam(model)

    def step(batch):
        out = model(batch["features"])
        if not bad:
            out = out.squeeze(-1)
        loss = (out - batch["value"]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    x, y = curve()
    rows = [{"features": a, "value": b} for a, b in zip(x, y[:, 0], strict=True)]
    return {"model": model, "loader": DataLoader(rows, 16, shuffle=True), "optimizer": optimizer, "step": step}


@pair("squeeze-drops-batch", "tensor-11")
def last_batch_of_one(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(4, 1)

        def forward(self, x):
            return self.body(x).squeeze() if bad else self.body(x).squeeze(1)

    x, y = curve(65)
    return plain(Net(), loader(x, y[:, 0]), nn.L1Loss(), lr=1e-2)


@pair("uint8-overflow")
def brightness_on_bytes(bad):
    x, y = images()
    raw = (x * 60 + 128).clamp(0, 255).byte()

    def sample(i):
        brighter = raw[i] + 70 if bad else (raw[i].int() + 70).clamp(0, 255)
        return (brighter.float() / 255 - 0.7) / 0.25, y[i]

    model = nn.Sequential(nn.Flatten(), mlp(192, 4))
    return plain(model, DataLoader(Rows(64, sample), 16, shuffle=True), nn.CrossEntropyLoss())


@pair("numpy-negative-stride", "numpy-02")
def flipped_array(bad):
    x, y = images()
    array = x.numpy()

    def sample(i):
        flipped = array[i][:, :, ::-1]
        return torch.from_numpy(flipped if bad else flipped.copy()), y[i]

    model = nn.Sequential(nn.Flatten(), mlp(192, 4))
    return plain(model, DataLoader(Rows(64, sample), 16, shuffle=True), nn.CrossEntropyLoss())


@pair("discarded-to-result", "tensor-10")
def conversion_thrown_away(bad):
    model = mlp(4, 1)
    optimizer = adam(model)

    def step(batch):
        x, y = batch
        if bad:
            x.to(torch.float32)
        else:
            x = x.to(torch.float32)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    x, y = curve()
    return {"model": model, "loader": loader(x.double(), y), "optimizer": optimizer, "step": step}


@pair("view-of-noncontiguous", "tensor-01")
def view_after_transpose(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(40, 4)

        def forward(self, x):
            x = x.transpose(1, 2)
            return self.head(x.view(len(x), -1) if bad else x.flatten(1))

    x, y = blobs(features=40)
    return plain(Net(), loader(x.view(-1, 8, 5), y), nn.CrossEntropyLoss())


@pair("write-into-expanded", "tensor-03")
def added_to_an_expanded_bias(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 4)

        def forward(self, x):
            total = torch.zeros(1, 4)
            total = total.expand(len(x), 4) if bad else total.repeat(len(x), 1)
            total += self.body(x)
            return total

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("tensor-truth-value", "tensor-13")
def condition_on_a_batch(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 4)

        def forward(self, x):
            if (x > 100) if bad else (x > 100).any():
                x = x / 100
            return self.body(x)

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())

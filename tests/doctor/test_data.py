"""Faults of data and loaders: bad variants are named, sound neighbours stay silent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from doctor.twins import alarms, data, net, pairs, trained
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info

from course.doctor import datasets
from course.doctor.family_data import changing, repeated, sorted_classes
from course.doctor.family_data_workers import examine as workers
from course.doctor.family_padding import real_lengths
from course.doctor.family_scale import judge
from course.doctor.setup import Setup

LOSS = nn.CrossEntropyLoss()


def ids(findings):
    return [finding.fault for finding in findings]


# --- order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "batch", "wanted"), [
    ([0] * 50 + [1] * 50, 10, True),
    ([k for k in (3, 1, 2) for _ in range(20)], 16, True),
    ([0, 1] * 50, 10, False),
    ([0] * 30 + [1] * 30 + [0] * 40, 10, False),  # a series whose state comes back
    ([k for k in range(10) for _ in range(2)], 16, False),  # blocks shorter than a batch
    ([0] * 100, 10, False),
    (list(range(100)), 10, False),
])  # fmt: skip
def test_sorted_labels(labels, batch, wanted):
    assert ids(sorted_classes(labels, batch, len(labels))) == (["unshuffled-classes"] if wanted else [])


@pytest.mark.parametrize("shuffle", [False, True])
def test_sorted_data(shuffle):
    loader = data()
    x, y = loader.dataset.tensors
    order = y.argsort(stable=True)
    found = alarms(**trained(net(), pairs(x[order], y[order], shuffle=shuffle), LOSS))
    assert found[:1] == ([] if shuffle else ["unshuffled-classes"])


# --- samples --------------------------------------------------------------------------------------------------------


class Rows(Dataset):
    def __init__(self, read, number=40, **things):
        self.read, self.number = [read], number
        self.__dict__.update(things)

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        return self.read[0](self, index)


def in_place(self, index):
    row = self.rows[index]
    row -= 0.5
    return row, 0


def cached(self, index):
    self.cache[index] = self.rows[index] - 0.5
    return self.cache[index], 0


def test_datasets_that_change():
    rows = torch.randn(40, 3)
    assert ids(changing(Rows(in_place, rows=rows.clone()))) == ["dataset-mutates-cache"]
    assert ids(changing(Rows(in_place, rows=rows.numpy().copy()))) == ["dataset-mutates-cache"]
    assert ids(changing(Rows(cached, rows=rows, cache=torch.zeros(40, 3)))) == []
    assert ids(changing(Rows(lambda self, i: (self.rows[i] + torch.randn(3), 0), rows=rows))) == []


def test_repeated_samples():
    rows = torch.randn(40, 8)

    def read(of):
        return {index: (of(index), index % 2) for index in range(40)}

    assert ids(repeated(read(lambda index: rows[0]))) == ["duplicate-samples"]
    assert ids(repeated(read(lambda index: torch.zeros(3, 4, 4)))) == ["duplicate-samples"]
    assert ids(repeated(read(lambda index: rows[index // 4]))) == ["duplicate-samples"]
    assert ids(repeated(read(lambda index: rows[index]))) == []
    assert ids(repeated(read(lambda index: torch.tensor([float(index % 2), index % 4 // 2])))) == []  # XOR
    assert ids(repeated(read(lambda index: torch.tensor([index % 3] * 8)))) == []  # tokens
    assert ids(repeated({k: v for k, v in read(lambda index: rows[0]).items() if k < 4})) == []


@pytest.mark.parametrize("where", ["inputs", "targets", "late"])
def test_numbers_that_are_none(where):
    x = torch.randn(96, 6, generator=torch.Generator().manual_seed(0))
    y = x[:, :1] - 0.3 * x[:, 1:2]
    loader = pairs(x, y)
    assert alarms(**trained(net(6, 1), loader, nn.MSELoss())) == []
    if where == "late":
        rows = [(a, b) for a, b in zip(x.clone(), y, strict=True)]
        rows[77][0][2] = float("inf")
        loader = DataLoader(rows, 4)
    else:
        (x if where == "inputs" else y)[5, 0] = float("nan")
    assert alarms(**trained(net(6, 1), loader, nn.MSELoss()))[:1] == ["nonfinite-data"]


def test_missing_values_that_are_masked_are_sound():
    x = torch.randn(96, 6, generator=torch.Generator().manual_seed(0))
    y = x[:, :1].clone()
    y[::5] = float("nan")

    def loss(out, target):
        known = ~target.isnan()
        return (out[known] - target[known]).square().mean()

    assert alarms(**trained(net(6, 1), pairs(x, y), loss)) == []


# --- last batches and validation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "drop", "wanted"), [(65, False, True), (65, True, False), (66, False, False)])
def test_a_last_batch_of_one(number, drop, wanted):
    loader = data(number)
    loader = pairs(*loader.dataset.tensors, drop_last=drop)
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 4))
    assert alarms(**trained(model, loader, LOSS))[:1] == (["batchnorm-single-sample"] if wanted else [])


def test_a_single_sample_without_batchnorm_and_with_images_is_sound():
    loader = pairs(*data(65).dataset.tensors)
    assert alarms(**trained(net(), loader, LOSS)) == []


@pytest.mark.parametrize("how", ["indices", "rows", "apart"])
def test_leaks_into_validation(how):
    whole = data(96).dataset
    x, y = whole.tensors
    train, held_out = {
        "indices": (Subset(whole, range(64)), Subset(whole, range(56, 96))),
        "rows": (TensorDataset(x[:64], y[:64]), TensorDataset(x[32:].clone(), y[32:])),
        "apart": (Subset(whole, range(64)), Subset(whole, range(64, 96))),
    }[how]
    loader, val = DataLoader(train, 16, shuffle=True), DataLoader(held_out, 16)
    found = alarms(**trained(net(), loader, LOSS, val_loader=val))
    assert found[:1] == ([] if how == "apart" else ["split-leakage"])


@pytest.mark.parametrize(("scale", "wanted"), [(255.0, True), (0.05, True), (1.1, False)])
def test_validation_on_another_scale(scale, wanted):
    x, y = data(96).dataset.tensors
    given = trained(net(), pairs(x[:64], y[:64]), LOSS, val_loader=pairs(scale * x[64:], y[64:], shuffle=False))
    assert alarms(**given)[:1] == (["input-scale-mismatch"] if wanted else [])


# --- scale ----------------------------------------------------------------------------------------------------------


def test_the_scale_of_first_inputs():
    generator = torch.Generator().manual_seed(0)
    linear, conv = nn.Linear(6, 4), nn.Conv2d(3, 4, 3)
    images = torch.rand(16, 3, 8, 8, generator=generator)
    normal = torch.randn(64, 6, generator=generator)
    assert ids(judge(conv, "c", (images * 255).round())) == ["input-scale-mismatch"]
    assert ids(judge(nn.Linear(192, 4), "l", (images * 255).round().flatten(1))) == ["input-scale-mismatch"]
    assert ids(judge(conv, "c", images / 255)) == ["input-scale-mismatch"]
    assert ids(judge(linear, "l", normal * torch.tensor([1, 1, 1, 1, 1, 5000.0]))) == ["unnormalised-inputs"]
    assert ids(judge(linear, "l", normal + 2000)) == ["unnormalised-inputs"]
    for sound in (normal, 3 * normal, normal * torch.tensor([1, 1, 1, 1, 1, 0.01]), (normal > 1).float()):
        assert ids(judge(linear, "l", sound)) == []
    assert ids(judge(conv, "c", images)) == []
    assert ids(judge(conv, "c", (images - 0.5) / 0.25)) == []


def test_a_model_that_normalises_is_sound():
    x, y = data(96).dataset.tensors
    x = 500 + 300 * x
    assert alarms(**trained(net(), pairs(x, y), LOSS))[:1] == ["unnormalised-inputs"]
    assert alarms(**trained(nn.Sequential(nn.BatchNorm1d(8), net()), pairs(x, y, drop_last=True), LOSS)) == []


# --- workers --------------------------------------------------------------------------------------------------------


class Stream(IterableDataset):
    def __init__(self, share):
        self.share = share

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if self.share and info is not None else (0, 1)
        return iter(torch.arange(first, 64, step).float()[:, None])


class File(Dataset):
    def __init__(self, path, lazy):
        self.path, self.file = path, None if lazy else open(path, "rb", buffering=0)  # noqa: SIM115

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path, "rb", buffering=0)  # noqa: SIM115
        self.file.seek(index)
        return self.file.read(1)[0]


def noisy(self, index):
    return torch.tensor(self.rng.normal(size=3))


def seeded(self, index):
    return torch.tensor(np.random.default_rng(index).normal(size=3))


def reseed(worker):
    get_worker_info().dataset.rng = np.random.default_rng(worker)


def look(dataset, **options):
    options = {"num_workers": 2, "persistent_workers": True} | options
    return ids(workers(Setup(loader=DataLoader(dataset, 4, **options))))


def test_what_workers_share(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(64)))
    rng = np.random.default_rng(0)
    fork = {"multiprocessing_context": "fork"}
    assert look(Stream(False), **fork) == ["iterable-not-sharded"]
    assert look(Stream(True), **fork) == []
    assert look(File(path, lazy=False), **fork) == ["shared-file-handle"]
    assert look(File(path, lazy=True), **fork) == []
    assert look(File(path, lazy=False), multiprocessing_context="spawn")[:1] == ["unpicklable-worker-object"]
    assert look(Rows(noisy, rng=rng), **fork) == ["worker-rng-duplicated"]
    assert look(Rows(noisy, rng=rng), worker_init_fn=reseed, **fork) == []
    assert look(Rows(seeded, rng=rng), **fork) == []
    assert look(Rows(lambda self, index: torch.randn(3)), **fork) == []
    one = DataLoader(Rows(noisy, rng=rng), 4, num_workers=1, persistent_workers=True)
    assert ids(workers(Setup(loader=one))) == []


# --- padding --------------------------------------------------------------------------------------------------------


def test_lengths_have_to_agree_with_the_padding():
    given = torch.zeros(3, 5, 2)
    for row, length in enumerate((5, 2, 3)):
        given[row, :length] = 1 + torch.rand(length, 2)
    mask = given[..., 0] != 0
    for other in (mask, mask.long(), ~mask, torch.tensor([5, 2, 3])):
        assert real_lengths(given, [other]) == [5, 2, 3]
    for other in (torch.tensor([1, 2, 3]), torch.tensor([5, 5, 5]), torch.rand(3, 5)):
        assert real_lengths(given, [other]) is None


class Pooled(nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.embed, self.head, self.masked = nn.Embedding(20, 8), nn.Linear(8, 3), masked

    def forward(self, tokens, mask):
        h = self.embed(tokens)
        weight = mask[..., None].float() if self.masked else torch.ones_like(h[..., :1])
        return self.head((h * weight).sum(1) / weight.sum(1))


@pytest.mark.parametrize("masked", [False, True])
def test_padding_in_a_mean(masked):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 8, (64,), generator=generator)
    mask = torch.arange(8) < lengths[:, None]
    tokens = torch.randint(1, 20, (64, 8), generator=generator) * mask
    loader = DataLoader(TensorDataset(tokens, mask, torch.arange(64) % 3), 16, shuffle=True)
    model = Pooled(masked)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def step(batch):
        optimizer.zero_grad()
        loss = LOSS(model(batch[0], batch[1]), batch[2])
        loss.backward()
        optimizer.step()
        return loss.item()

    found = alarms(model=model, loader=loader, optimizer=optimizer, step=step)
    assert found[:1] == ([] if masked else ["padding-leaks"])


def test_parts_and_labels_of_samples():
    assert datasets.parts({"x": 1, "label": 2}) == ({"x": 1}, 2)
    assert datasets.parts((1, 2, 3)) == ((1, 2), 3)
    assert datasets.label(torch.tensor([2])) == 2
    assert datasets.label(0.5) is None
    assert datasets.all_labels(Subset(TensorDataset(torch.zeros(4, 1), torch.arange(4)), [3, 1])) == [3, 1]

"""Faults of losses and metrics: bad variants are named, sound neighbours stay silent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from doctor.twins import alarms, data, net, pairs, trained
from torch import nn

from course.doctor import loss_rules, loss_values
from course.doctor.family_losses import batch_means, is_reconstruction
from course.doctor.watch import origin


def call(name, given, target=None, **options):
    return SimpleNamespace(
        name=name, input=given.detach(), target=target, options=options, value=None, error=None, origin=origin(given)
    )


def faults(name, given, target=None, **options):
    return [finding.fault for finding in loss_rules.judge(call(name, given, target, **options))]


LOGITS = torch.linspace(-3, 3, 32).reshape(8, 4).requires_grad_() * 1.0
INDEX = torch.arange(8) % 4
HOT = F.one_hot(INDEX, 4).float()
LINEAR = nn.Linear(5, 6)
WEIGHT, BIAS = nn.Parameter(torch.full((6, 5), 0.01)), nn.Parameter(torch.full((6,), 0.5))
ONE_HOT_LAST = torch.ones(4, 6, 6) * torch.eye(6)[0]
STEPS = torch.linspace(-1, 1, 4 * 6 * 5).reshape(4, 6, 5)

BAD = {
    "softmax": ("double-softmax", "cross_entropy", LOGITS.softmax(1), INDEX),
    "softmax of a soft target": ("double-softmax", "cross_entropy", LOGITS.softmax(-1), HOT),
    "softmax without a graph": ("double-softmax", "cross_entropy", LOGITS.detach().softmax(1), INDEX),
    "softmax in bfloat16": ("double-softmax", "cross_entropy", LOGITS.softmax(1).bfloat16(), INDEX),
    "sigmoid into cross_entropy": ("double-softmax", "cross_entropy", LOGITS.sigmoid(), INDEX),
    "sigmoid": ("double-sigmoid", "binary_cross_entropy_with_logits", LOGITS.sigmoid(), HOT),
    "sigmoid by hand": ("double-sigmoid", "binary_cross_entropy_with_logits", 1 / (1 + (-LOGITS).exp()), HOT),
    "probabilities": ("nll-without-log", "nll_loss", LOGITS.softmax(1), INDEX),
    "logits": ("nll-without-log", "nll_loss", LOGITS, INDEX),
    "probabilities into kl_div": ("nll-without-log", "kl_div", LOGITS.softmax(1), HOT),
    "logits into ctc": ("nll-without-log", "ctc_loss", LOGITS.reshape(4, 2, 4), None),
    "logits into bce": ("bce-fed-logits", "binary_cross_entropy", LOGITS, HOT),
    "linear within 0 and 1": ("bce-fed-logits", "binary_cross_entropy", F.linear(STEPS * 0.1, WEIGHT, BIAS), None),
    "integer bce target": ("bce-target-dtype", "binary_cross_entropy_with_logits", LOGITS, HOT.long()),
    "boolean bce target": ("bce-target-dtype", "binary_cross_entropy", LOGITS.sigmoid(), HOT.bool()),
    "mask of 0 and 255": ("class-index-out-of-range", "binary_cross_entropy_with_logits", LOGITS, HOT * 255),
    "float indices": ("class-target-dtype", "cross_entropy", LOGITS, INDEX.float()),
    "int32 indices": ("class-target-dtype", "nll_loss", LOGITS.log_softmax(1), INDEX.int()),
    "integer one-hot": ("class-target-dtype", "cross_entropy", LOGITS, HOT.long()),
    "column": ("class-target-shape", "cross_entropy", LOGITS, INDEX[:, None]),
    "counted from one": ("class-index-out-of-range", "cross_entropy", LOGITS, INDEX + 1),
    "minus one": ("class-index-out-of-range", "nll_loss", LOGITS.log_softmax(1), INDEX - 1),
    "classes last": ("class-axis-misplaced", "cross_entropy", LINEAR(STEPS), torch.zeros(4, 6).long()),
    "classes last, soft": (
        "class-axis-misplaced",
        "cross_entropy",
        LINEAR(STEPS),
        torch.ones(4, 6, 6) * torch.eye(6)[0],
    ),
    "log_softmax over the batch": ("argmax-wrong-axis", "nll_loss", LOGITS.log_softmax(0), INDEX),
    "squared sigmoid": ("mse-on-probabilities", "mse_loss", LOGITS.sigmoid(), HOT),
    "absolute softmax": ("mse-on-probabilities", "l1_loss", LOGITS.softmax(1), HOT),
    "column against row": ("broadcast-outer-product", "mse_loss", LOGITS[:, :1], torch.zeros(8)),
    "row against column": ("broadcast-outer-product", "huber_loss", LOGITS[:, 0], torch.zeros(8, 1)),
}
BAD["linear within 0 and 1"] = (
    "bce-fed-logits",
    "binary_cross_entropy",
    F.linear(STEPS, LINEAR.weight * 0 + 0.01, LINEAR.bias * 0 + 0.5),
    None,
)
SOUND = {
    "logits": ("cross_entropy", LOGITS, INDEX),
    "soft targets": ("cross_entropy", LOGITS, HOT * 0.9 + 0.025),
    "log_softmax": ("nll_loss", LOGITS.log_softmax(1), INDEX),
    "logarithm of softmax": ("nll_loss", (LOGITS.softmax(1) + 1e-8).log(), INDEX),
    "ignored index": ("cross_entropy", LOGITS, INDEX.masked_fill(INDEX == 0, -100)),
    "zero logits": ("cross_entropy", LOGITS * 0, INDEX),
    "byte indices": ("cross_entropy", LOGITS, INDEX.byte()),
    "segmentation": ("cross_entropy", LOGITS.reshape(1, 4, 2, 4), torch.zeros(1, 2, 4).long()),
    "sequence, moved": ("cross_entropy", LINEAR(STEPS).transpose(1, 2), torch.zeros(4, 6).long()),
    "sigmoid and bce": ("binary_cross_entropy", LOGITS.sigmoid(), HOT),
    "softmax and bce": ("binary_cross_entropy", LOGITS.softmax(1), HOT),
    "logits and bce": ("binary_cross_entropy_with_logits", LOGITS, HOT),
    "smoothed bce": ("binary_cross_entropy_with_logits", LOGITS, HOT * 0.9),
    "rectified logits": ("binary_cross_entropy_with_logits", LOGITS.relu() / 3, HOT),
    "regression": ("mse_loss", LOGITS, torch.randn(8, 4)),
    "images between 0 and 1": ("mse_loss", LOGITS.sigmoid(), torch.rand(8, 4)),
    "same shape": ("mse_loss", LOGITS[:, :1], torch.zeros(8, 1)),
    "soft and soft": ("mse_loss", LOGITS.softmax(1), torch.randn(8, 4).softmax(1)),
    "log-probabilities into kl_div": ("kl_div", LOGITS.log_softmax(1), HOT),
    "single sample": ("cross_entropy", LOGITS[0], INDEX[0]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_faulty_call_is_named(name):
    fault, *arguments = BAD[name]
    assert fault in faults(*arguments)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_call_is_silent(name):
    assert faults(*SOUND[name]) == []


def test_square_sequences_are_told_by_what_made_them():
    square = nn.Linear(5, 6)(torch.randn(4, 6, 5))
    target = torch.zeros(4, 6).long()
    convolved = nn.Conv1d(5, 6, 1)(torch.randn(4, 5, 6))
    assert faults("cross_entropy", square, target) == ["class-axis-misplaced"]
    assert faults("cross_entropy", convolved.transpose(1, 2), target) == ["class-axis-misplaced"]
    assert faults("cross_entropy", square.transpose(1, 2), target) == []
    assert faults("cross_entropy", convolved, target) == []


@pytest.mark.parametrize(("one", "other", "wanted"), [
    ((8, 1), (8,), True), ((8,), (8, 1), True), ((4, 1, 3, 3), (4, 3, 3), True),
    ((8, 1), (8, 1), False), ((8, 3), (3,), False), ((8, 1), (1, 8), False), ((1, 1), (1,), False), ((8,), (), False),
])  # fmt: skip
def test_outer_shapes(one, other, wanted):
    assert loss_values.outer(one, other) is wanted


def test_labels_are_zeros_and_ones_of_both_kinds():
    assert loss_values.labels(HOT, "softmax")
    assert loss_values.labels(torch.tensor([[0.0], [1.0]]), "sigmoid")
    assert not loss_values.labels(torch.zeros(4, 1), "sigmoid")
    assert not loss_values.labels(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), "softmax")
    assert not loss_values.labels(torch.rand(4, 2), "sigmoid")


def test_reconstructions_are_no_labels():
    x = (torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    assert is_reconstruction(x, [x.flatten(1)])
    assert is_reconstruction(x, [x + 0.1 * torch.randn_like(x)])
    assert not is_reconstruction(x, [torch.randn_like(x)])


def test_means_of_batch_means():
    numbers = [(1.0, 16), (1.0, 16), (4.0, 1)]
    assert [f.fault for f in batch_means("losses", numbers, [2.0])] == ["mean-of-batch-means"]
    assert [f.fault for f in batch_means("means", numbers, [200.0])] == ["mean-of-batch-means"]
    assert not list(batch_means("losses", numbers, [36 / 33]))
    assert not list(batch_means("losses", [(1.0, 16), (2.0, 16)], [1.5]))


# --- whole setups ---------------------------------------------------------------------------------------------------


def stepping(model, loader, loss_of):
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def step(batch):
        optimizer.zero_grad()
        loss = loss_of(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader, "optimizer": optimizer, "step": step}


def by_hand(out, y):
    return -out.log_softmax(1)[torch.arange(len(y)), y].mean()


def test_a_softmax_before_a_loss_that_was_written_out():
    assert alarms(**stepping(net(8, 4, nn.Softmax(1)), data(), by_hand))[:1] == ["double-softmax"]
    assert alarms(**stepping(net(), data(), by_hand)) == []


def test_a_sigmoid_of_a_sigmoid():
    x, y = torch.randn(64, 8), (torch.arange(64) % 2).float()[:, None]
    x[:, :1] += 2 * y

    def loss(out, target):
        return F.binary_cross_entropy(out.sigmoid(), target)

    assert alarms(**trained(net(8, 1, nn.Sigmoid()), pairs(x, y), loss))[:1] == ["double-sigmoid"]
    assert alarms(**trained(net(8, 1), pairs(x, y), loss)) == []


def test_squares_of_probabilities_and_of_images():
    def squares(out, y):
        return (out - F.one_hot(y, 4)).square().mean()

    assert alarms(**stepping(net(8, 4, nn.Softmax(1)), data(), squares))[:1] == ["mse-on-probabilities"]
    x = (torch.rand(64, 16) > 0.5).float()
    model = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 16), nn.Sigmoid())
    assert alarms(**trained(model, pairs(x, x), nn.MSELoss())) == []


def evaluation(model, loader, right):
    @torch.no_grad()
    def evaluate():
        model.eval()
        share = sum(right(model(x), y).item() for x, y in loader) / sum(len(y) for _, y in loader)
        model.train()
        return share

    return evaluate


@pytest.mark.parametrize("right", [
    lambda out, y: (out.argmax(0)[: len(y)].sum() + y.sum()) * 0,
    lambda out, y: (out.argmax() == y).sum(),
    lambda out, y: (out.softmax(dim=0).argmax(1) == y).sum(),
])  # fmt: skip
def test_metrics_over_the_batch(right):
    model, loader = net(), data()
    found = alarms(**trained(model, loader, nn.CrossEntropyLoss(), evaluate=evaluation(model, loader, right)))
    assert found[:1] == ["argmax-wrong-axis"]


@pytest.mark.parametrize("right", [
    lambda out, y: (out.argmax(1) == y).sum(),
    lambda out, y: (out.max(-1).indices == y).sum(),
    lambda out, y: (out.topk(2).indices == y[:, None]).sum(),
])  # fmt: skip
def test_metrics_over_the_classes(right):
    model, loader = net(), data()
    assert alarms(**trained(model, loader, nn.CrossEntropyLoss(), evaluate=evaluation(model, loader, right))) == []

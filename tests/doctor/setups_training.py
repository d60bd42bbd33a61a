"""Setups with a fault in the loss, the loop, the schedule or the gradients, and their sound twins."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from doctor.made import blobs, curve, images, loader, masks, tokens
from doctor.registry import SETUPS
from doctor.zoo_losses import adam, mlp, plain
from torch import nn
from torch.optim import lr_scheduler

pair = SETUPS


def looped(model, loss_of, optimizer, data, order="zero backward step", **more):
    """A step that does what `order` says after the forward pass; `more` goes to the arguments."""

    def step(batch):
        loss = loss_of(batch)
        for act in order.split():
            if act == "zero":
                optimizer.zero_grad()
            elif act == "backward":
                loss.backward()
            elif act == "clip":
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            elif act == "step":
                optimizer.step()
        return loss.item()

    return {"model": model, "loader": data, "optimizer": optimizer, "step": step, **more}


@pair("zero-grad-before-step", "train-01")
def cleared_too_early(bad):
    model = mlp(4, 1)
    order = "backward zero step" if bad else "zero backward step"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return looped(model, lambda b: F.mse_loss(model(b[0]), b[1]), optimizer, loader(*curve()), order)


@pair("zero-grad-before-step")
def cleared_by_the_model(bad):
    model = mlp(8, 4)
    optimizer = adam(model, 1e-2)

    def step(batch):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        if bad:
            model.zero_grad()
        optimizer.step()
        if not bad:
            model.zero_grad()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("double-softmax", "train-02")
def softmax_at_the_end(bad):
    layers = [nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4)] + ([nn.Softmax(dim=1)] if bad else [])
    return plain(nn.Sequential(*layers), loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-2)


@pair("double-softmax")
def probabilities_from_the_step(bad):
    model = mlp(8, 4)

    def loss(batch):
        scores = model(batch[0])
        return F.cross_entropy(scores.softmax(-1) if bad else scores, batch[1])

    return looped(model, loss, adam(model, 1e-2), loader(*blobs()))


@pair("double-sigmoid")
def sigmoid_at_the_end(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 1)

        def forward(self, x):
            out = self.body(x).squeeze(1)
            return torch.sigmoid(out) if bad else out

    x, y = blobs(classes=2)
    return plain(Net(), loader(x, y.float()), nn.BCEWithLogitsLoss(), lr=1e-2)


@pair("nll-without-log", "train-18")
def probabilities_into_nll(bad):
    model = nn.Sequential(mlp(8, 4), nn.Softmax(dim=1) if bad else nn.LogSoftmax(dim=1))
    return plain(model, loader(*blobs()), nn.NLLLoss(), lr=1e-2)


@pair("nll-without-log")
def logits_into_nll(bad):
    model = mlp(8, 4)

    def loss(batch):
        out = model(batch[0])
        return F.nll_loss(out if bad else out.log_softmax(1), batch[1])

    return looped(model, loss, adam(model), loader(*blobs()))


@pair("bce-fed-logits")
def logits_into_bce(bad):
    x, y = blobs(classes=2)
    model = nn.Sequential(mlp(8, 1), *([] if bad else [nn.Sigmoid()]))
    return plain(model, loader(x, y.float()[:, None]), nn.BCELoss(), lr=1e-2)


@pair("mse-on-probabilities", "train-22")
def squared_error_of_one_hot(bad):
    x, y = blobs()
    if bad:
        return plain(nn.Sequential(mlp(8, 4), nn.Softmax(1)), loader(x, F.one_hot(y, 4).float()), nn.MSELoss(), 1e-2)
    return plain(mlp(8, 4), loader(x, y), nn.CrossEntropyLoss(), lr=1e-2)


@pair("mse-on-probabilities")
def squared_error_of_a_sigmoid(bad):
    x, y = blobs(classes=2)
    model = nn.Sequential(mlp(8, 1), *([nn.Sigmoid()] if bad else []))
    loss = F.mse_loss if bad else F.binary_cross_entropy_with_logits
    return looped(model, lambda b: loss(model(b[0]).flatten(), b[1]), adam(model, 1e-2), loader(x, y.float()))


@pair("class-target-dtype")
def labels_as_floats(bad):
    x, y = blobs()
    return plain(mlp(8, 4), loader(x, y.float() if bad else y), nn.CrossEntropyLoss())


@pair("class-target-shape", "train-04")
def labels_in_a_column(bad):
    x, y = blobs()
    return plain(mlp(8, 4), loader(x, y[:, None] if bad else y), nn.CrossEntropyLoss())


@pair("class-index-out-of-range", "train-05")
def labels_from_one(bad):
    x, y = blobs()
    return plain(mlp(8, 4), loader(x, y + 1 if bad else y), nn.CrossEntropyLoss())


@pair("class-index-out-of-range")
def void_label_in_a_mask(bad):
    x, y = masks()
    y[3, 2:4] = 255
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    return plain(model, loader(x, y, batch_size=8), nn.CrossEntropyLoss(ignore_index=-100 if bad else 255), lr=1e-2)


@pair("class-axis-misplaced")
def classes_in_the_last_axis(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn, self.head = (
                nn.Embedding(9, 12),
                nn.GRU(12, 16, batch_first=True),
                nn.Linear(16, 9),
            )

        def forward(self, ids):
            out = self.head(self.rnn(self.embedding(ids))[0])
            return out if bad else out.transpose(1, 2)

    ids = tokens(48, 10, 9)
    return plain(Net(), loader(ids[:, :-1], ids[:, 1:]), nn.CrossEntropyLoss(), lr=1e-2)


@pair("argmax-wrong-axis", "train-17")
def softmax_over_the_batch(bad):
    x, y = blobs()
    model = nn.Sequential(mlp(8, 4), nn.Softmax(dim=0 if bad else 1))
    return plain(model, loader(x, y), lambda p, t: F.nll_loss((p + 1e-8).log(), t), lr=1e-2)


@pair("argmax-wrong-axis")
def accuracy_over_the_wrong_axis(bad):
    model = mlp(8, 4)
    x, y = blobs(68)
    val = loader(x[64:], y[64:], shuffle=False, batch_size=4)

    @torch.no_grad()
    def evaluate():
        model.eval()
        right = sum((model(a).argmax(0 if bad else 1) == b).sum().item() for a, b in val)
        model.train()
        return right / 4

    data = loader(x[:64], y[:64])
    return looped(
        model,
        lambda b: F.cross_entropy(model(b[0]), b[1]),
        adam(model, 1e-2),
        data,
        evaluate=evaluate,
        val_loader=val,
    )


@pair("bce-target-dtype", "train-21")
def integer_targets_for_bce(bad):
    x, y = blobs(classes=2)
    return plain(mlp(8, 1), loader(x, y[:, None] if bad else y[:, None].float()), nn.BCEWithLogitsLoss())


def with_dropout_and_norm() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 4))


@pair("eval-mode-missing")
def evaluated_in_train_mode(bad):
    model = with_dropout_and_norm()
    x, y = blobs(96)
    val = loader(x[64:], y[64:], shuffle=False)

    def evaluate():
        if not bad:
            model.eval()
        with torch.no_grad():
            right = sum((model(a).argmax(1) == b).sum().item() for a, b in val)
        model.train()
        return right / 32

    return looped(
        model,
        lambda b: F.cross_entropy(model(b[0]), b[1]),
        adam(model),
        loader(x[:64], y[:64]),
        evaluate=evaluate,
        val_loader=val,
    )


@pair("train-mode-not-restored", "train-08")
def left_in_evaluation_mode(bad):
    model = with_dropout_and_norm()
    x, y = blobs(96)
    val = loader(x[64:], y[64:], shuffle=False)

    @torch.inference_mode()
    def evaluate():
        model.eval()
        loss = sum(F.cross_entropy(model(a), b, reduction="sum").item() for a, b in val) / 32
        if not bad:
            model.train()
        return loss

    return looped(
        model, lambda b: F.cross_entropy(model(b[0]), b[1]), adam(model), loader(x[:64], y[:64]), evaluate=evaluate
    )


def stepped(model, optimizer, scheduler, data, each, before=False):
    """A classifier's step that moves the schedule every `each` batches, before or after the optimizer."""
    count = 0

    def step(batch):
        nonlocal count
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        count += 1
        if before and count % each == 0:
            scheduler.step()
        optimizer.step()
        if not before and count % each == 0:
            scheduler.step()
        return loss.item()

    return {"model": model, "loader": data, "optimizer": optimizer, "scheduler": scheduler, "step": step}


@pair("scheduler-per-batch", "train-09")
def steps_meant_for_epochs(bad):
    model = mlp(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    return stepped(model, optimizer, scheduler, loader(*blobs(128), batch_size=8), each=1 if bad else 16)


@pair("scheduler-per-batch")
def cosine_of_ten_epochs(bad):
    model = mlp(8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=10 if bad else 10 * 32)
    return stepped(model, optimizer, scheduler, loader(*blobs(128), batch_size=4), each=1)


@pair("scheduler-before-optimizer")
def schedule_moved_first(bad):
    model = mlp(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.01 * n))
    return stepped(model, optimizer, scheduler, loader(*blobs()), each=1, before=bad)


@pair("learning-rate-too-high", "train-11")
def linear_that_diverges(bad):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0 if bad else 0.1)
    return {"model": model, "loader": loader(*curve()), "loss_fn": nn.MSELoss(), "optimizer": optimizer}


@pair("learning-rate-too-high")
def adam_with_rate_three(bad):
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss(), lr=3.0 if bad else 3e-3)


@pair("learning-rate-too-low")
def rate_of_a_billionth(bad):
    return plain(mlp(8, 4), loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-9 if bad else 1e-3)


@pair("accumulation-not-scaled")
def four_micro_batches_added_up(bad):
    model = mlp(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    count = 0

    def step(batch):
        nonlocal count
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss if bad else loss / 4).backward()
        count += 1
        if count % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return {"model": model, "loader": loader(*blobs(), batch_size=4), "optimizer": optimizer, "step": step}


@pair("clip-after-step", "train-20")
def clipped_when_it_is_too_late(bad):
    model = mlp(8, 4)
    order = "zero backward step clip" if bad else "zero backward clip step"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return looped(model, lambda b: F.cross_entropy(model(b[0]), b[1]), optimizer, loader(*blobs()), order)


@pair("clip-after-step")
def clipped_before_backward(bad):
    model = mlp(4, 1)
    order = "zero clip backward step" if bad else "zero backward clip step"
    return looped(model, lambda b: F.mse_loss(model(b[0]), b[1]), adam(model), loader(*curve()), order)


def tower(depth, gain, activation):
    layers = [nn.Linear(8, 24), activation()]
    for _ in range(depth):
        layers += [nn.Linear(24, 24), activation()]
    model = nn.Sequential(*layers, nn.Linear(24, 4))
    if gain is not None:
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=gain)
    return model


@pair("exploding-gradient")
def weights_grow_layer_by_layer(bad):
    model = tower(8, 1.0, nn.ReLU) if bad else tower(8, 0.28, nn.ReLU)
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-3)


@pair("vanishing-gradient")
def sigmoids_all_the_way(bad):
    model = tower(10, None, nn.Sigmoid) if bad else tower(3, 0.28, nn.ReLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "loader": loader(*blobs()), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@pair("log-of-zero")
def logarithm_of_a_saturated_softmax(bad):
    model = mlp(8, 4)
    with torch.no_grad():
        model[2].weight.mul_(300)

    def loss(batch):
        if bad:
            return -(model(batch[0]).softmax(1).log() * F.one_hot(batch[1], 4)).sum(1).mean()
        return F.cross_entropy(model(batch[0]), batch[1])

    if not bad:
        with torch.no_grad():
            model[2].weight.div_(300)
    return looped(model, loss, adam(model), loader(*blobs()))


@pair("division-by-zero")
def weights_that_sum_to_zero(bad):
    model = mlp(4, 1)

    def loss(batch):
        x, y = batch
        weight = (x[:, :1] > 5.0).float()
        total = (weight * (model(x) - y).square()).sum()
        if bad:
            return total / weight.sum()
        return F.mse_loss(model(x), y) + total / weight.sum().clamp(min=1)

    return looped(model, loss, adam(model), loader(*curve()))


@pair("step-missing")
def never_stepped(bad):
    model = nn.Sequential(nn.Flatten(), mlp(192, 4))
    order = "zero backward" if bad else "zero backward step"
    return looped(model, lambda b: F.cross_entropy(model(b[0]), b[1]), adam(model), loader(*images()), order)


@pair("mean-of-batch-means")
def short_last_batch_counts_as_much(bad):
    model = mlp(8, 4)
    x, y = blobs(97)
    val = loader(x[64:], y[64:], shuffle=False)

    @torch.no_grad()
    def evaluate():
        model.eval()
        if bad:
            result = sum((model(a).argmax(1) == b).float().mean().item() for a, b in val) / len(val)
        else:
            result = sum((model(a).argmax(1) == b).sum().item() for a, b in val) / 33
        model.train()
        return result

    return looped(
        model,
        lambda b: F.cross_entropy(model(b[0]), b[1]),
        adam(model),
        loader(x[:64], y[:64]),
        evaluate=evaluate,
        val_loader=val,
    )

"""Setups with a fault in what autograd records, and their sound twins."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from doctor.made import blobs, curve, loader, tokens
from doctor.registry import SETUPS
from doctor.zoo_losses import adam, mlp, plain
from torch import nn

pair = SETUPS


@pair("inplace-on-saved", "autograd-01")
def added_to_a_saved_result(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 1)

        def forward(self, x):
            h = torch.sigmoid(self.first(x))
            if bad:
                h += 1
            else:
                h = h + 1
            return self.last(h)

    return plain(Net(), loader(*curve()), nn.MSELoss())


@pair("step-before-second-backward")
def one_fake_for_both_steps(bad):
    maker, judge = mlp(4, 8), mlp(8, 1)
    of_maker, of_judge = adam(maker), adam(judge)

    def step(batch):
        real = batch[0]
        fake = maker(torch.randn(len(real), 4))
        verdict = judge(fake)
        of_judge.zero_grad()
        judged = verdict if bad else judge(fake.detach())
        loss = F.softplus(-judge(real)).mean() + F.softplus(judged).mean()
        loss.backward(retain_graph=bad)
        of_judge.step()
        of_maker.zero_grad()
        own = F.softplus(-(verdict if bad else judge(fake))).mean()
        own.backward()
        of_maker.step()
        return own.item()

    model = nn.ModuleList([maker, judge])
    return {"model": model, "loader": loader(blobs()[0]), "optimizer": [of_maker, of_judge], "step": step}


@pair("backward-twice")
def two_losses_of_one_graph(bad):
    model = nn.ModuleDict({"body": mlp(8, 16), "kind": nn.Linear(16, 4), "size": nn.Linear(16, 1)})
    optimizer = adam(model)

    def step(batch):
        x, y = batch
        optimizer.zero_grad()
        h = torch.tanh(model["body"](x))
        first = F.cross_entropy(model["kind"](h), y)
        second = F.mse_loss(model["size"](h), x[:, :1])
        if bad:
            first.backward()
            second.backward()
        else:
            (first + second).backward()
        optimizer.step()
        return first.item() + second.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("hidden-state-not-detached", "autograd-14")
def state_carried_with_its_graph(bad):
    model = nn.ModuleDict({"rnn": nn.RNN(12, 16, batch_first=True), "head": nn.Linear(16, 12)})
    optimizer = adam(model, 1e-2)
    h = torch.zeros(1, 8, 16)

    def step(batch):
        nonlocal h
        ids = batch[0].squeeze(0)
        out, h = model["rnn"](F.one_hot(ids, 12).float(), h if bad else h.detach())
        loss = F.cross_entropy(model["head"](out[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    pieces = tokens(8, 60).view(8, 6, 10).transpose(0, 1)
    return {"model": model, "loader": loader(pieces, batch_size=1, shuffle=False), "optimizer": optimizer, "step": step}


@pair("backward-of-nonscalar", "autograd-03")
def loss_not_reduced(bad):
    loss = nn.CrossEntropyLoss(reduction="none" if bad else "mean")
    return plain(mlp(8, 4), loader(*blobs()), loss)


@pair("inplace-on-leaf", "autograd-04")
def update_while_recording(bad):
    model = nn.Linear(4, 1)

    def update():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None

    def step(batch):
        loss = F.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        if bad:
            update()
        else:
            with torch.no_grad():
                update()
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "step": step}


@pair("parameter-rebound")
def weight_replaced_by_a_result(bad):
    model = nn.Linear(4, 1, bias=False)
    weight = model.weight

    def step(batch):
        nonlocal weight
        loss = F.mse_loss(batch[0] @ weight.T, batch[1])
        if weight.grad is not None:
            weight.grad = None
        loss.backward()
        if bad:
            weight = weight - 0.1 * weight.grad
        else:
            with torch.no_grad():
                weight -= 0.1 * weight.grad
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "step": step}


@pair("nonleaf-parameter", "autograd-17")
def scale_made_after_the_leaf(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(4, 1)
            if bad:
                self.scale = torch.randn(4, requires_grad=True) * 0.1 + 1
            else:
                self.scale = nn.Parameter(torch.randn(4) * 0.1 + 1)

        def forward(self, x):
            return self.body(x * self.scale)

    model = Net()
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@pair("missing-zero-grad")
def gradients_pile_up(bad):
    model = mlp(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def step(batch):
        if not bad:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("graph-cut", "autograd-07")
def forward_without_recording(bad):
    model = mlp(4, 1)
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        with torch.set_grad_enabled(not bad):
            out = model(batch[0])
        loss = F.mse_loss(out, batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@pair("graph-cut")
def encoder_output_detached(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            h = torch.tanh(self.encoder(x))
            return self.head(h.detach() if bad else h)

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-2)


@pair("loss-rewrapped")
def loss_as_a_new_leaf(bad):
    model = mlp(8, 4)
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        if bad:
            loss = torch.tensor(loss.item(), requires_grad=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("where-nan-gradient", "autograd-10")
def root_of_what_was_not_chosen(bad):
    def loss(output, target):
        gap = output - target
        if bad:
            return torch.where(gap > 0, gap.sqrt(), gap.abs()).mean()
        safe = torch.where(gap > 1e-6, gap, 1.0)
        return torch.where(gap > 1e-6, safe.sqrt(), gap.abs()).mean()

    return plain(mlp(4, 1), loader(*curve()), loss)


class Powers(nn.Module):
    """Learnt powers of what is positive; negative numbers stay as they are."""

    def __init__(self, bad):
        super().__init__()
        self.exponent, self.bad = nn.Parameter(torch.full((4,), 0.8)), bad

    def forward(self, x):
        base = x if self.bad else x.clamp_min(1e-3)
        return torch.where(x > 0, base.pow(self.exponent), x)


@pair("where-nan-gradient")
def learnt_powers_of_what_was_not_chosen(bad):
    return plain(nn.Sequential(Powers(bad), mlp(4, 1)), loader(*curve()), F.mse_loss)


@pair("sqrt-at-zero", "autograd-11")
def distance_of_equal_points(bad):
    model = mlp(8, 6)
    optimizer = adam(model)

    def step(batch):
        x, y = batch
        z = model(x)
        squares = (z[:, None] - z[None]).square().sum(-1)
        distance = (squares if bad else squares + 1e-9).sqrt()
        same = y[:, None] == y[None]
        loss = torch.where(same, distance, F.relu(1 - distance)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("graph-retained-in-log", "autograd-12")
def running_total_with_its_graph(bad):
    model = mlp(4, 1)
    optimizer = adam(model)
    total = 0.0

    def step(batch):
        nonlocal total
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        total = total + (loss if bad else loss.item())
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "optimizer": optimizer, "step": step}


@pair("graph-retained-in-log")
def validation_outputs_kept(bad):
    model = mlp(8, 4)
    optimizer = adam(model)
    data = loader(*blobs())
    log = []

    def step(batch):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate():
        model.eval()
        with torch.set_grad_enabled(bad):
            losses = [F.cross_entropy(model(x), y) for x, y in data]
        log.extend(losses)
        return sum(losses).item() / len(losses)

    return {"model": model, "loader": data, "optimizer": optimizer, "step": step, "evaluate": evaluate}


@pair("nondifferentiable-loss", "autograd-13")
def rounded_answers(bad):
    x, y = blobs(classes=2)

    def loss(output, target):
        if bad:
            return ((output.sigmoid().round() - target) ** 2).mean()
        return F.binary_cross_entropy_with_logits(output, target)

    return plain(mlp(8, 1), loader(x, y.float()[:, None]), loss, lr=1e-2)


@pair("nondifferentiable-loss")
def error_rate_as_loss(bad):
    model = mlp(8, 4)
    optimizer = adam(model)

    def step(batch):
        x, y = batch
        logits = model(x)
        loss = (logits.argmax(1) != y).float().mean() if bad else F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("missing-create-graph")
def penalty_that_is_a_constant(bad):
    critic = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = adam(critic)

    def step(batch):
        x = batch[0].clone().requires_grad_(True)
        score = critic(x)
        (slope,) = torch.autograd.grad(score.sum(), x, create_graph=not bad, retain_graph=True)
        loss = F.mse_loss(score, batch[0][:, :1]) + (slope.norm(2, dim=1) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": critic, "loader": loader(blobs()[0]), "optimizer": optimizer, "step": step}


@pair("inference-tensor-in-autograd")
def features_made_in_inference_mode(bad):
    encoder, head = mlp(8, 16), nn.Linear(16, 4)
    optimizer = adam(head, 1e-2)
    encoder.requires_grad_(False)

    def step(batch):
        with torch.inference_mode() if bad else torch.no_grad():
            features = encoder(batch[0])
        optimizer.zero_grad()
        loss = F.cross_entropy(head(features), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": head, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@pair("data-bypasses-autograd")
def activation_edited_through_data(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 1)

        def forward(self, x):
            h = torch.tanh(self.first(x))
            if bad:
                h.data.mul_(0.5)
            else:
                h = h * 0.5
            return self.last(h)

    return plain(Net(), loader(*curve()), nn.MSELoss())

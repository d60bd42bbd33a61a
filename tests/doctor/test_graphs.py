"""Graphs between one batch and the next, and state that is kept: faults and their sound neighbours."""

from __future__ import annotations

import collections
import copy

import pytest
import torch
import torch.nn.functional as F
from doctor.dynamic import loss_of, net, seen, setup
from doctor.made import blobs, curve, loader
from torch import nn


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def logged(keep, evaluate=None):
    model = net()
    opt = torch.optim.Adam(model.parameters(), 3e-3)

    def step(batch):
        loss = loss_of(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
        keep(loss)

    return setup(step, model, optimizer=opt, evaluate=evaluate and evaluate(model))


def in_a_list(detach):
    kept = []
    return lambda loss: kept.append(loss.detach() if detach else loss)


def in_a_mean(detach):
    state = {"mean": 0.0}

    def keep(loss):
        state["mean"] = 0.9 * state["mean"] + 0.1 * (loss.item() if detach else loss)

    return keep


def in_a_deque(detach):
    kept = collections.deque(maxlen=50)
    return lambda loss: kept.append(loss.clone().detach() if detach else loss.clone())


@pytest.mark.parametrize("make", [in_a_list, in_a_mean, in_a_deque])
def test_graph_retained_in_log(make):
    assert seen(logged(make(False))) == ["graph-retained-in-log"]
    assert seen(logged(make(True))) == []


def test_the_last_loss_alone_is_sound():
    last = {}
    assert seen(logged(lambda loss: last.update(loss=loss))) == []


def test_evaluation_that_piles_up_graphs():
    def evaluate(grad, sums):
        def of(model):
            x, y = blobs()

            def run():
                model.eval()
                total, outs = 0.0, []
                with torch.set_grad_enabled(grad):
                    for a, b in zip(x.split(8), y.split(8), strict=True):
                        out = model(a)
                        outs.append(out if not sums else None)
                        total = total + F.cross_entropy(out, b)
                model.train()
                return float(total)

            return run

        return of

    for sums in (False, True):
        assert seen(logged(in_a_list(True), evaluate(True, sums))) == ["graph-retained-in-log"]
        assert seen(logged(in_a_list(True), evaluate(False, sums))) == []


class Memory(nn.Module):
    def __init__(self, cell, detach):
        super().__init__()
        self.cell, self.head, self.state, self.detach = cell, nn.Linear(6, 1), None, detach

    def forward(self, x):
        if self.state is None:
            self.state = torch.zeros(len(x), 6)
        out = self.cell(x, self.state.detach() if self.detach else self.state)
        self.state = out
        return self.head(out)


class OwnCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 6)

    def forward(self, x, h):
        return torch.tanh(self.a(x) + self.b(h))


@pytest.mark.parametrize("cell", [lambda: nn.GRUCell(4, 6), OwnCell])
@pytest.mark.parametrize("retain", [False, True])
def test_hidden_state_not_detached(cell, retain):
    def arguments(detach):
        model = Memory(cell(), detach)
        opt = torch.optim.SGD(model.parameters(), 1e-2)

        def step(batch):
            loss = F.mse_loss(model(batch[0]), batch[1])
            opt.zero_grad()
            loss.backward(retain_graph=retain)
            opt.step()
            return loss.item()

        return setup(step, model, loader=loader(*curve()), optimizer=opt)

    assert seen(arguments(False))[:1] == ["hidden-state-not-detached"]
    assert seen(arguments(True)) == []


def test_hidden_state_that_is_walked_further_and_further():
    # The cell's weights stay, so that retain_graph=True is all that it takes to go on without an error.
    def arguments(detach):
        model = Memory(OwnCell(), detach)
        opt = torch.optim.SGD(model.parameters(), 1e-2)

        def step(batch):
            loss = F.mse_loss(model(batch[0]), batch[1])
            loss.backward(retain_graph=True)
            return loss.item()

        return setup(step, model, loader=loader(*curve()), optimizer=opt)

    assert "hidden-state-not-detached" in seen(arguments(False))
    assert "hidden-state-not-detached" not in seen(arguments(True))


def penalised(create, where="input"):
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)

    def step(batch):
        x = batch[0].clone().requires_grad_()
        out = model(x)
        over = [x] if where == "input" else list(model.parameters())
        slopes = torch.autograd.grad(out.sum(), over, create_graph=create, retain_graph=True)
        penalty = sum(slope.square().sum() for slope in slopes)
        loss = F.mse_loss(out, batch[1]) + 0.01 * penalty
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()

    return setup(step, model, loader=loader(*curve()), optimizer=opt)


@pytest.mark.parametrize("where", ["input", "weights"])
def test_missing_create_graph(where):
    assert seen(penalised(False, where)) == ["missing-create-graph"]
    assert seen(penalised(True, where)) == []


def test_adversarial_inputs_are_sound():
    model = net()
    opt = torch.optim.Adam(model.parameters(), 1e-3)

    def step(batch):
        x = batch[0].clone().requires_grad_()
        slope = torch.autograd.grad(loss_of(model, (x, batch[1])), x)[0]
        loss = loss_of(model, batch) + loss_of(model, (batch[0] + 0.05 * slope.sign(), batch[1]))
        opt.zero_grad()
        loss.backward()
        opt.step()

    assert seen(setup(step, model, optimizer=opt)) == []


class Edited(nn.Module):
    def __init__(self, edit):
        super().__init__()
        self.first, self.last, self.edit = nn.Linear(8, 16), nn.Linear(16, 4), edit

    def forward(self, x):
        return self.last(self.edit(torch.sigmoid(self.first(x))))


def zeroed(h):
    h.data[:, 0] = 0
    return h


def by_numpy(h):
    h.detach().numpy()[:, 1] *= 3
    return h


@pytest.mark.parametrize("edit", [zeroed, by_numpy])
def test_data_bypasses_autograd(edit):
    def arguments(edit):
        model = Edited(edit)
        opt = torch.optim.Adam(model.parameters(), 1e-3)

        def step(batch):
            loss = loss_of(model, batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            for parameter in model.parameters():
                parameter.data.clamp_(-1, 1)  # between two steps it harms nobody

        return setup(step, model, optimizer=opt)

    assert seen(arguments(edit)) == ["data-bypasses-autograd"]
    assert seen(arguments(lambda h: h * 0.5)) == []


def replaced(model, _):
    for name, parameter in list(model.named_parameters()):
        new = nn.Parameter(parameter.detach() - 0.05 * parameter.grad)
        module = model.get_submodule(name.rpartition(".")[0])
        setattr(module, name.rpartition(".")[2], new)


def local_name(model, _):
    for parameter in model.parameters():
        parameter = parameter - 0.05 * parameter.grad


def in_place(model, _):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.05 * parameter.grad)


@pytest.mark.parametrize("update", [replaced, local_name])
def test_parameter_rebound(update):
    def arguments(update):
        model = net()

        def step(batch):
            model.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            update(model, batch)
            return loss.item()

        return setup(step, model)

    assert seen(arguments(update))[:1] == ["parameter-rebound"]
    assert seen(arguments(in_place)) == []


def best_of(keep):
    model = net()
    x, y = blobs()
    best = {"loss": float("inf")}

    def evaluate():
        model.eval()
        with torch.no_grad():
            loss = F.cross_entropy(model(x), y).item()
        model.train()
        if loss < best["loss"]:
            best.update(loss=loss, state=keep(model))
        return loss

    opt = torch.optim.Adam(model.parameters(), 3e-3)

    def step(batch):
        loss = loss_of(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()

    return setup(step, model, optimizer=opt, evaluate=evaluate)


@pytest.mark.parametrize(
    "keep",
    [
        lambda m: m.state_dict(),
        lambda m: dict(m.state_dict()),
        lambda m: {k: v for k, v in m.state_dict().items()},  # noqa: C416
        lambda m: {k: v.detach().cpu() for k, v in m.state_dict().items()},
    ],
)
def test_state_dict_aliased(keep):
    assert seen(best_of(keep)) == ["state-dict-aliased"]


@pytest.mark.parametrize(
    "keep",
    [
        lambda m: copy.deepcopy(m.state_dict()),
        lambda m: {k: v.clone() for k, v in m.state_dict().items()},
        lambda m: None,
    ],
)
def test_copies_are_sound(keep):
    assert seen(best_of(keep)) == []


@pytest.mark.parametrize(
    ("prefix", "wanted"), [("module.", ["nothing-loaded"]), ("_orig_mod.", ["nothing-loaded"]), ("", [])]
)
def test_nothing_loaded(prefix, wanted):
    model = net()
    state = {prefix + name: value.clone() for name, value in model.state_dict().items()}
    x, y = blobs()

    def evaluate():
        other = net().eval()
        other.load_state_dict(state, strict=False)
        with torch.no_grad():
            return F.cross_entropy(other(x), y).item()

    opt = torch.optim.Adam(model.parameters(), 3e-3)

    def step(batch):
        loss = loss_of(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()

    assert seen(setup(step, model, optimizer=opt, evaluate=evaluate)) == wanted


def test_part_of_the_weights_is_sound():
    model, trunk = net(), {k: v.clone() for k, v in net().state_dict().items() if k.startswith("0.")}
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    first = True

    def step(batch):
        nonlocal first
        if first:
            model.load_state_dict(trunk, strict=False)
            first = False
        loss = loss_of(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()

    assert seen(setup(step, model, optimizer=opt)) == []


@pytest.mark.parametrize(
    ("make", "restored", "wanted"),
    [
        (torch.optim.AdamW, False, ["optimizer-not-restored"]),
        (torch.optim.AdamW, True, []),
        (torch.optim.RMSprop, False, ["optimizer-not-restored"]),
        (torch.optim.SGD, False, []),
    ],
)
def test_resumed_without_the_state_of_the_optimizer(make, restored, wanted):
    def parts():
        model = net()
        opt = make(model.parameters(), lr=3e-3)
        return model, opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4000)

    def step_of(model, opt, schedule):
        def step(batch):
            opt.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            opt.step()
            schedule.step()
            return loss.item()

        return step

    first = parts()
    step, batch = step_of(*first), blobs()
    for _ in range(30):
        step(batch)
    second = parts()
    for ours, theirs, wants in zip(second, first, (True, restored, True), strict=True):
        if wants:
            ours.load_state_dict(theirs.state_dict())
    model, opt, schedule = second
    assert seen(setup(step_of(*second), model, optimizer=opt, scheduler=schedule)) == wanted

"""Half precision and scalers: faults and their sound neighbours."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from doctor.dynamic import loss_of, net, seen, setup
from doctor.made import blobs
from torch import nn
from torch.nn.utils import clip_grad_norm_


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def scaled(body, **scaler):
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    scale = torch.amp.GradScaler("cpu", **{"init_scale": 1024.0, **scaler})

    def step(batch):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(batch[0])
        loss = F.cross_entropy(logits.float(), batch[1])
        body(model, opt, scale, loss)
        return loss.item()

    return setup(step, model, optimizer=opt, scaler=scale)


def right(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()


def without_clip(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()


def limit_times_scale(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
    scaler.step(opt)
    scaler.update()


@pytest.mark.parametrize("body", [right, without_clip, limit_times_scale])
def test_scalers_used_rightly_are_sound(body):
    assert seen(scaled(body)) == []


def clip_first(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()


def clip_by_hand_first(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    for parameter in model.parameters():
        parameter.grad.clamp_(-1, 1)
    scaler.step(opt)
    scaler.update()


@pytest.mark.parametrize("body", [clip_first, clip_by_hand_first])
def test_clip_before_unscale(body):
    assert seen(scaled(body)) == ["clip-before-unscale"]


def no_update(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    scaler.step(opt)


def twice(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()


def scale_thrown_away(model, opt, scaler, loss):
    scaler.scale(loss)
    loss.backward()
    scaler.step(opt)
    scaler.update()


def step_past_the_scaler(model, opt, scaler, loss):
    scaler.scale(loss).backward()
    opt.step()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (no_update, "scaler-update-missing"),
        (twice, "unscale-twice"),
        (scale_thrown_away, "gradient-underflow"),
        (step_past_the_scaler, "learning-rate-too-high"),
    ],
)
def test_scalers_misused(body, fault):
    assert seen(scaled(body))[:1] == [fault]


def test_a_scaler_that_is_off_is_sound():
    def body(model, opt, scaler, loss):
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()

    assert seen(scaled(body, enabled=False)) == []


class Half(nn.Module):
    def __init__(self, work, dtype):
        super().__init__()
        self.body, self.work, self.dtype = net(), work, dtype

    def forward(self, x):
        return self.body(x) + 0.01 * torch.tanh(self.work(x.to(self.dtype)).float().mean(1, keepdim=True))


@pytest.mark.parametrize(
    "work",
    [
        lambda x: (x * 300) ** 2,
        lambda x: (20 * x.abs()).exp(),
        lambda x: (x * 500 + 1) @ (x * 500).T,
    ],
)
def test_half_overflow(work):
    def arguments(dtype):
        model = Half(work, dtype)
        opt = torch.optim.Adam(model.parameters(), 3e-3)

        def step(batch):
            loss = loss_of(model, batch)
            opt.zero_grad()
            loss.backward()
            opt.step()

        return setup(step, model, optimizer=opt)

    assert seen(arguments(torch.float16))[:1] == ["half-overflow"]
    assert seen(arguments(torch.bfloat16)) == []


def test_masks_in_float16_are_sound():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = net()

        def forward(self, x):
            scores = x.half().masked_fill(x < -1, float("-inf"))
            return self.body(scores.float().softmax(1))

    model = Masked()
    opt = torch.optim.Adam(model.parameters(), 3e-3)

    def step(batch):
        loss = loss_of(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()

    assert seen(setup(step, model, optimizer=opt)) == []


@pytest.mark.parametrize(
    ("dtype", "lr", "kind", "wanted"),
    [
        (torch.float16, 1e-3, torch.optim.Adam, ["pure-half-adam"]),
        (torch.float16, 1e-3, torch.optim.AdamW, ["pure-half-adam"]),
        (torch.bfloat16, 1e-5, torch.optim.AdamW, ["pure-half-adam"]),
        (torch.float32, 1e-4, torch.optim.AdamW, []),
    ],
)
def test_pure_half_adam(dtype, lr, kind, wanted):
    model = net().to(dtype)
    opt = kind(model.parameters(), lr=lr)

    def step(batch):
        loss = F.cross_entropy(model(batch[0].to(dtype)).float(), batch[1])
        opt.zero_grad()
        loss.backward()
        opt.step()

    assert seen(setup(step, model, optimizer=opt))[:1] == wanted


@pytest.mark.parametrize("make", [lambda t: t.bfloat16(), lambda t: t.half()])
def test_half_accumulator(make):
    def arguments(make):
        model = net()
        model.register_buffer("count", make(torch.zeros(())))
        opt = torch.optim.Adam(model.parameters(), 3e-3)

        def step(batch):
            loss = loss_of(model, batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            model.count += 1

        return setup(step, model, optimizer=opt)

    assert seen(arguments(make)) == ["half-accumulator"]
    assert seen(arguments(lambda t: t)) == []


def test_autocast_in_bfloat16_without_a_scaler_is_sound():
    model = net()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)

    def step(batch):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, batch)
        loss.backward()
        opt.step()

    assert seen(setup(step, model, optimizer=opt)) == []


def test_old_scaler_name():
    model = net()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    with pytest.warns(FutureWarning):
        scaler = torch.cuda.amp.GradScaler()

    def step(batch):
        opt.zero_grad()
        scaler.scale(loss_of(model, batch)).backward()
        scaler.step(opt)
        scaler.update()

    assert seen(setup(step, model, optimizer=opt, scaler=scaler)) == ["legacy-amp-api"]
    assert blobs()[0].dtype == torch.float32

"""The order of a training step as the recorder sees it."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from course.checking.steps import watched_steps


def recorded(step):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = torch.autograd.backward
    with watched_steps(model, optimizer) as record:
        step(model, optimizer, model(torch.tensor([[3.0, -5.0]])).pow(2).sum())
    assert torch.autograd.backward is before
    assert "zero_grad" not in vars(optimizer)
    optimizer.step()  # the hook is gone
    return record.events


def test_the_usual_order():
    def step(model, optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()

    assert recorded(step) == ["zero_grad", "backward", "clip", "step"]


def test_clipping_counts_however_it_is_written():
    def by_value(model, optimizer, loss):
        loss.backward()
        clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()

    def by_hand(model, optimizer, loss):
        torch.autograd.backward(loss)
        for p in model.parameters():
            p.grad.mul_(0.1)
        optimizer.step()

    assert recorded(by_value) == recorded(by_hand) == ["backward", "clip", "step"]


def test_what_is_missing_or_late():
    def no_clip(model, optimizer, loss):
        model.zero_grad()
        loss.backward()
        optimizer.step()

    def zero_last(model, optimizer, loss):
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()

    assert recorded(no_clip) == ["zero_grad", "backward", "step"]
    assert recorded(zero_last) == ["backward", "zero_grad", "step"]

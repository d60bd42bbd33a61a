"""The order of a training step: faults and their sound neighbours."""

from __future__ import annotations

import pytest
import torch
from doctor.dynamic import loss_of, net, seen, setup
from doctor.made import blobs, loader
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def sgd(model, lr=0.05, **more):
    return torch.optim.SGD(model.parameters(), lr=lr, **more)


def looped(body, optimizer=sgd, **more):
    """A setup whose step is body(model, optimizer, batch, number of the call)."""
    model = net()
    opt = optimizer(model)
    calls = 0

    def step(batch):
        nonlocal calls
        calls += 1
        return body(model, opt, batch, calls)

    return setup(step, model, optimizer=opt, **more)


def plain(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    opt.step()
    return loss.item()


def never_cleared(model, opt, batch, _):
    loss = loss_of(model, batch)
    loss.backward()
    opt.step()
    return loss.item()


def cleared_once(model, opt, batch, number):
    if number == 1:
        opt.zero_grad()
    return never_cleared(model, opt, batch, number)


def another_is_cleared(model, opt, batch, number):
    net().zero_grad()
    return never_cleared(model, opt, batch, number)


def cleared_after(model, opt, batch, _):
    loss = loss_of(model, batch)
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=False)
    return loss.item()


def cleared_by_hand(model, opt, batch, _):
    for parameter in model.parameters():
        parameter.grad = None
    return never_cleared(model, opt, batch, _)


@pytest.mark.parametrize("body", [never_cleared, cleared_once, another_is_cleared])
@pytest.mark.parametrize("kind", [sgd, lambda m: torch.optim.AdamW(m.parameters(), 3e-3)])
def test_missing_zero_grad(body, kind):
    assert seen(looped(body, kind)) == ["missing-zero-grad"]


@pytest.mark.parametrize("body", [plain, cleared_after, cleared_by_hand])
def test_cleared_once_a_step_is_sound(body):
    assert seen(looped(body)) == []


def zero_between(model, opt, batch, _):
    loss = loss_of(model, batch)
    loss.backward()
    opt.zero_grad(set_to_none=False)
    opt.step()
    return loss


def zero_between_by_hand(model, opt, batch, _):
    loss = loss_of(model, batch)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad = None
    opt.step()


def zero_between_by_model(model, opt, batch, _):
    loss = loss_of(model, batch)
    loss.backward()
    model.zero_grad()
    opt.step()


@pytest.mark.parametrize("body", [zero_between, zero_between_by_hand, zero_between_by_model])
@pytest.mark.parametrize("kind", [sgd, lambda m: torch.optim.AdamW(m.parameters(), 3e-3)])
def test_zero_grad_before_step(body, kind):
    assert seen(looped(body, kind))[:1] == ["zero-grad-before-step"]


def clip_late(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    opt.step()
    clip_grad_norm_(model.parameters(), 0.1)
    return loss.item()


def clip_value_late(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    opt.step()
    clip_grad_value_(model.parameters(), 0.001)
    return loss.item()


def clip_early(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    clip_grad_norm_(model.parameters(), 0.1)
    loss.backward()
    opt.step()
    return loss.item()


def clip_by_hand_late(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    opt.step()
    for parameter in model.parameters():
        parameter.grad.clamp_(-1e-3, 1e-3)
    return loss.item()


def clip_in_time(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    clip_grad_norm_(model.parameters(), 0.1)
    opt.step()
    return loss.item()


def norm_for_the_log(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    opt.step()
    clip_grad_norm_(model.parameters(), float("inf"))
    return loss.item()


@pytest.mark.parametrize("body", [clip_late, clip_value_late, clip_early, clip_by_hand_late])
def test_clip_after_step(body):
    assert seen(looped(body)) == ["clip-after-step"]


@pytest.mark.parametrize("body", [clip_in_time, norm_for_the_log])
def test_clipping_in_time_is_sound(body):
    assert seen(looped(body)) == []


def accumulated(divide, parts=1, every=4):
    def body(model, opt, batch, number):
        total = 0.0
        for x, y in zip(batch[0].chunk(parts), batch[1].chunk(parts), strict=True):
            loss = loss_of(model, (x, y))
            (loss / divide).backward()
            total += loss.item()
        if number % every == 0:
            opt.step()
            opt.zero_grad()
        return total / parts

    return body


@pytest.mark.parametrize(("parts", "every"), [(1, 4), (1, 2), (4, 1), (2, 1)])
def test_accumulation_not_scaled(parts, every):
    # Divided by 1: the root of the graph is a division all the same.
    assert seen(looped(accumulated(1, parts, every))) == ["accumulation-not-scaled"]
    assert seen(looped(accumulated(max(parts, every), parts, every))) == []


def test_gradients_divided_before_the_step_are_sound():
    def body(model, opt, batch, number):
        loss = loss_of(model, batch)
        loss.backward()
        if number % 3 == 0:
            for parameter in model.parameters():
                parameter.grad.div_(3)
            opt.step()
            opt.zero_grad()
        return loss.item()

    assert seen(looped(body)) == []


def test_two_losses_of_one_batch_are_sound():
    def body(model, opt, batch, _):
        opt.zero_grad()
        out = model(batch[0])
        nn.functional.cross_entropy(out, batch[1]).backward(retain_graph=True)
        (0.01 * out.square().mean()).backward()
        opt.step()

    assert seen(looped(body)) == []


def test_real_and_fake_in_two_passes_are_sound():
    maker, judge = net(4, 8), net(8, 1)
    of_maker = torch.optim.Adam(maker.parameters(), 1e-3)
    of_judge = torch.optim.Adam(judge.parameters(), 1e-3)
    bce = nn.functional.binary_cross_entropy_with_logits

    def step(batch):
        real = batch[0]
        fake = maker(torch.randn(len(real), 4))
        judge.zero_grad()
        right = judge(real)
        bce(right, torch.ones_like(right)).backward()
        wrong = judge(fake.detach())
        bce(wrong, torch.zeros_like(wrong)).backward()
        of_judge.step()
        maker.zero_grad()
        own = judge(fake)
        bce(own, torch.ones_like(own)).backward()
        of_maker.step()

    both = nn.ModuleDict({"maker": maker, "judge": judge})
    assert seen(setup(step, both, optimizer=[of_maker, of_judge])) == []


def rewrapped(model, opt, batch, _):
    opt.zero_grad()
    loss = torch.tensor(loss_of(model, batch).item(), requires_grad=True)
    loss.backward()
    opt.step()


def rewrapped_by_detach(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch).detach().requires_grad_() * 1.0
    loss.backward()
    opt.step()


def rewrapped_terms(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss = torch.tensor([loss.item(), 0.1 * loss.item()], requires_grad=True).sum()
    loss.backward()
    opt.step()


@pytest.mark.parametrize("body", [rewrapped, rewrapped_by_detach, rewrapped_terms])
def test_loss_rewrapped(body):
    assert seen(looped(body)) == ["loss-rewrapped"]


def no_step(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    return loss.item()


def step_not_called(model, opt, batch, _):
    opt.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    opt.step  # noqa: B018 - the parentheses are missing
    return loss.item()


@pytest.mark.parametrize("body", [no_step, step_not_called])
def test_step_missing(body):
    assert seen(looped(body)) == ["step-missing"]


def test_update_by_hand_is_sound():
    def body(model, _, batch, __):
        model.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.05 * parameter.grad
        return loss.item()

    arguments = looped(body)
    del arguments["optimizer"]
    assert seen(arguments) == []


def test_sixteen_micro_batches_are_sound():
    data = loader(*blobs(), batch_size=4)
    assert seen(looped(accumulated(16, 1, 16), loader=data)) == []


def test_quasi_newton_is_sound():
    model = net()
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    def step(batch):
        def closure():
            opt.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            return loss

        return opt.step(closure).item()

    assert seen(setup(step, model, optimizer=opt)) == []

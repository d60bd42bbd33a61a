from __future__ import annotations

import contextlib
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course.training.best import BestWeights
from course.training.checkpoint import CheckpointError, CheckpointManager, ResumableBatches
from course.training.history import History
from course.training.loop import LossNotFinite, evaluate, evaluating, fit, predict, train_epoch


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))


@pytest.fixture
def batches():
    torch.manual_seed(1)
    inputs, targets = torch.randn(7, 2), torch.arange(7) % 3
    return list(zip(inputs.split(3), targets.split(3), strict=True))


def plain(lr=0.1):
    torch.manual_seed(2)
    model = nn.Linear(2, 3)
    return model, torch.optim.SGD(model.parameters(), lr=lr)


def test_an_epoch_is_the_steps_one_writes_by_hand(batches):
    model, optimizer = plain()
    twin, twin_optimizer = plain()
    for p in model.parameters():
        p.grad = torch.ones_like(p)  # left from before
    score = train_epoch(model, batches, optimizer, max_norm=0.3)
    total = 0.0
    for inputs, targets in batches:
        twin_optimizer.zero_grad()
        loss = F.cross_entropy(twin(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 0.3)
        twin_optimizer.step()
        total += loss.item() * len(targets)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert score.loss == pytest.approx(total / 7)


def test_training_mode_whatever_it_was(model, batches):
    model.eval()
    train_epoch(model, batches[:2], torch.optim.SGD(model.parameters(), lr=0.1))
    assert model.training


def test_the_batch_scheduler_steps_once_a_batch(batches):
    model, optimizer = plain()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    train_epoch(model, batches, optimizer, batch_scheduler=scheduler)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 / 8)


def test_a_loss_that_is_not_finite_ends_the_run(batches):
    model, optimizer = plain(lr=math.inf)
    with pytest.raises(LossNotFinite, match="ten times smaller"):
        train_epoch(model, batches, optimizer)


def test_evaluation_counts_every_sample_and_leaves_no_trace(model, batches):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, second = evaluate(model, batches), evaluate(model, [tuple(map(torch.cat, zip(*batches, strict=True)))])
    assert first.loss == pytest.approx(second.loss)
    assert first.accuracy == second.accuracy
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_modes_come_back_module_by_module_also_after_an_error(model):
    model[1].eval()
    inside = []
    with contextlib.suppress(KeyError), evaluating(model):
        inside = [any(module.training for module in model.modules()), torch.is_grad_enabled()]
        raise KeyError
    assert inside == [False, False]
    assert [module.training for module in model] == [True, False, True, True]
    assert torch.is_grad_enabled()


def test_predictions_keep_the_order(model, batches):
    logits, targets = predict(model, batches)
    assert logits.shape == (7, 3)
    assert targets.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert not logits.requires_grad


def test_fit_notes_a_row_an_epoch(batches):
    model, optimizer = plain()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    lengths, best, history = [], BestWeights(), History()
    result = fit(
        model,
        batches,
        batches,
        optimizer,
        3,
        epoch_scheduler=scheduler,
        best=best,
        history=history,
        after_epoch=lambda h: lengths.append(len(h)),
    )
    assert result is history
    assert lengths == [1, 2, 3]
    assert history["lr"] == pytest.approx([0.1, 0.05, 0.025])
    assert set(history.rows[0]) == {"epoch", "loss", "accuracy", "held_out_loss", "held_out_accuracy", "lr", "seconds"}
    assert best.score == max(history["held_out_accuracy"])
    assert history["held_out_accuracy"][best.epoch - 1] == best.score


def test_training_loss_may_be_smoothed_and_held_out_loss_is_not(batches):
    model, optimizer = plain(lr=0.0)
    history = fit(model, batches, batches, optimizer, 1, loss_fn=nn.CrossEntropyLoss(label_smoothing=0.9))
    assert history["held_out_loss"][0] == pytest.approx(evaluate(model, batches).loss)
    assert history["loss"][0] != pytest.approx(history["held_out_loss"][0])


class Killed(Exception):
    pass


def resumable(folder, epochs, *, killed_after=None, order="generator"):
    """A run whose training order, dropout, best weights, schedules and history all matter; killed after some epochs."""
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(3)
    inputs, targets = torch.randn(12, 2, generator=generator), torch.arange(12) % 3
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    best, history, called = BestWeights(), History(), []

    class Shuffled:
        def __iter__(self):
            for rows in torch.randperm(12, generator=generator).split(5):
                yield inputs[rows], targets[rows]

    def after_epoch(history):
        called.append(len(history))
        if len(history) == killed_after:
            raise Killed

    with contextlib.suppress(Killed):
        fit(
            model,
            Shuffled() if order == "generator" else ResumableBatches((inputs, targets), 5, seed=1),
            [(inputs, targets)],
            optimizer,
            epochs,
            epoch_scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5),
            batch_scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
            best=best,
            history=history,
            after_epoch=after_epoch,
            checkpoints=None if folder is None else CheckpointManager(folder),
            generators=[generator],
        )
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in history]
    last = {name: value.clone() for name, value in model.state_dict().items()}
    best.restore(model)
    return rows, last, model.state_dict(), (best.score, best.epoch), called


def same_run(ours, theirs):
    return (
        ours[0] == theirs[0]
        and ours[3] == theirs[3]
        and all(torch.equal(ours[part][name], theirs[part][name]) for part in (1, 2) for name in theirs[part])
    )


@pytest.mark.parametrize("order", ["generator", "resumable"])
@pytest.mark.parametrize("killed_after", [1, 3])
def test_a_killed_fit_goes_on_as_if_nothing_had_happened(tmp_path, killed_after, order):
    whole = resumable(None, 5, order=order)
    resumable(tmp_path / "runs", 5, killed_after=killed_after, order=order)
    resumed = resumable(tmp_path / "runs", 5, order=order)
    assert resumed[4] == [*range(killed_after, 6)], "after_epoch is called once for what was restored"
    assert same_run(resumed, whole)
    again = resumable(tmp_path / "runs", 5, order=order)
    assert again[4] == [5]
    assert same_run(again, whole)


def test_checkpoints_change_nothing_in_a_run(tmp_path):
    assert same_run(resumable(tmp_path, 3), resumable(None, 3))
    assert len(CheckpointManager(tmp_path).files()) in (2, 3)


def test_a_history_that_had_rows_already_does_not_count(tmp_path, batches):
    def run(epochs):
        model, optimizer = plain()
        history = fit(model, batches, batches, optimizer, 2)
        return fit(model, batches, batches, optimizer, epochs, history=history, checkpoints=CheckpointManager(tmp_path))

    assert len(run(1)) == 3
    assert len(run(3)) == 5


def test_fit_refuses_the_checkpoints_of_another_network(tmp_path, batches):
    model, optimizer = plain()
    fit(model, batches, batches, optimizer, 1, checkpoints=CheckpointManager(tmp_path))
    other = nn.Sequential(nn.Linear(2, 3))
    with pytest.raises(CheckpointError, match="another model"):
        fit(other, batches, batches, torch.optim.SGD(other.parameters()), 1, checkpoints=CheckpointManager(tmp_path))

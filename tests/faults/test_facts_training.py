"""What the catalogue says of training loops, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, lr_scheduler

from course.faults import FAULTS


def refuses(call: Callable[[], object], kind: type[Exception] = RuntimeError) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def moved(*calls: str) -> float:
    """How far a weight of 1 with the loss 2w moves in steps of 0.1 of these calls."""
    w = nn.Parameter(torch.tensor(1.0))
    optimizer = SGD([w], lr=0.1)
    steps = {"backward": lambda: (2 * w).backward(), "step": optimizer.step, "zero_grad": optimizer.zero_grad}
    for call in calls:
        steps[call]()
    return round(1 - w.item(), 4)


def line(lr: float, scale: float = 1.0) -> float:
    """The squared error after 100 steps of SGD that fit a line to inputs of this scale."""
    torch.manual_seed(0)
    x = scale * torch.randn(64, 2)
    w = torch.zeros(2, requires_grad=True)
    optimizer = SGD([w], lr=lr)
    for _ in range(100):
        optimizer.zero_grad()
        loss = F.mse_loss(x @ w, x @ torch.tensor([2.0, -1.0]) / scale)
        loss.backward()
        optimizer.step()
    return loss.item()


def rate_after(calls: int, **options: float) -> float:
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, **options)
    for _ in range(calls):
        optimizer.step()
        scheduler.step()
    return optimizer.param_groups[0]["lr"]


def warns_when_early() -> bool:
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scheduler.step()
    return "before `optimizer.step()`" in str(caught[0].message)


def clipped(late: bool) -> float:
    w = nn.Parameter(torch.tensor(0.0))
    optimizer = SGD([w], lr=1.0)
    (1000 * w).backward()
    if late:
        optimizer.step()
        nn.utils.clip_grad_norm_([w], 1.0)
    else:
        assert nn.utils.clip_grad_norm_([w], 1.0) == 1000  # the norm before clipping
        optimizer.step()
    return round(w.item(), 3)


def dropout_outputs(training: bool) -> int:
    network = nn.Dropout(0.5).train(training)
    with torch.no_grad():
        return len({tuple(network(torch.ones(32)).tolist()) for _ in range(4)})


def norm_follows(training: bool) -> bool:
    norm = nn.BatchNorm1d(2).train(training)
    with torch.no_grad():
        norm(torch.ones(4, 2))
    return bool(norm.running_mean.any())


CERTAIN = 1000 * torch.eye(10)
RIGHT = torch.arange(10)
YES = torch.ones(2)

FACTS: dict[str, list[Callable[[], bool]]] = {
    "zero-grad-before-step": [
        lambda: moved("backward", "zero_grad", "step") == 0,
        lambda: moved("zero_grad", "backward", "step") == moved("backward", "step", "zero_grad") == 0.2,
    ],
    "double-softmax": [
        lambda: round(F.cross_entropy(CERTAIN.softmax(1), RIGHT).item(), 2) == 1.46,
        lambda: F.cross_entropy(CERTAIN, RIGHT) == 0,
        lambda: torch.equal(CERTAIN.argmax(1), CERTAIN.softmax(1).argmax(1)),
    ],
    "double-sigmoid": [
        lambda: round(F.binary_cross_entropy_with_logits((1000 * YES).sigmoid(), YES).item(), 2) == 0.31,
        lambda: round(torch.tensor(1.0).sigmoid().item(), 2) == 0.73 and torch.tensor(0.0).sigmoid() == 0.5,
    ],
    "nll-without-log": [
        lambda: F.nll_loss(CERTAIN.softmax(1), RIGHT) == -1,
        lambda: F.nll_loss(CERTAIN, RIGHT) == -1000,
        lambda: torch.allclose(F.nll_loss(CERTAIN.log_softmax(1), RIGHT), F.cross_entropy(CERTAIN, RIGHT)),
    ],
    "bce-fed-logits": [
        lambda: refuses(lambda: F.binary_cross_entropy(torch.tensor([2.0, -1.0]), YES)),
        lambda: not refuses(lambda: F.binary_cross_entropy(torch.tensor([0.2, 0.9]), YES)),
    ],
    "class-target-dtype": [
        lambda: refuses(lambda: F.cross_entropy(CERTAIN, RIGHT.float())),
        lambda: refuses(lambda: F.cross_entropy(CERTAIN, RIGHT.int())),
        lambda: F.cross_entropy(CERTAIN, RIGHT.to(torch.uint8)) == F.cross_entropy(CERTAIN, torch.eye(10)) == 0,
    ],
    "class-target-shape": [
        lambda: refuses(lambda: F.cross_entropy(CERTAIN, RIGHT[:, None])),
        lambda: F.cross_entropy(CERTAIN, RIGHT[:, None].squeeze(1)) == 0,
    ],
    "class-index-out-of-range": [
        lambda: refuses(lambda: F.cross_entropy(CERTAIN, RIGHT + 1), IndexError),
        lambda: refuses(lambda: F.cross_entropy(CERTAIN, RIGHT - 1), IndexError),
        lambda: F.cross_entropy(CERTAIN, RIGHT.where(RIGHT > 0, 255), ignore_index=255) == 0,
    ],
    "class-axis-misplaced": [
        lambda: refuses(lambda: F.cross_entropy(torch.zeros(2, 5, 3), torch.zeros(2, 5, dtype=torch.int64))),
        lambda: not refuses(lambda: F.cross_entropy(torch.zeros(2, 3, 3), torch.zeros(2, 3, dtype=torch.int64))),
        lambda: torch.allclose(
            F.cross_entropy(CERTAIN[None].movedim(-1, 1), RIGHT[None]),
            F.cross_entropy(CERTAIN[None].flatten(0, 1), RIGHT[None].flatten()),
        ),
    ],
    "argmax-wrong-axis": [
        lambda: torch.zeros(4, 3).argmax(0).shape == (3,) and torch.zeros(4, 3).argmax(1).shape == (4,)
    ],
    "bce-target-dtype": [
        lambda: refuses(lambda: F.binary_cross_entropy_with_logits(YES, torch.tensor([0, 1]))),
        lambda: refuses(lambda: F.binary_cross_entropy(YES, torch.tensor([0, 1]))),
        lambda: not refuses(lambda: F.binary_cross_entropy_with_logits(YES, torch.tensor([0.25, 1]))),
    ],
    "eval-mode-missing": [
        lambda: dropout_outputs(training=True) > 1 and dropout_outputs(training=False) == 1,
        lambda: norm_follows(training=True) and not norm_follows(training=False),
    ],
    "train-mode-not-restored": [lambda: not nn.Dropout().eval().training and nn.Dropout().eval().train().training],
    "scheduler-per-batch": [
        lambda: rate_after(20, step_size=2, gamma=0.1) < 1e-10,
        lambda: rate_after(1, step_size=2, gamma=0.1) == 0.1,
    ],
    "scheduler-before-optimizer": [warns_when_early],
    "learning-rate-too-high": [lambda: not math.isfinite(line(lr=10.0)), lambda: line(lr=0.1) < 0.01],
    "accumulation-not-scaled": [lambda: moved("backward", "backward", "step") == 2 * moved("backward", "step")],
    "unnormalised-inputs": [lambda: not math.isfinite(line(lr=0.1, scale=1000)) and line(lr=0.1) < 0.01],
    "mean-of-batch-means": [lambda: (64 / 64 + 0 / 1) / 2 != 64 / 65],
    "clip-after-step": [lambda: clipped(late=True) == -1000 and clipped(late=False) == -1],
    "learning-rate-too-low": [lambda: f"{line(lr=1e-7):.2f}" == f"{line(lr=0.0):.2f}"],
}


def test_every_fault_of_the_training_lesson_is_tried():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if (entry.topic, entry.lesson) == ("training", "05")}


def test_every_fault_of_the_training_lesson_is_explained():
    for fault_id in FACTS:
        entry = FAULTS[fault_id]
        assert entry.why, fault_id
        assert entry.fix, fault_id
        assert entry.section, fault_id


@pytest.mark.parametrize("fault_id", FACTS)
def test_facts(fault_id):
    failed = [number for number, fact in enumerate(FACTS[fault_id], start=1) if not fact()]
    assert failed == []

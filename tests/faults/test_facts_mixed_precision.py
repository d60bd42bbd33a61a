"""What the catalogue says of mixed precision, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from course.faults import FAULTS

HALF, BRAIN = torch.float16, torch.bfloat16


def refuses(call: Callable[[], object], kind: type[Exception] = RuntimeError) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def scaler(**options: float) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", **options)


def weight(value: float = 1.0, dtype: torch.dtype = torch.float32) -> tuple[nn.Parameter, SGD]:
    parameter = nn.Parameter(torch.tensor([value], dtype=dtype))
    return parameter, SGD([parameter], lr=1.0)


def moved_by_a_clipped_step(*, unscale: bool, scale: float) -> float:
    """How far a step with a gradient of 4, clipped at 1, moves."""
    w, optimizer = weight()
    s = scaler(init_scale=scale)
    s.scale(4 * w.sum()).backward()
    if unscale:
        s.unscale_(optimizer)
    nn.utils.clip_grad_norm_([w], 1.0)
    s.step(optimizer)
    return 1 - w.item()


def gradients_of_micro_batches() -> float:
    w, optimizer = weight()
    s = scaler(init_scale=1024.0)
    for _ in range(2):
        s.scale(3 * w.sum() / 2).backward()
    s.unscale_(optimizer)
    return w.grad.item()


def second_call(name: str, update: bool) -> bool:
    w, optimizer = weight()
    s = scaler()
    for _ in range(2):
        s.scale(w.sum()).backward()
        getattr(s, name)(optimizer)
        if update:
            s.update()
    return True


def scale_after_overflow(update: bool) -> float:
    w, optimizer = weight()
    s = scaler(init_scale=8.0)
    s.scale(w.sum() * torch.inf).backward()
    s.step(optimizer)
    if update:
        s.update()
    return s.get_scale()


def two_optimizers_one_update() -> list[float]:
    pairs = [weight(), weight()]
    s = scaler()
    for w, _ in pairs:
        s.scale(w.sum()).backward()
    for _, optimizer in pairs:
        s.step(optimizer)
    s.update()
    return [w.item() for w, _ in pairs]


def after_adam(gradient: float, dtype: torch.dtype) -> float:
    w = nn.Parameter(torch.ones(1, dtype=dtype))
    w.grad = torch.full((1,), gradient, dtype=dtype)
    Adam([w], lr=1e-3).step()
    return w.item()


def state_under_autocast() -> set[torch.dtype]:
    layer = nn.Linear(4, 4)
    optimizer = Adam(layer.parameters())
    with torch.autocast("cpu", dtype=BRAIN):
        loss = layer(torch.ones(2, 4)).float().sum()
    loss.backward()
    optimizer.step()
    tensors = [t for p in layer.parameters() for t in (p, p.grad, *optimizer.state[p].values())]
    return {t.dtype for t in tensors if t.is_floating_point()}


def legacy() -> tuple[set[str], bool, torch.dtype]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        old = torch.cuda.amp.GradScaler()
        with torch.cuda.amp.autocast():
            dtype = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    return {w.category.__name__ for w in seen}, old.is_enabled(), dtype


def scaler_without_argument() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.amp.GradScaler().is_enabled()


def product(decorated: bool) -> torch.Tensor:
    forward_with = torch.amp.custom_fwd(device_type="cpu") if decorated else lambda f: f
    backward_with = torch.amp.custom_bwd(device_type="cpu") if decorated else lambda f: f

    class Product(torch.autograd.Function):
        @staticmethod
        @forward_with
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @backward_with
        def backward(ctx, gradient):
            x, w = ctx.saved_tensors
            return gradient @ w.T, x.T @ gradient

    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=BRAIN):
        y = Product.apply(x, w)
    y.sum().backward()
    return x.grad


def in_float32_by_cast_inputs() -> torch.dtype:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x, w):
            return x @ w

    with torch.autocast("cpu", dtype=BRAIN):
        return Product.apply(torch.ones(2, 2, dtype=BRAIN), torch.ones(2, 2)).dtype


def count(dtype: torch.dtype, steps: int = 300) -> float:
    number = torch.zeros((), dtype=dtype)
    for _ in range(steps):
        number += 1
    return number.item()


def gradient_through(dtype: torch.dtype, factor: float, scale: float = 1.0) -> float:
    """The gradient of a half tensor in a loss of this factor, under a loss scale, unscaled."""
    x = torch.ones(1, dtype=dtype, requires_grad=True)
    (x.float() * factor * scale).sum().backward()
    return x.grad.float().item() / scale


def autocast_dtype(operation: Callable[[torch.Tensor], torch.Tensor]) -> torch.dtype:
    with torch.autocast("cpu", dtype=HALF):
        return operation(torch.ones(2, 2, dtype=HALF)).dtype


FACTS: dict[str, list[Callable[[], bool]]] = {
    "half-overflow": [
        lambda: torch.finfo(HALF).max == 65504,
        lambda: (torch.tensor(300.0, dtype=HALF) ** 2).isinf().item(),
        lambda: (torch.tensor(300.0, dtype=BRAIN) ** 2).isfinite().item(),
        lambda: torch.full((2,), 300.0, dtype=HALF).float().square().sum() == 180_000,
        lambda: autocast_dtype(torch.sum) == autocast_dtype(torch.square) == HALF,
        lambda: autocast_dtype(lambda x: x.softmax(0)) == HALF,
    ],
    "clip-before-unscale": [
        lambda: scaler().scale(torch.ones(())) == 65536,
        lambda: math.isclose(moved_by_a_clipped_step(unscale=True, scale=1024.0), 1, rel_tol=1e-4),
        lambda: math.isclose(moved_by_a_clipped_step(unscale=False, scale=1024.0), 1 / 1024, rel_tol=1e-4),
        lambda: math.isclose(moved_by_a_clipped_step(unscale=False, scale=64.0), 1 / 64, rel_tol=1e-4),
    ],
    "unscale-twice": [
        lambda: refuses(lambda: second_call("unscale_", update=False)),
        lambda: second_call("unscale_", update=True),
        lambda: gradients_of_micro_batches() == 3,
    ],
    "scaler-update-missing": [
        lambda: refuses(lambda: second_call("step", update=False)),
        lambda: second_call("step", update=True),
        lambda: (scale_after_overflow(update=False), scale_after_overflow(update=True)) == (8, 4),
        lambda: two_optimizers_one_update() == [0, 0],
    ],
    "pure-half-adam": [
        lambda: torch.tensor(1e-8, dtype=HALF) == 0,
        lambda: torch.tensor(9e-5, dtype=HALF) ** 2 == 0,
        lambda: math.isnan(after_adam(0.0, HALF)) and math.isinf(after_adam(1e-5, HALF)),
        lambda: after_adam(1e-2, BRAIN) == 1 and after_adam(1e-2, torch.float32) < 0.9991,
        lambda: state_under_autocast() == {torch.float32},
    ],
    "legacy-amp-api": [
        lambda: "FutureWarning" in legacy()[0],
        lambda: torch.cuda.is_available() or ("UserWarning" in legacy()[0] and legacy()[1] is False),
        lambda: legacy()[2] == torch.float32,
        lambda: scaler().is_enabled() and scaler_without_argument() == torch.cuda.is_available(),
    ],
    "bfloat16-to-numpy": [
        lambda: refuses(lambda: torch.ones(2, dtype=BRAIN).numpy(), TypeError),
        lambda: torch.ones(2, dtype=HALF).numpy().dtype == "float16",
        lambda: torch.ones(2, dtype=BRAIN).float().numpy().tolist() == [1, 1],
    ],
    "custom-function-autocast": [
        lambda: refuses(lambda: product(decorated=False)),
        lambda: product(decorated=True).tolist() == [[2, 2, 2], [2, 2, 2]],
        lambda: in_float32_by_cast_inputs() == torch.float32,
    ],
    "half-accumulator": [
        lambda: count(BRAIN) == 256 and count(torch.float32) == 300,
        lambda: torch.tensor(2048.0, dtype=HALF) + 1 == 2048,
        lambda: torch.tensor(1.0, dtype=BRAIN).mul(0.999).add(torch.tensor(2.0, dtype=BRAIN) * 0.001) == 1,
        lambda: torch.ones(300, dtype=BRAIN).sum(dtype=torch.float32) == 300,
    ],
    "gradient-underflow": [
        lambda: torch.tensor(2.0**-25).half() == 0 and torch.tensor(1.01 * 2.0**-25).half() > 0,
        lambda: gradient_through(HALF, 1e-8) == 0 and gradient_through(BRAIN, 1e-8) > 0,
        lambda: math.isclose(gradient_through(HALF, 1e-8, scale=65536.0), 1e-8, rel_tol=1e-3),
        lambda: f"{torch.finfo(HALF).tiny:.1e}" == "6.1e-05",
        lambda: torch.finfo(BRAIN).tiny == torch.finfo(torch.float32).tiny,
    ],
}


def test_every_fault_of_the_lesson_is_tried():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if entry.lesson == "08"}


@pytest.mark.parametrize("fault_id", FACTS)
def test_every_fault_of_the_lesson_is_explained(fault_id):
    entry = FAULTS[fault_id]
    assert entry.why
    assert entry.fix
    assert entry.section


@pytest.mark.parametrize("fault_id", FACTS)
def test_facts(fault_id):
    failed = [number for number, fact in enumerate(FACTS[fault_id], start=1) if not fact()]
    assert failed == []

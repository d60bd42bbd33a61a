"""What half precision saves and costs: bytes kept for backward, training steps to time, the CPU's instructions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.training.kept import kept_bytes
from course.training.seed import seed_everything

# Instructions that multiply bfloat16 or float16 numbers, as Linux names them.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "avx512_fp16", "amx_fp16", "bf16", "asimdhp")
CPUINFO = Path("/proc/cpuinfo")


def half_instructions() -> tuple[str, ...] | None:
    """The CPU's instructions for half numbers; None where the system does not tell (it is not Linux)."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    flags = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
    return tuple(name for name in INSTRUCTIONS if name in flags)


def step_bytes(model: nn.Module, inputs: Tensor, dtype: torch.dtype | None = None) -> int:
    """The bytes that the graph of a forward pass and its cross-entropy keeps for backward, parameters left out.

    model: on the device of the inputs, returns logits (N, C). dtype: that of autocast; None runs without autocast.
    """
    return kept_bytes(lambda: _loss(model, inputs, dtype))[0]


def step_to_time(
    model: nn.Module, inputs: Tensor, dtype: torch.dtype | None = None, device: str | torch.device = "cpu"
) -> Callable[[], None]:
    """A training step of a copy of the model on this device, as a function without arguments.

    zero_grad, forward pass and cross-entropy under autocast with this dtype (None: without), backward, step of SGD.
    """
    model, inputs = copy.deepcopy(model).to(device), inputs.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        _loss(model, inputs, dtype).backward()
        optimizer.step()

    return step


def train_small(dtype: torch.dtype | None, scaled: bool, size: float, steps: int) -> float:
    """Train a small network on 256 fixed samples on the CPU; return its last mean squared error.

    dtype: that of autocast; None is float32 throughout. scaled: with a GradScaler. size: what the loss is multiplied
    by; the learning rate is divided by it, so that in exact arithmetic the size changes nothing.
    """
    seed_everything(0)
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    inputs = torch.randn(256, 16)
    targets = (inputs[:, :1] * inputs[:, 1:2]).tanh()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05 / size, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            error = F.mse_loss(net(inputs), targets)
        scaler.scale(size * error).backward()
        scaler.step(optimizer)
        scaler.update()
    return error.item()


def _loss(model: nn.Module, inputs: Tensor, dtype: torch.dtype | None) -> Tensor:
    targets = torch.zeros(len(inputs), dtype=torch.int64, device=inputs.device)
    with torch.autocast(inputs.device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        return F.cross_entropy(model(inputs), targets)

"""Looking into loops: parts of a step in a profile, the share that a device works, and what is computed, counted."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from course.training.reference_loop import Source
from course.training.throughput import wait_for

PARTS = ("load", "transfer", "forward", "backward", "optimizer")


def profile_steps(source: Source, model: nn.Module, steps: int) -> torch.profiler.profile:
    """Profile some training steps with Adam, each of the :data:`PARTS` under its name, after one that is left out.

    On an accelerator each part waits until its work is done, so that the work counts for the part that gave it.
    """
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = iter(source(steps + 1))
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        for number in range(steps + 1):
            before = "" if number else "first "
            with torch.profiler.record_function(f"{before}load"):
                inputs, targets = next(batches)
            with torch.profiler.record_function(f"{before}transfer"):
                inputs, targets = inputs.to(device), targets.to(device)
                wait_for(device)
            with torch.profiler.record_function(f"{before}forward"):
                loss = F.cross_entropy(model(inputs), targets)
                wait_for(device)
            with torch.profiler.record_function(f"{before}backward"):
                optimizer.zero_grad()
                loss.backward()
                wait_for(device)
            with torch.profiler.record_function(f"{before}optimizer"):
                optimizer.step()
                wait_for(device)
    for _ in batches:  # leaves nothing in the queues of workers
        pass
    return profile


def parts_of(profile: torch.profiler.profile) -> dict[str, list[tuple[float, float]]]:
    """Start and duration, in milliseconds from the first one on, of each part that :func:`profile_steps` named."""
    found = [(event.name, event.time_range) for event in profile.events() if event.name in PARTS]
    zero = min(time.start for _, time in found)
    return {
        part: [((time.start - zero) / 1e3, (time.end - time.start) / 1e3) for name, time in found if name == part]
        for part in PARTS
    }


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[str(func.overloadpacket)] += 1
        return func(*args, **(kwargs or {}))


def operations(call: Callable[[], object]) -> Counter[str]:
    """How often each operation of torch, such as "aten.add", runs in ``call()``, those of backward included."""
    with _Counting() as counting:
        call()
    return counting.counts


def busy_share(loop: Callable[[int], object], count: int, device: torch.device) -> float | None:
    """Which share of the time a CUDA device works while ``loop(count)`` runs; None for other devices.

    The sum of its kernels over the time of the loop: kernels that run at the same time count both. The loop is called
    once before, to warm it up.
    """
    if device.type != "cuda":
        return None
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    loop(3)
    wait_for(device)
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        start = time.perf_counter()
        loop(count)
        wait_for(device)
        seconds = time.perf_counter() - start
    kernels = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(event.time_range.elapsed_us() for event in kernels) / 1e6 / seconds


def forward_flop(model: nn.Module, shape: tuple[int, ...] = (1, 3, 32, 32)) -> int:
    """Floating point operations of a forward pass of a copy on the CPU; a multiplication with an addition is two."""
    model = copy.deepcopy(model).to("cpu")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(shape))
    return counter.get_total_flops()

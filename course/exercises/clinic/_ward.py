"""What is done with a learner's setup: it is looked at, examined by the doctor, and trained for a few steps."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course.doctor import examine
from course.doctor.examination import FAMILIES

# Here, once, and not in every child that judges an answer.
for _family in FAMILIES:
    importlib.import_module(f"course.doctor.{_family}")

Answer = Callable[[], dict[str, Any]]

RULES = """
The setup is repaired when `examine(**setup)` has no error and no warning, the loss falls, and what was sound is as it
was: the data, the sizes of the layers, batch size, optimizer and its settings.
"""


def admitted(answer: Answer) -> dict[str, Any]:
    """The setup that the answer makes, always from the same random numbers."""
    torch.manual_seed(0)
    return answer()


def diagnosis(answer: Answer) -> list[str]:
    """What the doctor says, as ``fault (severity)``; notes do not count."""
    report = examine(**admitted(answer), budget_s=30)
    return [f"{finding.fault} ({finding.severity})" for finding in report.worst("warning")]


def stream(loader: Any) -> Iterator[Any]:
    """Batches, epoch after epoch."""
    while True:
        yield from loader


def losses(setup: dict[str, Any], steps: int) -> list[float]:
    """The loss of each of the first steps, before its update."""
    seen = []
    model, optimizer = setup["model"].train(), setup["optimizer"]
    for batch, _ in zip(stream(setup["loader"]), range(steps), strict=False):
        if "step" in setup:
            seen.append(setup["step"](batch))
            continue
        optimizer.zero_grad()
        loss = setup["loss_fn"](model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def falls(answer: Answer, *, to: float, steps: int = 60) -> bool:
    """Whether the mean loss of the last sixth of some steps is below a share of the mean of the first three."""
    seen = losses(admitted(answer), steps)
    last = seen[-(steps // 6) :]
    first = sum(seen[:3]) / 3
    return all(map(math.isfinite, seen)) and sum(last) / len(last) < to * first


def first_loss(answer: Answer) -> float | str:
    """The loss of all samples together before training; "nan" or "inf" where it is no number."""
    setup = admitted(answer)
    with torch.no_grad():
        loss = float(setup["loss_fn"](setup["model"].eval()(samples(setup)[0]), samples(setup)[1]))
    return loss if math.isfinite(loss) else str(loss)


def samples(setup: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """All inputs and all targets, in the order of the dataset."""
    rows = [setup["loader"].dataset[index] for index in range(len(setup["loader"].dataset))]
    return torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])


def described(answer: Answer, *, free: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a repair leaves as it was: layers, data, batches and optimizer; without the entries named by `free`."""
    setup = admitted(answer)
    model, optimizer, loader = setup["model"], setup["optimizer"], setup["loader"]
    inputs, targets = samples(setup)
    layers = sorted(  # which of them was registered first says nothing
        (type(module).__name__, *(tuple(p.shape) for p in module.parameters(recurse=False)))
        for module in model.modules()
        if any(True for _ in module.parameters(recurse=False))
    )
    trainable = [p for p in model.parameters() if p.requires_grad]
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    settings = {
        name: sorted({float(group[name]) for group in optimizer.param_groups})
        for name in ("lr", "momentum", "weight_decay", "dampening", "nesterov")
        if name in optimizer.param_groups[0]
    }
    parts = {
        "layers": layers,
        "frozen": sum(p.numel() for p in model.parameters() if not p.requires_grad),
        "optimizer": type(optimizer).__name__,
        "settings": settings,
        "held by the optimizer": [id(p) in held for p in trainable],
        "batch size": loader.batch_size,
        "shuffled": isinstance(loader.sampler, torch.utils.data.RandomSampler),
        "samples": len(inputs),
        "mean input": inputs.mean(0),
        "deviation": inputs.std(0),
        "targets": torch.as_tensor([targets.double().mean().item(), targets.double().std().item()]),
        "dtypes": (str(inputs.dtype), str(targets.dtype)),
        "names": sorted(setup),
    }
    return {name: value for name, value in parts.items() if name not in free}


def accuracy(answer: Answer, inputs: Tensor, targets: Tensor, *, above: float, steps: int = 60) -> bool:
    """Whether the trained model tells the classes of other data."""
    setup = admitted(answer)
    losses(setup, steps)
    model: nn.Module = setup["model"].eval()
    with torch.no_grad():
        return (model(inputs).argmax(1) == targets).float().mean().item() > above

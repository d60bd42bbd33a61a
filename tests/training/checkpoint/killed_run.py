"""A training run that is killed again and again: `killed_run.py FOLDER KILLS WORKERS SEED` prints a report (JSON).

One process imports torch and forks a child for each attempt. A child resumes from FOLDER, trains, and tells by a pipe
what it does; the parent kills it with SIGKILL at random moments. The last attempt is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import psutil
import torch
from torch import nn
from torch.nn import functional as F

from course.training.best import BestWeights
from course.training.checkpoint import CheckpointManager, ResumableBatches, RunState
from course.training.checkpoint.atomic import Sink
from course.training.history import History
from course.training.schedule import warmup_cosine
from course.training.seed import seed_everything

EPOCHS, IMAGES, BATCH = 15, 64, 8
STEPS = EPOCHS * IMAGES // BATCH
TOLD = {"write": "slow", "log": "logged"}  # by kind of kill: after which word of the child
SLOW_EVERY, PIECES, PAUSE, HOLD = 4, 10, 0.0004, 12


class Notes:
    """What a loop keeps between steps: sums of the epoch, and a trace of what it was given."""

    def __init__(self) -> None:
        self.step, self.loss, self.count, self.trace = 0, 0.0, 0, []

    def state_dict(self) -> dict[str, Any]:
        return {**vars(self), "trace": list(self.trace)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state, trace=list(state["trace"]))


def augment(sample: tuple[torch.Tensor, ...], generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    image, target = sample
    if torch.rand(1, generator=generator) < 0.5:
        image = image.flip(-1)
    return image + 0.1 * torch.randn(image.shape, generator=generator), target


def train(folder: Path, workers: int, tell: Callable[[str], None]) -> None:
    """The run, from its newest checkpoint on. Saves after two of three steps and after each epoch."""
    made = torch.Generator().manual_seed(0)
    images, targets = torch.randn(IMAGES, 3, 8, 8, generator=made), torch.randint(5, (IMAGES,), generator=made)
    noise = seed_everything(1)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(288, 5)
    )
    groups = [
        {"params": model[0].parameters(), "lr": 0.003},
        {"params": [*model[1].parameters(), *model[5].parameters()]},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_cosine(step, total=STEPS, warmup=9))
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=7)
    batches = ResumableBatches((images, targets), BATCH, seed=2, transform=augment, num_workers=workers)
    history, notes, best = History(folder / "log.jsonl"), Notes(), BestWeights()
    run = RunState(
        model,
        optimizer,
        scheduler,
        scaler,
        batches,
        history,
        generators={"noise": noise},
        config={"epochs": EPOCHS},
        others={"notes": notes, "best": best},
    )
    manager = CheckpointManager(folder / "checkpoints", keep_last=2, keep_best=1, higher_is_better=False)

    def save(score: float) -> None:
        slow = notes.step % SLOW_EVERY == 0
        Sink.write = slow_write if slow else fast_write  # type: ignore[method-assign]
        tell("slow" if slow else "write")
        manager.save(run, step=notes.step, score=score)
        tell("written")

    tell("resume")
    manager.resume(run)
    tell("resumed")
    while batches.epoch < EPOCHS:
        for inputs, labels in batches:
            # Draws from every kind of generator, each of which a resume has to restore.
            inputs = inputs * (1 + 0.01 * random.random()) + 0.01 * float(numpy.random.normal())
            inputs = inputs + 0.01 * torch.randn(inputs.shape, generator=noise)
            model.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            notes.step += 1
            notes.loss, notes.count = notes.loss + loss.item() * len(labels), notes.count + len(labels)
            notes.trace.append([labels.tolist(), inputs.double().sum().item()])
            tell(f"step {notes.step}")
            if notes.step % 3 and batches.position < len(batches):
                save(loss.item())
        history.append(loss=notes.loss / notes.count, lr=scheduler.get_last_lr()[0])
        tell("logged")
        best.update(model, -history["loss"][-1], epoch=len(history))
        notes.loss, notes.count = 0.0, 0
        save(history["loss"][-1])
    tell("finished")


fast_write = Sink.write


def slow_write(sink: Sink, data: Any) -> int:
    view = memoryview(data).cast("B")
    size = max(1, len(view) // PIECES)
    for start in range(0, len(view), size):
        fast_write(sink, view[start : start + size])
        if len(view) > 1000:
            time.sleep(PAUSE)
    return len(view)


def attempt(folder: Path, workers: int, plan: tuple[str, int, float] | None) -> dict[str, Any]:
    """One child, killed by the plan (kind, step to wait for, seconds to wait after that), or not at all."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            torch.set_num_threads(1)
            os.close(reading)

            def tell(text: str) -> None:
                os.write(writing, f"{text}\n".encode())
                if plan is not None and (text == f"step {plan[1] + HOLD}" or (plan[0], text) == ("log", "logged")):
                    time.sleep(60)  # a parent that gets no turn on a busy machine shall not come too late

            train(folder, workers, tell)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    kind, at, delay = plan or ("none", 0, 0.0)
    status = None
    told, due, workers_seen = b"", time.monotonic() + delay if kind == "start" else None, []
    while True:
        wait = None if due is None else max(0.0, due - time.monotonic())
        ready, _, _ = select.select([reading], [], [], wait)
        if ready:
            part = os.read(reading, 65536)
            if not part:
                break
            told += part
            lines = told.decode().splitlines()
            steps = [int(line.split()[1]) for line in lines if line.startswith("step ")]
            moment = bool(lines) and lines[-1] == TOLD.get(kind, lines[-1])
            if plan and due is None and steps and steps[-1] >= at and moment:
                due = time.monotonic() + delay
        elif due is not None and time.monotonic() >= due:
            workers_seen, due = [process.pid for process in psutil.Process(child).children()], None
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            # What it had told is in the pipe now. Its workers may hold the other end open, so do not wait for the end.
            os.set_blocking(reading, False)
            with contextlib.suppress(BlockingIOError):
                while part := os.read(reading, 65536):
                    told += part
            break
    os.close(reading)
    if status is None:
        _, status = os.waitpid(child, 0)
    lines = told.decode().splitlines()
    return {
        "kind": kind,
        "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "finished": "finished" in lines,
        "in_write": bool(lines) and lines[-1] in ("write", "slow"),
        "in_resume": not lines or lines[-1] == "resume",
        "last": lines[-1] if lines else "",
        "step": max((int(line.split()[1]) for line in lines if line.startswith("step ")), default=0),
        "temporary": len(list(folder.glob("checkpoints/.*.tmp"))),
        "workers": workers_seen,
    }


class WarmedUp(Exception):
    """Enough steps were made."""


def warm_up() -> None:
    """Make torch import what it imports at the first step, once, before the children are forked."""
    torch.set_num_threads(1)

    def tell(text: str) -> None:
        if text == "step 2":
            raise WarmedUp

    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(WarmedUp):
        train(Path(folder), 0, tell)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main(folder: Path, kills: int, workers: int, seed: int) -> dict[str, Any]:
    warm_up()
    draw = random.Random(seed)
    steps = sorted(draw.randrange(STEPS - 15) for _ in range(kills))
    kinds = [draw.choices(("step", "write", "start"), (7, 2, 1))[0] for _ in steps]
    longest = {"step": 0.03, "write": 0.04, "start": 0.1}
    plans = [(kind, step, draw.uniform(0, longest[kind])) for kind, step in zip(kinds, steps, strict=True)]
    # The first epoch is in the log, and no checkpoint knows of it yet.
    plans[:1] = [("log", STEPS // EPOCHS, 0.0) for _ in plans[:1]]
    attempts = [attempt(folder, workers, plan) for plan in plans]
    last = attempt(folder, workers, None)
    deadline = time.monotonic() + 30
    pids = [pid for each in attempts for pid in each["workers"]]
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return {"attempts": attempts, "last": last, "workers": len(pids), "orphans": sum(map(alive, pids))}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:]))))

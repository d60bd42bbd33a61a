"""An examination leaves everything as it was, bit for bit, however it ends."""

from __future__ import annotations

import _thread
import copy
import io
import itertools
import random
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from course.doctor import examine
from course.doctor.keep import Keeper


def fingerprint(value: object, path: str, found: dict[str, object], seen: set[int]) -> None:
    """Note by path everything about a value that could have changed: values, bits, and which objects they are."""
    found[path] = id(value)
    if isinstance(value, (int, float, str, bool, bytes, type(None), torch.dtype, torch.device)):
        found[path] = repr(value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        bits = value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        found[f"{path} tensor"] = (type(value), tuple(value.shape), value.dtype, value.data_ptr(), bits)
        found[f"{path} flags"] = (value.requires_grad, value._version, value.grad_fn is None, list(value.__dict__))
        found[f"{path} hooks"] = list(value._backward_hooks or ())
        if value.is_leaf:
            fingerprint(value.grad, f"{path}.grad", found, seen)
    elif isinstance(value, np.ndarray):
        found[f"{path} array"] = value.tobytes()
    elif isinstance(value, torch.Generator):
        found[f"{path} state"] = value.get_state().numpy().tobytes()
    elif isinstance(value, np.random.Generator):
        found[f"{path} state"] = repr(value.bit_generator.state)
    elif isinstance(value, io.BytesIO):
        found[f"{path} position"] = value.tell()
    elif isinstance(value, dict):
        found[f"{path} keys"] = [key if isinstance(key, str) else id(key) for key in value]
        for number, (key, member) in enumerate(value.items()):
            fingerprint(member, f"{path}[{key if isinstance(key, str) else number}]", found, seen)
    elif isinstance(value, (list, tuple, deque)):
        found[f"{path} length"] = len(value)
        for number, member in enumerate(value):
            fingerprint(member, f"{path}[{number}]", found, seen)
    elif isinstance(value, (set, frozenset)):
        found[f"{path} members"] = sorted(map(repr, value))
    elif isinstance(value, type) or hasattr(value, "__code__"):
        return
    elif hasattr(value, "__dict__"):
        found[f"{path} class"] = type(value)
        fingerprint(vars(value), f"{path}.", found, seen)


def difference(now: dict[str, object], before: dict[str, object]) -> dict[str, tuple[str, str]]:
    """What differs, shortened, by path."""
    return {
        path: (repr(before.get(path, "nothing"))[:200], repr(now.get(path, "nothing"))[:200])
        for path in {**before, **now}
        if before.get(path, "nothing") != now.get(path, "nothing")
    }


def of_process() -> tuple[object, ...]:
    state = np.random.get_state()
    return (
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        (state[1].tobytes(), *state[2:]),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_anomaly_enabled(),
        threading.active_count(),
        # What is patched while watching.
        nn.Module.__call__,
        nn.Module.train,
        nn.Module.zero_grad,
        nn.Module.state_dict,
        nn.Module.load_state_dict,
        torch.optim.Optimizer.zero_grad,
        torch.optim.SGD.zero_grad,
        torch.optim.lr_scheduler.LRScheduler.step,
        torch.optim.lr_scheduler.ReduceLROnPlateau.step,
        torch.amp.GradScaler.step,
        torch.amp.GradScaler.scale,
        torch.autograd._engine_run_backward,
        torch.nn.utils.clip_grad_value_,
        DataLoader.__iter__,
        len(torch.overrides._get_current_function_mode_stack()),
        len(sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks),
        len(sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks),
    )


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3))
        self.calls = 0
        self.seen: list[float] = []
        self.memory = torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(float(x.mean()))
        x = self.layers[:4](x)
        self.memory = x.detach().mean(0)
        return self.layers[4](x)


class Noisy(Dataset):
    """A data set with a state of its own: draws, counts, and writes into what it holds."""

    def __init__(self) -> None:
        self.x, self.y = torch.randn(48, 6), torch.randint(0, 3, (48,))
        self.table = np.ones((48, 2))
        self.random = np.random.default_rng(3)
        self.reads = 0
        self.file = io.BytesIO(b"0" * 1000)

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.reads += 1
        self.table[index] += 1
        self.x[index] *= 1.01
        self.file.read(7)
        return self.x[index] + float(self.random.normal()) * 0.01 + random.random() * 0.01, self.y[index]


def setting(kind: str = "adam", *, lived_in: bool = True, **options: object) -> SimpleNamespace:
    """A setup that has trained a little, so that there is state of every kind to lose."""
    torch.manual_seed(0)
    net = Net()
    optimizer = {
        "adam": lambda: torch.optim.AdamW(net.parameters(), lr=0.01),
        "momentum": lambda: torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9),
        "lbfgs": lambda: torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=2),
        "adagrad": lambda: torch.optim.Adagrad(net.parameters(), lr=0.01),
    }[kind]()
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
        ],
        milestones=[2],
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)
    data = Noisy()
    loader = DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(1), **options)
    if lived_in:
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        F.cross_entropy(net(x), y).backward()
        if kind != "lbfgs":
            optimizer.step()
        net.layers[0].weight.requires_grad_(False)
        net.layers[1].eval()
        net.register_forward_hook(lambda *_: None)
    return SimpleNamespace(net=net, optimizer=optimizer, scheduler=scheduler, scaler=scaler, data=data, loader=loader)


def everything(parts: SimpleNamespace, *more: object) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in (*vars(parts).items(), *((f"more[{number}]", value) for number, value in enumerate(more))):
        fingerprint(value, name, found, set())
    found |= {f"process[{number}]": value for number, value in enumerate(of_process())}
    return found


def unruly(parts: SimpleNamespace):
    """A step and an evaluation that change whatever can be changed."""
    net, optimizer = parts.net, parts.optimizer
    log: list[object] = []
    best: dict[str, Tensor] = {}
    counts = {"steps": 0}
    recent: deque[Tensor] = deque(maxlen=3)
    loose = nn.Linear(3, 3)
    other = torch.optim.Adam(loose.parameters())
    noise = torch.Generator().manual_seed(4)
    total = 0.0

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        nonlocal total, other
        x, y = batch
        x += 1
        counts["steps"] += 1
        net.train()
        optimizer.zero_grad(set_to_none=counts["steps"] % 2 == 0)
        logits = net(x + torch.randn(x.shape, generator=noise))
        loss = F.cross_entropy(logits, y) + loose(logits).pow(2).mean()
        parts.scaler.scale(loss).backward()
        parts.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        parts.scaler.step(optimizer)
        parts.scaler.update()
        other.step()
        parts.scheduler.step()
        optimizer.param_groups[0]["lr"] *= 0.9
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        net.layers[4].weight.data = net.layers[4].weight.data * 0.5
        net.layers[4].bias.requires_grad_(False)
        net.layers[0].weight.grad = torch.ones(8, 6)
        net.layers[1].reset_running_stats()
        net.register_buffer("late", torch.zeros(2))
        net.layers.append(nn.Linear(3, 3))
        net.layers[3].register_forward_pre_hook(lambda *_: None)
        net.layers[4].weight.register_hook(lambda grad: grad)
        del net.layers[5]
        other = torch.optim.SGD(loose.parameters(), lr=0.1)
        log.append(loss)
        recent.append(loss)
        total += loss
        np.random.rand()
        random.random()
        torch.set_default_dtype(torch.float64)
        torch.set_default_dtype(torch.float32)
        return loss

    def evaluate() -> float:
        net.eval()
        best.update(net.state_dict())
        torch.use_deterministic_algorithms(True)
        with torch.no_grad():
            value = sum(float(F.cross_entropy(net(x), y)) for x, y in parts.loader)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        parts.scheduler.step()
        return value

    return step, evaluate, (log, best, counts, recent, loose, other, noise)


@pytest.mark.parametrize("kind", ["adam", "momentum", "adagrad"])
@pytest.mark.parametrize("lived_in", [True, False])
def test_everything_is_as_it_was(kind: str, lived_in: bool) -> None:
    parts = setting(kind, lived_in=lived_in)
    step, evaluate, state = unruly(parts)
    before = everything(parts, *state)
    report = examine(
        parts.net,
        parts.loader,
        optimizer=parts.optimizer,
        scheduler=parts.scheduler,
        scaler=parts.scaler,
        step=step,
        evaluate=evaluate,
        val_loader=parts.loader,
        budget_s=4,
    )
    assert difference(everything(parts, *state), before) == {}
    assert not [line for line in report.not_examined if line.startswith("state that could not")], report


def test_the_unruly_step_does_change_something() -> None:
    parts = setting()
    step, evaluate, state = unruly(parts)
    before = everything(parts, *state)
    try:
        step(next(iter(parts.loader)))
        evaluate()
        assert len(difference(everything(parts, *state), before)) > 50
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("kind", ["adam", "lbfgs"])
def test_the_standard_step_leaves_nothing_either(kind: str) -> None:
    parts = setting(kind, lived_in=kind != "lbfgs")
    before = everything(parts)
    examine(parts.net, parts.loader, nn.CrossEntropyLoss(), parts.optimizer, parts.scheduler, budget_s=3)
    assert difference(everything(parts), before) == {}


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt(), SystemExit(3), MemoryError("full")])
@pytest.mark.parametrize("where", ["step", "evaluate", "forward", "data", "loss"])
def test_an_error_inside_leaves_nothing(error: BaseException, where: str) -> None:
    parts = setting()
    step, evaluate, state = unruly(parts)
    calls = {"step": 0, "evaluate": 0, "forward": 0, "data": 0, "loss": 0}

    def due(place: str, number: int) -> None:
        calls[place] += 1
        if place == where and calls[place] == number:
            raise error

    def failing_step(batch: object) -> Tensor:
        loss = step(batch)
        due("step", 1)
        return loss

    def failing_evaluate() -> None:
        evaluate()
        due("evaluate", 1)

    def failing_loss(logits: Tensor, target: Tensor) -> Tensor:
        due("loss", 1)
        return F.cross_entropy(logits, target)

    parts.net.layers[2].register_forward_hook(lambda *_: due("forward", 1))
    original = Noisy.__getitem__
    parts.data.hook = lambda: due("data", 20)
    before = everything(parts, *state)
    arguments = {"optimizer": parts.optimizer, "scheduler": parts.scheduler, "scaler": parts.scaler, "budget_s": 3}
    if where == "loss":
        arguments |= {"loss_fn": failing_loss}
    else:
        arguments |= {"step": failing_step, "evaluate": failing_evaluate}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noisy, "__getitem__", lambda self, index: (self.hook(), original(self, index))[1])
        if isinstance(error, KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                examine(parts.net, parts.loader, **arguments)
        else:
            report = examine(parts.net, parts.loader, **arguments)
            assert type(error).__name__ in report.text
    assert difference(everything(parts, *state), before) == {}


def test_interrupts_at_random_moments_leave_nothing() -> None:
    parts = setting()
    step, evaluate, state = unruly(parts)
    arguments = {
        "optimizer": parts.optimizer,
        "scheduler": parts.scheduler,
        "scaler": parts.scaler,
        "step": step,
        "evaluate": evaluate,
        "budget_s": 2,
    }
    start = time.perf_counter()
    examine(parts.net, parts.loader, **arguments)
    usual = time.perf_counter() - start
    before = everything(parts, *state)
    chance = random.Random(5)
    interrupted = 0
    for _ in range(25):
        timer = threading.Timer(chance.uniform(0, usual), _thread.interrupt_main)
        try:
            timer.start()
            examine(parts.net, parts.loader, **arguments)
            timer.cancel()
            timer.join()
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        assert difference(everything(parts, *state), before) == {}
    assert interrupted > 5


def test_an_iterator_is_not_used_up() -> None:
    parts = setting()
    iterator = iter([(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(4)])
    batches = (batch for batch in iterator)
    report = examine(parts.net, batches, nn.CrossEntropyLoss(), parts.optimizer, budget_s=2)
    assert len(list(batches)) == 4
    assert any("iterator" in line for line in report.not_examined)


def test_an_endless_data_set_is_read_a_little() -> None:
    reads = itertools.count()

    class Endless(IterableDataset):
        given = 0

        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            while True:
                next(reads)
                self.given += 1
                yield torch.randn(6), torch.tensor(1)

    parts = setting()
    data = Endless()
    examine(parts.net, DataLoader(data, batch_size=4), nn.CrossEntropyLoss(), parts.optimizer, budget_s=2)
    assert 4 <= next(reads) < 2000
    assert data.given == 0


def test_workers_are_neither_started_nor_disturbed() -> None:
    import multiprocessing

    parts = setting(num_workers=1, persistent_workers=True)
    iterator = iter(parts.loader)
    first = next(iterator)
    workers = multiprocessing.active_children()
    examine(parts.net, parts.loader, nn.CrossEntropyLoss(), parts.optimizer, budget_s=2)
    assert parts.loader._iterator is iterator
    assert multiprocessing.active_children() == workers
    assert len(list(iterator)) == 5
    assert len(first[0]) == 8
    iterator._shutdown_workers()


def test_a_lazy_module_stays_lazy() -> None:
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Linear(4, 3))
    data = [(torch.randn(8, 5), torch.randint(0, 3, (8,))) for _ in range(3)]
    keeper = Keeper([("model", net)])
    net(data[0][0])
    assert keeper.restore() == []
    assert type(net[0]) is nn.LazyLinear
    assert isinstance(net[0].weight, nn.UninitializedParameter)
    net(torch.randn(3, 7))
    assert net[0].weight.shape == (4, 7)


def test_what_is_kept_is_let_go() -> None:
    parts = setting()
    gone = weakref.ref(parts.net)
    examine(parts.net, parts.loader, nn.CrossEntropyLoss(), parts.optimizer, budget_s=2)
    del parts
    import gc

    gc.collect()
    assert gone() is None


def test_a_graph_that_was_there_can_still_be_used() -> None:
    layer = nn.Linear(4, 4)
    hidden = layer(torch.randn(2, 4)).tanh()

    def step(batch: Tensor) -> Tensor:
        nonlocal hidden
        hidden = hidden.detach()
        loss = layer(hidden + batch).sum()
        loss.backward()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter -= 0.1 * parameter.grad
        return loss

    before = hidden
    examine(loader=[torch.randn(2, 4)] * 3, step=step, budget_s=2)
    assert hidden is before
    hidden.pow(2).sum().backward()


def test_a_large_data_set_is_watched_instead_of_copied() -> None:
    x = torch.zeros(80 * 2**18)  # 80 MiB
    data = TensorDataset(x.view(-1, 2**12), torch.zeros(len(x) // 2**12))
    keeper = Keeper([], [("data", data)])
    assert sum(state.value.numel() for state in keeper.tensors if state.value is not None) < 2**20
    assert keeper.restore() == []
    data.tensors[0][0] += 1
    assert "changed in place" in keeper.restore()[0]


def test_a_step_without_a_model_and_its_classes() -> None:
    class Trainer:
        steps = 0
        history: list[float] = []  # noqa: RUF012  shared on purpose

        def __init__(self) -> None:
            self.net = nn.Linear(4, 2)
            self.optimizer = torch.optim.Adam(self.net.parameters())
            self.best: dict[str, Tensor] | None = None

        def step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            Trainer.steps += 1
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            loss.backward()
            self.optimizer.step()
            self.history.append(loss.item())
            self.best = copy.deepcopy(self.net.state_dict())
            return loss

    trainer = Trainer()
    data = [(torch.randn(8, 4), torch.randint(0, 2, (8,))) for _ in range(3)]
    before = everything(SimpleNamespace(trainer=trainer))
    examine(loader=data, step=trainer.step, budget_s=2)
    assert difference(everything(SimpleNamespace(trainer=trainer)), before) == {}
    assert (Trainer.steps, Trainer.history, trainer.best) == (0, [], None)


def test_sparse_gradients() -> None:
    table = nn.Embedding(50, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    table(torch.arange(8)).sum().backward()
    gradient = table.weight.grad
    dense = gradient.to_dense().clone()
    keeper = Keeper([("table", table), ("optimizer", optimizer)])
    optimizer.step()
    table(torch.arange(8, 16)).pow(2).sum().backward()
    assert not torch.equal(gradient.to_dense(), dense)
    assert keeper.restore() == []
    assert table.weight.grad is gradient
    assert torch.equal(gradient.to_dense(), dense)
    assert not optimizer.state


@pytest.mark.parametrize("thorough", [True, False])
def test_writes_that_autograd_does_not_count(thorough: bool) -> None:
    layer = nn.Linear(4, 2)
    before = layer.weight.detach().clone()
    keeper = Keeper([("layer", layer)])
    layer.weight.data.mul_(2)
    keeper.restore(thorough=thorough)
    assert torch.equal(layer.weight, before)


def test_bits_of_nan_and_of_minus_zero() -> None:
    values = torch.tensor([float("nan"), -0.0, 1.0])
    keeper = Keeper([("values", values)])
    values.copy_(torch.tensor([0.0, 0.0, 1.0]))
    keeper.restore()
    assert values.isnan().tolist() == [True, False, False]
    assert torch.signbit(values)[1]


def test_a_live_iterator_of_the_user_goes_on() -> None:
    loader = DataLoader(TensorDataset(torch.arange(400.0)), batch_size=2, num_workers=1)
    iterator = iter(loader)
    first = next(iterator)

    def step() -> Tensor:
        (x,) = next(iterator)
        return x.sum()

    examine(step=step, budget_s=1)
    rest = [int(batch[0][0]) for batch in iterator]
    assert rest == sorted(rest)
    assert rest[0] <= 100
    assert rest[-1] == 398
    assert int(first[0][0]) == 0


def test_a_sharded_model_is_left_alone(tmp_path: Path) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        fully_shard(net, mesh=init_device_mesh("cpu", (1,)))
        data = [(torch.randn(8, 4), torch.randint(0, 2, (8,)))] * 2
        report = examine(net, data, F.cross_entropy, torch.optim.AdamW(net.parameters()), budget_s=2)
        assert report.findings == []
        assert "sharded" in report.not_examined[0]
        F.cross_entropy(net(data[0][0]), data[0][1]).backward()
    finally:
        dist.destroy_process_group()

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course.checking.isolate import run_isolated
from course.distributed.ranks import RankError, run_ranks


@pytest.fixture(autouse=True)
def _no_child_stays():
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


@pytest.mark.parametrize("n", [1, 2, 4])
def test_results_come_by_rank(n):
    def summed(rank, start, scale):
        x = torch.tensor([float(rank)])
        dist.all_reduce(x)
        return rank, x.item() * scale + start, dist.get_world_size(), torch.get_num_threads()

    total = n * (n - 1) / 2
    assert run_ranks(summed, n, 1, 10) == [(rank, 10 * total + 1, n, 1) for rank in range(n)]


def test_tensors_come_detached_and_without_the_rest_of_their_storage():
    def parts(rank):
        whole = torch.arange(1000.0, requires_grad=True) * 2
        return {"view": whole[:3], "list": [whole[3]]}

    first, second = run_ranks(parts, 2)
    assert first["view"].tolist() == second["view"].tolist() == [0.0, 2.0, 4.0]
    assert not first["view"].requires_grad
    assert first["view"].untyped_storage().nbytes() == 12
    assert first["list"][0].item() == 6.0


def test_what_a_rank_changes_stays_there():
    x = torch.zeros(2)
    run_ranks(lambda rank: x.add_(1), 2)
    assert x.tolist() == [0.0, 0.0]
    assert not dist.is_initialized()


def test_large_results_pass():
    results = run_ranks(lambda rank: torch.full((300_000,), float(rank)), 2)
    assert [result.sum().item() for result in results] == [0.0, 300_000.0]


def test_ddp_after_the_parent_has_computed_with_threads():
    (torch.randn(400, 400, requires_grad=True) @ torch.randn(400, 400)).sum().backward()

    def gradient(rank):
        torch.manual_seed(0)
        model = DistributedDataParallel(nn.Linear(3, 1))
        model(torch.full((2, 3), float(rank + 1))).mean().backward()
        return model.module.weight.grad

    for weight in run_ranks(gradient, 2):
        assert weight.tolist() == [[1.5, 1.5, 1.5]]


def fail(rank, how):
    if rank == 1:
        how()
    dist.all_reduce(torch.ones(1))


def boom():
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("how", "words", "cause"),
    [
        (boom, r"rank 1 of 3 raised ValueError: boom \(line \d+, in boom\)", "ValueError: boom"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "rank 1 of 3 ended by SIGKILL", "SIGKILL"),
        (lambda: os._exit(0), "rank 1 of 3 ended by exit code 0", "exit code 0"),
        (lambda: sys.exit(5), "rank 1 of 3 ended by exit code 5", "exit code 5"),
        (lambda: sys.exit(), "rank 1 of 3 ended by exit code 0", "exit code 0"),
    ],
    ids=["raise", "kill", "_exit", "exit5", "exit"],
)
def test_the_rank_that_fails_is_named_and_not_its_victims(how, words, cause):
    with pytest.raises(RankError, match=words) as raised:
        run_ranks(fail, 3, how)
    assert (raised.value.rank, raised.value.cause) == (1, cause)


def test_a_result_that_cannot_be_sent():
    with pytest.raises(RankError, match="raised TypeError: cannot pickle 'generator' object"):
        run_ranks(lambda rank: (i for i in range(3)), 2)


def test_a_collective_that_one_rank_leaves_out():
    def skip(rank):
        if rank == 0:
            dist.all_reduce(torch.ones(2))

    with pytest.raises(RankError, match=r"rank 0 of 2 did not end within 1 s, while rank 1 had returned") as raised:
        run_ranks(skip, 2, timeout=1)
    assert raised.value.rank == 0


def test_code_that_never_ends():
    def stubborn(rank):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(1)

    with pytest.raises(RankError, match="ranks 0, 1 of 2 did not end"):
        run_ranks(stubborn, 2, timeout=1)


def test_what_a_rank_starts_ends_with_it():
    def start(rank):
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]).pid

    for pid in run_ranks(start, 2):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_at_least_one_rank():
    with pytest.raises(ValueError, match="not 0"):
        run_ranks(lambda rank: None, 0)


def test_where_forking_is_impossible(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(NotImplementedError, match="torchrun"):
        run_ranks(lambda rank: None, 2)


def test_inside_the_child_of_an_exercise():
    def summed(rank):
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x)
        return x.item()

    def produce():
        yield run_ranks(summed, 2)
        try:
            run_ranks(fail, 2, boom)
        except RankError as error:
            yield str(error)

    run = run_isolated(produce, deadline=20)
    assert run.finished, run.ending
    assert run.messages[0] == [3.0, 3.0]
    assert run.messages[1].startswith("rank 1 of 2 raised ValueError: boom")


def test_the_deadline_of_an_exercise_ends_its_ranks(tmp_path):
    def pid_and_wait(rank):
        (tmp_path / str(rank)).write_text(str(os.getpid()))
        time.sleep(300)

    def produce():
        yield run_ranks(pid_and_wait, 2, timeout=200)

    run = run_isolated(produce, deadline=2)
    assert run.timed_out
    pids = [int(path.read_text()) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    end = time.monotonic() + 5
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

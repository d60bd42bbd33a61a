"""Ranks played by threads, so that a probe needs no process group and a deadlock is found instead of waited for.

`as_ranks` runs one function on several ranks. Inside it `torch.distributed` answers as an initialised group would
(all_reduce, reduce, broadcast, all_gather and a few more), and `Communicator` sends tensors from rank to rank.
Ranks that wait for each other, or that call different collectives, get an error at once; real processes would hang
until their timeout. tests/exercises/distributed compares this with real processes.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

REDUCTIONS: list[tuple[Any, Callable[[Tensor], Tensor]]] = [
    (dist.ReduceOp.SUM, lambda x: x.sum(0)),
    (dist.ReduceOp.AVG, lambda x: x.mean(0)),
    (dist.ReduceOp.PRODUCT, lambda x: x.prod(0)),
    (dist.ReduceOp.MAX, lambda x: x.amax(0)),
    (dist.ReduceOp.MIN, lambda x: x.amin(0)),
]


class RanksStuck(RuntimeError):
    """No rank can go on; the message says where each of them stands."""


class RanksDisagree(RuntimeError):
    """The ranks met in different calls, or with tensors that do not fit."""


class World:
    """What the ranks of one run share.

    `collectives` counts the collective calls of a rank, `sent` its messages as (receiver, elements).
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition()
        self.here = threading.local()
        self.calls: dict[int, dict[int, tuple[str, Any]]] = defaultdict(dict)
        self.collectives = [0] * size
        self.boxes: dict[tuple[int, int], deque[Tensor]] = defaultdict(deque)
        self.sent: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        self.waiting: dict[int, tuple[Callable[[], bool], str]] = {}
        self.ended: set[int] = set()
        self.stuck = ""  # where the ranks stood when none could go on

    @property
    def rank(self) -> int:
        rank: int = self.here.rank
        return rank

    def wait(self, ready: Callable[[], bool], doing: str) -> None:
        """Block this rank until `ready`; raises RanksStuck when no rank can make it so."""
        with self.changed:
            self.waiting[self.rank] = ready, doing
            while not ready():
                if not self.stuck and self._none_can_go_on():
                    self.stuck = self._where()
                    self.changed.notify_all()
                if self.stuck:
                    raise RanksStuck(self.stuck)
                self.changed.wait()
            del self.waiting[self.rank]

    def _none_can_go_on(self) -> bool:
        living = set(range(self.size)) - self.ended
        return living == set(self.waiting) and not any(ready() for ready, _ in self.waiting.values())

    def _where(self) -> str:
        places = [f"rank {rank} waits in {doing}" for rank, (_, doing) in sorted(self.waiting.items())]
        places += [f"rank {rank} has ended" for rank in sorted(self.ended)]
        return "no rank can go on: " + ", ".join(places)

    def end(self, rank: int) -> None:
        with self.changed:
            self.ended.add(rank)
            self.changed.notify_all()

    def meet(self, kind: str, payload: Any) -> Callable[[], list[Any]]:
        """Enter a collective; the returned function waits for the others and gives every rank's payload."""
        rank = self.rank
        with self.changed:
            call = self.calls[self.collectives[rank]]
            self.collectives[rank] += 1
            call[rank] = kind, payload
            self.changed.notify_all()

        def finish() -> list[Any]:
            self.wait(lambda: len(call) == self.size, kind)
            kinds = {what for what, _ in call.values()}
            if len(kinds) > 1:
                raise RanksDisagree("the ranks met in different calls: " + " and ".join(sorted(kinds)))
            return [call[other][1] for other in range(self.size)]

        return finish


class Communicator:
    """Messages between ranks: what the answer to a "build it" exercise may use.

    `rank` is the number of this rank, `size` how many there are. `send(tensor, to)` takes a copy and returns at once;
    `recv(source)` waits for the next tensor from that rank.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.rank, self.size = world.rank, world.size

    def send(self, tensor: Tensor, to: int) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"send takes a tensor, not {type(tensor).__name__}")
        if to not in range(self.size) or to == self.rank:
            raise ValueError(f"rank {self.rank} cannot send to rank {to}; there are {self.size} ranks")
        with self._world.changed:
            self._world.sent[self.rank].append((to, tensor.numel()))
            self._world.boxes[self.rank, to].append(tensor.detach().clone())
            self._world.changed.notify_all()

    def recv(self, source: int) -> Tensor:
        if source not in range(self.size) or source == self.rank:
            raise ValueError(f"rank {self.rank} cannot receive from rank {source}; there are {self.size} ranks")
        box = self._world.boxes[source, self.rank]
        self._world.wait(lambda: bool(box), "recv")
        return box.popleft()


def as_ranks(function: Callable[[int, World], Any], size: int) -> tuple[list[Any], World]:
    """Call `function(rank, world)` on `size` ranks at once; returns the results in order of the ranks.

    Where ranks failed, the error of the lowest one is raised; an error of a rank's own comes before RanksStuck.
    """
    world = World(size)
    results: list[Any] = [None] * size
    errors: dict[int, BaseException] = {}

    def main(rank: int) -> None:
        world.here.rank = rank
        try:
            results[rank] = function(rank, world)
        except BaseException as error:
            errors[rank] = error
        finally:
            world.waiting.pop(rank, None)
            world.end(rank)

    threads = [threading.Thread(target=main, args=(rank,), daemon=True) for rank in range(size)]
    with _patched(world):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[min(errors, key=lambda rank: (isinstance(errors[rank], RanksStuck), rank))]
    return results, world


class _Work:
    """What a collective with async_op=True returns."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish: Callable[[], None] | None = finish

    def wait(self, timeout: Any = None) -> bool:
        if self._finish is not None:
            self._finish()
            self._finish = None
        return True


def _ended(finish: Callable[[], None], async_op: bool) -> _Work | None:
    work = _Work(finish)
    if async_op:
        return work
    work.wait()
    return None


def _form(tensor: Tensor) -> str:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"a collective takes a tensor, not {type(tensor).__name__}")
    return f"of shape {tuple(tensor.shape)}, {str(tensor.dtype).removeprefix('torch.')}"


def _reduced(parts: list[Tensor], op: Any) -> Tensor:
    for known, function in REDUCTIONS:
        if op == known:
            return function(torch.stack(parts)).to(parts[0].dtype)
    raise RuntimeError(f"no reduction is known for {op}; use ReduceOp.SUM, AVG, PRODUCT, MAX or MIN")


@contextmanager
def _patched(world: World) -> Iterator[None]:
    """torch.distributed as the ranks of this world see it."""

    def all_reduce(tensor: Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        others = world.meet(f"all_reduce {_form(tensor)}", tensor.detach().clone())
        return _ended(lambda: _write(tensor, _reduced(others(), op)), async_op)

    def reduce(tensor: Tensor, dst: int = 0, op: Any = dist.ReduceOp.SUM, **_: Any) -> None:
        total = _reduced(world.meet(f"reduce {_form(tensor)}", tensor.detach().clone())(), op)
        if world.rank == dst:
            _write(tensor, total)

    def broadcast(tensor: Tensor, src: int = 0, group: Any = None, async_op: bool = False, **_: Any) -> Any:
        others = world.meet(f"broadcast {_form(tensor)}", tensor.detach().clone())
        return _ended(lambda: _write(tensor, others()[src]), async_op)

    def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
        others = world.meet(f"all_gather {_form(tensor)}", tensor.detach().clone())
        return _ended(lambda: [_write(mine, part) for mine, part in zip(tensor_list, others())] and None, async_op)

    def all_gather_into_tensor(output: Tensor, tensor: Tensor, *_: Any, **__: Any) -> None:
        parts = world.meet(f"all_gather_into_tensor {_form(tensor)}", tensor.detach().clone())()
        _write(output, torch.cat(parts).reshape(output.shape))

    def all_gather_object(object_list: list[Any], obj: Any, *_: Any, **__: Any) -> None:
        object_list[:] = world.meet("all_gather_object", obj)()

    def barrier(*_: Any, **__: Any) -> None:
        world.meet("barrier", None)()

    with mock.patch.multiple(
        dist,
        all_reduce=all_reduce,
        reduce=reduce,
        broadcast=broadcast,
        all_gather=all_gather,
        all_gather_into_tensor=all_gather_into_tensor,
        all_gather_object=all_gather_object,
        barrier=barrier,
        get_rank=lambda *_, **__: world.rank,
        get_world_size=lambda *_, **__: world.size,
        is_initialized=lambda: True,
    ):
        yield


def _write(tensor: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        tensor.copy_(values)


class SimulatedDDP(nn.Module):
    """DistributedDataParallel in small: forward arms the averaging, and each gradient is averaged when it is there.

    As in the original, `no_sync()` counts at the time of the forward pass, and `module` is the wrapped network.
    `averaged` counts the gradients that were averaged on this rank, `entered` the blocks of no_sync().
    """

    def __init__(self, module: nn.Module, world: World) -> None:
        super().__init__()
        self.module, self.averaged, self.entered = module, 0, 0
        self._world, self._sync, self._armed = world, True, False
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._average)

    def _average(self, parameter: Tensor) -> None:
        if self._armed:
            self.averaged += 1
            dist.all_reduce(parameter.grad)
            parameter.grad /= self._world.size

    def forward(self, *inputs: Any) -> Any:
        if torch.is_grad_enabled():
            self._armed = self._sync
        return self.module(*inputs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self.entered += 1
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

"""What FSDP keeps on each rank, against DDP; that both train like one process; a checkpoint for any number of ranks.

    torchrun --standalone --nproc-per-node 2 -m course.distributed.scripts.sharding [--save DIR]
    torchrun --standalone --nproc-per-node 3 -m course.distributed.scripts.sharding --load DIR

Saving trains three steps and writes a sharded checkpoint; loading reads it on any number of ranks, one included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 (its usual name)

from course.distributed.worker import report, say

STEPS = 3
BATCH = 12  # of all ranks together; 1, 2, 3, 4 and 6 ranks divide it


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def network(width: int = 97, blocks: int = 3) -> nn.Sequential:
    """The same numbers on every rank. The width is odd on purpose: no number of ranks divides it."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, width), *[Block(width) for _ in range(blocks)], nn.Linear(width, 10))


def sharded(model: nn.Sequential) -> nn.Sequential:
    """Give each block to FSDP, then the whole. A block's parameters are gathered while it computes, then dropped."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    for layer in model:
        if isinstance(layer, Block):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def optimizer_for(model: nn.Module) -> torch.optim.AdamW:
    """Made after sharding, so that its state is sharded as the parameters are."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, world: int, steps: int = STEPS) -> None:
    """Train on this rank's share of the same batches; gradients stay in place afterwards."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x, y = torch.randn(BATCH, 16, generator=generator), torch.randint(10, (BATCH,), generator=generator)
        mine = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
        optimizer.zero_grad()
        cross_entropy(model(x[mine]), y[mine]).backward()
        optimizer.step()


def kept(tensors: Iterator[Tensor]) -> int:
    """Bytes that this rank keeps of tensors, sharded or not."""
    return sum((one.to_local() if isinstance(one, DTensor) else one).nbytes for one in tensors)


def bytes_kept(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes on this rank. Adam's state is two numbers for each parameter; its step counters are left out."""
    states = (value for state in optimizer.state.values() for name, value in state.items() if name != "step")
    return {
        "parameters": kept(model.parameters()),
        "gradients": kept(p.grad for p in model.parameters() if p.grad is not None),
        "optimizer": kept(states),
    }


def by_rank(value: object) -> list:
    """The values of all ranks, on every rank."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def whole_parameters(model: nn.Module) -> Tensor:
    """All parameters in one vector. Gathering is a collective: every rank has to call it."""
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    return torch.cat([each.detach().reshape(-1) for each in whole])


def alone() -> nn.Module:
    """The same training in one process, on whole batches."""
    model = network()
    train(model, optimizer_for(model), rank=0, world=1)
    return model


def compare(save: str | None) -> dict[str, object]:
    """Train with DDP and with FSDP: bytes on each rank, and how far the parameters end from those of one process."""
    wraps: dict[str, Callable[[nn.Sequential], nn.Module]] = {"ddp": DDP, "fsdp": sharded}
    target = whole_parameters(alone())
    answers: dict[str, object] = {
        "parameters": target.numel(),
        "shapes": [list(p.shape) for p in network().parameters()],
    }
    for name, wrap in wraps.items():
        model = wrap(network())
        optimizer = optimizer_for(model)
        train(model, optimizer, dist.get_rank(), dist.get_world_size())
        difference = (whole_parameters(model) - target).abs().max().item()
        answers[name] = {"bytes": by_rank(bytes_kept(model, optimizer)), "difference": difference}
        if dist.get_rank() == 0:
            say(f"{name}: {answers[name]['bytes'][0]['parameters']} bytes of parameters on rank 0")
    answers["kind"] = f"{type(next(model.parameters())).__name__} {next(model.parameters()).placements}"
    if save:
        states, optimizer_states = get_state_dict(model, optimizer)
        start = time.perf_counter()
        dcp.save({"model": states, "optimizer": optimizer_states}, checkpoint_id=save)
        answers["save_seconds"] = time.perf_counter() - start
    return answers


def load(folder: str) -> dict[str, object]:
    """Read a checkpoint on this number of ranks, whatever number wrote it, and go on for one step."""
    model = sharded(network())
    optimizer = optimizer_for(model)
    states, optimizer_states = get_state_dict(model, optimizer)  # what to fill, in the shape that this rank keeps
    dcp.load({"model": states, "optimizer": optimizer_states}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=states, optim_state_dict=optimizer_states)
    difference = (whole_parameters(model) - whole_parameters(alone())).abs().max().item()
    steps = {int(state["step"]) for state in optimizer.state.values()}
    train(model, optimizer, dist.get_rank(), dist.get_world_size(), steps=1)
    return {"difference": difference, "steps": sorted(steps), "bytes": by_rank(bytes_kept(model, optimizer))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", help="folder for the checkpoint of FSDP")
    parser.add_argument("--load", help="folder of a checkpoint to read instead")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    answers = load(options.load) if options.load else compare(options.save)
    report({"world": dist.get_world_size(), **answers})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Ring all-reduce, built from send and receive, and the same counted in one process.

The ranks stand in a ring; each sends to the right and receives from the left. The tensor is cut into n chunks. In the
first n-1 steps (reduce-scatter) the sums travel: after them each rank holds one finished chunk. In the next n-1 steps
(all-gather) the finished chunks travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def chunk_bounds(length: int, n: int) -> list[tuple[int, int]]:
    """Cut range(length) into n consecutive (start, end); sizes differ by at most one, some may be empty."""
    return [(length * number // n, length * (number + 1) // n) for number in range(n)]


def ring_steps(rank: int, n: int) -> list[tuple[int, int, bool]]:
    """What a rank does in each of its 2(n-1) steps: (chunk to send, chunk that arrives, whether to add it)."""
    adding = [((rank - step) % n, (rank - step - 1) % n, True) for step in range(n - 1)]
    copying = [((rank + 1 - step) % n, (rank - step) % n, False) for step in range(n - 1)]
    return adding + copying


def ring_all_reduce(tensor: Tensor, group: Any = None) -> None:
    """Replace `tensor` on every rank by the sum over ranks, in place, as `dist.all_reduce(tensor)` does.

    tensor: any shape and length, contiguous or not, the same shape and dtype on every rank. group: a process group;
        None is the default one. Chunks without elements are not sent.
    """
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % n, (rank - 1) % n
    whole = tensor.detach().contiguous()
    flat = whole.view(-1)
    chunks = [flat[start:end] for start, end in chunk_bounds(len(flat), n)]
    for outgoing, incoming, add in ring_steps(rank, n):
        # Sending must not wait for the receiver: in a ring everyone would wait for everyone.
        sending = dist.isend(chunks[outgoing], group=group, group_dst=right) if len(chunks[outgoing]) else None
        if len(chunks[incoming]):
            arrived = torch.empty_like(chunks[incoming])
            dist.recv(arrived, group=group, group_src=left)
            if add:
                chunks[incoming] += arrived
            else:
                chunks[incoming].copy_(arrived)
        if sending is not None:
            sending.wait()
    if whole.data_ptr() != tensor.data_ptr():
        with torch.no_grad():
            tensor.copy_(whole)


@dataclass(frozen=True)
class RingTrace:
    """results: one summed tensor a rank. messages: number sent by each rank. sent_bytes: bytes sent by each rank."""

    results: tuple[Tensor, ...]
    messages: tuple[int, ...]
    sent_bytes: tuple[int, ...]


def simulate_ring(tensors: Sequence[Tensor]) -> RingTrace:
    """Do in one process what the ranks of a ring do with one tensor each, and count what they send.

    tensors: one a rank, all of one shape and dtype; they stay as they are. Each of n ranks sends 2(n-1) messages,
    together 2(n-1)/n of its tensor's bytes (exactly so if n divides the length). Chunks without elements are not sent.
    Raises ValueError for no tensors, or for unlike ones.
    """
    import torch

    n = len(tensors)
    if n == 0:
        raise ValueError("a ring needs at least one tensor")
    kinds = {(tuple(tensor.shape), tensor.dtype) for tensor in tensors}
    if len(kinds) > 1:
        raise ValueError(f"every rank needs a tensor of the same shape and dtype, not {sorted(map(str, kinds))}")
    flats = [tensor.detach().clone(memory_format=torch.contiguous_format).view(-1) for tensor in tensors]
    chunks = [[flat[start:end] for start, end in chunk_bounds(len(flat), n)] for flat in flats]
    messages, sent_bytes = [0] * n, [0] * n
    for step in range(2 * (n - 1)):
        plans = [ring_steps(rank, n)[step] for rank in range(n)]
        # All send at the same moment: what leaves is what a rank held before this step.
        leaving = [chunks[rank][outgoing].clone() for rank, (outgoing, _, _) in enumerate(plans)]
        for rank, (_, incoming, add) in enumerate(plans):
            arrived = leaving[(rank - 1) % n]
            chunks[rank][incoming].copy_(chunks[rank][incoming] + arrived if add else arrived)
            messages[rank] += len(leaving[rank]) > 0
            sent_bytes[rank] += leaving[rank].nbytes
    results = tuple(flat.view(tensors[0].shape) for flat in flats)
    return RingTrace(results, tuple(messages), tuple(sent_bytes))

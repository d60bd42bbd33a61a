"""Bytes a rank for DDP and FSDP: parameters, gradients, state of the optimizer.

What is left out: activations (they depend on the batch, not on how parameters are spread), buffers such as those of
BatchNorm (whole on every rank), the step counters of Adam (a few bytes for each tensor), and what the
allocator rounds up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Numbers that an optimizer keeps for each parameter, besides the parameter itself.
STATE_PER_PARAMETER = {"sgd": 0, "momentum": 1, "adam": 2}
MASTER_BYTES = 4


@dataclass(frozen=True)
class Memory:
    """Bytes a rank keeps between steps.

    buckets: DDP's buffers for communication. gathered: bytes more while one block is gathered whole (FSDP).
    """

    parameters: int
    gradients: int
    optimizer: int
    buckets: int = 0
    gathered: int = 0

    @property
    def total(self) -> int:
        """parameters + gradients + optimizer + buckets (without gathered)."""
        return self.parameters + self.gradients + self.optimizer + self.buckets

    @property
    def peak(self) -> int:
        """total + gathered."""
        return self.total + self.gathered


def ddp_memory(
    parameters: int,
    *,
    optimizer: str = "adam",
    parameter_bytes: int = 4,
    gradient_bytes: int | None = None,
    state_bytes: int = 4,
    master_copy: bool = False,
    bucket_view: bool = True,
) -> Memory:
    """Bytes of one DDP rank: it keeps everything whole, whatever the number of workers.

    parameters: number of parameters, all of them trained. optimizer: "sgd", "momentum" or "adam" (AdamW is the same).
    parameter_bytes, gradient_bytes (default: as the parameters), state_bytes: bytes of one number, 4 for float32, 2 for
        bfloat16. Under autocast parameters, gradients and state all stay float32.
    master_copy: keep a float32 copy of the parameters besides them; counted with the optimizer.
    bucket_view: gradients live in the buckets, as with `DDP(model, gradient_as_bucket_view=True)`. False, the default
        of DDP, keeps the buckets besides the gradients: their bytes once more.

    Raises ValueError for an optimizer that is not known.
    """
    memory = _memory(parameters, optimizer, parameter_bytes, gradient_bytes, state_bytes, master_copy)
    buckets = 0 if bucket_view else memory.gradients
    return Memory(memory.parameters, memory.gradients, memory.optimizer, buckets=buckets)


def fsdp_memory(
    parameters: int,
    workers: int,
    *,
    optimizer: str = "adam",
    parameter_bytes: int = 4,
    gradient_bytes: int | None = None,
    state_bytes: int = 4,
    master_copy: bool = False,
    largest_block: int = 0,
    gathered_bytes: int | None = None,
) -> Memory:
    """Bytes of one FSDP rank: ceil(parameters / workers) of everything, and one block gathered whole for a moment.

    workers: ranks that the parameters are spread over. Rank 0 holds a little more than this, see `shard_elements`.
    largest_block: parameters of the largest module given to fully_shard, counted for its parameters and, in the
        backward pass, its gradients. gathered_bytes: bytes of one number while gathered, 2 under
        MixedPrecisionPolicy(param_dtype=torch.bfloat16), where the shards stay float32; default: parameter_bytes.
    The other arguments: as `ddp_memory`.
    """
    if workers < 1:
        raise ValueError(f"at least one worker is needed, not {workers}")
    share = math.ceil(parameters / workers)
    memory = _memory(share, optimizer, parameter_bytes, gradient_bytes, state_bytes, master_copy)
    gathered = 2 * largest_block * (parameter_bytes if gathered_bytes is None else gathered_bytes)
    return Memory(memory.parameters, memory.gradients, memory.optimizer, gathered=gathered)


def shard_elements(shapes: Sequence[Sequence[int]], workers: int, rank: int) -> int:
    """Parameters that a rank of `fully_shard` holds: each tensor is cut along its first axis as torch.chunk does.

    shapes: of all parameters. Ranks behind the last chunk hold nothing of a tensor.
    """
    total = 0
    for shape in shapes:
        rows, width = shape[0], math.prod(shape[1:])
        size = math.ceil(rows / workers)
        total += max(0, min(size, rows - rank * size)) * width
    return total


def _memory(
    parameters: int,
    optimizer: str,
    parameter_bytes: int,
    gradient_bytes: int | None,
    state_bytes: int,
    master_copy: bool,
) -> Memory:
    if optimizer not in STATE_PER_PARAMETER:
        raise ValueError(f"the state of optimizer {optimizer!r} is not known; known: {', '.join(STATE_PER_PARAMETER)}")
    if parameters < 0:
        raise ValueError(f"a number of parameters is 0 or more, not {parameters}")
    state = STATE_PER_PARAMETER[optimizer] * state_bytes + (MASTER_BYTES if master_copy else 0)
    gradients = parameters * (parameter_bytes if gradient_bytes is None else gradient_bytes)
    return Memory(parameters * parameter_bytes, gradients, parameters * state)

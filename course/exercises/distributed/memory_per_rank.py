"""Lesson 11: what a rank holds under DDP and under FSDP."""

from __future__ import annotations

import math

from course.checking import Exercise

exercise = Exercise(
    "distributed.memory_per_rank",
    title="Bytes a rank, replicated and sharded",
    task="""
        Training in float32 (4 bytes a number) with AdamW, which keeps two numbers for each parameter.
        `memory_per_rank(parameters, ranks, sharded, largest_block)` returns the bytes that one rank needs for
        parameters, gradients and the optimizer's state, as an int. Activations are left out.

        - `sharded` False is DDP: everything lies on every rank. (The buckets are the gradients' own memory, as with
          `gradient_as_bucket_view=True`.)
        - `sharded` True is FSDP: a rank holds `ceil(parameters / ranks)` of the parameters, with their gradients and
          their state. While a block computes, its parameters are gathered whole, and after its backward pass its
          gradients are whole until they are shared out: add **both** for the largest block, which has `largest_block`
          parameters.
        """,
    hints=(
        "Count the numbers that are kept for one parameter: itself, its gradient, and what AdamW remembers.",
        "DDP: 16 bytes a parameter, whatever the number of ranks. FSDP: 16 bytes for each parameter of the rank's "
        "share, rounded up, and 8 bytes for each parameter of the largest block.",
    ),
)


@exercise.stub
def memory_per_rank(parameters: int, ranks: int, sharded: bool, largest_block: int) -> int:
    """Return the bytes of parameters, gradients and AdamW's state on one rank."""
    raise NotImplementedError


@exercise.reference
def sixteen_bytes(parameters, ranks, sharded, largest_block):
    if not sharded:
        return 16 * parameters
    return 16 * math.ceil(parameters / ranks) + 8 * largest_block


@exercise.alternative
def counted_one_by_one(parameters, ranks, sharded, largest_block):
    held = -(-parameters // ranks) if sharded else parameters
    gathered = largest_block if sharded else 0
    weights, gradients, first_moments, second_moments = held, held, held, held
    return 4 * (weights + gradients + first_moments + second_moments + 2 * gathered)


@exercise.wrong("DDP does not divide anything: each rank is a whole copy. More ranks make it faster, not smaller.")
def ddp_divided_too(parameters, ranks, sharded, largest_block):
    each = math.ceil(parameters / ranks)
    return 16 * each + (8 * largest_block if sharded else 0)


@exercise.wrong(
    "Only parameters and gradients are counted. AdamW keeps a mean and a mean square of every gradient: as much again."
)
def no_optimizer_state(parameters, ranks, sharded, largest_block):
    if not sharded:
        return 8 * parameters
    return 8 * math.ceil(parameters / ranks) + 8 * largest_block


@exercise.wrong(
    "These are only the weights. In training they are a quarter of what is kept: gradients and AdamW's two moments "
    "take the rest."
)
def only_the_weights(parameters, ranks, sharded, largest_block):
    if not sharded:
        return 4 * parameters
    return 4 * math.ceil(parameters / ranks) + 8 * largest_block


@exercise.wrong(
    "The gathered block is missing. A sharded layer cannot compute with a part of its weights: while it runs, the "
    "block lies whole on every rank, and this can be most of the peak."
)
def nothing_is_gathered(parameters, ranks, sharded, largest_block):
    return 16 * math.ceil(parameters / ranks) if sharded else 16 * parameters


@exercise.wrong(
    "Only the optimizer's state is shared out; parameters and gradients stay whole. That is ZeRO's first stage. FSDP "
    "shards all three."
)
def only_the_state_is_sharded(parameters, ranks, sharded, largest_block):
    if not sharded:
        return 16 * parameters
    return 8 * parameters + 8 * math.ceil(parameters / ranks)


@exercise.wrong(
    "Of the largest block gradients and the optimizer's state are counted whole as well. Only its parameters are "
    "gathered."
)
def everything_is_gathered(parameters, ranks, sharded, largest_block):
    if not sharded:
        return 16 * parameters
    return 16 * math.ceil(parameters / ranks) + 16 * largest_block


@exercise.wrong(
    "Of the largest block only the parameters are counted. Its gradients come out of the backward pass whole, and stay "
    "so until they are reduced and shared out."
)
def gradients_of_the_block_forgotten(parameters, ranks, sharded, largest_block):
    if not sharded:
        return 16 * parameters
    return 16 * math.ceil(parameters / ranks) + 4 * largest_block


@exercise.wrong("AdamW keeps two numbers for each parameter, not one. One is what SGD with momentum keeps.")
def one_moment(parameters, ranks, sharded, largest_block):
    if not sharded:
        return 12 * parameters
    return 12 * math.ceil(parameters / ranks) + 8 * largest_block


@exercise.wrong("The gathered block is counted for DDP too. There nothing is gathered: the weights are there already.")
def ddp_gathers_too(parameters, ranks, sharded, largest_block):
    held = math.ceil(parameters / ranks) if sharded else parameters
    return 16 * held + 8 * largest_block


@exercise.probe
def small_and_replicated():
    return 10, 2, False, 4


@exercise.probe
def small_and_sharded():
    return 10, 2, True, 4


@exercise.probe
def a_share_that_is_rounded_up():
    return 101, 4, True, 7


@exercise.probe
def seven_billion_on_eight():
    return 7_000_000_000, 8, True, 220_000_000


@exercise.probe
def seven_billion_replicated():
    return 7_000_000_000, 8, False, 220_000_000


@exercise.probe
def alone():
    return 1000, 1, True, 300


@exercise.probe
def more_ranks_than_parameters():
    return 3, 64, True, 2

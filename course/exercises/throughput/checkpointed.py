"""Lesson 10: a forward pass that keeps little, and computes the rest again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course.checking import Exercise
from course.exercises.throughput._blocks import observed

exercise = Exercise(
    "throughput.checkpointed",
    title="Compute it again instead of keeping it",
    task="""
        A deep network keeps the inside of every block for backward. `run_checkpointed(blocks, x, size)` calls `blocks`
        one after the other, the first with `x`, and returns what the last one returns. It spends time to save memory,
        with `checkpoint` of `torch.utils.checkpoint`:

        - `blocks`, one module at least, are cut in order into **segments** of `size` blocks. The last segment may be
          shorter.
        - After the forward pass the graph keeps the input of each segment, and nothing from inside of any: not of
          the last one either, because a head and a loss may follow that need memory too.
        - The backward pass calls each block once more, segment by segment, and keeps the inside of one segment at a
          time.
        - Output and gradients are those of the plain loop over the blocks, with dropout too, and whether or not `x`
          requires a gradient. So are the random numbers that are drawn afterwards.
        - Each block stays in the mode in which it is. Under `torch.no_grad()` each block is called once.

        The blocks hold no BatchNorm: its running statistics would move in both calls.
        """,
    hints=(
        "checkpoint(function, x, ...) calls function(x) now and once more in the backward pass, long after your loop "
        "has ended. Does the function still know its own blocks then?",
        "nn.Sequential(*some_blocks) makes one function of a segment and holds its blocks. Look up two options of "
        "checkpoint: which of its two ways gives gradients when x requires none, and what happens to the state of the "
        "random generator?",
    ),
    rtol=1e-5,
    atol=1e-7,
)


@exercise.stub
def run_checkpointed(blocks: Sequence[nn.Module], x: Tensor, size: int) -> Tensor:
    """Return x after all blocks; keep the inputs of segments of `size` blocks, and recompute the rest in backward."""
    raise NotImplementedError


@exercise.reference
def segment_by_segment(blocks, x, size):
    for start in range(0, len(blocks), size):
        segment = nn.Sequential(*blocks[start : start + size])
        x = checkpoint(segment, x, use_reentrant=False)
    return x


@exercise.alternative
def a_function_of_its_own(blocks, x, size):
    def through(*segment):
        def run(inputs):
            for block in segment:
                inputs = block(inputs)
            return inputs

        return run

    remaining = list(blocks)
    while remaining:
        x = checkpoint(through(*remaining[:size]), x, use_reentrant=False, preserve_rng_state=True)
        remaining = remaining[size:]
    return x


@exercise.alternative
def blocks_as_arguments(blocks, x, size):
    def run(inputs, first):
        for block in blocks[first : first + size]:
            inputs = block(inputs)
        return inputs

    for first in range(0, len(blocks), size):
        x = checkpoint(run, x, first, use_reentrant=False)
    return x


@exercise.wrong(
    "This is the plain loop: the graph keeps the inside of every block from the forward pass until the backward pass "
    "gets there."
)
def nothing_recomputed(blocks, x, size):
    for block in blocks:
        x = block(x)
    return x


@exercise.wrong(
    "All blocks are one segment. Little is kept after the forward pass, but the backward pass begins with computing "
    "everything again, and then holds the inside of all blocks at once: the peak has only moved."
)
def one_segment(blocks, x, size):
    return checkpoint(nn.Sequential(*blocks), x, use_reentrant=False)


@exercise.wrong(
    "Each block is a segment of its own, whatever `size` says. The graph keeps the input of every block, which is "
    "often as large as what the recomputation saves."
)
def each_block_alone(blocks, x, size):
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return x


@exercise.wrong("`size` is taken for the number of segments. It is the number of blocks in each.")
def size_as_number_of_segments(blocks, x, size):
    length = -(-len(blocks) // size)
    for start in range(0, len(blocks), length):
        x = checkpoint(nn.Sequential(*blocks[start : start + length]), x, use_reentrant=False)
    return x


@exercise.wrong("Blocks that do not fill a segment are left out. The last segment may be shorter than the others.")
def rest_left_out(blocks, x, size):
    for number in range(len(blocks) // size):
        x = checkpoint(nn.Sequential(*blocks[number * size : (number + 1) * size]), x, use_reentrant=False)
    return x


@exercise.wrong(
    "The blocks that do not fill a segment come first. Cut from the first block on: the last segment is the one that "
    "may be shorter."
)
def rest_first(blocks, x, size):
    rest = len(blocks) % size
    for start in range(rest - size if rest else 0, len(blocks), size):
        segment = nn.Sequential(*blocks[max(start, 0) : start + size])
        x = checkpoint(segment, x, use_reentrant=False)
    return x


@exercise.wrong(
    "The last segment runs without checkpoint, as in checkpoint_sequential. That saves one recomputation, and keeps "
    "its inside while whatever follows the blocks needs memory."
)
def last_segment_kept(blocks, x, size):
    for start in range(0, len(blocks), size):
        segment = nn.Sequential(*blocks[start : start + size])
        x = checkpoint(segment, x, use_reentrant=False) if start + size < len(blocks) else segment(x)
    return x


@exercise.wrong(
    "`preserve_rng_state=False` lets the recomputation draw new random numbers: dropout drops other elements than in "
    "the forward pass, and the gradients are those of a network that never ran.",
    fault="checkpointed-dropout-redrawn",
)
def numbers_redrawn(blocks, x, size):
    for start in range(0, len(blocks), size):
        segment = nn.Sequential(*blocks[start : start + size])
        x = checkpoint(segment, x, use_reentrant=False, preserve_rng_state=False)
    return x


@exercise.wrong(
    "A seed inside of the segment makes both calls draw the same numbers, and the same ones in each segment and each "
    "step. It also moves the generator of everyone else. checkpoint keeps the state of the generator by itself."
)
def seeded_inside(blocks, x, size):
    def run(segment):
        def inner(inputs):
            torch.manual_seed(0)
            return segment(inputs)

        return inner

    for start in range(0, len(blocks), size):
        segment = nn.Sequential(*blocks[start : start + size])
        x = checkpoint(run(segment), x, use_reentrant=False, preserve_rng_state=False)
    return x


@exercise.wrong(
    "The older way of checkpoint, `use_reentrant=True`, looks at the inputs alone: where `x` requires no gradient, the "
    "result requires none, and the weights of that segment get no gradient."
)
def reentrant(blocks, x, size):
    for start in range(0, len(blocks), size):
        segment = nn.Sequential(*blocks[start : start + size])
        x = checkpoint(segment, x, use_reentrant=True)
    return x


@exercise.wrong(
    "The function looks its segment up when it is called, and the second call comes after the loop. By then the "
    "variable names the last segment, and every segment is recomputed with the blocks of that one. Blocks of equal "
    "shapes raise no error; the gradients are wrong."
)
def looked_up_too_late(blocks, x, size):
    def run(inputs):
        for block in segment:
            inputs = block(inputs)
        return inputs

    for start in range(0, len(blocks), size):
        segment = blocks[start : start + size]
        x = checkpoint(run, x, use_reentrant=False)
    return x


@exercise.wrong(
    "Under `no_grad` nothing is kept, and nothing is recomputed either: the result is cut off from the weights. "
    "checkpoint does what `no_grad` does here, and then remembers how to compute it again."
)
def without_a_graph(blocks, x, size):
    with torch.no_grad():
        for block in blocks:
            x = block(x)
    return x


@exercise.wrong("`detach` between segments frees memory, and ends the gradient: only the last segment learns.")
def cut_between_segments(blocks, x, size):
    for start in range(0, len(blocks), size):
        x = checkpoint(nn.Sequential(*blocks[start : start + size]), x.detach(), use_reentrant=False)
    return x


@exercise.wrong(
    "Segments are checkpointed, and each block inside of them again. A block is computed three times: in the forward "
    "pass, for its segment, and once more for itself."
)
def checkpoints_in_checkpoints(blocks, x, size):
    class Again(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, inputs):
            return checkpoint(self.block, inputs, use_reentrant=False)

    for start in range(0, len(blocks), size):
        segment = nn.Sequential(*(Again(block) for block in blocks[start : start + size]))
        x = checkpoint(segment, x, use_reentrant=False)
    return x


@exercise.wrong(
    "`train()` switches dropout on in blocks that were in evaluation mode, and leaves it on. Call the blocks as they "
    "are."
)
def put_into_training_mode(blocks, x, size):
    for start in range(0, len(blocks), size):
        segment = nn.Sequential(*blocks[start : start + size]).train()
        x = checkpoint(segment, x, use_reentrant=False)
    return x


@exercise.probe
def six_blocks_in_twos(answer):
    return observed(answer, 6, 2)


@exercise.probe
def seven_blocks_in_threes(answer):
    return observed(answer, 7, 3, of_input=True)


@exercise.probe
def a_tuple_of_five_blocks_in_fours(answer):
    return observed(answer, 5, 4, kind=tuple)


@exercise.probe
def fewer_blocks_than_a_segment_takes(answer):
    return observed(answer, 3, 8, of_input=True)


@exercise.probe
def segments_of_one_block(answer):
    return observed(answer, 4, 1)


@exercise.probe
def without_gradients(answer):
    with torch.no_grad():
        return observed(answer, 4, 2)


@exercise.probe
def dropout_in_every_block(answer):
    torch.manual_seed(5)
    widths = [(3, 6), (6, 5), (5, 6), (6, 4), (4, 2)]
    blocks = [nn.Sequential(nn.Linear(a, b), nn.Tanh(), nn.Dropout(0.4)) for a, b in widths]
    blocks[2].eval()
    x = torch.randn(8, 3)
    output = answer(blocks, x, 2)
    drawn = torch.rand(2)
    if output.requires_grad:
        output.square().sum().backward()
    gradients = [parameter.grad for block in blocks for parameter in block.parameters()]
    return {
        "output": output.detach(),
        "gradients": gradients,
        "random numbers drawn after the forward pass": drawn,
        "random numbers drawn after the backward pass": torch.rand(2),
        "modes of the blocks": [block.training for block in blocks],
    }

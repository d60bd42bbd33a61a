"""Lesson 11: collectives are for all ranks."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "distributed.who_hangs",
    title="Which program hangs",
    task="""
        Rank 0 saves the checkpoint; the other ranks must not read it before it is there. `rank` is `dist.get_rank()`,
        `model` a `DistributedDataParallel`, and its shares of the data are equally long. Which of these programs hangs?
        """,
    hints=(
        "A barrier ends when all ranks have entered it, as often as each of them enters it. Which calls are "
        "collectives, and who reaches them?",
        "Count for rank 0 and for rank 1 how often each of them calls a collective. `state_dict()` of a DDP model is "
        "none.",
    ),
    name="choice",
    choices={
        "a": "`if rank == 0: torch.save(model.module.state_dict(), path)`, then on all ranks `dist.barrier()`",
        "b": "`if rank == 0: torch.save(model.module.state_dict(), path); dist.barrier()`, all in the branch",
        "c": "on all ranks `torch.save(model.module.state_dict(), f'{path}.{rank}')`, without a barrier",
        "d": "`if rank == 0: torch.save(...); dist.barrier()` and `else: dist.barrier()`",
    },
    right="b",
    wrong={
        "a": "This is the usual way, and it ends: the others wait in the barrier until rank 0, which has saved, "
        "enters it.",
        "c": "Each rank writes a file of its own and waits for nobody. It wastes disk, but it ends.",
        "d": "The barrier stands on two lines, but every rank enters one. What counts is that the ranks make the same "
        "calls, not that they make them on the same line.",
    },
)

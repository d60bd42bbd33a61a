"""Lesson 11: choose by numbers."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "distributed.ddp_or_fsdp",
    title="DDP or FSDP",
    task="""
        Two networks are to be trained on 8 GPUs of 40 GB (1 GB is 10⁹ bytes), in float32 with AdamW. **S** has 0.3
        billion parameters and needs 6 GB for activations. **L** has 4 billion parameters, its largest block 0.2
        billion, and needs 6 GB for activations as well. Which is the simplest choice that fits?
        """,
    hints=(
        "How many bytes does training keep for each parameter? Add the activations, and compare with 40 GB.",
        "16 bytes a parameter. Whole, S takes 4.8 GB and L takes 64 GB. A share of an eighth, and 8 bytes a parameter "
        "for the block that is gathered, are FSDP's numbers.",
    ),
    name="strategy",
    choices={
        "a": "DDP for both: eight GPUs have 320 GB",
        "b": "DDP for S, FSDP for L",
        "c": "FSDP for both: it needs less memory, so it is always the better choice",
        "d": "DDP for S; L fits neither way, because a GPU has to hold all its parameters",
        "e": "DDP for both: L's parameters are 16 GB, which is less than 40 GB",
    },
    right="b",
    wrong={
        "a": "DDP does not add up the memory of the GPUs: each holds a whole copy. L's copy, with gradients and "
        "AdamW's state, is larger than one GPU.",
        "c": "It would fit. But FSDP gathers every block twice a step, once for the forward and once for the backward "
        "pass, besides reducing gradients, so it sends half as much again as DDP. S fits without that.",
        "d": "Under FSDP no GPU holds all parameters at a time: its share of an eighth, and one gathered block.",
        "e": "16 GB are the parameters alone. Gradients are as much again, and AdamW keeps two more numbers for each "
        "parameter.",
    },
)

"""Lesson 05: where the scheduler steps."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "training.where_to_step",
    title="Where the scheduler steps",
    task="""
        `OneCycleLR(optimizer, max_lr=0.1, total_steps=epochs * len(loader))` is to run once through its curve. Where
        does `scheduler.step()` stand?
        """,
    hints=(
        "What does total_steps count here: epochs or batches?",
        "A scheduler sets the learning rate of the *next* update. The optimizer has to use the present one first.",
    ),
    name="choice",
    choices={
        "a": "once an epoch, after the evaluation",
        "b": "after every `backward()`, before `optimizer.step()`",
        "c": "after every `optimizer.step()`",
        "d": "once an epoch, before the first batch",
    },
    right="c",
    wrong={
        "a": "total_steps counts batches. Stepped once an epoch, the run ends in the first few percent of the curve: "
        "at the low learning rates of the warm-up.",
        "b": "Then the first learning rate of the curve is never used, and torch warns: the scheduler steps before the "
        "optimizer does.",
        "d": "total_steps counts batches, so the curve would hardly begin; and the first value would be skipped as "
        "well.",
    },
    faults={"b": "scheduler-before-optimizer"},
)

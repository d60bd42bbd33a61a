"""Lesson 04: what the default collate function makes of lists."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "data.collated_list",
    title="What arrives in the batch",
    name="arrives",
    task="""
        A dataset returns pairs of a Python list and a number, all lists of the same length, for example
        `([5, 8, 2], 1)`. A `DataLoader` with `batch_size=4` and no `collate_fn` makes a batch of it:
        `tokens, labels = next(iter(loader))`.

        What is `tokens`? Set `arrives` to a letter, for example `arrives = "a"`.
        """,
    choices={
        "a": "a tensor of shape `(4, 3)`",
        "b": "a list of 3 tensors of shape `(4,)`",
        "c": "a list of 4 tensors of shape `(3,)`",
        "d": "a list of 4 Python lists, as the dataset returned them",
        "e": "nothing: a list cannot be collated, and an error is raised",
    },
    right="b",
    wrong={
        "a": "That is what most people want, and what a tensor or an array in place of the list would give. A list "
        "is a container to the default collate function, like the pair itself: it goes into it and collates what it "
        "finds.",
        "c": "There is a tensor for each position of the list, not for each sample: the function collates containers "
        "position by position. Which of the two numbers, 3 and 4, is the number of positions?",
        "d": "Only strings and the like are left as they are. Into lists and tuples the default collate function "
        "descends, until it finds tensors, arrays or numbers.",
        "e": "Lists are among the types that the default collate function takes; it raises when lists of different "
        "lengths meet, or for None. What does it do with the pair, and what then with the list inside?",
    },
    faults={"a": "list-sample-transposed"},
    hints=(
        "The pair is a container, and comes out as two things: all lists, all labels. What does the same rule make "
        "of a list inside the pair?",
        "The rule for a container: take the first position of every sample and collate these, then the second, and "
        "so on.",
    ),
)

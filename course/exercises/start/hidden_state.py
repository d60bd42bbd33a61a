"""Lesson 00: what a notebook remembers that its page does not show."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "start.hidden_state",
    title="What does the kernel know",
    name="choice",
    task="""
        Somebody works in a notebook. The numbers in brackets say in which order the cells ran; one cell, `[2]`, ran and
        was then deleted.

        ```text
        [1]   scale = 10
        [2]   scale = 2 * scale          (deleted after it ran)
        [5]   result = scale * 3
        [4]   scale = scale + 1          (ran as [3], and once more as [4])
        ```

        Now the person saves the notebook and chooses *Restart kernel and run all cells*. What is `result` before and
        after the restart? Set `choice` to a letter, for example `choice = "a"`.
        """,
    choices={
        "a": "30 before and 30 after",
        "b": "66 before and 30 after",
        "c": "60 before and 30 after",
        "d": "66 before and 33 after",
        "e": "66 before and 66 after",
        "f": "63 before and 30 after",
    },
    right="b",
    wrong={
        "a": "After the restart, yes. Before it, the kernel still knows what the deleted cell did, and what the last "
        "cell did when it ran twice before `[5]`: deleting a cell, or standing further up the page, undoes nothing.",
        "c": "The deleted cell is counted, and the last one is not. The kernel goes by the order of running: `[3]` and "
        "`[4]` came before `[5]`, although their cell stands below.",
        "d": "Before the restart, yes. After it the cells run from the top: `result` is computed before the last cell "
        "adds 1.",
        "e": "Before the restart, yes. But a restart forgets all variables, and then only what stands on the page "
        "runs, each cell once, from the top. The deleted cell is gone for good.",
        "f": "The last cell ran twice, as `[3]` and as `[4]`, and each run adds 1 to what the kernel knew by then.",
    },
    hints=(
        "Before: follow the numbers in brackets, not the page, and let every run count. After: follow the page from "
        "top to bottom, with nothing remembered.",
        "Write down `scale` after each run: [1], [2], [3], [4]. Then [5] multiplies by 3. After the restart there are "
        "three cells, in the order in which you read them.",
    ),
)

"""Lesson 12: read a violated constraint."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "export.read_violation",
    title="Read a violated constraint",
    task="""
        ```python
        class Blocks(nn.Module):
            def forward(self, x):                    # (batch, 6)
                return x.reshape(8, 2, 3).sum(dim=2)

        torch.export.export(Blocks(), (torch.zeros(8, 6),), dynamic_shapes=({0: Dim("batch")},))
        ```

        ```text
        UserError: Constraints violated (batch)!
          - You marked batch as dynamic but your code specialized it to be a constant (8). [...]
            If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.
        Suggested fixes:
          batch = 8
        ```

        The program has to take **every** batch size. Which change makes it so? Set `change` to a letter.
        """,
    name="change",
    choices={
        "a": "As suggested: `batch = 8`, so `dynamic_shapes=({0: 8},)`.",
        "b": "`dynamic_shapes=({0: Dim.AUTO},)`.",
        "c": '`Dim("batch", min=1, max=1024)`.',
        "d": "`x.reshape(x.shape[0], 2, 3)` in `forward`.",
        "e": "Another example: `torch.zeros(16, 6)`.",
    },
    right="d",
    wrong={
        "a": "This exports. The suggestion mends the disagreement by giving in: the program takes 8 and nothing else.",
        "b": (
            "This exports as well. AUTO means dynamic if possible, and the code says 8: the program takes 8 and "
            "nothing else, and nothing says so before the first other batch."
        ),
        "c": (
            "The range is not what is violated: within any range the code allows one size only. The same error comes "
            "again."
        ),
        "e": (
            "reshape(8, 2, 3) fails for 16 rows before there is any constraint. The code knows one size; an example "
            "cannot teach it another."
        ),
    },
    faults={"a": "static-shape-export", "b": "static-shape-export"},
    hints=(
        "The message tells of a disagreement between what you declared and what the code does. Which of the two is "
        "wrong here?",
        "The code contains the number 8. A declaration can only admit that, never undo it.",
    ),
)

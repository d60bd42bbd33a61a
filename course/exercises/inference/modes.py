"""Lesson 14: what eval and inference_mode change."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "inference.modes",
    title="inference_mode without eval",
    task="""
        A network has Dropout and BatchNorm. It is in training mode, and answers one batch like this:

        ```python
        with torch.inference_mode():
            answer = network(batch)
        ```

        What happens?
        """,
    hints=(
        "Two switches: one is an attribute of each module, the other belongs to the block of code. Which of them does "
        "Dropout ask?",
        "inference_mode speaks to autograd and to nothing else. Go through it once more as if it were not there, and "
        "ask of each layer what it does in training mode.",
    ),
    name="choice",
    choices={
        "a": "Nothing is dropped, and BatchNorm uses its running statistics: without gradients this is inference.",
        "b": "Dropout drops, BatchNorm uses the statistics of the batch and moves its running ones. No graph is kept.",
        "c": "Dropout drops and BatchNorm uses the statistics of the batch, but its running ones stay: nothing may be "
        "changed in inference mode.",
        "d": "Nothing is dropped, but BatchNorm uses the statistics of the batch: it learns without gradients.",
    },
    right="b",
    wrong={
        "a": "The block switches autograd off. Modules do not ask it: Dropout and BatchNorm look at `self.training`, "
        "which only `train()` and `eval()` set. The answer depends on chance and on the rest of the batch.",
        "c": "Inference mode protects no values. Running statistics are ordinary buffers, changed in place, with or "
        "without gradients. So each answer changes the network for those that follow.",
        "d": "It is right about BatchNorm, but Dropout has the same switch, `self.training`. It is on: Dropout drops.",
    },
    faults={"a": "eval-mode-missing", "c": "eval-mode-missing", "d": "eval-mode-missing"},
)

"""Lesson 02: which tensors hold a gradient after backward."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "autograd.who_gets_grad",
    title="Who holds a gradient?",
    name="choice",
    task="""
        ```python
        a = torch.ones(3, requires_grad=True)
        b = a * 2
        c = b.detach().requires_grad_()
        d = torch.ones(3)
        (b * c * d).sum().backward()
        ```

        Of which of these tensors is `.grad` a tensor, and not None, after the last line? Set `choice` to a letter,
        for example `choice = "a"`. Decide before you run any code.
        """,
    choices={
        "a": "of `a` only",
        "b": "of `a` and `b`",
        "c": "of `a` and `c`",
        "d": "of `a`, `b` and `c`",
        "e": "of all four",
    },
    right="c",
    wrong={
        "a": "One more tensor was made without history and asked for gradients explicitly. That makes a leaf, wherever "
        "its numbers come from. Look at the third line again.",
        "b": "Gradients pass through b on their way to a, but b is the result of an operation. Only leaves keep their "
        "gradient, unless retain_grad() was called. And is there a second leaf?",
        "d": "b is a result, so it has a grad_fn, and it passes its gradient on without keeping it. Which of these "
        "tensors have no grad_fn and require gradients?",
        "e": "backward() fills .grad of leaves that require gradients. Ask of each of the four: is it a leaf, and "
        "does it require gradients?",
    },
    faults={"b": "nonleaf-parameter", "d": "nonleaf-parameter"},
    hints=(
        "Two questions for each tensor: is_leaf, and requires_grad. Both must be true.",
        "detach() gives a tensor without history, so without grad_fn. What does requires_grad_() make of it?",
    ),
)

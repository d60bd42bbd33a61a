"""Lesson 02: where zero_grad may stand in a training step."""

from __future__ import annotations

from course.checking import ChoiceExercise

exercise = ChoiceExercise(
    "autograd.zero_grad_order",
    title="Where zero_grad may stand",
    name="forgetful",
    task="""
        The body of a training loop calls `loss = loss_fn(model(x), y)` ("forward"), `loss.backward()` ("backward"),
        `optimizer.step()` ("step") and `optimizer.zero_grad()` ("zero_grad"). The optimizer is plain SGD.

        Four of these five orders train in the same way. With one of them the weights never change. Which one? Set
        `forgetful` to its letter.
        """,
    choices={
        "a": "zero_grad, forward, backward, step",
        "b": "forward, zero_grad, backward, step",
        "c": "forward, backward, zero_grad, step",
        "d": "forward, backward, step, zero_grad",
        "e": "forward, `model.zero_grad()` in place of zero_grad, backward, step",
    },
    right="c",
    wrong={
        "a": "The usual order. Gradients are cleared, made by backward and used by step.",
        "b": "forward neither reads nor writes .grad, so clearing after it is as good as before it, as long as it "
        "happens before backward.",
        "d": "step has used the gradients by the time they are cleared, and the next backward starts from nothing. "
        "Some people prefer this order, because no gradient lies in memory during the forward pass.",
        "e": "model.zero_grad() clears the gradients of the model's parameters. As the optimizer holds just those, "
        "it does the same as optimizer.zero_grad().",
    },
    hints=(
        "Which call writes .grad, and which one reads it? What must not happen between those two?",
        "With the order that you look for, step finds only gradients that are None, and passes over their parameters.",
    ),
)

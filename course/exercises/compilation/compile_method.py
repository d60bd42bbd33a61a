"""Lesson 09: a method other than forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from course.checking import Exercise
from course.training.compilation import CountingBackend

exercise = Exercise(
    "compilation.compile_method",
    seconds=60,
    title="Compile a method other than forward",
    task="""
        A model has `forward(x)` and `encode(x)`. At inference only `model.encode(x)` is called. Neither
        `torch.compile(model)` nor `model.compile()` touches it.

        `compile_encode(model, backend)` makes `model.encode(x)` run compiled, by the given backend, and returns the
        same model.

        - `forward` stays as it is, and other models of the same class stay as they are.
        - The names of the state dict stay as they are.
        - When the weights change in place later on, `encode` uses the new ones.
        """,
    hints=(
        "`model.encode` is a bound method, and torch.compile takes any callable. Where does the result have to go so "
        "that `model.encode(x)` finds it?",
        "An attribute of the object is found before the method of its class: assign the compiled method to "
        "model.encode.",
    ),
)


@exercise.stub
def compile_encode(model: nn.Module, backend: Any) -> nn.Module:
    """Compile model.encode in place with the backend and return model."""
    raise NotImplementedError


@exercise.reference
def attribute_of_the_object(model, backend):
    model.encode = torch.compile(model.encode, backend=backend)
    return model


@exercise.alternative
def bound_by_hand(model, backend):
    model.encode = torch.compile(type(model).encode, backend=backend).__get__(model)
    return model


@exercise.wrong(
    "torch.compile(model) compiles calls of the model, that is `forward`. The wrapper passes `encode` on to the model "
    "inside, which runs it eagerly. It is another object, too, and its state dict has other names.",
    fault="method-not-compiled",
)
def the_whole_model(model, backend):
    return torch.compile(model, backend=backend)


@exercise.wrong(
    "`model.compile()` compiles what a call of the model runs: `forward`. `encode` still runs eagerly.",
    fault="method-not-compiled",
)
def compiled_in_place(model, backend):
    model.compile(backend=backend)
    return model


@exercise.wrong(
    "The backend saw nothing of this model: the compiled method was dropped, or another backend compiles it.",
    fault="method-not-compiled",
)
def result_dropped(model, backend):
    torch.compile(model.encode, backend=backend)
    return model


@exercise.wrong("The method of the class was replaced. All models of this class run compiled now.")
def for_the_class(model, backend):
    type(model).encode = torch.compile(type(model).encode, backend=backend)
    return model


@exercise.wrong(
    "The compiled method is there, but it belongs to `forward` now: calls of the model give what `encode` gives."
)
def forward_replaced(model, backend):
    model.encode = torch.compile(model.encode, backend=backend)
    model.forward = model.encode
    return model


@exercise.wrong("The compiled method is returned. The task asks for the model, with the method in its place.")
def the_method_alone(model, backend):
    model.encode = torch.compile(model.encode, backend=backend)
    return model.encode


def make_class():
    """A new class each time: what is done to a class must not reach the next probe."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.body = nn.Linear(2, 3)
            self.head = nn.Linear(3, 1)

        def encode(self, x):
            return self.body(x).relu()

        def forward(self, x):
            return self.head(self.body(x).tanh())

    return Network


def prepared(answer):
    torch.compiler.reset()
    network, backend = make_class(), CountingBackend()
    model = network()
    return network, model, answer(model, backend), backend


X = ((1.0, -2.0), (0.5, 3.0))


@exercise.probe
def two_calls(answer):
    _, model, returned, backend = prepared(answer)
    x = torch.tensor(X)
    values = [returned.encode(x), returned.encode(x + 1)]
    return values, returned is model, backend.graphs, backend.runs


@exercise.probe
def forward_as_before(answer):
    _, model, _, backend = prepared(answer)
    return model(torch.tensor(X)), backend.graphs


@exercise.probe
def another_model_of_the_class(answer):
    network, _, _, backend = prepared(answer)
    other = network()
    return other.encode(torch.tensor(X)), backend.graphs


@exercise.probe
def names_of_the_state_dict(answer):
    return list(prepared(answer)[2].state_dict())


@exercise.probe
def weights_that_change(answer):
    _, model, returned, backend = prepared(answer)
    before = returned.encode(torch.tensor(X))
    with torch.no_grad():
        model.body.weight.mul_(2)
    return before, returned.encode(torch.tensor(X)), backend.runs

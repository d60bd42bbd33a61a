"""Lesson 09: many lengths, at most two compilations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checking import Exercise
from course.training.compilation import CountingBackend

exercise = Exercise(
    "compilation.shape_policy",
    seconds=60,
    title="A shape policy with two compilations",
    task="""
        `compile_for_lengths(function, backend)` returns a compiled form of `function`, to be called as `function` is:
        with one float tensor of shape `(T, C)`. `T` differs from call to call and is at least 1; `C` stays the same.

        - Whatever lengths come, in whatever order, `backend` is given at most **two** graphs. (One may be for length
          1.)
        - Every call runs one of these graphs: none falls back to eager.
        - Values are those of `function`, which may mix the rows, as a mean over time does.
        - `backend` goes to `torch.compile` as it is. The settings of torch.compile for other functions stay as they
          are.
        """,
    hints=(
        "By default the first length is taken for fixed; only when it changes, a second graph is made for any length. "
        "With length 1 that makes three. Say from the start that lengths change.",
        "Look at the parameter `dynamic` of torch.compile, or at torch._dynamo.mark_dynamic, which marks one axis of "
        "one tensor.",
    ),
)


@exercise.stub
def compile_for_lengths(function: Callable[[Tensor], Tensor], backend: Any) -> Callable[[Tensor], Tensor]:
    """Return function, compiled by the backend with at most two graphs for inputs (T, C) of all lengths T >= 1."""
    raise NotImplementedError


@exercise.reference
def dynamic_from_the_start(function, backend):
    return torch.compile(function, backend=backend, dynamic=True)


@exercise.alternative
def one_axis_marked(function, backend):
    compiled = torch.compile(function, backend=backend)

    def call(x):
        x = x.detach() if not x.requires_grad else x
        torch._dynamo.maybe_mark_dynamic(x, 0)
        return compiled(x)

    return call


@exercise.wrong(
    "The default takes the first length for fixed. One graph for it, one for any other length, and one more for length "
    "1: three.",
    fault="recompiles",
)
def default(function, backend):
    return torch.compile(function, backend=backend)


@exercise.wrong(
    "`dynamic=False` makes one graph for each length. After eight of them torch.compile gives up and runs the function "
    "eagerly.",
    fault="recompiles",
)
def one_graph_a_length(function, backend):
    return torch.compile(function, backend=backend, dynamic=False)


@exercise.wrong(
    "One graph, and all other lengths run eagerly: that is no compiled form of the function. (The stance says so: "
    "eager on recompile.)"
)
def eager_on_recompile(function, backend):
    compiled = torch.compile(function, backend=backend)

    def call(x):
        with torch.compiler.set_stance("default" if call.fresh else "eager_on_recompile"):
            call.fresh = False
            return compiled(x)

    call.fresh = True
    return call


@exercise.wrong(
    "Padding with zeros makes all lengths equal, so there is one graph. But the function mixes rows: a mean over time "
    "counts the padding, unless it is given a mask too. And a length beyond the padding does not fit."
)
def padded(function, backend):
    compiled = torch.compile(function, backend=backend, dynamic=False)

    def call(x):
        room = torch.zeros(64, x.shape[1], dtype=x.dtype)
        room[: len(x)] = x
        return compiled(room)[: len(x)]

    return call


@exercise.wrong(
    "The backend was given no graph: what comes back is the function itself, or another backend compiles it."
)
def not_compiled(function, backend):
    return function


def deviations(x):
    return (x - x.mean(0)).relu()


def products(x):
    return x @ x.t() + x.shape[0]


def run(answer, function, lengths):
    """The values for each length, and what the backend saw."""
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = answer(function, backend)
    values = [compiled(torch.arange(3.0 * length).reshape(length, 3).cos()) for length in lengths]
    within = 1 <= backend.graphs <= 2
    graphs = "one or two graphs" if within else f"{backend.graphs} graphs"
    if backend.runs != len(lengths):
        graphs += f", {backend.runs} of {len(lengths)} calls ran one"
    return values, graphs


@exercise.probe
def five_lengths(answer):
    return run(answer, deviations, (5, 70, 3, 1, 4))


@exercise.probe
def the_shortest_first(answer):
    return run(answer, products, (1, 2, 3))


@exercise.probe
def settings_for_others(answer):
    answer(deviations, CountingBackend())
    torch.compiler.reset()
    backend = CountingBackend()
    other = torch.compile(products, backend=backend)
    values = [other(torch.ones(length, 3)) for length in (4, 6)]
    return values, backend.graphs

"""Lesson 09: how often a function is compiled."""

from __future__ import annotations

from course.checking import ValueExercise

exercise = ValueExercise(
    "compilation.count_compilations",
    title="Count the compilations",
    name="compilations",
    expects="an integer: the number of graphs that the backend was given",
    task="""
        ```python
        @torch.compile(backend=CountingBackend())
        def double(x):
            return 2 * x

        for length in (3, 5, 4, 3, 1, 5):
            double(torch.ones(length))
        double(torch.ones(5, dtype=torch.float64))
        double(torch.ones(4))
        ```

        How often is `double` compiled? Set `compilations` to an integer, before you run it. All settings are the
        default ones.
        """,
    hints=(
        "For each call, ask whether one of the graphs so far holds. The second length that is seen is a special "
        "moment: what does torch.compile do from then on?",
        "3 alone, then any length of 2 or more. Which of the later calls has a length or a dtype that neither covers?",
    ),
)


@exercise.reference
def counted():
    return 4


@exercise.alternative
def one_for_each_reason():
    return len({"length 3 alone", "any length from 2", "length 1", "another dtype"})


@exercise.wrong(
    "That is one for each length and one for the dtype. When a length changes for the first time, the new graph is "
    "made for any length, and later lengths find it."
)
def one_a_length():
    return 5


@exercise.wrong(
    "That is one for each call. A graph is kept and used again as long as its guards hold.", fault="recompiles"
)
def one_a_call():
    return 8


@exercise.wrong(
    "The first graph is made for length 3 alone: a length is taken for fixed until it changes. Length 1 is a case of "
    "its own as well: size 1 may broadcast, so the graph for any length does not take it. And the dtype is guarded."
)
def always_dynamic():
    return 1


@exercise.wrong(
    "One for the dtype, and lengths are counted as if the first graph were made for any length. What happens at length "
    "5?"
)
def first_graph_dynamic():
    return 2


@exercise.wrong(
    "One is missing. Go through three things: the length that changes, the length that may broadcast, and the guard "
    "that is not about lengths."
)
def one_forgotten():
    return 3

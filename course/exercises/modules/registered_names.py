"""Lesson 03: which attributes a module registers."""

from __future__ import annotations

from course.checking import ValueExercise

exercise = ValueExercise(
    "modules.registered_names",
    title="What is saved?",
    name="saved",
    expects="a list of texts: the names in the module's state, in order, each written as state_dict() writes it",
    task="""
        ```python
        class Puzzle(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.ReLU()])
                self.scale = nn.Parameter(torch.ones(2))
                self.offset = torch.zeros(2)
                self.register_buffer("mean", torch.zeros(2))
                self.register_buffer("mask", torch.ones(2), persistent=False)
                self.extra = [nn.Linear(2, 2)]
                self.tied = self.layers[0]
        ```

        Set `saved` to the keys of `Puzzle().state_dict()`, as a list of texts in the order in which they come. Think
        it out first; building the class in a cell of your own is a good way to see whether you were right.
        """,
    hints=(
        "A module's own parameters come first, then its own buffers, then what its submodules hold, whatever the "
        "order of the lines in __init__. What is not registered does not appear.",
        "A ModuleList is a submodule, and its entries are called 0, 1 and so on. ReLU holds nothing. A "
        "persistent=False buffer is not saved. A module that has two names is saved under both.",
    ),
)


@exercise.reference
def own_ones_first():
    return ["scale", "mean", "layers.0.weight", "tied.weight"]


@exercise.alternative
def as_a_tuple():
    return ("scale", "mean", "layers.0.weight", "tied.weight")


@exercise.wrong(
    "These are the right names in the order of the lines in __init__. A state begins with the module's own "
    "parameters and buffers and goes down to the submodules after that."
)
def in_the_order_of_the_lines():
    return ["layers.0.weight", "scale", "mean", "tied.weight"]


@exercise.wrong(
    "A name is missing: one module is registered under two names. named_parameters() gives a shared parameter once; "
    "the state has it under each of its names."
)
def shared_one_once():
    return ["scale", "mean", "layers.0.weight"]


@exercise.wrong(
    "A buffer with persistent=False belongs to the module and moves with it. It does not appear in the state."
)
def with_the_unsaved_buffer():
    return ["scale", "mean", "mask", "layers.0.weight", "tied.weight"]


@exercise.wrong(
    "Buffers are state, too: that is why BatchNorm can evaluate after loading. Only named_parameters() leaves them out."
)
def parameters_only():
    return ["scale", "layers.0.weight", "tied.weight"]


@exercise.wrong(
    "`offset` is an ordinary attribute: a plain tensor is registered neither as parameter nor as buffer, so it is not "
    "saved.",
    fault="tensor-not-buffer",
)
def with_the_plain_tensor():
    return ["scale", "offset", "mean", "layers.0.weight", "tied.weight"]


@exercise.wrong(
    "The layer in `extra` lies in a plain list, and a module does not look into lists. It is not saved, not moved and "
    "not trained.",
    fault="unregistered-submodule",
)
def with_the_layer_in_the_list():
    return ["scale", "mean", "layers.0.weight", "extra.0.weight", "extra.0.bias", "tied.weight"]

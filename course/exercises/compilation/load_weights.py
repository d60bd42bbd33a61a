"""Lesson 09: weights saved from a compiled model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "compilation.load_weights",
    title="Load compiled weights",
    task="""
        `torch.compile(model)` returns a wrapper, and a state dict saved from a wrapper has `_orig_mod` in its names.
        Where a part of a model was compiled, it stands in the middle: `encoder._orig_mod.0.weight`.

        `load_weights(model, state)` loads such a state dict, or an ordinary one, into `model`, which was never
        compiled.

        - Only a whole part of a name counts: a layer called `my_orig_mod` keeps its name.
        - A name that is missing, or one too many, raises the RuntimeError of `load_state_dict`.
        - `state` stays as it is. The parameters of `model` stay the same objects. Nothing is returned.
        """,
    hints=(
        "A name is a list of parts joined by dots. Take it apart, leave one kind of part out, and join it again.",
        "Build a new dict: for each name and tensor, the parts of name.split('.') that are not '_orig_mod'. Then "
        "load_state_dict, which is strict unless told otherwise.",
    ),
)


@exercise.stub
def load_weights(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state dict into model, whether or not it was saved from compiled modules.

    Raises RuntimeError, as load_state_dict does, when names are missing or left over."""
    raise NotImplementedError


@exercise.reference
def parts_left_out(model, state):
    cleaned = {}
    for name, tensor in state.items():
        cleaned[".".join(part for part in name.split(".") if part != "_orig_mod")] = tensor
    model.load_state_dict(cleaned)


@exercise.alternative
def dots_on_both_sides(model, state):
    names = [f".{name}".replace("._orig_mod.", ".")[1:] for name in state]
    model.load_state_dict(dict(zip(names, state.values(), strict=True)))


@exercise.wrong(
    "`strict=False` silences the error and loads nothing: no name of the state dict fits, so every weight of the model "
    "is still its random one.",
    fault="wrapper-prefix",
)
def not_strict(model, state):
    model.load_state_dict(dict(state), strict=False)


@exercise.wrong("The names are loaded as they are. Those of a wrapper do not fit the model.", fault="wrapper-prefix")
def as_it_is(model, state):
    model.load_state_dict(dict(state))


@exercise.wrong(
    "`lstrip` takes a set of characters, not a prefix. It goes on eating letters of the layer's own name: `dim.weight` "
    "after the prefix becomes `weight`."
)
def lstripped(model, state):
    model.load_state_dict({name.lstrip("_orig_mod."): tensor for name, tensor in state.items()})


@exercise.wrong(
    "Only the beginning of a name is looked at. When a part of the model was compiled, `_orig_mod` stands further on."
)
def only_the_beginning(model, state):
    model.load_state_dict({name.removeprefix("_orig_mod."): tensor for name, tensor in state.items()})


@exercise.wrong(
    "The first ten characters are cut off whatever they are, and the names of an ordinary state dict with them."
)
def ten_characters(model, state):
    model.load_state_dict({name[len("_orig_mod.") :]: tensor for name, tensor in state.items()})


@exercise.wrong(
    "The text is replaced wherever it stands, also at the end of another name: `my_orig_mod.weight` becomes `myweight`."
)
def replaced_anywhere(model, state):
    model.load_state_dict({name.replace("_orig_mod.", ""): tensor for name, tensor in state.items()})


@exercise.wrong(
    "The caller's state dict is renamed in place. Whoever loads the same dict a second time gets another one."
)
def renamed_in_place(model, state):
    for name in list(state):
        state[".".join(part for part in name.split(".") if part != "_orig_mod")] = state.pop(name)
    model.load_state_dict(state)


@exercise.wrong(
    "The names are right, and with strict=False an incomplete state dict passes unnoticed: what is missing stays "
    "random.",
)
def cleaned_not_strict(model, state):
    cleaned = {}
    for name, tensor in state.items():
        cleaned[".".join(part for part in name.split(".") if part != "_orig_mod")] = tensor
    model.load_state_dict(cleaned, strict=False)


@exercise.wrong(
    "`assign=True` puts the tensors of the state dict in the place of the parameters. An optimizer still holds the old "
    "ones."
)
def assigned(model, state):
    cleaned = {}
    for name, tensor in state.items():
        cleaned[".".join(part for part in name.split(".") if part != "_orig_mod")] = tensor
    model.load_state_dict(cleaned, assign=True)


class Network(nn.Module):
    """Names that are easily cut too short."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.dim = nn.Linear(2, 3)
        self.encoder = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        self.my_orig_mod = nn.Linear(2, 1)


def state_of(*places):
    """A state dict as modules compiled at these places save it: "" for all of the model, "encoder." for a part."""
    state = {}
    for name, tensor in Network(1).state_dict().items():
        for place in sorted(places, reverse=True):
            if name.startswith(place):
                name = f"{place}_orig_mod.{name.removeprefix(place)}"
        state[name] = tensor
    return state


def run(answer, state):
    model = Network(2)
    before = [id(parameter) for parameter in model.parameters()]
    answer(model, state)
    same = [id(parameter) for parameter in model.parameters()] == before
    return dict(model.state_dict()), same, list(state)


@exercise.probe
def an_ordinary_one(answer):
    return run(answer, state_of())


@exercise.probe
def from_a_wrapper(answer):
    return run(answer, state_of(""))


@exercise.probe
def from_a_compiled_part(answer):
    return run(answer, state_of("encoder."))


@exercise.probe
def from_both(answer):
    return run(answer, state_of("", "encoder."))


@exercise.probe
def from_a_part_of_a_part(answer):
    return run(answer, state_of("encoder.", "encoder.0."))


def outcome(answer, state):
    try:
        answer(Network(2), state)
    except NotImplementedError:  # a RuntimeError, too
        raise
    except RuntimeError:
        return "RuntimeError"
    return "no error"


@exercise.probe
def one_missing(answer):
    state = state_of("")
    del state["_orig_mod.dim.bias"]
    return outcome(answer, state)


@exercise.probe
def one_too_many(answer):
    return outcome(answer, {**state_of(""), "_orig_mod.head.bias": torch.zeros(1)})


@exercise.probe
def nothing_returned(answer):
    return answer(Network(2), state_of("")) is None

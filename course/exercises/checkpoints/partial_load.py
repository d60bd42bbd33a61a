"""Lesson 07: load the backbone of a network whose head is another one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.checkpoints._files import Standardise

exercise = Exercise(
    "checkpoints.partial_load",
    title="Load all but the head",
    task="""
        `load_matching(model, state)` loads those entries of `state` that the model has under the same name **and with
        the same shape**, in place, and returns a sorted list of the names of the model's entries that were **not**
        loaded: their shapes differ, or the state lacks them. They keep their values.

        - Entries of the state that the model does not know are left aside.
        - Parameters and buffers both count, whatever the layers are called. A dtype may differ: the model keeps its
          own.
        - The optimizer holds the model's parameters: they stay the same objects. `state` does not change.
        """,
    hints=(
        "strict=False forgives names and never shapes. What has to happen to the state before it is loaded?",
        "Build a dict of the entries whose name is in model.state_dict() and whose shape equals the one there. Load it "
        "with strict=False; what is missing from it is what was not loaded.",
    ),
)


@exercise.stub
def load_matching(model: nn.Module, state: dict[str, Tensor]) -> list[str]:
    """Load what matches by name and shape; return the sorted names of the model's entries that were not loaded."""
    raise NotImplementedError


@exercise.reference
def filtered_by_shape(model, state):
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in state.items() if name in own and tensor.shape == own[name].shape}
    return sorted(model.load_state_dict(fitting, strict=False).missing_keys)


@exercise.alternative
def copied_one_by_one(model, state):
    left = []
    with torch.no_grad():
        for name, mine in model.state_dict().items():
            theirs = state.get(name)
            if theirs is None or theirs.shape != mine.shape:
                left.append(name)
            else:
                mine.copy_(theirs)
    return sorted(left)


@exercise.wrong(
    "strict=False forgives missing and unexpected names. The same name with another shape is still an error: the head "
    "has to be taken out of the state first.",
    fault="shape-mismatch-on-load",
)
def strict_false_alone(model, state):
    return sorted(model.load_state_dict(state, strict=False).missing_keys)


@exercise.wrong(
    "The head is recognised by a name that this state happens to have. Another network calls it `fc`, `classifier` or "
    "`3`; shapes tell it in all of them.",
    fault="shape-mismatch-on-load",
)
def head_by_its_name(model, state):
    fitting = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
    return sorted(model.load_state_dict(fitting, strict=False).missing_keys)


@exercise.wrong(
    "The numbers of elements are compared, not the shapes: (2, 3) and (3, 2) have six elements each, and are different "
    "layers.",
    fault="shape-mismatch-on-load",
)
def compared_by_size(model, state):
    own = model.state_dict()
    fitting = {
        name: tensor.reshape(own[name].shape)
        for name, tensor in state.items()
        if name in own and tensor.numel() == own[name].numel()
    }
    return sorted(model.load_state_dict(fitting, strict=False).missing_keys)


@exercise.wrong(
    "copy_ broadcasts: a head with one output fits into one with three by being repeated, without an error. Compare "
    "the shapes before copying.",
    fault="shape-mismatch-on-load",
)
def copied_until_it_fails(model, state):
    left = []
    with torch.no_grad():
        for name, mine in model.state_dict().items():
            try:
                mine.copy_(state[name])
            except (KeyError, RuntimeError):
                left.append(name)
    return sorted(left)


@exercise.wrong(
    "The list holds the entries of the state that were left out. Those of the model that the state lacks altogether "
    "are not in it, and unknown ones are: it does not say which weights are still random.",
    fault="nothing-loaded",
)
def names_of_the_state(model, state):
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in state.items() if name in own and tensor.shape == own[name].shape}
    model.load_state_dict(fitting, strict=False)
    return sorted(set(state) - set(fitting))


@exercise.wrong(
    "Only parameters are looked at. The running statistics of BatchNorm are buffers, and stay at their first values "
    "beside weights that were trained with others."
)
def parameters_only(model, state):
    own, left = dict(model.named_parameters()), []
    with torch.no_grad():
        for name, mine in own.items():
            if name in state and state[name].shape == mine.shape:
                mine.copy_(state[name])
            else:
                left.append(name)
    return sorted(left)


@exercise.wrong(
    "assign=True puts new Parameter objects into the model. The optimizer still holds the old ones, and the dtype "
    "becomes that of the file.",
    fault="optimizer-misses-parameters",
)
def assigned(model, state):
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in state.items() if name in own and tensor.shape == own[name].shape}
    return sorted(model.load_state_dict(fitting, strict=False, assign=True).missing_keys)


def network(outputs=3, head="head"):
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("body", nn.Linear(2, 3))
    model.add_module("norm", Standardise(3))
    model.add_module(head, nn.Linear(3, outputs))
    return model


def filled(model):
    return {name: torch.full_like(tensor, i) for i, (name, tensor) in enumerate(model.state_dict().items(), start=5)}


def loaded(answer, model, state):
    names, shapes = list(state), [tuple(tensor.shape) for tensor in state.values()]
    parameters = [id(parameter) for parameter in model.parameters()]
    left = answer(model, state)
    same = parameters == [id(parameter) for parameter in model.parameters()]
    untouched = names == list(state) and shapes == [tuple(tensor.shape) for tensor in state.values()]
    return left, model, f"same parameters: {same}", f"state untouched: {untouched}"


@exercise.probe
def everything_fits(answer):
    return loaded(answer, network(), filled(network()))


@exercise.probe
def a_head_with_more_classes(answer):
    return loaded(answer, network(3), filled(network(10)))


@exercise.probe
def a_head_of_another_name(answer):
    return loaded(answer, network(3, "fc"), filled(network(10, "fc")))


@exercise.probe
def a_head_with_one_output(answer):
    return loaded(answer, network(3), filled(network(1)))


@exercise.probe
def as_many_elements_in_another_shape(answer):
    return loaded(answer, network(), filled(network()) | {"body.weight": torch.arange(6.0).reshape(2, 3)})


@exercise.probe
def missing_and_unknown_entries(answer):
    state = filled(network(10)) | {"extra.weight": torch.ones(2)}
    return loaded(answer, network(3), {name: tensor for name, tensor in state.items() if name != "norm.running_var"})


@exercise.probe
def a_file_in_half_precision(answer):
    return loaded(answer, network(), {name: tensor.half() for name, tensor in filled(network(10)).items()})


@exercise.probe
def an_empty_state(answer):
    return loaded(answer, network(), {})

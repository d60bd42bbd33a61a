"""Lesson 07: load what fits by name, and say what did not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.checkpoints._files import Standardise

exercise = Exercise(
    "checkpoints.load_report",
    title="Load with a report",
    task="""
        `load_with_report(model, state)` loads the entries of `state` whose names the model knows, in place, and returns
        a dict of three lists of names, in any order:

        - `"loaded"`: entries of the model (parameters **and** buffers) that the state has;
        - `"missing"`: entries of the model that the state lacks;
        - `"unexpected"`: entries of the state that the model does not know.

        Missing and unexpected names are reported, not refused. But where **no** name matches, nothing would be loaded:
        raise a `ValueError` whose message quotes one name of the model and one of the state, so that the
        reader sees at once how they differ. (Either may have none to quote.) Another shape under the same name stays
        the `RuntimeError` of `load_state_dict`.
        """,
    hints=(
        "`load_state_dict(state, strict=False)` returns what it did not use. Most code throws that away.",
        "The names of the model are the keys of its state dict. `loaded` are those that are also in `state`; if there "
        "are none, raise before loading. missing_keys and unexpected_keys of the result are the other two lists.",
    ),
)


@exercise.stub
def load_with_report(model: nn.Module, state: dict[str, Tensor]) -> dict[str, list[str]]:
    """Load what matches by name into model; return the names that were loaded, missing and unexpected."""
    raise NotImplementedError


@exercise.reference
def report_of_load_state_dict(model, state):
    own = list(model.state_dict())
    loaded = [name for name in own if name in state]
    if not loaded:
        raise ValueError(f"no name matches: the model has {own[:1]}, the state {list(state)[:1]}; nothing was loaded")
    result = model.load_state_dict(state, strict=False)
    return {"loaded": loaded, "missing": result.missing_keys, "unexpected": result.unexpected_keys}


@exercise.alternative
def by_sets_of_names(model, state):
    known, given = set(model.state_dict()), set(state)
    if known.isdisjoint(given):
        raise ValueError(f"the model knows {sorted(known)}, the state has {sorted(given)}")
    model.load_state_dict({name: state[name] for name in known & given}, strict=False)
    return {"loaded": sorted(known & given), "missing": sorted(known - given), "unexpected": sorted(given - known)}


@exercise.wrong(
    "Where no name matches, the report comes back like any other and the model keeps its random weights. Nobody reads "
    "a report of a run that goes on: nothing loaded has to be an error.",
    fault="nothing-loaded",
)
def never_refuses(model, state):
    loaded = [name for name in model.state_dict() if name in state]
    result = model.load_state_dict(state, strict=False)
    return {"loaded": loaded, "missing": result.missing_keys, "unexpected": result.unexpected_keys}


@exercise.wrong(
    "Every missing or unexpected name is refused: that is strict=True. A new head or one more buffer is to be reported "
    "and allowed; only a state without any matching name is an error."
)
def refuses_every_difference(model, state):
    own = list(model.state_dict())
    if set(own) != set(state):
        raise ValueError(f"names differ: {own}, {list(state)}")
    model.load_state_dict(state)
    return {"loaded": own, "missing": [], "unexpected": []}


@exercise.wrong(
    "Missing and unexpected are swapped. Missing is what the model needs and the state lacks; unexpected is what the "
    "state has and the model does not know."
)
def swapped(model, state):
    own = list(model.state_dict())
    loaded = [name for name in own if name in state]
    if not loaded:
        raise ValueError(f"no name matches: {own[:1]}, {list(state)[:1]}")
    result = model.load_state_dict(state, strict=False)
    return {"loaded": loaded, "missing": result.unexpected_keys, "unexpected": result.missing_keys}


@exercise.wrong(
    "All names of the state are reported as loaded, the unexpected ones too. Loaded are those that the model knows.",
    fault="nothing-loaded",
)
def everything_counts_as_loaded(model, state):
    result = model.load_state_dict(state, strict=False)
    if not set(model.state_dict()) & set(state):
        raise ValueError(f"no name matches: {list(model.state_dict())[:1]}, {list(state)[:1]}")
    return {"loaded": list(state), "missing": result.missing_keys, "unexpected": result.unexpected_keys}


@exercise.wrong(
    "Only parameters are compared. The running statistics of BatchNorm are buffers: they are loaded as well, belong "
    "into the report, and count as a match."
)
def parameters_only(model, state):
    own = [name for name, _ in model.named_parameters()]
    loaded = [name for name in own if name in state]
    if not loaded:
        raise ValueError(f"no name matches: {own[:1]}, {list(state)[:1]}")
    model.load_state_dict({name: state[name] for name in loaded}, strict=False)
    return {
        "loaded": loaded,
        "missing": [name for name in own if name not in state],
        "unexpected": [name for name in state if name not in own],
    }


@exercise.wrong(
    "The report is right, but the model was never changed: its weights are those from before the call.",
    fault="nothing-loaded",
)
def reports_without_loading(model, state):
    own = list(model.state_dict())
    loaded = [name for name in own if name in state]
    if not loaded:
        raise ValueError(f"no name matches: {own[:1]}, {list(state)[:1]}")
    return {
        "loaded": loaded,
        "missing": [name for name in own if name not in state],
        "unexpected": [name for name in state if name not in own],
    }


@exercise.wrong(
    "assign=True does not load in place: the model gets the tensors of the state. An optimizer that was made before "
    "goes on with the old ones.",
    fault="optimizer-misses-parameters",
)
def assigned(model, state):
    own = list(model.state_dict())
    loaded = [name for name in own if name in state]
    if not loaded:
        raise ValueError(f"no name matches: {own[:1]}, {list(state)[:1]}")
    result = model.load_state_dict(state, strict=False, assign=True)
    return {"loaded": loaded, "missing": result.missing_keys, "unexpected": result.unexpected_keys}


@exercise.wrong(
    "The error says that nothing matched, and not what stood on both sides. With one name of each, a prefix or another "
    "architecture is seen at a glance.",
    fault="nothing-loaded",
)
def error_without_names(model, state):
    own = list(model.state_dict())
    loaded = [name for name in own if name in state]
    if not loaded:
        raise ValueError("no name of the state matches the model")
    result = model.load_state_dict(state, strict=False)
    return {"loaded": loaded, "missing": result.missing_keys, "unexpected": result.unexpected_keys}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), Standardise(3))


def filled(*names):
    """Entries of the network that hold numbers of their own, then names that it does not know."""
    shapes = {name: tensor for name, tensor in network().state_dict().items()}
    state = {}
    for i, name in enumerate(names, start=5):
        state[name] = torch.full_like(shapes[name], i) if name in shapes else torch.full((2,), float(i))
    return state


def report(answer, state):
    """The report with sorted names, the model after the call, the names in the state after it, and whether the
    model's tensors are those from before."""
    model = network()
    before = [id(tensor) for tensor in (*model.parameters(), *model.buffers())]
    result = answer(model, state)
    same = before == [id(tensor) for tensor in (*model.parameters(), *model.buffers())]
    return {key: sorted(names) for key, names in result.items()}, model, sorted(state), same


def refusal(answer, state, *words):
    """Which of the words the message of the ValueError quotes, and the model after it."""
    model = network()
    try:
        answer(model, state)
    except ValueError as error:
        return [any(word in str(error) for word in names) for names in words], model
    return "no error", model


NAMES = tuple(network().state_dict())


@exercise.probe
def all_names_match(answer):
    return report(answer, filled(*NAMES))


@exercise.probe
def some_are_missing(answer):
    return report(answer, filled("0.weight", "1.running_mean"))


@exercise.probe
def some_are_unexpected(answer):
    return report(answer, filled(*NAMES, "2.weight", "head.bias"))


@exercise.probe
def missing_and_unexpected(answer):
    return report(answer, filled("0.weight", "0.bias", "2.weight"))


@exercise.probe
def only_buffers_match(answer):
    return report(answer, filled("1.running_var", "2.weight"))


@exercise.probe
def a_prefix_on_every_name(answer):
    state = {f"module.{name}": tensor for name, tensor in filled(*NAMES).items()}
    return refusal(answer, state, NAMES, [name for name in state])


@exercise.probe
def another_architecture(answer):
    state = {"conv.kernel": torch.ones(2), "conv.offset": torch.ones(2)}
    return refusal(answer, state, NAMES, list(state))


@exercise.probe
def an_empty_state(answer):
    return refusal(answer, {}, NAMES)


@exercise.probe
def a_model_without_entries(answer):
    try:
        answer(nn.ReLU(), {"weight": torch.ones(1)})
    except ValueError as error:
        return "weight" in str(error)
    return "no error"


@exercise.probe
def another_shape(answer):
    return answer(network(), filled(*NAMES) | {"0.weight": torch.ones(3, 4)})

"""Lesson 07: take the names of wrappers off the keys of a state dict."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "checkpoints.strip_prefixes",
    title="Take off the names of wrappers",
    task="""
        `strip_prefixes(state)` returns a new dict with the keys of the bare model. DataParallel, DDP and AveragedModel
        put `module.` in front of a key, `torch.compile` puts `_orig_mod.` there. Wrappers can be nested, in any order.

        - Take off all such names at the **front** of a key, and nothing else: `module._orig_mod.0.weight` becomes
          `0.weight`.
        - Only whole names: `modules.0.weight` and `my_module.weight` stay, and so does `head.module.weight`, where
          `module` is a part of the model.
        - Each key is looked at for itself: AveragedModel adds `n_averaged` without a prefix, which stays.
        - The tensors are those of `state`, not copies, in the same order. `state` itself does not change.
        """,
    hints=(
        "str.removeprefix takes a whole string off the front, once, and str.lstrip takes off characters. How often may "
        "a prefix come?",
        "For each key: while it starts with one of the two, drop everything up to and including the first dot. Put the "
        "tensor into a new dict under what is left. str.startswith takes a tuple of prefixes.",
    ),
)


@exercise.stub
def strip_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the same tensors under the keys of the bare model."""
    raise NotImplementedError


@exercise.reference
def while_there_is_one(state):
    bare = {}
    for key, tensor in state.items():
        while key.startswith(("module.", "_orig_mod.")):
            key = key.partition(".")[2]
        bare[key] = tensor
    return bare


@exercise.alternative
def by_names(state):
    bare = {}
    for key, tensor in state.items():
        names = key.split(".")
        while len(names) > 1 and names[0] in {"module", "_orig_mod"}:
            names.pop(0)
        bare[".".join(names)] = tensor
    return bare


@exercise.wrong(
    "`replace` looks everywhere in the key, also in the middle and inside longer names: `head.module.weight` and "
    "`my_module.weight` lose a part that belongs to the model.",
    fault="wrapper-prefix",
)
def replaced_everywhere(state):
    return {key.replace("module.", "").replace("_orig_mod.", ""): tensor for key, tensor in state.items()}


@exercise.wrong(
    "Every name `module` or `_orig_mod` is dropped, wherever it stands. In `head.module.weight` it is a layer of the "
    "model; only names at the front come from wrappers.",
    fault="wrapper-prefix",
)
def dropped_everywhere(state):
    return {
        ".".join(name for name in key.split(".") if name not in ("module", "_orig_mod")): tensor
        for key, tensor in state.items()
    }


@exercise.wrong(
    "`lstrip` takes a set of characters, not a prefix: it goes on as long as it meets one of them, and eats the first "
    "letters of the model's own names.",
    fault="wrapper-prefix",
)
def stripped_of_characters(state):
    return {key.lstrip("module.").lstrip("_orig_mod."): tensor for key, tensor in state.items()}


@exercise.wrong(
    "Each of the two is taken off once, in one order. A model that was compiled first and wrapped then has them in one "
    "order, one that was wrapped first in the other, and some wrappers come twice.",
    fault="wrapper-prefix",
)
def each_once(state):
    return {key.removeprefix("module.").removeprefix("_orig_mod."): tensor for key, tensor in state.items()}


@exercise.wrong(
    "Where there is nothing to take off, the caller's own dict comes back. Who changes the result changes the state as "
    "well; the task asks for a new dict."
)
def the_same_dict(state):
    bare = {}
    for key, tensor in state.items():
        while key.startswith(("module.", "_orig_mod.")):
            key = key.partition(".")[2]
        bare[key] = tensor
    return state if bare.keys() == state.keys() else bare


@exercise.wrong(
    "Only `module.` is taken off. `torch.compile(model)` is a wrapper too, and its keys start with `_orig_mod.`.",
    fault="wrapper-prefix",
)
def only_module(state):
    bare = {}
    for key, tensor in state.items():
        while key.startswith("module."):
            key = key.removeprefix("module.")
        bare[key] = tensor
    return bare


@exercise.wrong(
    "`startswith('module')`, without the dot, is also true of `modules.0.weight`, which loses its first letters.",
    fault="wrapper-prefix",
)
def without_the_dot(state):
    bare = {}
    for key, tensor in state.items():
        while key.startswith(("module", "_orig_mod")):
            key = key[len("module.") :] if key.startswith("module") else key[len("_orig_mod.") :]
        bare[key] = tensor
    return bare


@exercise.wrong(
    "The first key decides for all. `n_averaged` of an AveragedModel comes first and has no prefix, so all the others "
    "keep theirs.",
    fault="wrapper-prefix",
)
def decided_by_the_first_key(state):
    keys = list(state)
    while keys and keys[0].startswith(("module.", "_orig_mod.")):
        keys = [key.partition(".")[2] for key in keys]
    return dict(zip(keys, state.values()))


@exercise.wrong(
    "The result is right, but the caller's dict was changed as well: its wrapped model cannot load it any more. Build "
    "a new dict."
)
def in_place(state):
    for key in list(state):
        tensor, bare = state.pop(key), key
        while bare.startswith(("module.", "_orig_mod.")):
            bare = bare.partition(".")[2]
        state[bare] = tensor
    return dict(state)


def stripped(answer, *keys):
    """The keys of the result in order, the number that each tensor holds, whether it is the tensor that was given, the
    keys of the input after the call, and whether the dict is a new one."""
    state = {key: torch.tensor(float(i)) for i, key in enumerate(keys)}
    given = list(state.values())
    result = answer(state)
    items = [(key, tensor, tensor is given[i]) for i, (key, tensor) in enumerate(result.items())]
    return items, list(state), result is not state


@exercise.probe
def data_parallel(answer):
    return stripped(answer, "module.0.weight", "module.0.bias")


@exercise.probe
def compiled(answer):
    return stripped(answer, "_orig_mod.0.weight", "_orig_mod.0.bias")


@exercise.probe
def compiled_then_wrapped(answer):
    return stripped(answer, "module._orig_mod.0.weight", "module._orig_mod.0.bias")


@exercise.probe
def wrapped_then_compiled(answer):
    return stripped(answer, "_orig_mod.module.0.weight", "_orig_mod.module.0.bias")


@exercise.probe
def wrapped_twice(answer):
    return stripped(answer, "module.module.0.weight", "_orig_mod._orig_mod.0.weight2")


@exercise.probe
def wrapped_many_times(answer):
    return stripped(answer, "_orig_mod.module._orig_mod.module.module.0.weight", "module." * 5 + "0.bias")


@exercise.probe
def averaged_model(answer):
    return stripped(answer, "n_averaged", "module.weight", "module.bias")


@exercise.probe
def bare_model(answer):
    return stripped(answer, "encoder.weight", "model.bias", "del.weight", "gr.bias")


@exercise.probe
def module_inside_the_model(answer):
    return stripped(answer, "module.head.module.weight", "head._orig_mod.weight", "head.module.bias")


@exercise.probe
def longer_names(answer):
    return stripped(answer, "modules.0.weight", "my_module.weight", "module.modules.1.bias", "_orig_modern.bias")


@exercise.probe
def a_parameter_called_module(answer):
    return stripped(answer, "module", "module._orig_mod", "module.scale")


@exercise.probe
def no_keys(answer):
    return stripped(answer)

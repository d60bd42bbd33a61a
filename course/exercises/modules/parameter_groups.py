"""Lesson 03: parameter groups, no weight decay for biases and normalisation layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course.checking import Exercise

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)

exercise = Exercise(
    "modules.parameter_groups",
    title="Parameter groups: no decay for biases and norms",
    task="""
        `decay_groups(model, weight_decay)` returns what an optimizer takes instead of `model.parameters()`: a list of
        two dicts with the keys `"params"` (a list of parameters) and `"weight_decay"`.

        - The second group has weight decay 0. It holds the biases, whose own name (what stands after the last dot)
          begins with `bias`, and all parameters of normalisation layers: modules of a class in `NORMS`, or of one
          derived from these.
        - The first group has weight decay `weight_decay` and holds all other parameters.
        - Each trainable parameter is in exactly one group, once, also when two modules share it. Frozen parameters
          (`requires_grad` is False) are in none. Within a group the order is that of `model.parameters()`.

        The model stays as it is.
        """,
    hints=(
        "named_parameters() gives each shared parameter once, with a dotted name. What stands before the last dot is "
        "the name of the module that owns the parameter.",
        "model.get_submodule(name) finds a module by its dotted name, and the model itself by an empty one. "
        "str.rpartition('.') splits at the last dot. Ask the owner for its class, not for its name.",
    ),
)


@exercise.stub
def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Return two parameter groups: one with weight_decay, and one without for biases and normalisation layers."""
    raise NotImplementedError


@exercise.reference
def by_the_owner_s_class(model, weight_decay):
    decayed, spared = [], []
    for name, parameter in model.named_parameters():
        owner, _, own_name = name.rpartition(".")
        is_norm = isinstance(model.get_submodule(owner), NORMS)
        if parameter.requires_grad:
            group = spared if is_norm or own_name.startswith("bias") else decayed
            group.append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]


@exercise.alternative
def by_a_set_of_spared_ones(model, weight_decay):
    spared = {
        id(parameter)
        for module in model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if isinstance(module, NORMS) or name.startswith("bias")
    }
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if id(p) not in spared], "weight_decay": weight_decay},
        {"params": [p for p in trained if id(p) in spared], "weight_decay": 0},
    ]


@exercise.alternative
def by_walking_the_modules(model, weight_decay):
    groups = [{"params": [], "weight_decay": weight_decay}, {"params": [], "weight_decay": 0.0}]
    seen = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen and parameter.requires_grad:
                seen.add(id(parameter))
                groups[isinstance(module, NORMS) or name.split("_")[0] == "bias"]["params"].append(parameter)
    return groups


def _split(model: nn.Module, weight_decay: float, spared: Callable[[str, Tensor], bool]) -> list[dict]:
    """The two groups, for wrong answers whose rule is wrong."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [
        {"params": [p for name, p in trained if not spared(name, p)], "weight_decay": weight_decay},
        {"params": [p for name, p in trained if spared(name, p)], "weight_decay": 0.0},
    ]


def _rule(model: nn.Module) -> Callable[[str, Tensor], bool]:
    def spared(name: str, parameter: Tensor) -> bool:
        owner, _, own = name.rpartition(".")
        return own.startswith("bias") or isinstance(model.get_submodule(owner), NORMS)

    return spared


@exercise.wrong(
    "Only the biases are spared. The scales of normalisation layers are called `weight`, like the matrices of linear "
    "layers: their name does not tell them apart, the class of the module that owns them does."
)
def biases_only(model, weight_decay):
    return _split(model, weight_decay, lambda name, parameter: name.rpartition(".")[2].startswith("bias"))


@exercise.wrong(
    "This looks for `norm` in the name of the parameter. Names are free: in a Sequential the same layer is called 1 or "
    "2. Ask for the class of the module that owns the parameter."
)
def norm_in_the_name(model, weight_decay):
    return _split(model, weight_decay, lambda name, parameter: "norm" in name or "bias" in name.rpartition(".")[2])


@exercise.wrong(
    "Counting axes is a popular short cut, and nearly the same rule: biases and most scales have one axis. But a "
    "LayerNorm over two axes has a scale with two, and other parameters with one axis, the slopes of a PReLU for "
    "example, are neither bias nor norm."
)
def fewer_than_two_axes(model, weight_decay):
    return _split(model, weight_decay, lambda name, parameter: parameter.ndim < 2)


@exercise.wrong(
    "The whole dotted name is searched for `bias`, and that also hits the weights of a module whose name contains "
    "the word. Only what stands after the last dot is the parameter's own name."
)
def bias_anywhere_in_the_name(model, weight_decay):
    rule = _rule(model)
    return _split(model, weight_decay, lambda name, parameter: "bias" in name or rule(name, parameter))


@exercise.wrong(
    "Names that equal `bias` are found, but not all biases are called exactly that: those of an LSTM are bias_ih_l0 "
    "and bias_hh_l0. The task speaks of names that begin with `bias`."
)
def named_exactly_bias(model, weight_decay):
    def spared(name, parameter):
        owner, _, own = name.rpartition(".")
        return own == "bias" or isinstance(model.get_submodule(owner), NORMS)

    return _split(model, weight_decay, spared)


@exercise.wrong(
    "Frozen parameters are in the groups, too. Without a gradient they are passed over by most optimizers, but they "
    "are counted, and they come alive with the first gradient that somebody leaves in them."
)
def frozen_ones_included(model, weight_decay):
    rule = _rule(model)
    named = list(model.named_parameters())
    return [
        {"params": [p for name, p in named if not rule(name, p)], "weight_decay": weight_decay},
        {"params": [p for name, p in named if rule(name, p)], "weight_decay": 0.0},
    ]


@exercise.wrong(
    "A parameter that two modules share is met once in each module, and here it enters the group twice. Optimizers "
    "warn of that, or refuse it."
)
def shared_ones_twice(model, weight_decay):
    groups = [{"params": [], "weight_decay": weight_decay}, {"params": [], "weight_decay": 0.0}]
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                spared = isinstance(module, NORMS) or name.startswith("bias")
                groups[spared]["params"].append(parameter)
    return groups


@exercise.wrong(
    "The two groups have changed places, or their decay has: here the weights go free, and biases and norms are pulled "
    "towards zero."
)
def decay_for_the_others(model, weight_decay):
    decayed, spared = _split(model, weight_decay, _rule(model))
    return [decayed | {"weight_decay": 0.0}, spared | {"weight_decay": weight_decay}]


@exercise.wrong(
    "The groups are collected from the layers of the model, and parameters that belong to the model itself or to other "
    "kinds of modules are in no group. An optimizer over these groups would never train them.",
    fault="optimizer-misses-parameters",
)
def layers_of_known_classes_only(model, weight_decay):
    known = (nn.Linear, nn.Conv2d, nn.Embedding, *NORMS)
    rule = _rule(model)
    groups = _split(model, weight_decay, rule)
    owners = {id(p) for m in model.modules() if isinstance(m, known) for p in m.parameters(recurse=False)}
    return [group | {"params": [p for p in group["params"] if id(p) in owners]} for group in groups]


@exercise.wrong(
    "The parameter's own name is searched for `bias`, and a parameter called `relative_bias` contains the word, too. "
    "The task speaks of names that begin with it."
)
def bias_within_the_own_name(model, weight_decay):
    def spared(name, parameter):
        owner, _, own = name.rpartition(".")
        return "bias" in own or isinstance(model.get_submodule(owner), NORMS)

    return _split(model, weight_decay, spared)


@exercise.wrong(
    "type() asks for exactly one of the classes. A class derived from LayerNorm is a normalisation layer as well; "
    "isinstance() knows that."
)
def exactly_these_classes(model, weight_decay):
    def spared(name, parameter):
        owner, _, own = name.rpartition(".")
        return own.startswith("bias") or type(model.get_submodule(owner)) in NORMS

    return _split(model, weight_decay, spared)


@exercise.wrong(
    "This looks for `Norm` in the name of the class. That finds classes that are not in NORMS, such as InstanceNorm2d, "
    "and misses derived ones that are called otherwise. Ask whether the module is one of NORMS."
)
def norm_in_the_class_name(model, weight_decay):
    def spared(name, parameter):
        owner, _, own = name.rpartition(".")
        return own.startswith("bias") or "Norm" in type(model.get_submodule(owner)).__name__

    return _split(model, weight_decay, spared)


@exercise.wrong(
    "The parameters come from generators. Whoever counts or prints them first leaves nothing for the optimizer. The "
    "task asks for lists."
)
def parameters_from_generators(model, weight_decay):
    groups = _split(model, weight_decay, _rule(model))
    return [group | {"params": (parameter for parameter in group["params"])} for group in groups]


def groups_by_name(answer, model, weight_decay=0.1):
    """What the answer returned, with names in the place of parameters, and what is frozen afterwards."""
    names = {id(p): name for name, p in model.named_parameters()}
    groups = answer(model, weight_decay)
    shown = [
        {key: [names[id(p)] for p in value] if key == "params" else value for key, value in group.items()}
        for group in groups
    ]
    kinds = [type(group["params"]).__name__ for group in groups]
    return shown, kinds, [name for name, p in model.named_parameters() if not p.requires_grad]


class Scaling(nn.LayerNorm):
    """A normalisation layer by descent, not by name."""


class WithOwnParameters(nn.Module):
    """A model that owns parameters beside its layers."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.bias = nn.Parameter(torch.zeros(3))
        self.layer = nn.Linear(3, 3)
        self.slope = nn.PReLU(3)


@exercise.probe
def convolutions_and_norms(answer):
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, bias=False), nn.GroupNorm(2, 4)
    return groups_by_name(answer, nn.Sequential(*layers))


@exercise.probe
def norm_over_two_axes(answer):
    return groups_by_name(answer, nn.ModuleDict({"norm": nn.LayerNorm((2, 3)), "out": nn.Linear(6, 2)}))


@exercise.probe
def names_that_mislead(answer):
    parts = {"bias_net": nn.Linear(2, 2), "normal": nn.Linear(2, 2), "first": nn.BatchNorm1d(2)}
    return groups_by_name(answer, nn.ModuleDict(parts), 0.5)


@exercise.probe
def classes_that_mislead(answer):
    return groups_by_name(answer, nn.Sequential(Scaling(3), nn.InstanceNorm2d(3, affine=True)))


@exercise.probe
def own_names_that_mislead(answer):
    model = nn.ParameterDict({"relative_bias": torch.ones(2, 2), "unbiased": torch.ones(2), "bias_k": torch.ones(2)})
    return groups_by_name(answer, model)


@exercise.probe
def recurrent_layer(answer):
    return groups_by_name(answer, nn.Sequential(nn.LSTM(2, 3)))


@exercise.probe
def parameters_of_the_model_itself(answer):
    return groups_by_name(answer, WithOwnParameters())


@exercise.probe
def one_layer_is_the_model(answer):
    return groups_by_name(answer, nn.LayerNorm(4))


@exercise.probe
def frozen_layers(answer):
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    model[1].bias.requires_grad_(False)
    return groups_by_name(answer, model, 0.01)


@exercise.probe
def tied_weights(answer):
    model = nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 5))
    model[1].weight = model[0].weight
    return groups_by_name(answer, model)


@exercise.probe
def weights_after_a_step_without_gradient(answer):
    """Decay alone moves the weights: AdamW with gradients of zero."""
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    torch.optim.AdamW(answer(model, 0.5), lr=0.5).step()
    return [parameter.detach() for parameter in model.parameters()]

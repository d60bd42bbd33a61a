"""Lesson 03: put a new head on a pretrained model."""

from __future__ import annotations

import torch
from torch import nn

from course.checking import Exercise
from course.exercises.modules._probing import numbers

exercise = Exercise(
    "modules.new_head",
    title="A new head for a pretrained model",
    task="""
        `new_head(model, name, classes)` prepares a pretrained model for another number of classes. `name` is the
        dotted name of its last layer, an `nn.Linear`, such as `"head"` or `"classifier.2"`.

        - In its place comes a new `nn.Linear` with the same number of inputs and `classes` outputs: on the device and
          with the dtype of the old one, with bias exactly if the old one has one, freshly drawn.
        - The parameters of the new layer are trainable, all others of the model are frozen.
        - It returns the trainable parameters as a list, ready for an optimizer.

        `model` is changed in place, and nothing else about it changes.
        """,
    hints=(
        "The old layer knows in_features, bias, weight.device and weight.dtype. In which order do you freeze the model "
        "and put the new layer in? And which object has to hold the new layer when the name has dots?",
        "model.get_submodule(name) finds the old layer, model.set_submodule(name, layer) replaces it (or setattr on "
        "the parent, get_submodule of all but the last part).",
    ),
)


@exercise.stub
def new_head(model: nn.Module, name: str, classes: int) -> list[nn.Parameter]:
    """Replace the linear layer called name by a fresh one with `classes` outputs; freeze the rest; return the new."""
    raise NotImplementedError


@exercise.reference
def by_set_submodule(model, name, classes):
    old = model.get_submodule(name)
    like = {"device": old.weight.device, "dtype": old.weight.dtype}
    head = nn.Linear(old.in_features, classes, bias=old.bias is not None, **like)
    model.requires_grad_(False)
    model.set_submodule(name, head)
    return list(head.parameters())


@exercise.alternative
def by_the_parent(model, name, classes):
    parent_name, _, own_name = name.rpartition(".")
    parent = model.get_submodule(parent_name)
    old = getattr(parent, own_name)
    setattr(parent, own_name, nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight))
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad = parameter_name.startswith(name + ".")
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@exercise.wrong(
    "out_features is a note that the layer keeps for printing. The weight still has the old shape, and so has the "
    "output. A layer of another size is another layer."
)
def another_number_in_the_old_layer(model, name, classes):
    layer = model.get_submodule(name)
    layer.out_features = classes
    model.requires_grad_(False)
    layer.requires_grad_(True)
    return [*layer.parameters()]


@exercise.wrong(
    "A dotted name leads through several modules, and setattr on the model takes it for one name. The new layer has to "
    "be set on the module that holds the old one."
)
def dotted_name_as_an_attribute(model, name, classes):
    old = model.get_submodule(name)
    head = nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight)
    model.requires_grad_(False)
    setattr(model, name, head)
    return [*head.parameters()]


@exercise.wrong(
    "The new layer was put in first and then frozen together with everything else, so there is nothing to train.",
    fault="graph-cut",
)
def frozen_together_with_the_rest(model, name, classes):
    old = model.get_submodule(name)
    model.set_submodule(name, nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight))
    model.requires_grad_(False)
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@exercise.wrong(
    "Only the list is short; the rest of the model is not frozen. Gradients for all of it are computed and kept, and "
    "any other optimizer over the model's parameters would train it."
)
def the_rest_not_frozen(model, name, classes):
    old = model.get_submodule(name)
    model.set_submodule(name, nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight))
    return [*model.get_submodule(name).parameters()]


@exercise.wrong(
    "`module.requires_grad = False` makes an attribute of that name on the module and leaves its parameters alone: "
    "nothing is frozen.",
    fault="freeze-typo",
)
def attribute_of_the_module(model, name, classes):
    old = model.get_submodule(name)
    model.requires_grad = False
    model.set_submodule(name, nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@exercise.wrong(
    "The list holds the parameters of the old layer, which the model no longer has. An optimizer with these trains "
    "nothing, and says nothing.",
    fault="optimizer-misses-parameters",
)
def parameters_of_the_old_layer(model, name, classes):
    old = model.get_submodule(name)
    model.requires_grad_(False)
    model.set_submodule(name, nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight))
    return [*old.requires_grad_(True).parameters()]


@exercise.wrong(
    "The new layer is float32 on the CPU, wherever the model is. In a float64 model, or on an accelerator, the next "
    "forward pass fails.",
    fault="device-mismatch",
)
def on_the_default_device(model, name, classes):
    old = model.get_submodule(name)
    head = nn.Linear(old.in_features, classes, bias=old.bias is not None)
    model.requires_grad_(False)
    model.set_submodule(name, head)
    return [*head.parameters()]


@exercise.wrong(
    "The new layer always has a bias. The task asks for one exactly if the old layer has one; some models leave it out "
    "on purpose."
)
def always_with_a_bias(model, name, classes):
    old = model.get_submodule(name)
    head = nn.Linear(old.in_features, classes).to(old.weight)
    model.requires_grad_(False)
    model.set_submodule(name, head)
    return [*head.parameters()]


@exercise.wrong(
    "The old layer is still there, and the new one comes after it: it sees the scores for the old classes, not the "
    "features, and the names in the state have changed. Replace the old layer."
)
def after_the_old_one(model, name, classes):
    old = model.get_submodule(name)
    model.requires_grad_(False)
    head = nn.Linear(old.out_features, classes, bias=old.bias is not None).to(old.weight)
    model.set_submodule(name, nn.Sequential(old, head))
    return [*head.parameters()]


@exercise.wrong(
    "Trainable is what has a name that begins like that of the new layer. With `head`, that is also what belongs to a "
    "module called `header`. The parameters of the layer have its name, a dot, and their own."
)
def every_name_that_begins_so(model, name, classes):
    old = model.get_submodule(name)
    model.set_submodule(name, nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight))
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad = parameter_name.startswith(name)
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@exercise.wrong(
    "The children of the model are frozen, and with them all that is below. A parameter that belongs to the model "
    "itself, such as a position embedding, goes on training. Freeze what the model as a whole has."
)
def children_frozen(model, name, classes):
    old = model.get_submodule(name)
    for child in model.children():
        child.requires_grad_(False)
    head = nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight)
    model.set_submodule(name, head)
    return [*head.parameters()]


@exercise.wrong(
    "Only parameters called weight and bias are frozen. Others have other names: weight_ih_l0 in an LSTM, "
    "in_proj_weight in attention, or whatever a model calls its own."
)
def weights_and_biases_frozen(model, name, classes):
    old = model.get_submodule(name)
    for module in model.modules():
        for own in ("weight", "bias"):
            parameter = getattr(module, own, None)
            if parameter is not None:
                parameter.requires_grad_(False)
    head = nn.Linear(old.in_features, classes, bias=old.bias is not None).to(old.weight)
    model.set_submodule(name, head)
    return [*head.parameters()]


class WithOwnParameters(nn.Module):
    """A parameter of its own, a recurrent layer, and a module whose name begins like that of the head."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.ones(3))
        self.recurrent = nn.LSTM(3, 4)
        self.header = nn.Linear(4, 4)
        self.head = nn.Linear(4, 5)


class Pretrained(nn.Module):
    """A backbone with BatchNorm and a head inside a container."""

    def __init__(self, bias=True):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(0.5), nn.ModuleDict({"out": nn.Linear(6, 10, bias=bias)}))

    def forward(self, x):
        dropout, last = self.classifier
        return last["out"](dropout(self.backbone(x)))


def outcome(answer, model, name, classes):
    """The shapes, dtypes and devices of the state, what is trainable, and whether the list holds exactly that."""
    other = {key: tensor.clone() for key, tensor in model.state_dict().items() if not key.startswith(name + ".")}
    modes = [module.training for module in model.modules()]
    returned = answer(model, name, classes)
    trainable = {key: p for key, p in model.named_parameters() if p.requires_grad}
    state = model.state_dict()
    return {
        "state": {key: (tuple(t.shape), str(t.dtype), str(t.device)) for key, t in sorted(state.items())},
        "trainable": sorted(trainable),
        "returned": sorted(key for key, p in model.named_parameters() if any(p is one for one in returned)),
        "number returned": (type(returned).__name__, len(returned)),
        "others": {key: state.get(key) for key in other},
        "modes kept": modes == [module.training for module in model.modules()],
        "out_features": getattr(model.get_submodule(name), "out_features", None),
    }


@exercise.probe
def last_layer_of_a_sequence(answer):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 10))
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.5)
    return outcome(answer, model, "2", 3)


@exercise.probe
def deep_inside(answer):
    torch.manual_seed(1)
    return outcome(answer, Pretrained(), "classifier.1.out", 2)


@exercise.probe
def without_bias_in_float64(answer):
    torch.manual_seed(1)
    model = Pretrained(bias=False).to(torch.float64)
    model.backbone.eval()
    return outcome(answer, model, "classifier.1.out", 3)


@exercise.probe
def on_another_device(answer):
    """The device "meta" holds shapes and no numbers; every machine has it."""
    return outcome(answer, nn.ModuleDict({"head": nn.Linear(5, 4, device="meta")}), "head", 7)


@exercise.probe
def parameters_with_other_names(answer):
    torch.manual_seed(1)
    return outcome(answer, WithOwnParameters(), "head", 2)


@exercise.probe
def shape_of_the_scores(answer):
    model = Pretrained().eval()
    answer(model, "classifier.1.out", 5)
    return tuple(model(numbers(2, 4)).shape)


@exercise.probe
def what_a_training_step_changes(answer):
    torch.manual_seed(1)
    model = Pretrained().eval()
    optimizer = torch.optim.SGD(answer(model, "classifier.1.out", 2), lr=1.0)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    model(numbers(8, 4)).square().sum().backward()
    optimizer.step()
    return sorted(key for key, tensor in model.state_dict().items() if not torch.equal(tensor, before[key]))


@exercise.probe
def weights_are_freshly_drawn(answer):
    model = nn.Sequential(nn.Linear(3, 8))
    nn.init.zeros_(model[0].weight)
    answer(model, "0", 8)
    return model[0].weight.unique().numel() > 12

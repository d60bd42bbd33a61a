"""Lesson 00, the first exercise: how many numbers a model trains."""

from __future__ import annotations

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "start.count_parameters",
    title="How large is this model",
    task="""
        `count_trainable(model)` takes any `nn.Module` and returns, as a Python `int`, how many **numbers** training
        will change: the elements of all its parameters that require gradients. A parameter that two layers share
        counts once. The model must not be changed.

        Example: `nn.Linear(3, 2)` has a weight of 2 x 3 numbers and a bias of 2, so the answer is 8.
        """,
    hints=(
        "`model.parameters()` goes through all parameters, those of inner layers too, each once. Each is a tensor: "
        "what tells the number of its elements, and what tells whether it is trained?",
        "Add up `numel()` over the parameters, and leave those out whose `requires_grad` is False.",
    ),
)


@exercise.stub
def count_trainable(model: nn.Module) -> int:
    """Return the number of elements of all parameters of model that require gradients."""
    raise NotImplementedError


@exercise.reference
def by_adding_elements(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


@exercise.alternative
def by_names(model):
    total = 0
    for _, parameter in model.named_parameters():
        if parameter.requires_grad:
            total += parameter.nelement()
    return total


@exercise.wrong(
    "This counts the parameter tensors. One tensor holds many numbers: the weight of `nn.Linear(3, 2)` is one tensor "
    "of 6 numbers."
)
def tensors_not_numbers(model):
    return len([p for p in model.parameters() if p.requires_grad])


@exercise.wrong(
    "Frozen parameters are counted too. Training changes only those that require gradients; the others stay what "
    "they are, as in the body of a pretrained network of which only the head is trained."
)
def frozen_ones_too(model):
    return sum(p.numel() for p in model.parameters())


@exercise.wrong(
    "`len` of a tensor is the size of its first axis, not the number of its elements: for a weight of 2 x 3 it is 2."
)
def first_axis_only(model):
    return sum(len(p) for p in model.parameters() if p.requires_grad)


@exercise.wrong(
    "The state_dict holds everything that is saved: buffers such as the running statistics of BatchNorm as well, "
    "frozen parameters, and a shared parameter once for each of its names. Trained are parameters only."
)
def everything_that_is_saved(model):
    return sum(tensor.numel() for tensor in model.state_dict().values())


@exercise.wrong("These are bytes: a float32 takes four of them. Asked for is the number of elements.")
def bytes_not_numbers(model):
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


@exercise.wrong(
    "Only the parameters of the model itself are counted here, and none of the layers inside it. `parameters()` goes "
    "through those as well, unless it is told not to."
)
def own_parameters_only(model):
    return sum(p.numel() for p in model.parameters(recurse=False) if p.requires_grad)


@exercise.wrong(
    "Parameters are told apart by the address of their memory, to count a shared one once. Parameters without memory, "
    "on the meta device or with no elements, all have the address 0. `parameters()` gives each one once already."
)
def by_address(model):
    return sum({p.data_ptr(): p.numel() for p in model.parameters() if p.requires_grad}.values())


@exercise.wrong(
    "A parameter whose `.grad` is None is left out. Gradients are there only after a backward pass that reached the "
    "parameter; whether training changes it is said by requires_grad."
)
def with_a_gradient(model):
    return sum(p.grad.numel() for p in model.parameters() if p.grad is not None)


@exercise.wrong(
    "The number is right, but the model was put into training mode for it: dropout is on from then on. requires_grad "
    "does not depend on the mode."
)
def put_into_training_mode(model):
    return sum(p.numel() for p in model.train().parameters() if p.requires_grad)


@exercise.wrong(
    "A layer counts only if all its parameters require gradients. They are frozen one by one: a weight can be frozen "
    "and its bias not. Ask each parameter."
)
def layers_without_a_frozen_part(model):
    layers = [list(layer.parameters(recurse=False)) for layer in model.modules()]
    trained = [p for own in layers if all(p.requires_grad for p in own) for p in own]
    return sum({id(p): p.numel() for p in trained}.values())


@exercise.probe
def one_layer():
    return nn.Linear(3, 2)


@exercise.probe
def layers_in_layers():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 3, bias=False)))


@exercise.probe
def a_frozen_body():
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))
    model[0].requires_grad_(False)
    return model


@exercise.probe
def with_running_statistics():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


@exercise.probe
def a_shared_weight():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


@exercise.probe
def nothing_to_train():
    return nn.ReLU()


@exercise.probe
def the_model_stays_as_it_is(answer):
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    model[0].bias.requires_grad_(False)
    answer(model)
    return model.training, [p.requires_grad for p in model.parameters()]


@exercise.probe
def a_frozen_weight():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].weight.requires_grad_(False)
    return model


@exercise.probe
def without_memory():
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).to("meta")


@exercise.probe
def gradients_of_one_layer():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    model[1](torch.ones(1, 2)).sum().backward()
    return model


@exercise.probe
def in_evaluation_mode(answer):
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).eval()
    return answer(model), [module.training for module in model.modules()]

"""Lesson 03: a multilayer perceptron of any depth."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.modules._probing import filled, gradients, heard, numbers, registered, weighted_sum

exercise = Exercise(
    "modules.mlp",
    title="A perceptron of any depth",
    task="""
        `MLP(sizes)` takes a list of at least two integers: `MLP([8, 16, 16, 3])` maps 8 features to 16, 16 to 16 and
        16 to 3. There is a `Linear` with bias from each size to the next, and ReLU between two layers, none after the
        last. `forward` takes `(N, sizes[0])` and returns `(N, sizes[-1])`.

        The parameters are called `layers.0.weight`, `layers.0.bias`, `layers.1.weight` and so on: numbered in order
        and without gaps, whatever the depth. Each layer can be observed by a hook.
        """,
    hints=(
        "The number of layers is known only when __init__ runs, so the layers belong into a container. Which "
        "containers does a module look into? And what would an activation in that container do to the numbering?",
        "nn.ModuleList registers what it holds and is used like a list. Apply F.relu in forward, to every layer's "
        "output but the last one's; itertools.pairwise(sizes) gives the sizes of each layer.",
    ),
)


@exercise.stub
class MLP(nn.Module):
    """Linear layers from each of `sizes` to the next, ReLU between them; (N, sizes[0]) -> (N, sizes[-1])."""

    def __init__(self, sizes: list[int]):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


@exercise.reference
class InAModuleList(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = F.relu(layer(x))
        return last(x)


@exercise.alternative
class ReluBeforeEachLayerButTheFirst(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 1)))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x.clamp(min=0) if number else x)
        return x


@exercise.alternative
class InADictByNumber(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleDict()
        for number, shape in enumerate(itertools.pairwise(sizes)):
            self.layers[str(number)] = nn.Linear(*shape)

    def forward(self, x):
        x = self.layers["0"](x)
        for number in range(1, len(self.layers)):
            x = self.layers[str(number)](torch.relu(x))
        return x


@exercise.wrong(
    "The layers lie in a plain list. A module registers what is assigned to it and does not look into lists, so it "
    "has no parameters at all: nothing would be trained, moved or saved.",
    fault="unregistered-submodule",
)
class InAPlainList(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = F.relu(layer(x))
        return last(x)


@exercise.wrong(
    "Multiplying a list repeats the reference: all the layers between the first and the last are one layer with one "
    "set of weights. Layers of their own come from a loop or comprehension that calls nn.Linear each time.",
    fault="shared-by-list-multiplication",
)
class OneLayerRepeated(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        ends = [nn.Linear(sizes[0], sizes[1])], [nn.Linear(sizes[-2], sizes[-1])]
        repeated = [nn.Linear(sizes[1], sizes[1])] * (len(sizes) - 3)
        self.layers = nn.ModuleList(ends[0] + repeated + (ends[1] if len(sizes) > 2 else []))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


@exercise.wrong(
    "ReLU also follows the last layer, so the network can never return a negative number: no logit below 0, no "
    "negative target. The activation stands between two layers."
)
class ReluAfterTheLast(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(itertools.starmap(nn.Linear, itertools.pairwise(sizes)))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


@exercise.wrong(
    "There is no activation. A chain of linear maps is one linear map: however deep, this network can do no more than "
    "a single layer."
)
class NoActivation(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.Sequential(*itertools.starmap(nn.Linear, itertools.pairwise(sizes)))

    def forward(self, x):
        return self.layers(x)


@exercise.wrong(
    "The outputs are right, but the activations stand in the same container, so the layers are numbered 0, 2, 4. "
    "Names are how state_dict finds its way: a checkpoint with layers.1.weight would not load."
)
class ActivationsCounted(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.Sequential()
        for pair in itertools.pairwise(sizes):
            self.layers.extend([nn.Linear(*pair), nn.ReLU()])
        self.layers.pop(-1)

    def forward(self, x):
        return self.layers(x)


@exercise.wrong(
    "The layers are registered one by one as layer0, layer1 and so on. That trains and moves, but the names differ "
    "from the ones asked for: a container called `layers` gives its content the names layers.0, layers.1."
)
class NumberedAttributes(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.depth = len(sizes) - 1
        for number in range(self.depth):
            setattr(self, f"layer{number}", nn.Linear(sizes[number], sizes[number + 1]))

    def forward(self, x):
        for number in range(self.depth):
            x = getattr(self, f"layer{number}")(x)
            x = F.relu(x) if number < self.depth - 1 else x
        return x


@exercise.wrong(
    "The weights are taken out of the layers and used by hand. The numbers are right, but the layers themselves are "
    "never called: their hooks stay silent, and so does all that is built on hooks.",
    fault="forward-called-directly",
)
class WeightsUsedByHand(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(*pair) for pair in itertools.pairwise(sizes)])

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = F.linear(F.relu(x) if number else x, layer.weight, layer.bias)
        return x


@exercise.wrong(
    "The depth is fixed: one hidden layer, from the first size to the second to the last. All sizes between them "
    "count; there are as many layers as there are neighbours in the list."
)
class OneHiddenLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(sizes[0], sizes[1]), nn.Linear(sizes[1], sizes[-1])])

    def forward(self, x):
        return self.layers[1](F.relu(self.layers[0](x)))


@exercise.wrong(
    "The sizes are taken out of the list one by one: the caller's list is empty afterwards, and a second model from it "
    "is impossible. Read the list and leave it."
)
class EmptiesTheList(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList()
        inputs = sizes.pop(0)
        while sizes:
            outputs = sizes.pop(0)
            self.layers.append(nn.Linear(inputs, outputs))
            inputs = outputs

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(F.relu(x) if number else x)
        return x


@exercise.wrong(
    "The caller's list is kept and read again in forward. When the caller changes it, for the next model perhaps, "
    "this one computes with other layers. Ask the layers that are there, or keep a copy."
)
class ReadsTheListLater(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.layers = nn.ModuleList([nn.Linear(*pair) for pair in itertools.pairwise(sizes)])

    def forward(self, x):
        for number in range(len(self.sizes) - 1):
            x = self.layers[number](F.relu(x) if number else x)
        return x


@exercise.wrong(
    "ReLU is left out wherever a layer has as many outputs as the last one, so also between hidden layers of that "
    "width. The last layer is last by its place, not by its size."
)
class LastByItsSize(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(*pair) for pair in itertools.pairwise(sizes)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if layer.out_features != self.layers[-1].out_features:
                x = F.relu(x)
        return x


@exercise.probe
def list_of_sizes_afterwards(answer):
    sizes = [3, 4, 2]
    answer(sizes)
    return sizes


@exercise.probe
def list_of_sizes_changed_later(answer):
    sizes = [2, 3, 3]
    model = filled(answer, sizes)
    sizes.pop()
    return model(numbers(2, 2))


@exercise.probe
def names_of_four_layers(answer):
    return registered(answer([3, 5, 5, 5, 2]))


@exercise.probe
def names_of_one_layer(answer):
    return registered(answer([3, 2]))


@exercise.probe
def one_layer(answer):
    return filled(answer, [3, 2])(numbers(4, 3))


@exercise.probe
def two_layers(answer):
    return filled(answer, [2, 6, 1])(numbers(3, 2))


@exercise.probe
def layers_of_equal_width(answer):
    return filled(answer, [4, 4, 4, 4, 4])(numbers(2, 4))


@exercise.probe
def gradients_of_all_parameters(answer):
    model = filled(answer, [3, 4, 2, 3])
    weighted_sum(model(numbers(5, 3))).backward()
    return gradients(model)


@exercise.probe
def after_a_move_to_float64(answer):
    model = filled(answer, [2, 3, 3, 2]).to(torch.float64)
    return model(numbers(2, 2).double())


@exercise.probe
def layers_heard_by_hooks(answer):
    return heard(filled(answer, [2, 3, 4, 2]), ("layers.0", "layers.1", "layers.2"), numbers(1, 2))

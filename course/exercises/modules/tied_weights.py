"""Lesson 03: one weight for embedding and output layer."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.modules._probing import filled, gradients, heard, numbers, registered, weighted_sum

exercise = Exercise(
    "modules.tied_weights",
    title="Tie two layers",
    task="""
        `TiedScorer(tokens, width)` embeds tokens and scores them: `embedding` is `nn.Embedding(tokens, width)`,
        `output` an `nn.Linear` from `width` to `tokens` without bias, and `forward` takes int64 indices `(N, T)` and
        returns `(N, T, tokens)`: the output layer applied to the embedded tokens.

        The two layers are tied: they have **one** weight, not two that are equal.

        - `named_parameters()` has one entry, and its gradient collects from both uses.
        - `state_dict()` has both names, `embedding.weight` and `output.weight`.
        - The tie survives training, a change of dtype, `copy.deepcopy` and `load_state_dict`.
        - Both layers are really called, so that hooks see them.
        """,
    hints=(
        "Compare nn.Embedding(tokens, width).weight and nn.Linear(width, tokens).weight: their shapes agree. Copying "
        "numbers ties nothing. What does a module do when you assign to it a Parameter that it already has elsewhere?",
        "A parameter is registered by assignment. Assign the Parameter object of one layer, not its data and not a new "
        "Parameter, to the attribute `weight` of the other, in __init__.",
    ),
)


@exercise.stub
class TiedScorer(nn.Module):
    """Scores (N, T, tokens) for indices (N, T): an embedding and an output layer with one and the same weight."""

    def __init__(self, tokens: int, width: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, indices: Tensor) -> Tensor:
        raise NotImplementedError


@exercise.reference
class OutputTakesTheEmbeddingsWeight(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.output = nn.Linear(width, tokens, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, indices):
        return self.output(self.embedding(indices))


@exercise.alternative
class EmbeddingTakesTheOutputsWeight(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.output = nn.Linear(width, tokens, bias=False)
        self.embedding = nn.Embedding(tokens, width)
        self.embedding.weight = self.output.weight

    def forward(self, indices):
        vectors = self.embedding(indices)
        return self.output(vectors)


@exercise.alternative
class OneParameterRegisteredTwice(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        weight = nn.Parameter(torch.empty(tokens, width))
        nn.init.normal_(weight, std=width**-0.5)
        self.embedding, self.output = nn.Embedding(tokens, width), nn.Linear(width, tokens, False)
        for layer in (self.embedding, self.output):
            layer.register_parameter("weight", weight)

    def forward(self, indices):
        return self.output(self.embedding(indices))


class _TwoLayers(nn.Module):
    """Embedding and output layer, for wrong answers that tie them wrongly."""

    def __init__(self, tokens, width, bias=False):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.output = nn.Linear(width, tokens, bias=bias)

    def forward(self, indices):
        embedded = self.embedding(indices)
        return self.output(embedded)


@exercise.wrong(
    "The numbers are copied at the beginning. After that there are two parameters with two gradients, and after one "
    "step of training they differ. Tied means one Parameter object in two places."
)
class CopiedOnce(_TwoLayers):
    def __init__(self, tokens, width):
        super().__init__(tokens, width)
        with torch.no_grad():
            self.output.weight.copy_(self.embedding.weight)


@exercise.wrong(
    "The two parameters share their memory, and are still two: each has its own gradient and its own optimizer state, "
    "so the shared numbers are updated twice, and a change of dtype gives each its own memory. Assign the Parameter "
    "itself, not its data."
)
class SharedMemory(_TwoLayers):
    def __init__(self, tokens, width):
        super().__init__(tokens, width)
        self.output.weight.data = self.embedding.weight.data


@exercise.wrong(
    "The output is computed from the embedding's weight directly, so the tie is real, but there is no output layer: "
    "its name is missing from state_dict(), and a hook has nothing to hang on."
)
class NoOutputLayer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)

    def forward(self, indices):
        return F.linear(self.embedding(indices), self.embedding.weight)


@exercise.wrong(
    "The output layer is registered but not used: forward multiplies with the embedding's weight by hand. Hooks of "
    "the output layer stay silent.",
    fault="forward-called-directly",
)
class OutputLayerBypassed(_TwoLayers):
    def __init__(self, tokens, width):
        super().__init__(tokens, width)
        self.output.weight = self.embedding.weight  # as it should be

    def forward(self, indices):
        return self.embedding(indices) @ self.output.weight.t()


@exercise.wrong(
    "Copying the weight in every forward keeps the numbers equal, but there are two parameters. The gradient of the "
    "output layer goes to its own weight, which is overwritten by the next call, so that half of the training is lost."
)
class CopiedInEachForward(_TwoLayers):
    def forward(self, indices):
        with torch.no_grad():
            self.output.weight.copy_(self.embedding.weight)
        return super().forward(indices)


@exercise.wrong(
    "The weights are tied, but the output layer has kept its bias, a second parameter. The task asks for a layer "
    "without."
)
class WithBias(_TwoLayers):
    def __init__(self, tokens, width):
        super().__init__(tokens, width, bias=True)
        self.output.weight = self.embedding.weight  # the only one


@exercise.wrong("The two layers have weights of their own, from two different draws. Nothing ties them yet.")
class NotTied(_TwoLayers):
    pass


@exercise.wrong(
    "squeeze() removes every axis of length 1: one sequence, or sequences of one token, come back with fewer axes. The "
    "result has shape (N, T, tokens), whatever N and T are.",
    fault="squeeze-drops-batch",
)
class Squeezed(_TwoLayers):
    def __init__(self, tokens, width):
        super().__init__(tokens, width)
        self.output.weight = self.embedding.weight

    def forward(self, indices):
        return super().forward(indices).squeeze()


INDICES = [[0, 3, 3], [4, 1, 0]]


@exercise.probe
def registered_names(answer):
    found = registered(answer(5, 2))
    return len(found["parameters"]), found["state"]


@exercise.probe
def sizes_of_the_layers(answer):
    model = answer(5, 2)
    return model.embedding.num_embeddings, model.embedding.embedding_dim, model.output.in_features


@exercise.probe
def one_object(answer):
    model = answer(5, 2)
    return model.output.weight is model.embedding.weight


@exercise.probe
def equal_from_the_beginning(answer):
    weights = list(answer(5, 2).state_dict().values())
    return all(torch.equal(weight, weights[0]) for weight in weights)


@exercise.probe
def scores(answer):
    return filled(answer, 5, 2)(torch.tensor(INDICES))


@exercise.probe
def one_token(answer):
    return filled(answer, 4, 2)(torch.tensor([[3]]))


@exercise.probe
def gradient_from_both_uses(answer):
    model = filled(answer, 5, 3)
    weighted_sum(model(torch.tensor(INDICES))).backward()
    return list(gradients(model).values())


@exercise.probe
def both_weights_after_two_steps(answer):
    model = filled(answer, 5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        weighted_sum(model(torch.tensor(INDICES))).backward()
        optimizer.step()
    return dict(sorted(model.state_dict().items()))


@exercise.probe
def still_one_object_after_a_copy_and_a_change_of_dtype(answer):
    model = copy.deepcopy(answer(4, 3)).to(torch.float64)
    return model.output.weight is model.embedding.weight


@exercise.probe
def both_weights_after_loading(answer):
    weight = numbers(4, 3, start=9.0)
    model = answer(4, 3)
    model.load_state_dict({"embedding.weight": weight, "output.weight": weight})
    return dict(sorted(model.state_dict().items())), model.output.weight is model.embedding.weight


@exercise.probe
def layers_heard_by_hooks(answer):
    return heard(answer(5, 2), ("embedding", "output"), torch.tensor(INDICES))

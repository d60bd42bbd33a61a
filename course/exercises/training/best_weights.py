"""Lesson 05: keeping the best weights, and not the live ones."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "training.best_weights",
    title="A keeper of the best weights",
    task="""
        `WeightKeeper()` keeps the state of a model at its best score.

        - `update(model, score)`: if `score` is larger than all before, keep parameters **and buffers** as they are now.
          Scores may be negative. Equal scores change nothing, and a score that is NaN is never the best.
        - `restore(model)`: put the kept values into this model, in place. It can be called again later, after more
          training, and gives the same values; the best score goes on counting.

        What is kept must not follow the model when it trains on. The optimizer holds the model's parameters, so
        `restore` has to leave them the same objects.
        """,
    hints=(
        "model.state_dict() does not copy: its tensors are the model's own memory (lesson 01: sharing). What happens "
        "to them in the next optimizer.step()?",
        "Keep copies: copy.deepcopy of the state dict, or a clone of each tensor. load_state_dict copies the values "
        "back into the existing parameters.",
    ),
)


@exercise.stub
class WeightKeeper:
    """Keeps a copy of a model's parameters and buffers at its highest score."""

    def __init__(self) -> None:
        raise NotImplementedError

    def update(self, model: nn.Module, score: float) -> None:
        """Keep the model's state if the score is the highest so far."""
        raise NotImplementedError

    def restore(self, model: nn.Module) -> None:
        """Put the kept values into the model."""
        raise NotImplementedError


@exercise.reference
class CopyOfTheState:
    def __init__(self):
        self.score = -math.inf

    def update(self, model, score):
        if score > self.score:
            self.score = score
            self.state = copy.deepcopy(model.state_dict())

    def restore(self, model):
        model.load_state_dict(self.state)


@exercise.alternative
class CloneOfEachTensor:
    def __init__(self):
        self.score, self.tensors = None, []

    def update(self, model, score):
        if not math.isnan(score) and (self.score is None or score > self.score):
            self.score = score
            self.tensors = [tensor.detach().clone() for tensor in model.state_dict().values()]

    def restore(self, model):
        with torch.no_grad():
            for tensor, kept in zip(model.state_dict().values(), self.tensors):
                tensor.copy_(kept)


@exercise.wrong(
    "state_dict() returns the live tensors. Every step of the optimizer changes what was kept, so that at the end the "
    "best weights are the last ones.",
    fault="state-dict-aliased",
)
class LiveStateDict:
    def __init__(self):
        self.score, self.state = -math.inf, {}

    def update(self, model, score):
        if score > self.score:
            self.score, self.state = score, model.state_dict()

    def restore(self, model):
        model.load_state_dict(self.state)


@exercise.wrong(
    "Only the parameters are kept. The running statistics of BatchNorm are buffers: best weights with the statistics "
    "of another epoch are another network."
)
class OnlyParameters:
    def __init__(self):
        self.score, self.kept = -math.inf, {}

    def update(self, model, score):
        if score > self.score:
            self.score = score
            self.kept = {name: p.detach().clone() for name, p in model.named_parameters()}

    def restore(self, model):
        model.load_state_dict(self.kept, strict=False)


@exercise.wrong("Every call keeps the weights, whatever the score. These are the latest weights, not the best ones.")
class AlwaysTheLatest:
    def __init__(self):
        self.state = {}

    def update(self, model, score):
        self.state = copy.deepcopy(model.state_dict())

    def restore(self, model):
        model.load_state_dict(self.state)


@exercise.wrong("The lowest score is kept. That is right for a loss; here a larger score is better.")
class LowestScore:
    def __init__(self):
        self.score, self.state = math.inf, {}

    def update(self, model, score):
        if score < self.score:
            self.score, self.state = score, copy.deepcopy(model.state_dict())

    def restore(self, model):
        model.load_state_dict(self.state)


@exercise.wrong(
    "The best score starts at 0, so negative scores, such as minus a loss, are never kept. It has to start below every "
    "score."
)
class StartsAtZero:
    def __init__(self):
        self.score, self.state = 0.0, {}

    def update(self, model, score):
        if score > self.score:
            self.score, self.state = score, copy.deepcopy(model.state_dict())

    def restore(self, model):
        if self.state:
            model.load_state_dict(self.state)


@exercise.wrong("An equal score replaces what was kept. The task asks for a larger one: the earlier epoch stays.")
class LaterOfEqualScores:
    def __init__(self):
        self.score, self.state = -math.inf, {}

    def update(self, model, score):
        if score >= self.score:
            self.score, self.state = score, copy.deepcopy(model.state_dict())

    def restore(self, model):
        model.load_state_dict(self.state)


@exercise.wrong(
    "Restoring hands the kept tensors themselves to the model (.data = ...). From then on training writes into what "
    "was kept, and a second restore gives other values. Copy the values instead.",
    fault="state-dict-aliased",
)
class HandsOverItsCopy:
    def __init__(self):
        self.score, self.state = -math.inf, {}

    def update(self, model, score):
        if score > self.score:
            self.score, self.state = score, copy.deepcopy(model.state_dict())

    def restore(self, model):
        live = dict(model.named_parameters()) | dict(model.named_buffers())
        for name, kept in self.state.items():
            live[name].data = kept


@exercise.wrong(
    "restore gives the model new Parameter objects. The optimizer still holds the old ones: the network would train on "
    "without ever moving.",
    fault="optimizer-misses-parameters",
)
class NewParameterObjects:
    def __init__(self):
        self.score, self.state = -math.inf, {}

    def update(self, model, score):
        if score > self.score:
            self.score, self.state = score, copy.deepcopy(model.state_dict())

    def restore(self, model):
        model.load_state_dict(copy.deepcopy(self.state), assign=True)


@exercise.wrong(
    "Each score is compared with the one before, not with the best. After a bad epoch a middling one replaces the "
    "best. The score to beat changes only when it is beaten."
)
class ComparesWithTheLast(CopyOfTheState):
    def update(self, model, score):
        if score > self.score:
            self.state = copy.deepcopy(model.state_dict())
        self.score = score


@exercise.wrong(
    "restore puts the values into the model that was last seen by update. The task says into *this* model, the one "
    "that is handed over, which may be another one of the same kind."
)
class RestoresTheOneItKnows(CopyOfTheState):
    def update(self, model, score):
        self.model = model
        super().update(model, score)

    def restore(self, model):
        self.model.load_state_dict(self.state)


@exercise.wrong(
    "A NaN as first score is kept, and no later score is ever larger: every comparison with NaN is False. The best "
    "weights of the run are then those of its most broken epoch."
)
class NanAtFirstStays(CopyOfTheState):
    def __init__(self):
        self.score = None

    def update(self, model, score):
        if self.score is None or score > self.score:
            self.score, self.state = score, copy.deepcopy(model.state_dict())


@exercise.wrong(
    "A NaN replaces the best: it is not smaller, and not equal either, so asking whether the score is *not better* "
    "says no. Ask whether it is larger."
)
class NanIsTheBest(CopyOfTheState):
    def update(self, model, score):
        if not score <= self.score:
            self.score, self.state = score, copy.deepcopy(model.state_dict())


@exercise.wrong(
    "After a restore the best score is forgotten, and the next epoch replaces the best weights, whatever it scores. "
    "restore only reads."
)
class ForgetsWithARestore(CopyOfTheState):
    def restore(self, model):
        super().restore(model)
        self.score = -math.inf


@exercise.wrong(
    "A best score of 0 counts as none: `not 0.0` is True. The next score replaces it even if it is smaller. Compare "
    "with None, or start at minus infinity."
)
class ZeroCountsAsNone(CopyOfTheState):
    def __init__(self):
        self.score = None

    def update(self, model, score):
        if not math.isnan(score) and (not self.score or score > self.score):
            self.score, self.state = score, copy.deepcopy(model.state_dict())


@exercise.wrong(
    "The values are kept as float32. What a float64 model gets back are rounded weights. Clone keeps the dtype."
)
class KeptInSinglePrecision(CopyOfTheState):
    def update(self, model, score):
        if score > self.score:
            self.score = score
            self.state = {name: tensor.clone().float() for name, tensor in model.state_dict().items()}


def network():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def train(model, optimizer, steps=1):
    for step in range(steps):
        optimizer.zero_grad()
        inputs = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [3.0, step - 1.0]])
        model(inputs).square().mean().backward()
        optimizer.step()


def run(answer, scores, restores=1):
    """Train, update with each score in turn, train on, restore; the states after each restore."""
    model, keeper = network(), answer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for score in scores:
        train(model, optimizer)
        keeper.update(model, score)
    states = []
    for _ in range(restores):
        train(model, optimizer, steps=2)
        keeper.restore(model)
        states.append([tensor.clone() for tensor in model.state_dict().values()])
    return states


@exercise.probe
def best_in_the_middle(answer):
    return run(answer, [0.2, 0.8, 0.5])


@exercise.probe
def negative_scores(answer):
    return run(answer, [-3.0, -1.0, -2.0])


@exercise.probe
def equal_scores(answer):
    return run(answer, [0.5, 0.5, 0.25])


@exercise.probe
def restored_twice(answer):
    return run(answer, [0.1, 0.9, 0.4], restores=2)


@exercise.probe
def parameters_stay_the_same_objects(answer):
    model, keeper = network(), answer()
    before = [id(p) for p in model.parameters()]
    keeper.update(model, 1.0)
    keeper.restore(model)
    return before == [id(p) for p in model.parameters()], model


@exercise.probe
def training_goes_on_after_a_restore(answer):
    model, keeper = network(), answer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keeper.update(model, 1.0)
    train(model, optimizer, steps=2)
    keeper.restore(model)
    train(model, optimizer, steps=2)
    return model


@exercise.probe
def two_keepers(answer):
    model, first, second = network(), answer(), answer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first.update(model, 1.0)
    train(model, optimizer)
    second.update(model, 0.5)
    first.restore(model)
    states = [[tensor.clone() for tensor in model.state_dict().values()]]
    second.restore(model)
    return [*states, [tensor.clone() for tensor in model.state_dict().values()]]


@exercise.probe
def better_than_the_last_but_not_the_best(answer):
    return run(answer, [0.5, 0.9, 0.3, 0.6])


@exercise.probe
def best_score_zero(answer):
    return run(answer, [-1.0, 0.0, -0.5])


@exercise.probe
def nan_at_first(answer):
    return run(answer, [math.nan, 0.5, 0.25])


@exercise.probe
def nan_later(answer):
    return run(answer, [0.5, math.nan, 0.25])


@exercise.probe
def restored_before_the_end(answer):
    model, keeper = network(), answer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keeper.update(model, 0.9)
    train(model, optimizer)
    keeper.restore(model)
    train(model, optimizer)
    keeper.update(model, 0.5)
    keeper.restore(model)
    return model


@exercise.probe
def restored_into_another_model(answer):
    model, other, keeper = network(), network(), answer()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    keeper.update(model, 0.5)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    keeper.restore(other)
    return model, other


@exercise.probe
def double_precision(answer):
    model, keeper = network().double(), answer()
    with torch.no_grad():
        model[0].weight.fill_(0.1)
    keeper.update(model, 0.5)
    keeper.restore(model)
    return bool((model[0].weight == 0.1).all())

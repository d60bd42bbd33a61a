"""Lesson 03: a frozen backbone that stays frozen, BatchNorm included."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.modules._probing import gradients, numbers

exercise = Exercise(
    "modules.frozen_backbone",
    title="Freeze a backbone, BatchNorm included",
    task="""
        `FineTuned(backbone, head)` is a module for fine-tuning: it keeps the two modules as `backbone` and `head`,
        and `forward(x)` returns the head's output for the backbone's output.

        - No parameter of the backbone is trainable; those of the head stay as they are.
        - The backbone always behaves as in evaluation: no dropout, and the running statistics of BatchNorm never
          change. `training` of each of its modules is False from the beginning, after `model.train()`, and after
          `model.eval()`.
        - The head, and the model itself, follow `train` and `eval` as usual. Both methods return the model, as they
          do for every module.
        """,
    hints=(
        "Two different things have to stop: gradients, and what the layers do in training mode. A call of train() on "
        "the whole model sets the mode of every module below it, again and again. Where could you step in?",
        "Override train(self, mode=True): let the parent class do its work first, then put the backbone back. "
        "eval() is train(False), so it comes along.",
    ),
)


@exercise.stub
class FineTuned(nn.Module):
    """head(backbone(x)), with a backbone that is not trained and always in evaluation mode."""

    def __init__(self, backbone: nn.Module, head: nn.Module):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


@exercise.reference
class WithItsOwnTrain(nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.backbone = backbone.requires_grad_(False).eval()
        self.head = head

    def forward(self, x):
        return self.head(self.backbone(x))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


@exercise.alternative
class WithItsOwnSwitch(nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.head = backbone, head
        for parameter in backbone.parameters():
            parameter.requires_grad = False
        self.train(self.training)

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)

    def train(self, mode=True):
        self.training = mode
        self.head.train(mode)
        self.backbone.train(False)
        return self


@exercise.alternative
class PutBackBeforeEachUse(nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.head = head
        self.backbone = backbone
        self.backbone.requires_grad_(False)
        self.backbone.eval()

    def forward(self, x):
        return self.head(self.backbone(x))

    def train(self, mode=True):
        result = super().train(mode)
        for module in result.backbone.modules():
            module.training = False
        return result


class _Chain(nn.Module):
    """Backbone and head in a row, for wrong answers that freeze wrongly."""

    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, x):
        return self.head(self.backbone(x))


@exercise.wrong(
    "The weights are frozen and the layers are not: in training mode BatchNorm updates its running statistics with "
    "every batch, and dropout drops. requires_grad stops gradients and nothing else.",
    fault="frozen-batchnorm-drifts",
)
class GradientsOnly(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)


@exercise.wrong(
    "The backbone is put into evaluation mode once. The next model.train(), which every training loop calls, reaches "
    "all modules below the model and switches it back.",
    fault="frozen-batchnorm-drifts",
)
class EvalOnce(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)
        self.backbone.eval()


@exercise.wrong(
    "The mode is right, but the weights are still trainable: an assignment to requires_grad of a *module* only makes a "
    "Python attribute of that name. The parameters have to be told, or the method with the underscore called.",
    fault="freeze-typo",
)
class AttributeOfTheModule(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad = False
        self.backbone.eval()

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


@exercise.wrong(
    "BatchNorm stands still, and the other layers do not: dropout in the backbone goes on dropping, so the features "
    "are random. Evaluation mode is for the whole backbone, itself included.",
    fault="frozen-batchnorm-drifts",
)
class BatchNormLayersOnly(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for module in self.backbone.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.eval()
        return self


@exercise.wrong(
    "Without a graph through the backbone its weights get no gradients, but they still count as trainable: an "
    "optimizer holds them, and weight decay may move them. Freeze the parameters themselves."
)
class NoGradOnly(_Chain):
    def forward(self, x):
        with torch.no_grad():
            return_value = self.backbone(x)
        return self.head(return_value)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.eval()


@exercise.wrong(
    "train() has lost its return value. Every module's train() and eval() return the module, so that calls can be "
    "chained; here they return None."
)
class NothingReturned(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)
        self.backbone.eval()

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()


@exercise.wrong(
    "The argument of train() is not passed on. eval() is nothing but train(False), so here eval() puts the head into "
    "training mode."
)
class ModeIgnored(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)
        self.backbone.eval()

    def train(self, mode=True):
        super().train()
        self.backbone.eval()
        return self


@exercise.wrong(
    "train() was turned off for the whole model, so the head and the model itself never leave the mode that they were "
    "in. Only the backbone is to stand still."
)
class TrainTurnedOff(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)
        self.eval()

    def train(self, mode=True):
        return self


@exercise.wrong(
    "Everything is frozen, the head as well: there is nothing left to train. Freeze the backbone only.",
    fault="graph-cut",
)
class HeadFrozenToo(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.requires_grad_(False)
        self.backbone.eval()

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


@exercise.wrong(
    "The mode is corrected in forward, that is, after the fact: between train() and the next call the backbone says "
    "that it is training, and whoever calls the backbone alone gets dropout and moving statistics."
)
class CorrectedInForward(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)

    def forward(self, x):
        self.backbone.eval()
        return self.head(self.backbone(x))


@exercise.wrong(
    "eval() in __init__ is called on the whole model, which therefore starts in evaluation mode, head included. A new "
    "module is in training mode; whoever fine-tunes without a call of train() would train without the head's dropout."
)
class StartsInEvaluation(_Chain):
    def __init__(self, backbone, head):
        super().__init__(backbone, head)
        self.backbone.requires_grad_(False)
        self.eval()

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


@exercise.wrong(
    "The model keeps a copy of the backbone. It takes the memory twice, and what is loaded into the backbone later "
    "does not reach the model. The task asks for the two modules themselves."
)
class CopiesTheBackbone(_Chain):
    def __init__(self, backbone, head):
        super().__init__(copy.deepcopy(backbone).requires_grad_(False).eval(), head)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self


def parts():
    """A backbone with BatchNorm and dropout, and a head with a layer that is frozen already."""
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.ReLU()), nn.Dropout(0.5))
    head = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    head[0].bias.requires_grad_(False)
    return backbone, head


def modes(model):
    """Whether the model, its head and each module of its backbone are in training mode."""
    return model.training, [m.training for m in model.head.modules()], [m.training for m in model.backbone.modules()]


@exercise.probe
def trainable_parameters(answer):
    model = answer(*parts())
    return [name for name, parameter in sorted(model.named_parameters()) if parameter.requires_grad]


@exercise.probe
def names_of_the_state(answer):
    return sorted(answer(*parts()).state_dict())


@exercise.probe
def modes_at_the_beginning(answer):
    return modes(answer(*parts()))


@exercise.probe
def the_two_modules_themselves(answer):
    backbone, head = parts()
    model = answer(backbone, head)
    return model.backbone is backbone, model.head is head


@exercise.probe
def modes_after_train(answer):
    return modes(answer(*parts()).eval().train())


@exercise.probe
def modes_after_eval(answer):
    model = answer(*parts())
    model.eval()
    return modes(model)


@exercise.probe
def modes_after_train_false_and_true(answer):
    model = answer(*parts())
    return model.train(False) is model, modes(model), model.train(True) is model, modes(model)


@exercise.probe
def backbone_after_training_steps(answer):
    """The state of the backbone after two steps in training mode, and the gradients of the head."""
    backbone, head = parts()
    model = answer(backbone, head)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for start in (0.0, 3.0):
        model.train()
        optimizer.zero_grad()
        model(4 * numbers(6, 3, start=start)).square().sum().backward()
        optimizer.step()
    return dict(backbone.state_dict()), gradients(head)


@exercise.probe
def output_in_evaluation(answer):
    model = answer(*parts())
    model.eval()
    return model(numbers(5, 3))

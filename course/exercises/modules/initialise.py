"""Lesson 03: initialise by rule."""

from __future__ import annotations

import math

import torch
from torch import nn

from course.checking import Exercise
from course.exercises.modules._probing import numbers

exercise = Exercise(
    "modules.initialise",
    title="Initialise by rule",
    task="""
        `initialise(model)` sets the parameters of a model in place, by the class of the module that owns them, and
        returns the model:

        - `nn.Linear` and `nn.Conv2d`: the weights are drawn from a normal distribution with mean 0 and variance
          2 / fan_in (Kaiming, for ReLU), the biases are 0. fan_in is the number of inputs that one output sums over.
          A layer may have no bias. Groups count: an output of a grouped convolution sums over its group only.
        - `nn.Embedding`: normal with mean 0 and standard deviation 0.02.
        - `nn.BatchNorm2d` and `nn.LayerNorm`: scale 1 and shift 0, where they have them.
        - All other parameters, and all buffers, stay as they are. So do dtypes, and the mode of the model.

        The parameters remain the same objects, trainable or not, so that an optimizer made before keeps working.
        """,
    hints=(
        "model.apply(function) calls a function for each module below a model, the model last, and returns the model. "
        "What does each module say that its class is? And what is layer.bias when there is none?",
        "nn.init.kaiming_normal_(weight, nonlinearity='relu') uses fan_in by default and draws in place without "
        "recording. nn.init.zeros_, ones_ and normal_ do the rest; test for None before you touch a bias.",
    ),
    random=True,
    seconds=20.0,
)


@exercise.stub
def initialise(model: nn.Module) -> nn.Module:
    """Set the parameters of Linear, Conv2d, Embedding, BatchNorm2d and LayerNorm by rule; return model."""
    raise NotImplementedError


@exercise.reference
def by_apply(model):
    def rule(module):
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            if module.weight is not None:
                nn.init.ones_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    return model.apply(rule)


@exercise.alternative
def by_hand(model):
    with torch.no_grad():
        for module in model.modules():
            match module:
                case nn.Linear() | nn.Conv2d():
                    fan_in = module.weight[0].numel()
                    module.weight.normal_(0, (2 / fan_in) ** 0.5)
                    if module.bias is not None:
                        module.bias.zero_()
                case nn.Embedding():
                    module.weight.normal_().mul_(0.02)
                case nn.BatchNorm2d() | nn.LayerNorm():
                    for parameter, value in ((module.weight, 1.0), (module.bias, 0.0)):
                        if parameter is not None:
                            parameter.fill_(value)
    return model


@exercise.alternative
def by_a_table(model):
    for module in model.modules():
        if type(module) in (nn.Linear, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, (2 / module.weight.flatten(1).shape[1]) ** 0.5)
        if type(module) is nn.Embedding:
            nn.init.normal_(module.weight, 0.0, 0.02)
        if type(module) in (nn.BatchNorm2d, nn.LayerNorm) and module.weight is not None:
            nn.init.constant_(module.weight, 1)
        if type(module) in (nn.Linear, nn.Conv2d, nn.BatchNorm2d, nn.LayerNorm) and module.bias is not None:
            nn.init.constant_(module.bias, 0)
    return model


def _rest(module: nn.Module) -> None:
    """The parts of the rule that a wrong answer gets right."""
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, 0.0, 0.02)
    if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)) and module.weight is not None:
        nn.init.constant_(module.weight, 1.0)
    if isinstance(module, (nn.Linear, nn.Conv2d, nn.BatchNorm2d, nn.LayerNorm)) and module.bias is not None:
        nn.init.constant_(module.bias, 0.0)


def _kaiming(module: nn.Module, **options: str) -> None:
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        nn.init.kaiming_normal_(module.weight, **({"nonlinearity": "relu"} | options))


@exercise.wrong(
    "All weights of a layer got the same number. Then all its units compute the same and receive the same gradient, "
    "and they stay equal for ever, however wide the layer is. Weights need chance.",
    fault="symmetric-init",
)
def same_number_everywhere(model):
    def rule(module):
        _rest(module)
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.constant_(module.weight, (2 / module.weight[0].numel()) ** 0.5)

    return model.apply(rule)


@exercise.wrong(
    "This is Xavier: its variance is 2 / (fan_in + fan_out), made for activations that are linear around 0. ReLU sets "
    "half of the numbers to 0, which the rule of the task makes up for."
)
def xavier(model):
    def rule(module):
        _rest(module)
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.xavier_normal_(module.weight)

    return model.apply(rule)


@exercise.wrong(
    "The variance is 2 / fan_out here, the number of units that one input reaches. That keeps the size of gradients on "
    "the way back; the task asks for fan_in, which keeps the size of signals on the way forward."
)
def by_fan_out(model):
    def rule(module):
        _rest(module)
        _kaiming(module, mode="fan_out")

    return model.apply(rule)


@exercise.wrong(
    "The variance is 1 / fan_in. It suits layers without activation; ReLU throws away half of the signal, so there the "
    "variance has to be twice as large."
)
def without_the_gain_of_relu(model):
    def rule(module):
        _rest(module)
        _kaiming(module, nonlinearity="linear")

    return model.apply(rule)


@exercise.wrong(
    "The standard deviation was set to 2 / fan_in, which is the variance that was asked for. The deviation is its "
    "square root."
)
def variance_as_deviation(model):
    def rule(module):
        _rest(module)
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.normal_(module.weight, 0.0, 2 / module.weight[0].numel())

    return model.apply(rule)


@exercise.wrong(
    "The numbers come from a uniform distribution. It has the right variance, but the task asks for a normal one: "
    "the function for that has `normal` in its name."
)
def uniform(model):
    def rule(module):
        _rest(module)
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")

    return model.apply(rule)


@exercise.wrong(
    "A layer made with bias=False has bias None, and None cannot be filled with zeros. Look before you touch it."
)
def every_layer_has_a_bias(model):
    def rule(module):
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            nn.init.constant_(module.bias, 0.0)
        else:
            _rest(module)

    return model.apply(rule)


@exercise.wrong(
    "New Parameter objects were put into the layers. The model has the right numbers, but an optimizer that was made "
    "before still holds the old ones and trains nothing. Write into the parameters that are there.",
    fault="optimizer-misses-parameters",
)
def new_parameters(model):
    def rule(module):
        _rest(module)
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            module.weight = nn.Parameter(torch.empty_like(module.weight), module.weight.requires_grad)
            _kaiming(module)

    return model.apply(rule)


@exercise.wrong(
    "Only the model's own children were visited. Layers inside a block are children of the block: ask for all modules, "
    "at every depth."
)
def children_only(model):
    for module in model.children():
        _rest(module)
        _kaiming(module)
    return model


@exercise.wrong(
    "Every parameter with two or more axes was drawn, and every other one set to 0, whoever owns it. The rule goes by "
    "the class of the module: the scale of a norm is not 0, and what the task does not name stays as it is."
)
def by_the_number_of_axes(model):
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")
        else:
            nn.init.constant_(parameter, 0.0)
    return model


@exercise.wrong(
    "The fan-in counts all input channels of a convolution. With groups, an output sums over the channels of its group "
    "alone, and the weight has axes for no others: the weights are drawn too small."
)
def groups_not_counted(model):
    def rule(module):
        _rest(module)
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, (2 / module.in_features) ** 0.5)
        if isinstance(module, nn.Conv2d):
            fan_in = module.in_channels * module.kernel_size[0] * module.kernel_size[1]
            nn.init.normal_(module.weight, 0.0, (2 / fan_in) ** 0.5)

    return model.apply(rule)


@exercise.wrong(
    "Every kind of convolution and norm is set, also those that the task does not name: BatchNorm1d, GroupNorm, Conv1d "
    "or ConvTranspose2d. Their parameters are to stay as they are."
)
def related_classes_too(model):
    related = (nn.BatchNorm1d, nn.GroupNorm)

    def rule(module):
        _rest(module)
        _kaiming(module)
        if isinstance(module, (nn.Conv1d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if isinstance(module, related):
            nn.init.constant_(module.weight, 1.0)
        if isinstance(module, (nn.Conv1d, nn.ConvTranspose2d, *related)):
            nn.init.constant_(module.bias, 0.0)

    return model.apply(rule)


@exercise.wrong(
    "Frozen parameters are passed over. Frozen or not says who trains them later, not how they start: the task asks "
    "for all parameters of the named classes."
)
def trainable_ones_only(model):
    def rule(module):
        if all(parameter.requires_grad for parameter in module.parameters(recurse=False)):
            _rest(module)
            _kaiming(module)

    return model.apply(rule)


@exercise.wrong(
    "The generator is seeded anew for each layer, so layers of one shape get the same weights, number by number. Seed "
    "once per program, outside of this function."
)
def seeded_for_each_layer(model):
    def rule(module):
        torch.manual_seed(0)
        _rest(module)
        _kaiming(module)

    return model.apply(rule)


@exercise.wrong(
    "The generator is seeded inside of the function: every call draws the same weights, and a second model is a copy "
    "of the first. Whoever wants that seeds before the call."
)
def seeded_in_each_call(model):
    torch.manual_seed(0)
    return model.apply(lambda module: (_rest(module), _kaiming(module)))


@exercise.wrong(
    "A norm made with affine=False, or a LayerNorm with bias=False, has None in the place of its parameters, and None "
    "cannot be filled. Look before you touch them."
)
def every_norm_has_parameters(model):
    def rule(module):
        _kaiming(module)
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.constant_(module.weight, 1.0)
            nn.init.constant_(module.bias, 0.0)
        else:
            _rest(module)

    return model.apply(rule)


class Gate(nn.Module):
    """A module that the rules do not name, with parameters called weight and bias."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2, 2), 5.0))
        self.bias = nn.Parameter(torch.full((2,), 3.0))


def drawn(weight, deviation):
    """Whether the numbers look drawn from a normal distribution of mean 0 and this deviation, within six sigma.

    The variance of n draws scatters by a share of sqrt(2 / n), their mean by 1 / sqrt(n) deviations; of normal
    numbers a share of 0.0455 lies beyond two deviations."""
    standard, n = weight.detach().double().flatten() / deviation, weight.numel()
    beyond = (standard.abs() > 2).double().mean().item()
    variance = standard.var().item()
    size = "as asked"
    if abs(variance - 1) >= 6 * (2 / n) ** 0.5:
        size = f"about {2.0 ** round(math.log2(variance)):g} times what is asked" if variance > 1e-9 else "none"
    return {
        "mean 0": abs(standard.mean().item()) < 6 / n**0.5,
        "variance": size,
        "normal": abs(beyond - 0.0455) < 6 * (0.0455 / n) ** 0.5,
    }


@exercise.probe
def linear_layer(answer):
    layer = nn.Linear(100, 300)
    same = answer(layer) is layer
    return same, drawn(layer.weight, 0.02**0.5), layer.bias


@exercise.probe
def convolution(answer):
    model = nn.Sequential(nn.Conv2d(16, 64, (3, 5)), nn.ReLU())
    return answer(model) is model, drawn(model[0].weight, (2 / 240) ** 0.5), model[0].bias


@exercise.probe
def layers_without_bias(answer):
    model = nn.Sequential(nn.Linear(200, 100, bias=False), nn.Conv2d(100, 50, 1, bias=False))
    answer(model)
    return [drawn(p, (2 / n) ** 0.5) for p, n in zip(model.parameters(), (200, 100), strict=True)]


@exercise.probe
def embedding(answer):
    model = nn.ModuleDict({"tokens": nn.Embedding(200, 100)})
    answer(model)
    return drawn(model["tokens"].weight, 0.02)


@exercise.probe
def norms_and_their_buffers(answer):
    model = nn.Sequential(nn.BatchNorm2d(3), nn.LayerNorm(4))
    for start, tensor in enumerate(model.state_dict().values()):
        tensor.copy_(10 * numbers(*tensor.shape, start=float(start)))
    answer(model)
    return dict(model.state_dict()), model.training


@exercise.probe
def what_the_rules_do_not_name(answer):
    model = nn.Sequential(nn.PReLU(init=0.7), Gate())
    answer(model)
    return list(model.parameters())


@exercise.probe
def related_classes(answer):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.GroupNorm(1, 2), nn.Conv1d(2, 2, 1), nn.ConvTranspose2d(2, 2, 1))
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.25)
    answer(model.eval())
    return list(model.parameters()), [module.training for module in model.modules()]


@exercise.probe
def norms_without_parameters(answer):
    model = nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.LayerNorm(4, bias=False))
    nn.init.constant_(model[1].weight, 7.0)
    answer(model)
    return list(model.parameters())


@exercise.probe
def grouped_convolution(answer):
    layer = nn.Conv2d(32, 64, 3, groups=8)
    answer(layer)
    return drawn(layer.weight, (2 / 36) ** 0.5), layer.bias


@exercise.probe
def frozen_layer_in_float64(answer):
    layer = nn.Linear(100, 200, dtype=torch.float64).requires_grad_(False)
    answer(layer)
    return drawn(layer.weight, 0.02**0.5), layer.bias, layer.weight.requires_grad


@exercise.probe
def two_layers_and_two_models(answer):
    first, second = (answer(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))) for _ in range(2))
    return {
        "layers differ": not torch.equal(first[0].weight, first[1].weight),
        "models differ": not torch.equal(first[0].weight, second[0].weight),
    }


@exercise.probe
def layer_deep_inside(answer):
    inner = nn.Linear(150, 150)
    answer(nn.Sequential(nn.Sequential(nn.ModuleList([inner]))))
    return drawn(inner.weight, (2 / 150) ** 0.5), inner.bias


@exercise.probe
def parameters_are_the_same_objects(answer):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(4, 4))
    model[0].requires_grad_(False)
    before = list(model.parameters())
    answer(model)
    after = list(model.parameters())
    same = [one is other for one, other in zip(before, after, strict=True)]
    return same, [parameter.requires_grad for parameter in after], [parameter.is_leaf for parameter in after]

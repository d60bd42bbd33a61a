"""Lesson 03: a module with buffers that move and are saved."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.modules._probing import numbers, registered

exercise = Exercise(
    "modules.standardise",
    title="A buffer that moves and is saved",
    task="""
        `Standardise(mean, std)` is a first layer that carries a model's own statistics: `mean` and `std` are lists of
        C numbers, one for each channel. `forward` takes images `(N, C, H, W)` and returns
        `(x - mean) / std`, channel by channel.

        - `mean` and `std` follow the module: `.to(...)` moves and converts them.
        - They are saved: `state_dict()` holds exactly `mean` and `std`, shape `(C,)`, float32 at first, also when the
          lists hold integers. After `load_state_dict` the loaded numbers are used.
        - They are not learned: the module has no parameters. Gradients do flow through it, to the images.
        - Training and evaluation make no difference.
        """,
    hints=(
        "A module knows three kinds of things: parameters, submodules and one more, for tensors that belong to the "
        "model's state and are not trained. What registers one?",
        "self.register_buffer(name, tensor) in __init__; read self.mean and self.std in forward each time, and give "
        "them the axes that they need for broadcasting there.",
    ),
)


@exercise.stub
class Standardise(nn.Module):
    """(x - mean) / std for each channel of x (N, C, H, W); mean and std are C numbers each, kept as buffers."""

    def __init__(self, mean: list[float], std: list[float]):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


@exercise.reference
class WithRegisteredBuffers(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, x):
        return (x - self.mean[:, None, None]) / self.std[:, None, None]


@exercise.alternative
class WithBufferObjects(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = nn.Buffer(torch.tensor([float(number) for number in mean]))
        self.std = nn.Buffer(torch.tensor([float(number) for number in std]))

    def forward(self, x):
        return x.sub(self.mean.view(1, -1, 1, 1)).div(self.std.view(1, -1, 1, 1))


@exercise.alternative
class WithChannelsLast(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        for name, values in {"mean": mean, "std": std}.items():
            self.register_buffer(name, torch.as_tensor(values).float())

    def forward(self, x):
        return ((x.movedim(1, -1) - self.mean) / self.std).movedim(-1, 1)


class _Forward(nn.Module):
    """The right arithmetic, for wrong answers that hold the numbers wrongly."""

    def forward(self, x):
        mean, std = self.mean.view(-1, 1, 1), self.std.view(-1, 1, 1)
        return (x - mean) / std


@exercise.wrong(
    "A plain tensor attribute is an ordinary Python attribute. `.to(...)` does not see it, so it stays behind on its "
    "device, and state_dict() does not contain it. It needs to be registered.",
    fault="tensor-not-buffer",
)
class PlainTensors(_Forward):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).float()
        self.std = torch.tensor(std).float()


@exercise.wrong(
    "As plain attributes that are moved by hand in forward, they follow the images, at the price of a copy in every "
    "call. But the module does not know them: they are missing from state_dict(), so a loaded model standardises with "
    "other numbers.",
    fault="tensor-not-buffer",
)
class MovedByHand(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = torch.tensor(mean).float(), torch.tensor(std).float()

    def forward(self, x):
        mean, std = self.mean.to(x).view(-1, 1, 1), self.std.to(x).view(-1, 1, 1)
        return (x - mean) / std


@exercise.wrong(
    "Parameters move and are saved, and they are trained as well: an optimizer over model.parameters() would change "
    "the statistics of the data. There is a way to register a tensor that is state but not a parameter."
)
class AsParameters(_Forward):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = nn.Parameter(torch.tensor(mean).float())
        self.std = nn.Parameter(torch.tensor(std).float())


@exercise.wrong(
    "A parameter with requires_grad=False is still a parameter: it is counted, appears in every list of parameters, "
    "and becomes trainable as soon as someone unfreezes the model. The task asks for a module without parameters."
)
class AsFrozenParameters(_Forward):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = nn.Parameter(torch.tensor(mean).float(), requires_grad=False)
        self.std = nn.Parameter(torch.tensor(std).float(), requires_grad=False)


@exercise.wrong(
    "These buffers move with the module, but persistent=False keeps them out of state_dict(). That suits what can be "
    "computed again; the statistics of the training data have to be saved."
)
class NotPersistent(_Forward):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).float(), persistent=False)
        self.register_buffer("std", torch.tensor(std).float(), persistent=False)


@exercise.wrong(
    "Move and save work, but the buffers are stored with the axes that broadcasting needs. The task asks for shape "
    "(C,) in state_dict(): axes for the arithmetic are added where the arithmetic is."
)
class StoredWithAxes(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).float().view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).float().view(-1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


@exercise.wrong(
    "The buffers are registered, but forward uses something that was computed from them once, in __init__. A move or "
    "load_state_dict changes the buffers and not what was computed. Read the buffers in forward."
)
class ComputedInAdvance(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).float())
        self.register_buffer("std", torch.tensor(std).float())
        self.scale, self.shift = 1 / self.std.view(-1, 1, 1), (self.mean / self.std).view(-1, 1, 1)

    def forward(self, x):
        return x * self.scale - self.shift


@exercise.wrong(
    "torch.tensor infers int64 from a list of integers, and `.to(torch.float64)` converts floating buffers only. Name "
    "the dtype when you make the buffers.",
    fault="integer-tensor-arithmetic",
)
class DtypeInferred(_Forward):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))


@exercise.wrong(
    "The first call computes 1 / std and keeps it. From then on load_state_dict and .to(...) change the buffers, and "
    "not what was kept. Read the buffers in every call."
)
class RemembersTheFirstCall(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).float())
        self.register_buffer("std", torch.tensor(std).float())
        self.scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = 1 / self.std.view(-1, 1, 1)
        return (x - self.mean.view(-1, 1, 1)) * self.scale


@exercise.wrong(
    "The images are converted to float32, whatever they and the module are. A bfloat16 model then meets float32 "
    "numbers in its next layer, and a float64 one loses digits.",
)
class ConvertsTheImages(_Forward):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, x):
        return super().forward(x.float())


@exercise.wrong(
    "no_grad also cuts off the images: nothing in front of this layer learns, and a gradient with respect to the "
    "images is impossible. Buffers collect no gradients anyway; nothing needs to be turned off.",
    fault="graph-cut",
)
class WithoutGradients(_Forward):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).float())
        self.register_buffer("std", torch.tensor(std).float())

    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


MEAN, STD = [0.5, -1.0, 2.0], [0.25, 2.0, 4.0]


@exercise.probe
def three_channels(answer):
    images = numbers(2, 3, 2, 5)
    return answer(MEAN, STD)(images), images


@exercise.probe
def registered_names(answer):
    layer = answer(MEAN, STD)
    return registered(layer), sorted(name for name, _ in layer.named_buffers())


@exercise.probe
def trainable_names(answer):
    return [name for name, tensor in answer(MEAN, STD).state_dict(keep_vars=True).items() if tensor.requires_grad]


@exercise.probe
def saved_state(answer):
    return dict(sorted(answer([1, 2], [3, 4]).state_dict().items()))


@exercise.probe
def one_channel_of_integers(answer):
    return answer([1], [4]).double()(numbers(2, 1, 3, 3).double())


@exercise.probe
def after_a_move_to_another_device(answer):
    """The device "meta" holds shapes and no numbers; every machine has it."""
    layer = answer(MEAN, STD).to("meta")
    output = layer(torch.ones(4, 3, 2, 2, device="meta"))
    return str(output.device), tuple(output.shape)


@exercise.probe
def dtype_after_a_move_to_float64(answer):
    layer = answer(MEAN, STD).to(torch.float64)
    return {name: str(getattr(layer, name).dtype) for name in ("mean", "std")}


@exercise.probe
def in_evaluation_mode(answer):
    return answer(MEAN, STD).eval()(numbers(1, 3, 2, 2))


@exercise.probe
def gradient_of_the_images(answer):
    images = numbers(1, 3, 2, 2).requires_grad_()
    (answer(MEAN, STD)(images) ** 2).sum().backward()
    return images.grad


@exercise.probe
def after_a_move_to_bfloat16(answer):
    output = answer(MEAN, STD).to(torch.bfloat16)(torch.ones(1, 3, 2, 2, dtype=torch.bfloat16))
    return str(output.dtype), tuple(output.shape)


@exercise.probe
def called_before_and_after_loading(answer):
    source, target = answer([3.0, 0.0, 1.0], [2.0, 4.0, 8.0]), answer(MEAN, STD)
    images = numbers(1, 3, 2, 2)
    first = target(images)
    target.load_state_dict(copy.deepcopy(source.state_dict()))
    return first, target(images)


@exercise.probe
def after_loading_other_statistics(answer):
    source, target = answer([3.0, 0.0, 1.0], [2.0, 4.0, 8.0]), answer(MEAN, STD)
    target.load_state_dict(copy.deepcopy(source.state_dict()))
    return target(numbers(1, 3, 2, 2))

"""Lesson 12: preprocessing inside the exported graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim

from course.checking import Exercise
from course.exercises.export._exporting import attempt, outcome

exercise = Exercise(
    "export.normalise_inside",
    seconds=60,
    title="Bytes in, logits out",
    task="""
        `FromBytes(network, mean, std)` is a module around a network that takes normalised float32 images
        (batch, 3, height, width).

        - It is called with what an image decoder delivers: uint8, (batch, height, width, 3), not to be changed.
          It brings them to the scale 0 to 1, subtracts `mean` and divides by `std` (float32, shape (3,), one for each
          channel), moves the channels to where the network wants them, and returns what the network returns.
        - `mean` and `std` belong to the model: **buffers** of these names, in the state dict. They are not trained.
        - `FromBytes(...).eval()` reaches the network, and the whole can be exported for every batch size.
        """,
    hints=(
        "register_buffer(name, tensor) makes a tensor part of the state dict without making it a parameter. Where is "
        "the axis of the channels when the images come in, and does a tensor of shape (3,) broadcast there?",
        "(images.float() / 255 - self.mean) / self.std works on the last axis, so do it first; then permute the axes "
        "to (batch, channel, height, width). reshape would scramble the pixels.",
    ),
)


@exercise.stub
class FromBytes(nn.Module):
    """uint8 (B, H, W, 3) in, the outputs of network for normalised float32 (B, 3, H, W) out."""

    def __init__(self, network: nn.Module, mean: Tensor, std: Tensor) -> None:
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        raise NotImplementedError


@exercise.reference
class ChannelsLastFirst(nn.Module):
    def __init__(self, network, mean, std):
        super().__init__()
        self.network = network
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images):
        scaled = (images.float() / 255 - self.mean) / self.std
        return self.network(scaled.permute(0, 3, 1, 2))


@exercise.alternative
class PermutedFirst(nn.Module):
    def __init__(self, network, mean, std):
        super().__init__()
        self.net = network
        self.mean, self.std = nn.Buffer(mean.clone()), nn.Buffer(std.clone())

    def forward(self, images):
        x = images.movedim(-1, 1).to(torch.float32).mul(1 / 255)
        return self.net((x - self.mean[:, None, None]) / self.std[:, None, None])


class Template(ChannelsLastFirst):
    """Shared by the wrong answers that differ in forward alone."""


@exercise.wrong("The scale is still 0 to 255, and mean and std are those of 0 to 1. Divide by 255 first.")
class WithoutScale(Template):
    def forward(self, images):
        return self.network(((images.float() - self.mean) / self.std).permute(0, 3, 1, 2))


@exercise.wrong(
    "reshape gives the shape that the network wants and leaves the pixels in their order in memory: every channel is a "
    "mixture of all three.",
    fault="reshape-instead-of-permute",
)
class Reshaped(Template):
    def forward(self, images):
        batch, height, width, channels = images.shape
        return self.network(((images.float() / 255 - self.mean) / self.std).reshape(batch, channels, height, width))


@exercise.wrong("Height and width have changed places: (0, 3, 2, 1) transposes every image.")
class Transposed(Template):
    def forward(self, images):
        return self.network(((images.float() / 255 - self.mean) / self.std).permute(0, 3, 2, 1))


@exercise.wrong(
    "mean and std are plain attributes. They do not move with `.to(device)`, and the state dict does not hold them: "
    "loaded weights work with other numbers than those they were trained with."
)
class PlainAttributes(ChannelsLastFirst):
    def __init__(self, network, mean, std):
        nn.Module.__init__(self)
        self.network, self.mean, self.std = network, mean, std


@exercise.wrong("mean and std are parameters. An optimizer would train the normalisation.")
class Parameters(ChannelsLastFirst):
    def __init__(self, network, mean, std):
        nn.Module.__init__(self)
        self.network, self.mean, self.std = network, nn.Parameter(mean), nn.Parameter(std)


@exercise.wrong(
    "persistent=False keeps the buffers out of the state dict: they have to come from somewhere else again."
)
class NotPersistent(ChannelsLastFirst):
    def __init__(self, network, mean, std):
        nn.Module.__init__(self)
        self.network = network
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("std", std, persistent=False)


@exercise.wrong(
    "The integer division by 255 leaves 0 and, for white, 1. Convert to float32 before dividing with `//`, or use `/`."
)
class IntegerDivision(Template):
    def forward(self, images):
        return self.network((((images // 255).float() - self.mean) / self.std).permute(0, 3, 1, 2))


@exercise.wrong("The steps are swapped: subtract the mean, then divide by std.")
class DividedFirst(Template):
    def forward(self, images):
        return self.network((images.float() / 255 / self.std - self.mean).permute(0, 3, 1, 2))


@exercise.wrong("The mean is subtracted and std is not used.")
class WithoutStd(Template):
    def forward(self, images):
        return self.network((images.float() / 255 - self.mean).permute(0, 3, 1, 2))


@exercise.wrong(
    "The statistics are those of this batch, not the given ones. The answer for an image depends on the images beside "
    "it."
)
class OwnStatistics(Template):
    def forward(self, images):
        x = images.float() / 255
        return self.network(((x - x.mean(dim=(0, 1, 2))) / x.std(dim=(0, 1, 2))).permute(0, 3, 1, 2))


@exercise.wrong("The network is kept where nn.Module does not see it: eval() and the state dict do not reach it.")
class HiddenNetwork(ChannelsLastFirst):
    def __init__(self, network, mean, std):
        nn.Module.__init__(self)
        self.__dict__["network"] = network
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)


@exercise.wrong("The network is called with channels last. It wants the channels on axis 1.")
class NotPermuted(Template):
    def forward(self, images):
        return self.network((images.float() / 255 - self.mean) / self.std)


@exercise.wrong(
    "The buffers hold mean and std times 255. The outputs are right, but the state dict does not hold the given "
    "numbers: whoever loads another mean or std gets a wrong normalisation."
)
class ScaledBuffers(ChannelsLastFirst):
    def __init__(self, network, mean, std):
        super().__init__(network, mean * 255, std * 255)

    def forward(self, images):
        return self.network(((images.float() - self.mean) / self.std).permute(0, 3, 1, 2))


class Positions(nn.Module):
    """A network that tells every pixel and channel apart, and whether it is in evaluation mode."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.conv = nn.Conv2d(3, 2, (1, 2))
        self.norm = nn.BatchNorm2d(2)

    def forward(self, x):
        x = self.norm(self.conv(x))
        weights = torch.arange(1.0, x.shape[2] * x.shape[3] + 1).reshape(x.shape[2], x.shape[3])
        return (x * weights).sum(dim=(2, 3))


MEAN, STD = (0.5, 0.25, 0.125), (0.5, 0.25, 2.0)


def module(answer, mean=MEAN, std=STD):
    return answer(Positions(), torch.tensor(mean), torch.tensor(std))


def images(batch):
    return (torch.arange(batch * 2 * 4 * 3) * 37 % 256).to(torch.uint8).reshape(batch, 2, 4, 3)


@exercise.probe
def two_images(answer):
    batch = images(2)
    return module(answer).eval()(batch), batch


@exercise.probe
def black_and_white(answer):
    batch = torch.cat([torch.zeros(1, 2, 4, 3), torch.full((1, 2, 4, 3), 255)]).to(torch.uint8)
    return module(answer).eval()(batch)


@exercise.probe
def state_and_parameters(answer):
    model = module(answer)
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items() if name in ("mean", "std")}
    buffers = [name for name, _ in model.named_buffers() if name in ("mean", "std")]
    return shapes, buffers, len(model.state_dict()), sum(p.numel() for p in model.parameters())


@exercise.probe
def state_of_another(answer):
    model, other = module(answer).eval(), module(answer, mean=(0.0, 0.5, 1.0), std=(1.0, 2.0, 4.0))
    try:
        model.load_state_dict(other.state_dict())
    except RuntimeError as error:
        return type(error).__name__
    return model(images(2))


@exercise.probe
def the_given_numbers_in_the_state(answer):
    state = module(answer).state_dict()
    return state.get("mean"), state.get("std")


@exercise.probe
def plain_numbers_loaded(answer):
    model = module(answer).eval()
    model.load_state_dict({"mean": torch.tensor([0.0, 0.5, 1.0]), "std": torch.tensor([1.0, 2.0, 4.0])}, strict=False)
    return model(images(2))


@exercise.probe
def training_mode_reaches_the_network(answer):
    model = module(answer).train()
    return model(images(2)), model.eval()(images(2))


@exercise.probe
def exported(answer):
    model = module(answer).eval()
    program = attempt(lambda: torch.export.export(model, (images(3),), dynamic_shapes=({0: Dim("batch")},)))
    if isinstance(program, str):
        return program
    calls = [images(1), images(5), images(2).permute(0, 3, 1, 2).contiguous()]
    return [outcome(program, call) for call in calls]

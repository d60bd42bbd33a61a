"""Lesson 14: a predict() that answers one image or a batch, and refuses the rest."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "inference.predict",
    title="predict() for one image and for many",
    task="""
        `predict(network, images, mean, std)` returns probabilities. `images` is uint8, one image `(3, 8, 8)` or a batch
        `(N, 3, 8, 8)`. `mean` and `std`, shape `(3,)`, belong to images scaled to 0..1. `network` takes a normalised
        float32 batch and returns logits `(N, classes)`.

        - One image gives shape `(classes,)`, a batch `(N, classes)`, also if N is 1. Rows add up to 1.
        - The result has no history for autograd, and no graph is made. `images` stays as it is.
        - Refuse, with an error before the network is called: `TypeError` for what is not a uint8 tensor; `ValueError`
          for another shape and for a batch of no images; `RuntimeError` if the network, or any module in it, is in
          training mode. Do not switch the mode yourself.
        """,
    hints=(
        "First four questions to the input, then one path for all: what turns one image into a batch, and when is that "
        "axis taken away again?",
        "Check the dtype, `images.shape[-3:]`, `images.ndim`, `len(images)` and `module.training` of all "
        "`network.modules()`. Divide by 255, normalise with mean and std as (3, 1, 1), softmax over the last axis.",
    ),
)


@exercise.stub
def predict(network: nn.Module, images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return probabilities, float32: (classes,) for images (3, 8, 8), (N, classes) for (N, 3, 8, 8)."""
    raise NotImplementedError


@exercise.reference
def checks_then_one_path(network, images, mean, std):
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise TypeError("expected a uint8 tensor")
    if images.ndim not in (3, 4) or images.shape[-3:] != (3, 8, 8) or len(images) == 0:
        raise ValueError(f"expected (3, 8, 8) or (N, 3, 8, 8), not {tuple(images.shape)}")
    if any(module.training for module in network.modules()):
        raise RuntimeError("the network is in training mode; call eval()")
    batch = images if images.ndim == 4 else images[None]
    with torch.inference_mode():
        scaled = (batch / 255 - mean[:, None, None]) / std[:, None, None]
        probabilities = network(scaled).softmax(dim=1)
    return probabilities if images.ndim == 4 else probabilities[0]


@exercise.alternative
def two_paths(network, images, mean, std):
    for module in network.modules():
        if module.training:
            raise RuntimeError("training mode")
    if type(images) is not Tensor or images.dtype is not torch.uint8:
        raise TypeError("no uint8 tensor")
    shape = tuple(images.shape)
    if shape == (3, 8, 8):
        batch = images.unsqueeze(0)
    elif shape[1:] == (3, 8, 8) and shape[0] > 0:
        batch = images
    else:
        raise ValueError("shape")
    with torch.no_grad():
        logits = network(batch.to(torch.float32).div(255).sub(mean[:, None, None]).div(std[:, None, None]))
    found = (logits - logits.logsumexp(-1, keepdim=True)).exp()
    return found.squeeze(0) if batch is not images else found


def answered(network, images, mean, std):
    """What comes after the checks."""
    batch = images if images.ndim == 4 else images[None]
    with torch.inference_mode():
        scaled = (batch.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
        probabilities = network(scaled).softmax(dim=1)
    return probabilities if images.ndim == 4 else probabilities[0]


def check_images(images):
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise TypeError("expected a uint8 tensor")
    if images.ndim not in (3, 4) or images.shape[-3:] != (3, 8, 8) or len(images) == 0:
        raise ValueError("expected (3, 8, 8) or (N, 3, 8, 8)")


def check_mode(network):
    if any(module.training for module in network.modules()):
        raise RuntimeError("the network is in training mode")


@exercise.wrong(
    "Nobody asks for the mode. In training mode Dropout drops and BatchNorm uses the batch: another answer each time.",
    fault="eval-mode-missing",
)
def mode_not_checked(network, images, mean, std):
    check_images(images)
    return answered(network, images, mean, std)


@exercise.wrong(
    "Only the network itself is asked for its mode. A part of it, such as a BatchNorm, can be in training mode alone.",
    fault="eval-mode-missing",
)
def only_the_outermost_mode(network, images, mean, std):
    check_images(images)
    if network.training:
        raise RuntimeError("the network is in training mode")
    return answered(network, images, mean, std)


@exercise.wrong(
    "`eval()` is called in here. The mode belongs to the caller, who may be in the middle of a training run: refuse."
)
def switches_the_mode(network, images, mean, std):
    check_images(images)
    network.eval()
    return answered(network, images, mean, std)


@exercise.wrong("One image gives shape (1, classes). The axis that was added for the network has to go again.")
def batch_axis_stays(network, images, mean, std):
    check_images(images)
    check_mode(network)
    probabilities = answered(network, images, mean, std)
    return probabilities[None] if images.ndim == 3 else probabilities


@exercise.wrong(
    "`squeeze()` takes every axis of size 1: a batch with one image loses its axis as well.",
    fault="squeeze-drops-batch",
)
def squeezed(network, images, mean, std):
    check_images(images)
    check_mode(network)
    return answered(network, images, mean, std).squeeze()


@exercise.wrong(
    "Other dtypes are taken as they are. Floats in 0..1 are divided by 255 once more, and the network sees black.",
    fault="input-scale-mismatch",
)
def dtype_not_checked(network, images, mean, std):
    if not isinstance(images, Tensor):
        raise TypeError("expected a tensor")
    if images.ndim not in (3, 4) or images.shape[-3:] != (3, 8, 8) or len(images) == 0:
        raise ValueError("expected (3, 8, 8) or (N, 3, 8, 8)")
    check_mode(network)
    return answered(network, images, mean, std)


@exercise.wrong("Something that is not a tensor ends in an AttributeError. Ask for the type before the dtype.")
def type_not_checked(network, images, mean, std):
    if images.dtype != torch.uint8:
        raise TypeError("expected uint8")
    check_images(images)
    check_mode(network)
    return answered(network, images, mean, std)


@exercise.wrong(
    "The size is not checked. The network ends in a mean over all positions, so it answers images of any size: "
    "those, too, that it was never trained for."
)
def only_the_channels_checked(network, images, mean, std):
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise TypeError("expected a uint8 tensor")
    if images.ndim not in (3, 4) or images.shape[-3] != 3 or len(images) == 0:
        raise ValueError("expected (3, 8, 8) or (N, 3, 8, 8)")
    check_mode(network)
    return answered(network, images, mean, std)


@exercise.wrong("The number of axes is not checked: five axes, the last three of them right, reach the network.")
def axes_not_checked(network, images, mean, std):
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise TypeError("expected a uint8 tensor")
    if images.shape[-3:] != (3, 8, 8) or images.numel() == 0:
        raise ValueError("expected (3, 8, 8) or (N, 3, 8, 8)")
    check_mode(network)
    flat = images.flatten(0, -4) if images.ndim > 4 else images
    return answered(network, flat, mean, std)


@exercise.wrong("A batch of no images gives an empty result. The task refuses it: somebody expects an answer.")
def empty_batch_answered(network, images, mean, std):
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise TypeError("expected a uint8 tensor")
    if images.ndim not in (3, 4) or images.shape[-3:] != (3, 8, 8):
        raise ValueError("expected (3, 8, 8) or (N, 3, 8, 8)")
    check_mode(network)
    return answered(network, images, mean, std)


@exercise.wrong(
    "The images go to the network as 0..255. mean and std belong to 0..1, and so does everything the network learnt.",
    fault="input-scale-mismatch",
)
def not_scaled(network, images, mean, std):
    check_images(images)
    check_mode(network)
    batch = images if images.ndim == 4 else images[None]
    with torch.inference_mode():
        probabilities = network((batch.float() - mean.view(3, 1, 1)) / std.view(3, 1, 1)).softmax(dim=1)
    return probabilities if images.ndim == 4 else probabilities[0]


@exercise.wrong("The images are scaled but not normalised: mean and std are not used.", fault="unnormalised-inputs")
def not_normalised(network, images, mean, std):
    check_images(images)
    check_mode(network)
    return answered(network, images, torch.zeros(3), torch.ones(3))


@exercise.wrong("mean and std meet the last axis, the columns. Or they raise: give them shape (3, 1, 1).")
def statistics_not_broadcast(network, images, mean, std):
    check_images(images)
    check_mode(network)
    with torch.inference_mode():
        scaled = (images.float() / 255 - mean) / std
        return network(scaled if images.ndim == 4 else scaled[None]).softmax(dim=1)


@exercise.wrong("These are logits. softmax over the classes makes probabilities of them.")
def logits(network, images, mean, std):
    check_images(images)
    check_mode(network)
    with torch.inference_mode():
        batch = images if images.ndim == 4 else images[None]
        values = network((batch.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1))
    return values if images.ndim == 4 else values[0]


@exercise.wrong(
    "exp of large logits is infinite, and infinite over infinite is NaN. softmax takes off the largest logit first."
)
def softmax_by_hand(network, images, mean, std):
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        raise TypeError("expected a uint8 tensor")
    if images.shape[-3:] != (3, 8, 8) or images.dim() not in (3, 4) or len(images) == 0:
        raise ValueError("expected (3, 8, 8) or (N, 3, 8, 8)")
    if any(module.training for module in network.modules()):
        raise RuntimeError("the network is in training mode")
    batch = images if images.dim() == 4 else images[None]
    with torch.no_grad():
        powers = network((batch / 255 - mean[:, None, None]) / std[:, None, None]).exp()
    result = powers / powers.sum(dim=1, keepdim=True)
    return result if images.dim() == 4 else result[0]


@exercise.wrong("softmax runs over the batch: columns add up to 1, and an answer depends on the other images.")
def softmax_over_the_batch(network, images, mean, std):
    check_images(images)
    check_mode(network)
    with torch.inference_mode():
        batch = images if images.ndim == 4 else images[None]
        values = network((batch.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)).softmax(0)
    return values if images.ndim == 4 else values[0]


@exercise.wrong("The result has a graph behind it, which keeps all activations. Use no_grad or inference_mode.")
def keeps_the_graph(network, images, mean, std):
    check_images(images)
    check_mode(network)
    batch = images if images.ndim == 4 else images[None]
    values = network((batch.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)).softmax(1)
    return values if images.ndim == 4 else values[0]


@exercise.wrong(
    "The graph is made and then thrown away: detach() comes after the work. no_grad or inference_mode make none."
)
def detaches_afterwards(network, images, mean, std):
    check_images(images)
    check_mode(network)
    batch = images if images.ndim == 4 else images[None]
    values = network((batch.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)).softmax(1).detach()
    return values if images.ndim == 4 else values[0]


@exercise.wrong("The classes of the answer are returned, not their probabilities.")
def labels(network, images, mean, std):
    check_images(images)
    check_mode(network)
    return answered(network, images, mean, std).argmax(-1)


class Network(nn.Module):
    """Convolution, BatchNorm, Dropout, mean over positions, linear; counts its calls and those that made a graph."""

    def __init__(self, classes=4):
        super().__init__()
        torch.manual_seed(11)
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(6, classes)
        nn.init.normal_(self.head.weight, std=3.0)
        self.calls, self.graphs = 0, 0
        self.eval()

    def forward(self, x):
        self.calls += 1
        logits = self.head(self.body(x).mean(dim=(2, 3)))
        self.graphs += logits.requires_grad
        return logits


MEAN, STD = (0.5, 0.4, 0.2), (0.2, 0.25, 0.5)


def some(*shape):
    count = torch.tensor(shape).prod().item()
    return ((torch.arange(count) * 97) % 256).to(torch.uint8).reshape(shape)


def run(answer, images, network=None):
    network = network or Network()
    before = images.clone() if isinstance(images, Tensor) else images
    result = answer(network, images, torch.tensor(MEAN), torch.tensor(STD))
    same = torch.equal(before, images)
    return result.clone(), result.requires_grad, network.graphs, network.training, same


@exercise.probe
def one_image(answer):
    return run(answer, some(3, 8, 8))


@exercise.probe
def a_batch(answer):
    return run(answer, some(3, 3, 8, 8), Network(classes=7))


@exercise.probe
def large_logits(answer):
    """exp of the largest is infinite."""
    network = Network()
    network.head.weight.data.mul_(0.0)
    network.head.bias.data.copy_(torch.tensor([1000.0, 0.0, -1000.0, 0.0]))
    return run(answer, some(2, 3, 8, 8), network)


@exercise.probe
def a_batch_of_one(answer):
    return run(answer, some(1, 3, 8, 8))


@exercise.probe
def a_view(answer):
    return run(answer, some(2, 8, 8, 3).permute(0, 3, 1, 2))


def refused(answer, images, network=None):
    """Which of the three errors came, whether before the network was called, and the modes afterwards."""
    network = network or Network()
    modes = [module.training for module in network.modules()]
    try:
        answer(network, images, torch.tensor(MEAN), torch.tensor(STD))
        seen = "answered"
    except NotImplementedError:
        raise
    except Exception as error:
        kinds = (TypeError, ValueError, RuntimeError)
        seen = next((kind.__name__ for kind in kinds if isinstance(error, kind)), type(error).__name__)
    same = modes == [module.training for module in network.modules()]
    return seen, f"{network.calls} calls of the network", "modes as before" if same else "modes changed"


@exercise.probe
def floats(answer):
    return [refused(answer, some(3, 8, 8).to(dtype)) for dtype in (torch.float32, torch.int64, torch.bool)]


@exercise.probe
def no_tensor(answer):
    return [refused(answer, images) for images in (some(3, 8, 8).numpy(), None, some(3, 8, 8).tolist())]


@exercise.probe
def other_sizes(answer):
    return [refused(answer, some(*shape)) for shape in ((3, 9, 8), (3, 8, 7), (2, 3, 16, 16))]


@exercise.probe
def other_channels(answer):
    return [refused(answer, some(*shape)) for shape in ((1, 8, 8), (8, 8, 3), (2, 4, 8, 8))]


@exercise.probe
def other_axes(answer):
    return [refused(answer, some(*shape)) for shape in ((8, 8), (1, 1, 3, 8, 8), (1, 2, 3, 8, 8))]


@exercise.probe
def no_images(answer):
    return refused(answer, torch.zeros(0, 3, 8, 8, dtype=torch.uint8))


@exercise.probe
def training_mode(answer):
    return refused(answer, some(2, 3, 8, 8), Network().train())


@exercise.probe
def one_module_in_training_mode(answer):
    network = Network()
    network.body[1].train()
    return refused(answer, some(2, 3, 8, 8), network)


@exercise.probe
def outermost_in_training_mode_only(answer):
    network = Network()
    network.training = True
    return refused(answer, some(2, 3, 8, 8), network)

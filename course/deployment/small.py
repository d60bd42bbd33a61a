"""One small network, trained once and kept: what the lessons export, quantize and serve."""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.data import ImageTensors, cifar10
from course.data.places import cache
from course.training.checkpoint.files import CheckpointError, load, save_atomically


@dataclass(frozen=True)
class Shipment:
    """A trained network and what it needs beside its weights.

    network: in evaluation mode, parameters without gradients; takes (N, 3, 32, 32) normalised float32, returns logits.
    mean, std: float32, (3,): per-channel statistics of the training images on the scale 0 to 1.
    classes: names in the order of the logits. train, test: the images it was trained and is judged on (uint8).
    key: hexadecimal digest of everything that the weights follow from.
    """

    network: nn.Module
    mean: Tensor
    std: Tensor
    classes: tuple[str, ...]
    train: ImageTensors
    test: ImageTensors
    key: str

    def normalised(self, images: Tensor) -> Tensor:
        """uint8 images (N, 3, H, W) as the network wants them: float32, normalised, in the channels_last layout."""
        scaled = (images.float() / 255 - self.mean.view(-1, 1, 1)) / self.std.view(-1, 1, 1)
        return scaled.contiguous(memory_format=torch.channels_last)


def small_network(
    classes: int = 10, widths: tuple[tuple[int, ...], ...] = ((16,), (32, 32), (64, 64))
) -> nn.Sequential:
    """Stages of conv - batch norm - ReLU with a pool behind each, then a mean over the positions and a linear layer.

    widths: channels of the convolutions, stage by stage. Takes images (N, 3, H, W), H and W at least 8 with three
    stages; returns logits (N, classes). 71,000 parameters at the default widths.
    """
    layers: list[nn.Module] = []
    inputs = 3
    for stage in widths:
        for outputs in stage:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            inputs = outputs
        layers += [nn.MaxPool2d(2)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def trained_network(
    root: str | None = None, *, train: int = 3000, test: int = 1000, epochs: int = 6, seed: int = 0
) -> Shipment:
    """A :func:`small_network` trained on CIFAR-10 or its stand-in; from the course's cache where it was made before.

    root: the folder of the data, as in :func:`course.data.cifar10`. train, test: images of each split to use.
    The file in the cache is named by a digest of the recipe, the version of torch, the source of network and training,
    and the bytes of the training images: when one of them changes, the network is trained anew. A damaged file is made
    again.
    Training takes about 25 seconds on one core at the default sizes.
    """
    training = cifar10("train", root)
    train_images = ImageTensors.from_dataset(training, train)
    test_images = ImageTensors.from_dataset(cifar10("test", root), test)
    scaled = train_images.images.float() / 255
    mean, std = scaled.mean(dim=(0, 2, 3)), scaled.std(dim=(0, 2, 3))
    key = _key(train_images, epochs=epochs, seed=seed, torch=torch.__version__)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = small_network(len(training.classes))
    shipment = Shipment(network, mean, std, tuple(training.classes), train_images, test_images, key)
    file = cache() / "networks" / f"small-{key[:16]}.pt"
    weights = _kept(file, key)
    if weights is None:
        _train(shipment, epochs=epochs, seed=seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_atomically({"key": key, "weights": network.state_dict()}, file)
    else:
        network.load_state_dict(weights)
    network.eval().requires_grad_(False)
    return shipment


def _key(train: ImageTensors, **recipe: object) -> str:
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode())
    for source in (inspect.getsource(small_network), inspect.getsource(_train)):
        digest.update(source.encode())
    digest.update(train.images.numpy().tobytes())
    digest.update(train.targets.numpy().tobytes())
    return digest.hexdigest()


def _kept(file: Path, key: str) -> dict[str, Tensor] | None:
    if not file.is_file():
        return None
    try:
        content = load(file)
    except CheckpointError as error:
        print(f"{error} The network is being trained again.")
        return None
    return content["weights"] if content.get("key") == key else None


def _train(shipment: Shipment, *, epochs: int, seed: int) -> None:
    """AdamW with one cycle, batches of 64, no augmentation; the same weights whatever the global generator holds."""
    generator = torch.Generator().manual_seed(seed)
    network = shipment.network.train()
    images, targets = shipment.normalised(shipment.train.images), shipment.train.targets
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3, weight_decay=1e-2)
    batches = -(-len(images) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=epochs * batches)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(network(images[chosen]), targets[chosen]).backward()
            optimizer.step()
            schedule.step()

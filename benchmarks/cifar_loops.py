"""The loops that `cifar.py` compares: the reference loop, and what is changed in it, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torchvision import transforms

from course.data import ImageTensors, channel_statistics, cifar10, normalise, random_crop_flip
from course.data.dataset import ImageDataset
from course.training.reference_loop import Source, conv_net, loader_source, loading, repeated, training

Loop = Callable[[int], object]


@dataclass
class Images:
    """CIFAR-10 both ways: a dataset with PIL transforms, and tensors on the device."""

    reference: ImageDataset
    train: ImageTensors
    test: ImageTensors
    mean: Tensor
    std: Tensor

    def prepare(self, batch: Tensor) -> Tensor:
        """Floats, normalised, of a batch of uint8 images."""
        return normalise(batch, self.mean, self.std)

    def augmented(self, batch: Tensor) -> Tensor:
        """What the PIL transforms do to an image, done to a batch: crop and flip first, then normalise."""
        return self.prepare(random_crop_flip(batch))

    def source(self, batch_size: int) -> Source:
        """Whole-batch augmentation of images in memory."""
        batches = self.train.batches(batch_size, shuffle=True, drop_last=True, transform=self.augmented)

        def source(count: int):
            left = count
            while left > 0:
                for batch, _ in zip(batches, range(left), strict=False):
                    yield batch
                    left -= 1

        return source


def load_images(folder: str | None, device: torch.device) -> Images:
    """Both splits; the statistics are those of the training images."""
    dataset = cifar10("train", folder)
    train = ImageTensors.from_dataset(dataset)
    test = ImageTensors.from_dataset(cifar10("test", folder)).to(device)
    mean, std = channel_statistics(train.images)
    dataset.transform = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(mean.tolist(), std.tolist()),
        ]
    )
    return Images(dataset, train.to(device), test, mean, std)


def in_channels_last(network: nn.Module) -> nn.Module:
    return network.to(memory_format=torch.channels_last)


def in_bfloat16(network: nn.Module, device: torch.device) -> nn.Module:
    """The network with its forward pass under autocast; logits and loss stay float32."""
    forward = torch.autocast(device.type, dtype=torch.bfloat16)(network.forward)
    network.forward = lambda inputs: forward(inputs).float()
    return network


def step_by_step(images: Images, device: torch.device, batch_size: int, workers: int) -> dict[str, Loop]:
    """The reference loop, each change on top of the last, and the bounds: compute alone in both layouts.

    All train the same network on the same distribution of batches; on CUDA, the last two in bfloat16.
    """
    reference = loader_source(images.reference, workers, batch_size)
    whole = images.source(batch_size)
    inputs, targets = next(iter(whole(1)))
    last = repeated((inputs.contiguous(memory_format=torch.channels_last), targets))

    def network(pool_first: bool = False) -> nn.Module:
        return conv_net(pool_first=pool_first).to(device)

    loops = {
        "reference": training(reference, network()),
        "+ whole-batch augmentation": training(whole, network()),
        "+ channels_last": training(whole, in_channels_last(network())),
        "+ pool before ReLU": training(whole, in_channels_last(network(True))),
        "+ fused Adam": training(whole, in_channels_last(network(True)), fused=True),
        "compute alone, default": training(repeated((inputs, targets)), network()),
        "compute alone, ours": training(last, in_channels_last(network(True)), fused=True),
    }
    if device.type == "cuda":
        half = in_bfloat16(in_channels_last(network(True)), device)
        compiled = torch.compile(in_bfloat16(in_channels_last(network(True)), device))
        loops["+ bfloat16"] = training(whole, half, fused=True)
        loops["+ compile"] = training(whole, compiled, fused=True)
    return loops


def data_alone(images: Images, batch_size: int, workers: int) -> dict[str, Loop]:
    """The PIL pipeline in this process and in workers, and whole-batch augmentation, without any training."""
    return {
        "PIL, no workers": loading(loader_source(images.reference, 0, batch_size)),
        f"PIL, {workers} workers": loading(loader_source(images.reference, workers, batch_size)),
        "whole batch": loading(images.source(batch_size)),
    }

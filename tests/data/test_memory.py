"""Batches in memory, and the whole-batch crop and flip against torchvision's image by image."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.made_data import pixels
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision import transforms
from torchvision.transforms.v2 import functional as image_by_image

from course.data import ImageTensors, channel_statistics, normalise, random_crop_flip
from course.data.dataset import ImageDataset
from course.data.memory import crop_flip, draw_crops


def batch(count: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.from_numpy(pixels(0, count)).permute(0, 3, 1, 2).contiguous().to(dtype)


def data(count: int = 10) -> ImageTensors:
    return ImageTensors(batch(count), torch.arange(count))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_crop_and_flip_equal_torchvision_image_by_image(dtype, padding: int):
    images = batch(100, dtype)
    offsets, mirrored = draw_crops(len(images), padding, seeded())
    seen = crop_flip(images, offsets, mirrored, padding)
    assert seen.dtype == dtype
    for image, (top, left), mirror, ours in zip(images, offsets.tolist(), mirrored, seen, strict=True):
        wanted = image_by_image.crop(image_by_image.pad(image, [padding] * 4), top, left, 32, 32)
        wanted = image_by_image.hflip(wanted) if mirror else wanted
        assert torch.equal(ours, wanted)


def test_random_crop_flip_is_crop_flip_of_what_it_draws():
    images = batch(50)
    seen = random_crop_flip(images, 3, seeded(5))
    assert torch.equal(seen, crop_flip(images, *draw_crops(50, 3, seeded(5)), 3))
    assert torch.equal(images, batch(50))  # the argument is left alone


def test_images_of_other_shapes_and_layouts():
    images = torch.arange(2 * 1 * 5 * 7).reshape(2, 1, 5, 7)
    seen = crop_flip(images, torch.tensor([[1, 1], [1, 1]]), torch.tensor([False, True]), 1)
    assert torch.equal(seen[0], images[0])
    assert torch.equal(seen[1], images[1].flip(-1))
    channels_last = batch(20).contiguous(memory_format=torch.channels_last)
    assert torch.equal(random_crop_flip(channels_last, 4, seeded()), random_crop_flip(batch(20), 4, seeded()))


def test_each_image_has_its_own_draw_and_every_draw_occurs():
    count = 20_000
    offsets, mirrored = draw_crops(count, 4, seeded())
    share = torch.bincount(offsets[:, 0] * 9 + offsets[:, 1], minlength=81)
    sigma = math.sqrt(count / 81)
    assert len(share) == 81
    assert (share - count / 81).abs().max() < 6 * sigma
    assert abs(mirrored.sum().item() - count / 2) < 6 * math.sqrt(count) / 2
    top = offsets[:, 0] > 4
    assert abs((mirrored & top).sum().item() - count * 2 / 9) < 6 * math.sqrt(
        count * 2 / 9
    )  # independent of each other


def test_generator_decides_and_torchs_own_is_left_alone():
    images = batch(30)
    before = torch.get_rng_state()
    first = random_crop_flip(images, 4, seeded(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, random_crop_flip(images, 4, seeded(1)))
    assert not torch.equal(first, random_crop_flip(images, 4, seeded(2)))
    torch.manual_seed(3)
    second = random_crop_flip(images)
    torch.manual_seed(3)
    assert torch.equal(second, random_crop_flip(images))


class Counting(TorchDispatchMode):
    """Counts the operations that torch runs."""

    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_number_of_operations_does_not_grow_with_the_batch():
    calls = []
    for count in (2, 200):
        with Counting() as counting:
            random_crop_flip(batch(count), 4, seeded())
        calls.append(counting.calls)
    assert 0 < calls[0] == calls[1]


def test_normalise_equals_torchvision():
    mean, std = (0.1, 0.5, 0.6), (0.2, 0.25, 0.3)
    theirs = transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, std)])
    wanted = torch.stack([theirs(image) for image in pixels(0, 5)])
    torch.testing.assert_close(normalise(batch(5), mean, std), wanted)
    torch.testing.assert_close(normalise(batch(5).float() / 255, torch.tensor(mean), std), wanted)
    torch.testing.assert_close(normalise(batch(5)[0], mean, std), wanted[0])
    with pytest.raises(TypeError, match=r"not torch\.int64"):
        normalise(batch(5).long(), mean, std)


def test_statistics_make_mean_zero_and_deviation_one():
    images = batch(40)
    images[:, 1] //= 3
    mean, std = channel_statistics(images)
    scaled = images.double() / 255
    torch.testing.assert_close(mean, scaled.mean((0, 2, 3)).float())
    torch.testing.assert_close(std, scaled.std((0, 2, 3), correction=0).float())
    with pytest.raises(TypeError, match="uint8"):
        channel_statistics(images.float())


def test_from_dataset_copies_the_first_images():
    dataset = ImageDataset(pixels(0, 10), list(range(10)), "0123456789", train=True, source="made")
    images = ImageTensors.from_dataset(dataset)
    assert torch.equal(images.images, batch(10))
    assert images.images.is_contiguous()
    assert images.targets.tolist() == list(range(10))
    assert len(ImageTensors.from_dataset(dataset, 4)) == 4
    images.images.zero_()
    assert np.array_equal(dataset.data, pixels(0, 10))


def test_batches_come_in_order_unless_shuffled():
    batches = data().batches(4)
    assert len(batches) == 3
    assert [targets.tolist() for _, targets in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert torch.equal(torch.cat([images for images, _ in batches]), batch(10))
    dropped = data().batches(4, drop_last=True)
    assert len(dropped) == len(list(dropped)) == 2


def test_shuffled_batches_hold_everything_once_and_differ_from_epoch_to_epoch():
    images = batch(10)
    batches = data().batches(4, shuffle=True, generator=seeded())
    epochs = []
    for _ in range(2):
        targets = []
        for shown, labels in batches:
            assert torch.equal(shown, images[labels])  # images and targets stay together
            targets += labels.tolist()
        epochs.append(targets)
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(10))
    assert epochs[0] != epochs[1]
    again = data().batches(4, shuffle=True, generator=seeded())
    assert [labels.tolist() for _, labels in again] == [epochs[0][:4], epochs[0][4:8], epochs[0][8:]]


def test_transform_gets_whole_batches_on_the_device():
    seen = []

    def transform(images):
        seen.append((tuple(images.shape), images.device.type))
        return images.sum((1, 2, 3))

    batches = data().batches(8, device="meta", transform=transform)
    assert [(tuple(images.shape), targets.device.type) for images, targets in batches] == [
        ((8,), "meta"),
        ((2,), "meta"),
    ]
    assert seen == [((8, 3, 32, 32), "meta"), ((2, 3, 32, 32), "meta")]
    assert data().to("meta").images.device.type == "meta"


@pytest.mark.parametrize(
    ("images", "targets", "error", "words"),
    [
        (batch(2).float(), torch.arange(2), TypeError, "torch.float32"),
        (batch(2), torch.arange(2).int(), TypeError, "torch.int32"),
        (batch(2), torch.arange(3), ValueError, r"\(3,\)"),
        (batch(2)[0], torch.arange(3), ValueError, r"\(3, 32, 32\)"),
        (batch(2), torch.arange(2, device="meta"), ValueError, "targets on meta"),
    ],
)
def test_other_tensors_are_refused_with_what_they_are(images, targets, error, words: str):
    with pytest.raises(error, match=words):
        ImageTensors(images, targets)


def test_batch_size_zero_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        data().batches(0)

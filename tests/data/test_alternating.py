from __future__ import annotations

import torch

from course.data import ImageTensors
from course.data.alternating import AlternatingBatches


def images(count=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return ImageTensors(pixels, torch.arange(count) % 10)


def sides(batches, data):
    """For each image, in the order of the data, whether an epoch gave its mirror image."""
    mirrored = torch.zeros(len(data), dtype=torch.bool)
    seen = []
    for inputs, _ in batches:
        for image in inputs:
            as_is = (data.images == image).flatten(1).all(1)
            turned = (data.images.flip(3) == image).flatten(1).all(1)
            number = (as_is | turned).nonzero().item()
            mirrored[number] = turned[number]
            seen.append(number)
    assert sorted(seen) == list(range(len(data)))
    return mirrored


def test_each_image_is_mirrored_in_every_other_epoch():
    data = images()
    batches = AlternatingBatches(data, 8, 0, torch.Generator().manual_seed(3), lambda batch: batch)
    assert len(batches) == 3
    first, second, third = (sides(batches, data) for _ in range(3))
    assert torch.equal(first, ~second)
    assert torch.equal(first, third)
    assert 4 <= first.sum() <= 16


def test_targets_stay_with_their_images_and_order_changes():
    data = images()
    batches = AlternatingBatches(data, 20, 0, torch.Generator().manual_seed(0), lambda batch: batch)
    ((_, one),), ((inputs, two),) = list(batches), list(batches)
    assert not torch.equal(one, two)
    for image, target in zip(inputs, two, strict=True):
        match = ((data.images == image) | (data.images.flip(3) == image)).flatten(1).all(1)
        assert target == data.targets[match.nonzero().item()]


def test_shifted_images_are_filled_after_normalising():
    data = ImageTensors(torch.full((64, 3, 32, 32), 255, dtype=torch.uint8), torch.zeros(64, dtype=torch.int64))
    batches = AlternatingBatches(data, 64, 2, torch.Generator().manual_seed(0), lambda batch: batch / 255 + 1)
    ((inputs, _),) = batches
    assert set(inputs.unique().tolist()) == {0.0, 2.0}
    assert inputs[:, :, 2:-2, 2:-2].eq(2).all()

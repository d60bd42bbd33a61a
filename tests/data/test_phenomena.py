"""What a minute can show of the lessons' phenomena on the stand-in; benchmarks/standin.py measures them properly."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from course.data import ImageTensors, channel_statistics, normalise, random_crop_flip, standin
from course.training.history import History
from course.training.loop import evaluate, fit
from course.training.networks import reference_network

SEED = 2  # of the data: not the one that the drawing was tuned on
IMAGES, EPOCHS = 1000, 16

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sets() -> tuple[ImageTensors, ImageTensors]:
    """A thousand images to train on and a thousand to test."""
    train, test = standin.make(SEED, IMAGES, 1000)
    return tuple(
        ImageTensors(torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(targets))
        for images, targets in (train, test)
    )


def trained(sets: tuple[ImageTensors, ImageTensors], *, augment: bool) -> History:
    """The history of the reference network, trained with or without flip and crop."""
    train, test = sets
    prepare = partial(normalise, **dict(zip(("mean", "std"), channel_statistics(train.images), strict=True)))
    generator = torch.Generator().manual_seed(0)

    def augmented(images: torch.Tensor) -> torch.Tensor:
        return prepare(random_crop_flip(images, generator=generator))

    torch.manual_seed(0)
    model = reference_network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    transform = augmented if augment else prepare
    batches = train.batches(64, shuffle=True, generator=generator, transform=transform)
    return fit(model, batches, test.batches(250, transform=prepare), optimizer, EPOCHS)


def test_untrained_networks_are_right_one_time_in_ten(sets):
    _, test = sets
    mean, std = channel_statistics(test.images)
    accuracies = []
    for seed in range(5):
        torch.manual_seed(seed)
        accuracies.append(
            evaluate(reference_network(), test.batches(250, transform=partial(normalise, mean=mean, std=std))).accuracy
        )
    assert 0.07 < sum(accuracies) / 5 < 0.13


def test_without_augmentation_the_network_learns_its_training_images_by_heart_and_with_it_does_not(sets):
    plain, augmented = trained(sets, augment=False), trained(sets, augment=True)
    assert plain["held_out_accuracy"][-1] > 0.3  # far above a guess
    assert plain["accuracy"][-1] - plain["held_out_accuracy"][-1] > 0.2
    assert plain["held_out_loss"][-1] > min(plain["held_out_loss"]) + 0.1  # test loss rises again
    assert augmented["accuracy"][-1] - augmented["held_out_accuracy"][-1] < 0.1
    assert augmented["held_out_loss"][-1] < plain["held_out_loss"][-1]

"""The stand-in: the same images everywhere, balanced, in the right form."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from course.data import cifar10, standin
from course.data.standin_scene import Draws
from course.data.store import checksum

FIRST_LABELS = [1, 2, 3, 0, 3, 2, 9, 3, 8, 2, 9, 8, 1, 2, 6, 5, 5, 1, 6, 6]
SMALL = "4faf072d15d56462e2c70660c618dd5b3019686a0a02800d6f8a28bd737132ed"


def test_labels_of_a_seed_are_pinned():
    (_, train), (_, test) = standin.make(0, 100, 100)
    assert train[:20].tolist() == FIRST_LABELS
    assert not (train == test).all()


def test_bytes_of_a_seed_are_pinned():
    assert checksum(*standin.make(0, 300, 0)[0]) == SMALL


def test_bytes_do_not_depend_on_the_instructions_of_the_processor():
    features = "from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__ as has; "
    features += "print(*[name for name in __cpu_dispatch__ if has.get(name)])"
    usable = subprocess.run([sys.executable, "-c", features], capture_output=True, text=True, check=True).stdout.split()
    if not usable:
        pytest.skip("NumPy uses nothing beyond the basic instructions here, so that there is nothing to switch off")
    code = "from course.data import standin, store; print(store.checksum(*standin.make(0, 300, 0)[0]))"
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(usable)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == SMALL, done.stderr


@pytest.mark.slow
def test_whole_set_has_its_checksums_and_is_kept(home: Path, monkeypatch):
    train, test = cifar10("train"), cifar10("test")
    assert train.data.shape == (10_000, 32, 32, 3)
    assert test.data.shape == (2_000, 32, 32, 3)
    assert train.data.dtype == np.uint8
    assert np.bincount(train.targets).tolist() == [1000] * 10
    assert np.bincount(test.targets).tolist() == [200] * 10
    for split, dataset in (("train", train), ("test", test)):
        assert checksum(dataset.data, np.asarray(dataset.targets)) == standin.CHECKSUMS[split]
    assert len(list((home / "cache").iterdir())) == 2
    monkeypatch.setattr(standin, "_block", None)
    assert (cifar10("train").data == train.data).all()


def test_smaller_set_is_the_beginning_of_a_larger_one_and_balanced():
    (images, labels), (other, _) = standin.make(5, 250, 120)
    (fewer, their_labels), _ = standin.make(5, 130, 0)
    assert (images[:130] == fewer).all()
    assert (labels[:130] == their_labels).all()
    assert np.bincount(labels[:200]).tolist() == [20] * 10
    assert labels.dtype == np.int64
    assert not (images[:100] == other[:100]).all(axis=(1, 2, 3)).any()


def test_seeds_differ():
    (one, _), (_, _) = standin.make(0, 100, 0)
    (other, _), (_, _) = standin.make(1, 100, 0)
    assert not (one == other).all(axis=(1, 2, 3)).any()


def test_no_image_is_empty_and_none_is_twice_there():
    (images, _), _ = standin.make(3, 1000, 0)
    assert images.std(axis=(1, 2, 3)).min() > 5
    assert len(np.unique(images.reshape(1000, -1), axis=0)) == 1000


def test_no_mirrored_copy_is_in_the_set():
    (images, _), _ = standin.make(3, 1000, 0)
    both = np.concatenate([images, images[:, :, ::-1]]).reshape(2000, -1)
    assert len(np.unique(both, axis=0)) == 2000


def test_colours_of_the_classes_are_nearly_the_same_on_average():
    (images, labels), _ = standin.make(4, 2000, 0)
    means = np.stack([images[labels == k].mean(axis=(0, 1, 2)) for k in range(10)])
    assert np.ptp(means, axis=0).max() < 25  # of 255


def test_uniform_numbers_are_uniform_and_in_range():
    draws = Draws(1, 2)
    numbers = draws.uniform(-2, 6, 200_000)
    assert numbers.dtype == np.float32
    assert numbers.min() >= -2
    assert numbers.max() <= 6
    deciles = np.histogram(numbers, bins=10, range=(-2, 6))[0]
    assert np.abs(deciles - 20_000).max() < 6 * np.sqrt(18_000)
    assert abs(draws.chance(0.3, 100_000).mean() - 0.3) < 6 * np.sqrt(0.21 / 100_000)
    assert np.bincount(draws.below(5, 50_000), minlength=5).min() > 10_000 - 6 * np.sqrt(8_000)
    assert sorted(draws.order(50)) == list(range(50))
    assert np.bincount(draws.bytes(100, 1000).ravel(), minlength=256).min() > 0


def test_streams_of_different_keys_differ():
    assert (Draws(0, 0, 1).uniform(0, 1, 10) != Draws(0, 1, 0).uniform(0, 1, 10)).all()

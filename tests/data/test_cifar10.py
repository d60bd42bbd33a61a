"""Which data `cifar10` finds, and how it says so."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import CIFAR10

from course.data import DataError, cifar10, standin
from course.data.errors import no_access


@pytest.fixture
def drawn(monkeypatch):
    """A stand-in of a hundred images, so that these tests are quick."""
    monkeypatch.setattr(standin, "load", lambda split: standin.make(0, 100, 100)[split == "test"])


@pytest.mark.usefixtures("drawn")
def test_without_data_the_stand_in_is_announced_in_one_line(capsys):
    train, test = cifar10("train"), cifar10("test")
    assert train.classes == list(standin.CLASSES)
    (line,) = capsys.readouterr().out.splitlines()
    assert "offline stand-in" in line
    assert "download=True" in line
    assert "/" not in line.replace("CIFAR-10", "")  # no path of this machine: the line is stored in notebooks
    assert f"Data: {train.source}" == f"Data: {test.source}" == line


@pytest.mark.usefixtures("drawn")
def test_named_folder_without_data_is_named_in_the_announcement(tmp_path: Path):
    assert f"no CIFAR-10 in {tmp_path}, so the offline stand-in" in cifar10("train", tmp_path).source


def test_data_in_the_course_home_are_found(images: Path, home: Path):
    home.mkdir()
    images.rename(home / "data")
    assert f"image files in {home / 'data'}" in cifar10("train").source


def test_course_data_names_the_folder_and_root_goes_before_it(images: Path, official: Path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(images))
    assert "image files" in cifar10("train").source
    assert "official archive" in cifar10("train", official.parent).source


def test_named_folder_that_does_not_exist_is_an_error(tmp_path: Path, monkeypatch):
    missing = tmp_path / "typo"
    with pytest.raises(DataError, match="does not exist"):
        cifar10("train", missing)
    monkeypatch.setenv("COURSE_DATA", str(missing))
    with pytest.raises(DataError, match="does not exist"):
        cifar10("train")
    missing.write_text("")
    with pytest.raises(DataError, match="is no folder"):
        cifar10("train")


def test_folder_that_cannot_be_read_is_an_error_not_a_stand_in(open_folder: Path, unprivileged):
    secret = open_folder / "data"
    secret.mkdir(mode=0)
    with unprivileged(), pytest.raises(DataError, match="cannot be read") as caught:
        cifar10("train", secret)
    assert caught.value.path == secret


@pytest.mark.parametrize("split", ["valid", True, None])
def test_other_splits_are_refused(split):
    with pytest.raises(ValueError, match=r'"train" or "test"'):
        cifar10(split)


def test_transforms_work_as_in_torchvision(official: Path):
    chosen = {
        "transform": transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.25,) * 3)]),
        "target_transform": lambda target: target + 100,
    }
    ours, theirs = cifar10("test", official.parent, **chosen), CIFAR10(official.parent, train=False, **chosen)
    for (image, target), (their_image, their_target) in zip(ours, theirs, strict=True):
        assert (image == their_image).all()
        assert target == their_target >= 100


def test_dataset_serves_loaders_and_survives_pickling(images: Path):
    train = cifar10("train", images, transform=transforms.ToTensor())
    batch, targets = next(iter(DataLoader(train, batch_size=8)))
    assert batch.shape == (8, 3, 32, 32)
    assert targets.tolist() == train.targets[:8]
    again = pickle.loads(pickle.dumps(train))
    assert (again.data == train.data).all()
    assert again.source == train.source
    assert "20 training images of 10 classes" in repr(train)


def test_data_error_survives_pickling_and_names_the_file():
    error = no_access("some/file", PermissionError(13, "Permission denied"))
    again = pickle.loads(pickle.dumps(copy.copy(error)))
    assert str(again) == str(error)
    assert again.path == Path("some/file")
    assert str(error).splitlines()[0] == "some/file: cannot be read (Permission denied)."


def test_importing_course_data_imports_nothing_heavy():
    code = "import sys, course.data; print({'torch', 'torchvision', 'numpy', 'PIL', 'tqdm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_memory_form_needs_no_torchvision():
    code = "import sys; from course.data import ImageTensors; print('torchvision' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_data_are_writable_arrays(images: Path):
    train = cifar10("train", images)
    train.data[0] = 0
    assert isinstance(train.data, np.ndarray)
    assert cifar10("train", images).data[0].any()

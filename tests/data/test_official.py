"""The official archive: packed, unpacked, damaged, incomplete."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.made_data import CIFAR10_CLASSES, PER_BATCH, pixels
from torchvision.datasets import CIFAR10

from course.data import DataError, cifar10


def test_archive_is_unpacked_and_read_like_torchvision(official: Path, capsys):
    train, test = cifar10("train", official.parent), cifar10("test", official.parent)
    assert train.data.shape == (5 * PER_BATCH, 32, 32, 3)
    assert train.data.dtype == np.uint8
    assert (test.data == pixels(5, PER_BATCH)).all()
    theirs = CIFAR10(official.parent, train=True)
    assert (train.data == theirs.data).all()
    assert train.targets == theirs.targets
    assert train.classes == theirs.classes == list(CIFAR10_CLASSES)
    assert train.class_to_idx == theirs.class_to_idx
    assert np.asarray(train[7][0]).tolist() == np.asarray(theirs[7][0]).tolist()
    assert train[7][1] == theirs[7][1]
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"Data: CIFAR-10, the official archive in {official.parent}"]  # once for both
    assert f"Data: {train.source}" == printed[0]
    left = {path.name for path in official.parent.iterdir()}
    assert left == {CIFAR10.filename, CIFAR10.base_folder}


def test_unpacked_batches_suffice(unpacked: Path):
    assert len(cifar10("train", unpacked.parent)) == 5 * PER_BATCH


def test_truncated_archive_is_named_and_kept(official: Path):
    official.write_bytes(official.read_bytes()[:-1000])
    with pytest.raises(DataError) as caught:
        cifar10("train", official.parent)
    assert caught.value.path == official
    for words in (str(official), f"{official.stat().st_size:,} bytes", CIFAR10.tgz_md5, "What to do:"):
        assert words in str(caught.value)
    assert [path.name for path in official.parent.iterdir()] == [CIFAR10.filename]


def test_download_does_not_replace_a_damaged_archive(official: Path, monkeypatch):
    monkeypatch.setattr(CIFAR10, "url", "http://127.0.0.1:9/never-asked")
    official.write_bytes(b"mine")
    with pytest.raises(DataError, match="is damaged or incomplete: 4 bytes"):
        cifar10("train", official.parent, download=True)
    assert official.read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_missing_batch_is_named(unpacked: Path, name: str, split: str):
    (unpacked / name).unlink()
    with pytest.raises(DataError, match="is missing") as caught:
        cifar10(split, unpacked.parent)
    assert caught.value.path == unpacked / name
    assert len(list(unpacked.iterdir())) == 6


class Hostile:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


@pytest.mark.parametrize("name", ["data_batch_1", "batches.meta"])
def test_nothing_is_unpickled_before_its_checksum_is_right(unpacked: Path, tmp_path: Path, name: str):
    trace = tmp_path / "trace"
    (unpacked / name).write_bytes(pickle.dumps(Hostile(trace)))
    with pytest.raises(DataError, match="is damaged or incomplete") as caught:
        cifar10("train", unpacked.parent)
    assert caught.value.path == unpacked / name
    assert not trace.exists()
    pickle.loads((unpacked / name).read_bytes()).close()
    assert trace.exists()  # it would have been seen


def test_archive_in_a_folder_that_cannot_be_written_is_unpacked_at_home(
    official: Path, open_folder: Path, unprivileged, monkeypatch
):
    place, home = open_folder / "data", open_folder / "home"
    shutil.copytree(official.parent, place)
    place.chmod(0o555)
    home.mkdir()
    home.chmod(0o777)
    monkeypatch.setenv("COURSE_HOME", str(home))
    with unprivileged():
        assert len(cifar10("train", place)) == 5 * PER_BATCH
        assert len(cifar10("test", place)) == PER_BATCH
    assert [path.name for path in place.iterdir()] == [CIFAR10.filename]
    place.chmod(0o755)


def test_archive_that_can_be_unpacked_nowhere_says_where_it_tried(
    official: Path, open_folder: Path, unprivileged, monkeypatch
):
    place, home = open_folder / "data", open_folder / "home"
    shutil.copytree(official.parent, place)
    home.mkdir()
    for folder in (place, home):
        folder.chmod(0o555)
    monkeypatch.setenv("COURSE_HOME", str(home))
    with unprivileged(), pytest.raises(DataError, match="cannot be written") as caught:
        cifar10("train", place)
    assert caught.value.path.is_relative_to(home)
    assert "COURSE_HOME" in str(caught.value)
    for folder in (place, home):
        folder.chmod(0o755)


def test_batch_that_cannot_be_read_is_named(unpacked: Path, open_folder: Path, unprivileged):
    place = open_folder / "data"
    shutil.copytree(unpacked.parent, place)
    secret = place / unpacked.name / "data_batch_2"
    secret.chmod(0)
    with unprivileged(), pytest.raises(DataError, match="cannot be read") as caught:
        cifar10("train", place)
    assert caught.value.path == secret

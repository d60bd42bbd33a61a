"""A folder of image files: order, cache, everything that can be wrong with it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.made_data import CIFAR10_CLASSES, pixels, write_images
from torchvision.datasets import ImageFolder

from course.data import DataError, cifar10, folder


def test_folder_is_read_like_torchvisions_image_folder(images: Path, capsys):
    train = cifar10("train", images)
    theirs = ImageFolder(images / "train")
    assert train.classes == theirs.classes
    assert train.targets == theirs.targets
    assert (train.data == np.stack([np.asarray(image) for image, _ in theirs])).all()
    assert not (train.data == cifar10("test", images).data).all()
    assert capsys.readouterr().out == f"Data: CIFAR-10, image files in {images}\n"


def test_classes_are_in_the_order_of_the_official_archive(images: Path, official: Path):
    assert cifar10("train", images).classes == cifar10("train", official.parent).classes
    assert folder.CIFAR10_CLASSES == CIFAR10_CLASSES


def test_official_archive_goes_before_image_files(images: Path, official: Path):
    shutil.copytree(images, official.parent, dirs_exist_ok=True)
    assert "official archive" in cifar10("train", official.parent).source


def test_other_classes_are_named_for_what_they_are(tmp_path: Path):
    write_images(tmp_path / "own", ("cat", "ant"))
    train = cifar10("train", tmp_path / "own")
    assert train.classes == ["ant", "cat"]
    assert train.source.startswith("2 classes, image files in")


def test_grey_palette_and_jpeg_files_become_rgb(images: Path):
    grey = Image.fromarray(pixels(1, 1)[0]).convert("L")
    grey.save(images / "train" / "airplane" / "0000.png")
    grey.convert("P").save(images / "train" / "airplane" / "0001.png")
    grey.save(images / "train" / "airplane" / "0002.jpg")
    data = cifar10("train", images).data[:3]
    assert data.shape == (3, 32, 32, 3)
    assert (data[:2, :, :, 0] == data[:2, :, :, 2]).all()
    assert (data[0, :, :, 0] == np.asarray(grey)).all()


def test_second_start_decodes_nothing(images: Path, monkeypatch):
    first = cifar10("train", images)
    monkeypatch.setattr(folder, "_pixels", None)
    second = cifar10("train", os.path.relpath(images))
    assert (second.data == first.data).all()
    assert second.targets == first.targets


def test_changed_file_is_decoded_again(images: Path):
    cifar10("train", images)
    file = images / "train" / "airplane" / "0000.png"
    Image.new("RGB", (32, 32), (1, 2, 3)).save(file)
    assert cifar10("train", images).data[0, 5, 5].tolist() == [1, 2, 3]
    status = file.stat()
    Image.new("RGB", (32, 32), (3, 2, 1)).save(file)
    assert file.stat().st_size == status.st_size
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert cifar10("train", images).data[0, 5, 5].tolist() == [3, 2, 1]


def test_files_that_systems_leave_behind_are_passed_over(images: Path):
    for name in (".DS_Store", "._0000.png", "Thumbs.db", "desktop.ini"):
        (images / "train" / "cat" / name).write_bytes(b"x")
    (images / "train" / ".cache").mkdir()
    assert len(cifar10("train", images)) == 20


def cut(file: Path) -> None:
    Image.fromarray(pixels(0, 1)[0]).save(file.with_suffix(".jpg"))
    file.unlink()
    file = file.with_suffix(".jpg")
    file.write_bytes(file.read_bytes()[:-400])


def cut_png(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-400])


def garbled_png(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[60:90] = b"\0" * 30
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.write_text("notes"), "is no image"),
        (lambda file: file.write_bytes(b""), "is no image"),
        (lambda file: Image.new("RGB", (32, 31)).save(file), "is an image of 32 x 31 pixels"),
        (cut, "is a damaged image"),
        (cut_png, "is a damaged image"),
        (garbled_png, "is a damaged image"),
        (lambda file: (file.unlink(), file.mkdir()), "cannot be read"),
        (lambda file: (file.unlink(), file.symlink_to("nowhere")), "cannot be read"),
    ],
    ids=["text", "no bytes", "other size", "cut JPEG", "cut PNG", "garbled PNG", "a folder", "a dead link"],
)
def test_file_that_is_no_whole_image_is_named_and_kept(images: Path, damage, words: str):
    file = images / "train" / "deer" / "0001.png"
    damage(file)
    before = sorted(path.name for path in images.rglob("*"))
    with pytest.raises(DataError, match=words) as caught:
        cifar10("train", images)
    assert caught.value.path.with_suffix("") == file.with_suffix("")
    assert "What to do:" in str(caught.value)
    assert sorted(path.name for path in images.rglob("*")) == before


def test_empty_class_folder_is_named(images: Path):
    for file in (images / "test" / "frog").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="is empty") as caught:
        cifar10("test", images)
    assert caught.value.path == images / "test" / "frog"


@pytest.mark.parametrize("split", ["train", "test"])
def test_class_missing_in_one_split_is_named(images: Path, split: str):
    shutil.rmtree(images / "test" / "frog")
    with pytest.raises(DataError, match="has no folder frog") as caught:
        cifar10(split, images)
    assert caught.value.path == images / "test"


def test_one_of_the_ten_missing_in_both_splits_is_named(images: Path):
    for split in ("train", "test"):
        shutil.rmtree(images / split / "frog")
    with pytest.raises(DataError, match="has no folder frog"):
        cifar10("train", images)


@pytest.mark.parametrize("gone", ["train", "test"])
def test_missing_split_is_named(images: Path, gone: str):
    shutil.rmtree(images / gone)
    with pytest.raises(DataError, match="is missing") as caught:
        cifar10("train", images)
    assert caught.value.path == images / gone


def test_folder_that_cannot_be_read_is_named(open_folder: Path, unprivileged):
    write_images(open_folder / "data", CIFAR10_CLASSES, count=1)
    secret = open_folder / "data" / "train" / "ship"
    secret.chmod(0)
    with unprivileged(), pytest.raises(DataError, match="cannot be read") as caught:
        cifar10("train", open_folder / "data")
    secret.chmod(0o755)
    assert caught.value.path == secret


def test_home_that_cannot_be_written_is_named(open_folder: Path, unprivileged, monkeypatch):
    write_images(open_folder / "data", CIFAR10_CLASSES, count=1)
    home = open_folder / "home"
    home.mkdir(mode=0o555)
    monkeypatch.setenv("COURSE_HOME", str(home))
    with unprivileged(), pytest.raises(DataError, match="cannot be written") as caught:
        cifar10("train", open_folder / "data")
    home.chmod(0o755)
    assert caught.value.path.is_relative_to(home)
    assert "COURSE_HOME" in str(caught.value)
    assert list(home.iterdir()) == []

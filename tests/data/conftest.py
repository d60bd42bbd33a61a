"""Small data in every form that `cifar10` reads, each test with a home and a current folder of its own."""

from __future__ import annotations

import contextlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.made_data import CIFAR10_CLASSES, md5, write_batches, write_images
from torchvision.datasets import CIFAR10

from course.data import cifar10 as find

NOBODY = 65534


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """COURSE_HOME of this test; nothing is announced yet and no folder named."""
    folder = tmp_path / "home"
    monkeypatch.setenv("COURSE_HOME", str(folder))
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(find.__globals__, "_announced", set())
    return folder


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small archive in the official format, in a folder of its own; torchvision takes its checksums for official."""
    batches = tmp_path / "made" / CIFAR10.base_folder
    write_batches(batches)
    archive = tmp_path / "official" / CIFAR10.filename
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(batches, CIFAR10.base_folder)
    for name in ("train_list", "test_list"):
        monkeypatch.setattr(CIFAR10, name, [[file, md5(batches / file)] for file, _ in getattr(CIFAR10, name)])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": md5(batches / "batches.meta")})
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(archive))
    return archive


@pytest.fixture
def unpacked(official: Path) -> Path:
    """The folder of the official batches, without the archive."""
    with tarfile.open(official) as tar:
        tar.extractall(official.parent, filter="data")
    official.unlink()
    return official.parent / CIFAR10.base_folder


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """CIFAR-10's ten classes as image files, two a class and split."""
    folder = tmp_path / "images"
    write_images(folder, CIFAR10_CLASSES[::-1])
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def unprivileged() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """A context in which permissions count: for root they do not, so there the process becomes `nobody` for a while."""

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        try:
            os.seteuid(NOBODY)
        except OSError:
            pytest.skip("root here cannot become another user, and permissions do not bind root")
        try:
            yield
        finally:
            os.seteuid(0)

    return context

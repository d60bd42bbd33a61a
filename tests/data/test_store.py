"""What is kept in the cache: whole, or made again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.made_data import pixels

from course.data import DataError
from course.data.store import kept


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "images.pt"


def make():
    return pixels(3, 4), np.arange(4)


def never():
    raise AssertionError("made again")


def test_what_was_made_is_loaded_the_next_time(file: Path):
    made = kept(file, "made of this", make)
    loaded = kept(file, "made of this", never)
    for one, other in zip(made, loaded, strict=True):
        assert one.dtype == other.dtype
        assert (one == other).all()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_what_was_made_of_something_else_is_made_again_in_its_place(file: Path, capsys):
    kept(file, "made of that", lambda: (pixels(4, 4), np.arange(4)))
    assert (kept(file, "made of this", make)[0] == make()[0]).all()
    kept(file, "made of this", never)
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert capsys.readouterr().out == ""


def flip_a_pixel(file: Path) -> None:
    content = torch.load(file, weights_only=True)
    content["images"][0, 0, 0, 0] ^= 1
    torch.save(content, file)


def change_a_target(file: Path) -> None:
    content = torch.load(file, weights_only=True)
    content["targets"][0] = 9
    torch.save(content, file)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_pixel,
        change_a_target,
        lambda file: file.write_bytes(file.read_bytes()[:-500]),
        lambda file: file.write_bytes(b""),
        lambda file: torch.save({"images": torch.zeros(1)}, file),
        lambda file: torch.save([1], file),
    ],
    ids=["a pixel", "a target", "cut", "empty", "other content", "a list"],
)
def test_damaged_file_is_made_again(file: Path, damage, capsys):
    kept(file, "made of this", make)
    damage(file)
    assert (kept(file, "made of this", make)[0] == make()[0]).all()
    assert capsys.readouterr().out == f"{file.name} in the course's cache is damaged; it is being made again.\n"
    kept(file, "made of this", never)


def test_interruption_leaves_nothing_behind(file: Path, monkeypatch):
    def interrupted(content, stream):
        stream.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept(file, "made of this", make)
    assert list(file.parent.iterdir()) == []


def test_full_disk_is_a_data_error(file: Path, monkeypatch):
    def full(content, stream):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(DataError, match="No space left on device"):
        kept(file, "made of this", make)
    assert list(file.parent.iterdir()) == []

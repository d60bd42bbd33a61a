from __future__ import annotations

import pytest

from course.environment.data import cifar10


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The folder that COURSE_DATA names."""
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["cifar-10-batches-py", "cifar-10-python.tar.gz"])
def test_the_archive(folder, name):
    (folder / name).mkdir(parents=True)
    finding = cifar10()
    assert finding.state == "ok"
    assert "official archive, in the folder that COURSE_DATA names" in finding.value


def test_images(folder):
    (folder / "train").mkdir(parents=True)
    assert cifar10().value.startswith("images in folders train/<class>")


def test_an_empty_folder(folder):
    folder.mkdir()
    finding = cifar10()
    assert (finding.state, "stand-in" in finding.value) == ("note", True)


def test_a_folder_that_is_named_and_missing(folder):
    finding = cifar10()
    assert finding.state == "problem"
    assert "Correct COURSE_DATA" in finding.remedy


def test_the_course_s_own_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    assert "no CIFAR-10 in the course's own folder" in cifar10().value
    (tmp_path / "data" / "cifar-10-batches-py").mkdir(parents=True)
    assert cifar10().state == "ok"


def test_the_finding_is_what_the_lessons_use(folder):
    """What is called a problem is what cifar10() refuses."""
    from course.data import DataError
    from course.data import cifar10 as load

    with pytest.raises(DataError):
        load("test")

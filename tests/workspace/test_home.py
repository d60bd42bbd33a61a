from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from course.workspace import home

PRINT = "from course.workspace import home; print(home.home(), home.progress_folder(), sep='\\n')"


def test_tests_and_what_they_start_have_a_home_of_their_own(tmp_path_factory):
    done = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True)
    seen = [Path(line) for line in done.stdout.splitlines()]
    assert seen == [home.home(), home.home() / "progress"]
    assert tmp_path_factory.getbasetemp() in home.home().parents


def test_without_the_variable_it_is_the_users_data_folder(tmp_path, monkeypatch):
    # What an empty variable names is nothing.
    monkeypatch.setenv("COURSE_HOME", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert home.home().name == "pytorch-course"
    if sys.platform.startswith("linux"):
        assert home.home() == tmp_path / "pytorch-course"


def test_a_tilde_and_a_relative_path_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("COURSE_HOME", os.path.join("~", "course"))
    assert home.home() == tmp_path / "course"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_HOME", "here")
    assert home.home() == tmp_path / "here"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file names of bytes")
def test_a_path_of_bytes_becomes_text_that_can_be_printed():
    assert home.readable(Path(os.fsdecode(b"/a/\xff/Zo\xc3\xab"))) == "/a/\\xff/Zoë"

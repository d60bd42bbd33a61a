"""Recording, in a process that looks like a learner's kernel and on disks that refuse."""

from __future__ import annotations

import errno
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from course.checking.verdict import Outcome
from course.workspace import progress, recorder
from course.workspace.records import decode

FLATTEN = "tensors.flatten"
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs limits and devices of POSIX")


def kept(home: Path) -> list[Path]:
    return sorted((home / "progress").iterdir()) if (home / "progress").is_dir() else []


def outcomes(path: Path) -> list[str]:
    return [decode(line).outcome for line in path.read_bytes().splitlines() if line.strip()]


def check(outcome: str) -> None:
    progress.record("check", FLATTEN, outcome=outcome)


def test_what_is_recorded_is_read(home, kernel):
    check("WRONG")
    progress.record("hint", FLATTEN)
    check(Outcome.PASSED)
    progress.record("solution", FLATTEN)
    found = progress.read().exercise(FLATTEN)
    assert (found.attempts, found.hints, found.passed, found.solution_shown) == (2, 1, True, True)
    (file,) = kept(home)
    assert outcomes(file) == ["WRONG", None, "PASSED", None]
    assert [decode(line).number for line in file.read_bytes().splitlines()] == [1, 2, 3, 4]
    assert kernel == []


def test_plain_python_and_the_switch_keep_nothing(home, kernel, monkeypatch):
    for value in ("off", " OFF "):
        monkeypatch.setenv("COURSE_PROGRESS", value)
        check("PASSED")
    monkeypatch.delenv("COURSE_PROGRESS")
    # IPython can be imported, by matplotlib say, without running.
    for module in (SimpleNamespace(get_ipython=lambda: None), SimpleNamespace()):
        monkeypatch.setitem(sys.modules, "IPython", module)
        check("PASSED")
    monkeypatch.delitem(sys.modules, "IPython")
    check("PASSED")
    assert not home.exists()
    assert kernel == []


def test_what_no_notebook_records_is_refused(home, kernel):
    for event, outcome in (("visit", None), ("check", None), ("hint", "PASSED")):
        with pytest.raises(ValueError, match="check"):
            progress.record(event, FLATTEN, outcome=outcome)
    assert not home.exists()


def test_a_home_that_moves_is_followed(home, kernel, monkeypatch, tmp_path):
    check("WRONG")
    home.rename(tmp_path / "moved")
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "moved"))
    check("PASSED")
    assert progress.read().exercise(FLATTEN).attempts == 2
    (file,) = kept(tmp_path / "moved")
    assert outcomes(file) == ["WRONG", "PASSED"]
    assert not home.exists()


def test_a_home_that_is_deleted_comes_back(home, kernel):
    check("WRONG")
    kept(home)[0].unlink()
    (home / "progress").rmdir()
    home.rmdir()
    check("PASSED")
    assert outcomes(kept(home)[0]) == ["PASSED"]
    assert kernel == []


def test_no_two_kernels_share_a_file(monkeypatch):
    # The same process id on the same machine, after a restart of it say.
    first, second = recorder._Writer(), recorder._Writer()
    assert first.kernel != second.kernel
    assert str(os.getpid()) in first.kernel
    for name, expected in (("büro/пк 7", "b-ro-7-"), ("", "host-"), ("x" * 300, "x" * 40 + "-")):
        monkeypatch.setattr(platform, "node", lambda name=name: name)
        assert recorder._Writer().kernel.startswith(expected)


def refusing(number: int):
    def refuse(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    return refuse


def no_home(*_arguments):
    raise RuntimeError("Could not determine home directory.")


@contextmanager
def file_in_place_of_home(home: Path, _patch) -> Iterator[None]:
    home.write_bytes(b"mine")
    yield
    assert home.read_bytes() == b"mine"
    home.unlink()


@contextmanager
def file_in_place_of_folder(home: Path, _patch) -> Iterator[None]:
    home.mkdir()
    (home / "progress").write_bytes(b"mine")
    yield
    (home / "progress").unlink()


@contextmanager
def link_to_nothing(home: Path, _patch) -> Iterator[None]:
    home.symlink_to(home.parent / "unplugged")
    yield
    home.unlink()


@contextmanager
def no_rights(home: Path, _patch) -> Iterator[None]:
    home.mkdir(mode=0o500)
    # The superuser may write everywhere, and so stands aside.
    aside = os.geteuid() == 0
    if aside:
        os.seteuid(65534)
    try:
        yield
    finally:
        if aside:
            os.seteuid(0)
        home.chmod(0o700)


def patched(target, name: str, replacement):
    @contextmanager
    def during(_home: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
        with patch.context() as inner:
            inner.setattr(target, name, replacement)
            yield

    return during


TROUBLES = {
    "a file in place of the home": (file_in_place_of_home, "Not a directory", "A file is where a folder should be"),
    "a file in place of the folder": (file_in_place_of_folder, "Not a directory", "A file is where a folder"),
    "a link to nothing": (link_to_nothing, "File exists", "A file is where a folder should be"),
    "no rights": (no_rights, "Permission denied", "Set COURSE_HOME to a folder that you may write to"),
    "read-only": (patched(os, "open", refusing(errno.EROFS)), "Read-only file system", "Set COURSE_HOME"),
    "no quota": (patched(os, "write", refusing(errno.EDQUOT)), "quota", "Free some space"),
    "no home": (patched(Path, "absolute", no_home), "Could not determine home", "Set COURSE_HOME"),
}


@POSIX
@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_is_said_once_and_nothing_is_lost(home, kernel, monkeypatch, trouble):
    arrange, reason, advice = TROUBLES[trouble]
    with arrange(home, monkeypatch):
        for outcome in ("WRONG", "ERROR", "PASSED"):
            check(outcome)
        (sentence,) = kernel
        assert reason in sentence
        assert advice in sentence
        assert "The lesson goes on" in sentence
        if trouble != "no home":
            assert str(home) in sentence
    progress.record("hint", FLATTEN)
    assert len(kernel) == 1
    (file,) = kept(home)
    assert outcomes(file) == ["WRONG", "ERROR", "PASSED", None]
    assert progress.read().problems == ()


@POSIX
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_disk(home, kernel):
    check("WRONG")
    (file,) = kept(home)
    file.rename(home / "away")
    file.symlink_to("/dev/full")
    check("ERROR")
    check("PASSED")
    (sentence,) = kernel
    assert "No space left on device" in sentence
    assert "Free some space" in sentence
    file.unlink()
    (home / "away").rename(file)
    progress.record("hint", FLATTEN)
    assert outcomes(file) == ["WRONG", "ERROR", "PASSED", None]


@contextmanager
def room_for(file: Path, more: int) -> Iterator[None]:
    """A disk on which the file can grow by so many bytes."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@POSIX
def test_a_disk_that_fills_in_the_middle_of_a_line(home, kernel):
    check("WRONG")
    (file,) = kept(home)
    with room_for(file, 40):
        check("ERROR")
    with room_for(file, file.stat().st_size + 10):
        # Enough for the line before, and half of this one.
        check("WRONG")
    check("PASSED")
    lines = file.read_bytes().splitlines()
    wrong, cut, error, also_cut, again, passed = lines
    assert [decode(line).outcome for line in (wrong, error, again, passed)] == ["WRONG", "ERROR", "WRONG", "PASSED"]
    assert error.startswith(cut)
    assert again.startswith(also_cut)
    found = progress.read()
    assert found.exercise(FLATTEN).attempts == 4
    (problem,) = found.problems
    assert problem.startswith("2 damaged lines were passed over in ")
    assert len(kernel) == 1


def test_a_network_disk_that_reports_only_at_the_end(home, kernel, monkeypatch):
    close, failures = os.close, [1]

    def late(descriptor: int) -> None:
        close(descriptor)
        if failures:
            failures.pop()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "close", late)
    check("WRONG")
    assert not failures
    check("PASSED")
    assert "Input/output error" in kernel[0]
    # Nobody knows whether the first line was kept, so it is written again, and counts once.
    assert outcomes(kept(home)[0]) == ["WRONG", "WRONG", "PASSED"]
    found = progress.read()
    assert found.problems == ()
    assert found.exercise(FLATTEN).attempts == 2


def test_a_voice_that_fails_harms_nobody(home, kernel, monkeypatch):
    home.write_bytes(b"mine")

    def mute(_sentence: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(recorder, "_tell", recorder._tell)
    progress.on_problem(mute)
    check("PASSED")
    assert recorder._told


def test_by_default_it_is_said_on_standard_error(home, kernel, monkeypatch, capsys):
    home.write_bytes(b"mine")
    monkeypatch.setattr(recorder, "_tell", recorder._print)
    check("PASSED")
    check("PASSED")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("Progress cannot be kept in ")

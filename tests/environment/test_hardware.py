from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from course.environment import hardware
from course.environment.hardware import GIB, judge_cores, judge_disk, judge_memory


@pytest.mark.parametrize(
    ("machine", "usable", "state", "value"),
    [
        (8, 8, "ok", "8 cores for this process"),
        (8, 2, "ok", "2 cores for this process, of 8 in the machine"),
        (8, 1.5, "note", "1.5 cores for this process, of 8 in the machine"),
        (1, 1, "note", "1 core for this process"),
    ],
)
def test_cores(machine, usable, state, value):
    finding = judge_cores(machine, usable)
    assert (finding.state, finding.value) == (state, value)


@pytest.mark.parametrize(
    ("total", "available", "limit", "state", "words"),
    [
        (16, 8, None, "ok", "16 GiB, 8 GiB free"),
        (16, 8, 64, "ok", "16 GiB, 8 GiB free"),
        (64, 50, 6, "ok", "6 GiB (a limit of the container; the machine has 64 GiB), 6 GiB free"),
        (64, 50, 3, "note", "3 GiB (a limit"),
        (16, 1.5, None, "note", "1.5 GiB free"),
        (1.5, 1, None, "problem", "1.5 GiB, 1 GiB free"),
        (64, 50, 1, "problem", "1 GiB (a limit"),
    ],
)
def test_memory(total, available, limit, state, words):
    finding = judge_memory(int(total * GIB), int(available * GIB), limit and limit * GIB)
    assert (finding.state, bool(finding.remedy)) == (state, state != "ok")
    assert words in finding.value


@pytest.mark.parametrize(("free", "state"), [(50, "ok"), (3, "ok"), (2.9, "note"), (0.5, "note"), (0.4, "problem")])
def test_disk(free, state):
    finding = judge_disk(int(free * GIB))
    assert (finding.state, bool(finding.remedy)) == (state, state != "ok")


def test_this_machine_is_read():
    for probe in (hardware.cores, hardware.memory, hardware.disk):
        assert probe().state in ("ok", "note")


def test_the_disk_of_a_home_that_does_not_exist_yet(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "not" / "yet"))
    looked_at = []

    def usage(folder):
        looked_at.append(folder)
        return SimpleNamespace(free=100)

    monkeypatch.setattr(hardware.shutil, "disk_usage", usage)
    assert hardware.disk().state == "problem"
    assert looked_at == [tmp_path]


@pytest.fixture
def cgroups(monkeypatch, tmp_path):
    """A function that plants /proc/self/cgroup and files below /sys/fs/cgroup."""

    def plant(own: str, **files: str) -> None:
        (tmp_path / "own").write_text(own, encoding="utf-8")
        for name, text in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    monkeypatch.setattr(hardware, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(hardware, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(hardware.sys, "platform", "linux")
    return plant


def test_limits_of_cgroups_version_2(cgroups):
    cgroups(
        "0::/user/notebook\n",
        user__notebook__memory_dot_max="max\n",
        user__memory_dot_max="3000000000\n",
        memory_dot_max="9000000000\n",
        user__cpu_dot_max="150000 100000\n",
        cpu_dot_max="max 100000\n",
    )
    assert hardware.memory_limit() == 3_000_000_000
    assert hardware.cpu_quota() == 1.5


def test_limits_of_cgroups_version_1_inside_a_container(cgroups):
    cgroups(
        "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n",
        memory__memory_dot_limit_in_bytes="2147483648\n",
        cpu__cpu_dot_cfs_quota_us="200000\n",
        cpu__cpu_dot_cfs_period_us="100000\n",
    )
    assert hardware.memory_limit() == 2 * GIB
    assert hardware.cpu_quota() == 2


def test_no_limits(cgroups):
    cgroups(
        "5:memory:/\n4:cpu:/\n0::/\n",
        memory_dot_max="max\n",
        memory__memory_dot_limit_in_bytes="9223372036854771712\n",
        cpu__cpu_dot_cfs_quota_us="-1\n",
        cpu__cpu_dot_cfs_period_us="100000\n",
    )
    assert hardware.memory_limit() is None
    assert hardware.cpu_quota() is None


def test_no_cgroups_at_all(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "OWN_CGROUPS", tmp_path / "missing")
    assert hardware.memory_limit() is None
    assert hardware.cpu_quota() is None


def test_a_quota_below_the_cores_counts(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(hardware, "cpu_quota", lambda: 2.5)
    assert hardware.cores().value == "2.5 cores for this process, of 16 in the machine"

from __future__ import annotations

import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from course.environment import installation
from course.environment.installation import judge_packages, judge_python, shortfall

REQUIRED = {entry.name: entry for entry in map(Requirement, ["numpy>=2.0", "jupyterlab>=4.2"])}


def test_the_packages_come_from_the_installed_course(root):
    required = installation.requirements()
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert {"torch", "numpy", "jupyterlab", "ipykernel"} <= set(required)
    assert "pytest" not in required
    assert all(f'"{name}' in text for name in required)


@pytest.mark.parametrize(
    ("installed", "phrases"),
    [
        ({"numpy": "2.4.6", "jupyterlab": "4.6.6"}, []),
        ({"numpy": None, "jupyterlab": "4.6.6"}, ["numpy is missing"]),
        ({"numpy": "1.26.4", "jupyterlab": "4.10.0rc1"}, ["numpy 1.26.4 does not meet >=2.0"]),
        ({}, ["numpy is missing", "jupyterlab is missing"]),
    ],
)
def test_what_is_missing_or_too_old_is_named(installed, phrases):
    assert shortfall(REQUIRED, installed) == phrases
    finding = judge_packages(REQUIRED, installed)
    assert finding.state == ("problem" if phrases else "ok")
    for phrase in phrases:
        assert phrase in finding.value
        assert f'"{REQUIRED[phrase.split()[0]]}"' in finding.remedy


def test_all_packages_are_there():
    finding = installation.packages()
    assert finding.state == "ok", finding
    assert metadata.version("numpy") in finding.value


@pytest.mark.parametrize("name", ["numpy", "papermill", "jupyterlab"])
def test_each_package_can_be_missing(monkeypatch, name):
    version = metadata.version

    def without(wanted):
        if wanted == name:
            raise metadata.PackageNotFoundError(wanted)
        return version(wanted)

    monkeypatch.setattr(metadata, "version", without)
    finding = installation.packages()
    assert (finding.state, finding.value) == ("problem", f"{name} is missing")


def test_the_course_itself_can_be_missing(monkeypatch):
    monkeypatch.setattr(installation, "COURSE", "no-such-distribution")
    assert installation.requirements() == {}
    finding = installation.packages()
    assert finding.state == "note"
    assert "pip install -e ." in finding.remedy
    assert installation.python().state in ("ok", "note")


@pytest.mark.parametrize(
    ("version", "bits", "environment", "state", "word"),
    [
        ("3.11.7", 64, "virtual environment", "ok", "in a virtual environment"),
        ("3.13.0rc2", 64, "conda environment", "ok", "in a conda environment"),
        ("3.11.7", 64, None, "note", "outside of any virtual environment"),
        ("3.9.18", 64, "virtual environment", "problem", "3.9.18"),
        ("3.11.7", 32, "virtual environment", "problem", "32 bit"),
    ],
)
def test_python(version, bits, environment, state, word):
    finding = judge_python(version, ">=3.10", bits=bits, environment=environment)
    assert (finding.state, bool(finding.remedy)) == (state, state != "ok")
    assert word in finding.value


def test_this_python_is_good_enough():
    finding = installation.python()
    assert finding.state in ("ok", "note")
    assert "{}.{}.{}".format(*sys.version_info) in finding.value


@pytest.mark.parametrize(
    ("prefix", "base", "conda", "expected"),
    [
        ("venv", "base", None, "virtual environment"),
        ("base", "base", "conda", "conda environment"),
        ("base", "base", None, None),
    ],
)
def test_environments_are_told_apart(monkeypatch, prefix, base, conda, expected):
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", base)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    if conda:
        monkeypatch.setenv("CONDA_PREFIX", conda)
    assert installation._environment() == expected

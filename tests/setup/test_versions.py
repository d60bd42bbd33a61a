"""The versions that pyproject.toml, constraints.txt and binder/ name agree with each other."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.]*")


@pytest.fixture(scope="module")
def requirements() -> list[Requirement]:
    """What the package requires, extras included."""
    lines = metadata("pytorch-course").get_all("Requires-Dist") or []
    return [Requirement(line) for line in lines]


def test_constraints_hold_names_and_versions_only(root: Path):
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 50
    assert [line for line in pins if not PIN.fullmatch(line)] == []
    names = [canonicalize_name(line.split("==")[0]) for line in pins]
    assert sorted(set(names)) == sorted(names)


def test_constraints_suit_a_cpu_build(pins: dict[str, str]):
    """torch pins its CUDA libraries itself; here they would tie everybody to one CUDA version."""
    assert [name for name in pins if name.startswith(("nvidia-", "cuda-", "triton"))] == []
    assert [pin for pin in pins.values() if Version(pin).local] == []


def test_every_requirement_is_pinned_within_its_range(requirements: list[Requirement], pins: dict[str, str]):
    assert {"torch", "torchvision", "pytest"} <= {item.name for item in requirements}
    for item in requirements:
        assert item.specifier.contains(pins[canonicalize_name(item.name)]), str(item)


def test_what_the_package_imports_is_required(root: Path, requirements: list[Requirement]):
    """By the package or the extra `deploy`; jupytext comes with `dev`, because only maintainers build
    notebooks, and distributed with `grade`, for classes that one machine is too small for."""
    imported = set()
    for file in (root / "course").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    names = {"PIL": "pillow"}  # imported under another name than installed
    foreign = {canonicalize_name(names.get(name, name)) for name in imported - sys.stdlib_module_names - {"course"}}
    of_learners = [item for item in requirements if item.marker is None or 'extra == "deploy"' in str(item.marker)]
    required = {canonicalize_name(item.name) for item in of_learners}
    assert "torch" in foreign
    assert foreign - required == {"jupytext", "distributed"}


def test_requirements_are_ranges(requirements: list[Requirement]):
    """Exact versions stand in constraints.txt; the package itself lives with others in one environment."""
    for item in requirements:
        assert {clause.operator for clause in item.specifier} == {">="}, str(item)


def test_a_cpu_build_counts_as_the_verified_version(pins: dict[str, str]):
    assert Requirement(f"torch=={pins['torch']}").specifier.contains(pins["torch"] + "+cpu")


def test_the_installed_torch_is_supported(requirements: list[Requirement]):
    (torch,) = (item for item in requirements if item.name == "torch")
    assert torch.specifier.contains(version("torch"))


def test_binder_installs_the_verified_torch(root: Path, pins: dict[str, str]):
    lines = (root / "binder/requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if "==" in line]
    assert pinned == [f"torch=={pins['torch']}", f"torchvision=={pins['torchvision']}"]


def test_the_readme_names_the_verified_torch(root: Path, pins: dict[str, str]):
    named = re.findall(r"torch (\d+\.\d+\.\d+)", (root / "README.md").read_text(encoding="utf-8"))
    assert named
    assert set(named) == {pins["torch"]}

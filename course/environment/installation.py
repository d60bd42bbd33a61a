"""Python, the packages and their versions, against what the installed course asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from course.environment.report import Finding

if TYPE_CHECKING:
    from packaging.requirements import Requirement

COURSE = "pytorch-course"
# Judged by probes of their own.
APART = {"torch", "torchvision"}


def requirements() -> dict[str, Requirement]:
    """The packages that the installed course needs, by name, without those of its extras; {} if it is not installed."""
    from packaging.requirements import Requirement

    try:
        parsed = [Requirement(line) for line in metadata.requires(COURSE) or ()]
    except metadata.PackageNotFoundError:
        return {}
    return {entry.name: entry for entry in parsed if entry.marker is None or entry.marker.evaluate({"extra": ""})}


def installed_versions(names: Iterable[str]) -> dict[str, str | None]:
    """The version of each distribution, None where it is not installed."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def shortfall(required: Mapping[str, Requirement], installed: Mapping[str, str | None]) -> list[str]:
    """For each requirement that is not met, a phrase that says so: "numpy 1.26.4 does not meet >=2.0"."""
    phrases = []
    for name, requirement in required.items():
        version = installed.get(name)
        if version is None:
            phrases.append(f"{name} is missing")
        elif not requirement.specifier.contains(version, prereleases=True):
            phrases.append(f"{name} {version} does not meet {requirement.specifier}")
    return phrases


def judge_python(version: str, wanted: str, *, bits: int, environment: str | None) -> Finding:
    """version: such as "3.11.7"; wanted: a specifier such as ">=3.10"; environment: kind of environment, or None."""
    from packaging.specifiers import SpecifierSet

    place = f"in a {environment}" if environment else "of the system, outside of any virtual environment"
    value = f"{version}, {bits} bit, {place}"
    if not SpecifierSet(wanted).contains(version, prereleases=True):
        remedy = (
            f"The course needs Python {wanted}: make an environment with such a Python and install the course there."
        )
        return Finding("Python", value, "problem", remedy)
    if bits != 64:
        return Finding("Python", value, "problem", "torch exists for 64 bit only: install a 64 bit Python.")
    if environment is None:
        remedy = "`python -m venv .venv` makes an environment in which no other project changes your versions."
        return Finding("Python", value, "note", remedy)
    return Finding("Python", value)


def judge_packages(required: Mapping[str, Requirement], installed: Mapping[str, str | None]) -> Finding:
    """Whether every required package is there and new enough; installed: name -> version or None."""
    missing = shortfall(required, installed)
    if missing:
        wanted = " ".join(f'"{required[phrase.split()[0]]}"' for phrase in missing)
        return Finding("packages", "; ".join(missing), "problem", f"`python -m pip install {wanted}`, then restart.")
    shown = ", ".join(f"{name} {installed[name]}" for name in ("numpy", "matplotlib") if name in required)
    return Finding("packages", f"all {len(required)} that the course needs" + (f", with {shown}" if shown else ""))


def python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    try:
        wanted = metadata.metadata(COURSE)["Requires-Python"] or ""
    except metadata.PackageNotFoundError:
        wanted = ""
    bits = 64 if sys.maxsize > 2**32 else 32
    return judge_python(version, wanted, bits=bits, environment=_environment())


def packages() -> Finding:
    required = {name: entry for name, entry in requirements().items() if name not in APART}
    if not required:
        remedy = "Install it with `python -m pip install -e .` in its folder: then its packages come along."
        return Finding("packages", "the course itself is not installed, only its folder is found", "note", remedy)
    return judge_packages(required, installed_versions(required))


def _environment() -> str | None:
    if sys.prefix != sys.base_prefix:
        return "virtual environment"
    return "conda environment" if os.environ.get("CONDA_PREFIX") else None

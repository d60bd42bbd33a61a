"""The doctor: explains errors, and examines training setups for faults that raise none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course.doctor.examination import examine
    from course.doctor.report import FaultsFound, Finding, Report

__all__ = ["FaultsFound", "Finding", "Report", "examine"]

_HOMES = {
    "FaultsFound": "course.doctor.report",
    "Finding": "course.doctor.report",
    "Report": "course.doctor.report",
    "examine": "course.doctor.examination",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'course.doctor' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value

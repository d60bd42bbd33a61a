"""A PyTorch course as notebooks whose cells, claims and exercises are verified.

The names below are all that a notebook needs. Each is imported when it is first used, so that
``import course`` costs next to nothing and does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course.figures.explorer import stride_explorer
    from course.figures.show import show_figure
    from course.figures.strides import draw_strides
    from course.notebook.claims import claim
    from course.notebook.hints import hint, solution
    from course.notebook.pitfalls import pitfall
    from course.notebook.session import begin
    from course.notebook.verdicts import check
    from course.training.device import choose_device
    from course.training.timing import compare_times

__all__ = [
    "begin",
    "check",
    "choose_device",
    "claim",
    "compare_times",
    "draw_strides",
    "hint",
    "pitfall",
    "show_figure",
    "solution",
    "stride_explorer",
]

_HOMES = {
    "begin": "course.notebook.session",
    "check": "course.notebook.verdicts",
    "choose_device": "course.training.device",
    "claim": "course.notebook.claims",
    "compare_times": "course.training.timing",
    "draw_strides": "course.figures.strides",
    "hint": "course.notebook.hints",
    "pitfall": "course.notebook.pitfalls",
    "show_figure": "course.figures.show",
    "solution": "course.notebook.hints",
    "stride_explorer": "course.figures.explorer",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("pytorch-course")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'course' has no attribute {name!r}; it offers {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})

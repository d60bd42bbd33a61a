"""A PyTorch course as notebooks whose cells, claims and exercises are verified.

The names below are all that a notebook needs. Each is imported when it is first used, so that
``import course`` costs next to nothing and does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course.doctor.explain import explain
    from course.environment import show_environment
    from course.figures.confusion import draw_confusion
    from course.figures.curves import LiveCurves, draw_curves, draw_lines
    from course.figures.explorer import stride_explorer
    from course.figures.graph import draw_graph
    from course.figures.padding import draw_padded_batch, draw_padding_waste
    from course.figures.registration import draw_registration
    from course.figures.show import show_figure
    from course.figures.strides import draw_strides
    from course.notebook.claims import claim
    from course.notebook.hints import hint, solution
    from course.notebook.pitfalls import pitfall
    from course.notebook.progress import progress
    from course.notebook.session import begin
    from course.notebook.verdicts import check
    from course.training.best import BestWeights
    from course.training.device import choose_device
    from course.training.history import History
    from course.training.loop import evaluate, fit, predict, train_epoch
    from course.training.metrics import confusion_matrix
    from course.training.seed import seed_everything
    from course.training.timing import compare_times

__all__ = [
    "BestWeights",
    "History",
    "LiveCurves",
    "begin",
    "check",
    "choose_device",
    "claim",
    "compare_times",
    "confusion_matrix",
    "draw_confusion",
    "draw_curves",
    "draw_graph",
    "draw_lines",
    "draw_padded_batch",
    "draw_padding_waste",
    "draw_registration",
    "draw_strides",
    "evaluate",
    "explain",
    "fit",
    "hint",
    "pitfall",
    "predict",
    "progress",
    "seed_everything",
    "show_environment",
    "show_figure",
    "solution",
    "stride_explorer",
    "train_epoch",
]

_HOMES = {
    "BestWeights": "course.training.best",
    "History": "course.training.history",
    "LiveCurves": "course.figures.curves",
    "begin": "course.notebook.session",
    "check": "course.notebook.verdicts",
    "choose_device": "course.training.device",
    "claim": "course.notebook.claims",
    "compare_times": "course.training.timing",
    "confusion_matrix": "course.training.metrics",
    "draw_confusion": "course.figures.confusion",
    "draw_curves": "course.figures.curves",
    "draw_graph": "course.figures.graph",
    "draw_lines": "course.figures.curves",
    "draw_padded_batch": "course.figures.padding",
    "draw_padding_waste": "course.figures.padding",
    "draw_registration": "course.figures.registration",
    "draw_strides": "course.figures.strides",
    "evaluate": "course.training.loop",
    "explain": "course.doctor.explain",
    "fit": "course.training.loop",
    "hint": "course.notebook.hints",
    "pitfall": "course.notebook.pitfalls",
    "predict": "course.training.loop",
    "progress": "course.notebook.progress",
    "seed_everything": "course.training.seed",
    "show_environment": "course.environment",
    "show_figure": "course.figures.show",
    "solution": "course.notebook.hints",
    "stride_explorer": "course.figures.explorer",
    "train_epoch": "course.training.loop",
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


def load_ipython_extension(shell: object) -> None:
    """``%load_ext course``: explain the error under the traceback of a failing cell."""
    from course.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """``%unload_ext course``: leave errors alone again."""
    from course.notebook.extension import unload

    unload(shell)

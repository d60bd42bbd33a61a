"""Whether controls can be shown, and when what they ask for may run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

VARIABLE = "COURSE_PROGRESS"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def has_front_end() -> bool:
    """Whether this is a kernel with a person in front of it: builds and runs set COURSE_PROGRESS=off."""
    return _kernel() is not None and os.environ.get(VARIABLE, "").strip().lower() != "off"


def between_cells(work: Callable[[], None]) -> None:
    """Call `work` in the main thread, after the cell that is running.

    JupyterLab may send what a control asks for to a subshell, a thread beside the cells: there random numbers, gradient
    mode and a fork would meet those of the running cell.
    """
    loop = getattr(_kernel(), "io_loop", None)
    if loop is None or threading.current_thread() is threading.main_thread():
        work()
    else:
        loop.add_callback(work)


def show_widget(widget: object) -> None:
    """Display a widget below something that is complete without it.

    The output holds the widget's view alone: what tools compare (nbval) is what a notebook stored without it has.
    """
    from IPython.display import publish_display_data

    data, metadata = widget._repr_mimebundle_()  # type: ignore[attr-defined]
    publish_display_data({WIDGET_VIEW: data[WIDGET_VIEW]}, metadata)


def hide_dead_widget(above: str, widget: str) -> str:
    """HTML that belongs into the element of CSS class `above`: no error where a widget was, in a page opened again.

    A saved page holds no widgets; where the one of class `widget` stood, JupyterLab would say that it finds none.
    """
    output = ".jp-OutputArea-child"
    dead = f"{output}:has(.{above}) + {output}:has(.jupyter-widgets):not(:has(.{widget}))"
    return f"<style>{dead} {{display: none}}</style>"


def _kernel() -> object | None:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)

"""``%load_ext course``: a box under the traceback of a failing cell that explains the error."""

from __future__ import annotations

import contextlib

from course.notebook import display

_EVENT = "post_run_cell"


def load(shell: object) -> None:
    """Explain errors in this IPython shell from now on; a second call changes nothing."""
    if _is_loaded(shell):
        return
    shell.events.register(_EVENT, after_cell)


def unload(shell: object) -> None:
    """Leave errors in this shell alone again."""
    # A reloaded module makes another function of the same name.
    for callback in [each for each in shell.events.callbacks[_EVENT] if _is_ours(each)]:
        shell.events.unregister(_EVENT, callback)


def after_cell(result: object) -> None:
    """Show what the error of a cell tells, if it is one that the course knows; the cell stays failed."""
    error = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
    # Not KeyboardInterrupt, SystemExit and the like: they are no fault.
    if not isinstance(error, Exception) or isinstance(error, display.NotebookError):
        return
    # Nothing that goes wrong here may hide the error itself.
    with contextlib.suppress(Exception):
        from course.doctor.explain import explain, page

        found = explain(error)
        if found:
            display.show(display.Shown(page.as_text(found, most=1), page.as_html(found, most=1)))


def _is_loaded(shell: object) -> bool:
    return any(_is_ours(callback) for callback in shell.events.callbacks[_EVENT])


def _is_ours(callback: object) -> bool:
    return getattr(callback, "__module__", "") == __name__ and getattr(callback, "__name__", "") == after_cell.__name__

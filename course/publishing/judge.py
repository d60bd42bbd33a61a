"""What became of one executed lesson."""

from __future__ import annotations

from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from course.publishing import outputs
from course.publishing.kernels import Session
from course.publishing.report import LessonReport


def judge(
    result: LessonReport, executed: NotebookNode, session: Session, failure: Exception | None, *, expected: str
) -> None:
    """Set status, reason and error of `result` from the executed notebook and the exception that ended it.

    A lesson passes when every cell ran without an error and every exercise shows the verdict `expected`.
    """
    dead = failure is not None and not isinstance(failure, PapermillExecutionError)
    if dead and session.interrupted:
        result.status, result.reason = "not_run", "Interrupted while it was running."
    elif dead and session.timed_out:
        result.status, result.reason = "timeout", f"It was stopped after {session.seconds:.0f} s."
        result.error = {"cell": last_started(executed), "type": "Timeout", "message": result.reason}
    elif dead:
        result.status, result.reason = "failed", "The kernel ended by itself."
        result.error = {"cell": last_started(executed), "type": "DeadKernel", "message": session.log_tail()}
    elif failure is not None or first_error(executed) is not None:
        result.error = first_error(executed) or {
            "cell": last_started(executed),
            "type": failure.ename,
            "message": failure.evalue,
        }
        result.status, result.reason = "failed", f"Cell {result.error['cell']} failed."
    else:
        result.reason = _wrong_verdicts(result, executed, expected)
        result.status = "failed" if result.reason else "passed"


def first_error(notebook: NotebookNode) -> dict[str, str] | None:
    """Return cell id, type and message of the first error output, or None."""
    for cell in outputs.code_cells(notebook):
        for output in cell.outputs:
            if output.output_type == "error":
                return {"cell": cell.id, "type": output.ename, "message": output.evalue}
    return None


def last_started(notebook: NotebookNode) -> str:
    """Return the id of the last cell that papermill started, or "" when none was."""
    cells = outputs.code_cells(notebook)
    started = [cell.id for cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
    return started[-1] if started else ""


def _wrong_verdicts(result: LessonReport, executed: NotebookNode, expected: str) -> str | None:
    missing = [exercise for exercise in outputs.exercise_ids(executed) if exercise not in result.exercises]
    if missing:
        return f"No verdict was shown for {', '.join(missing)}."
    wrong = [f"{exercise} is {verdict}" for exercise, verdict in result.exercises.items() if verdict != expected]
    return f"Every exercise should be {expected}, but {', '.join(wrong)}." if wrong else None

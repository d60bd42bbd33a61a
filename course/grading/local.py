"""Grading processes on this machine, side by side."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.grading.row import Row
from course.grading.serving import GraderLost, Remote, Spec, Stopped
from course.grading.submission import Submission

TRIES = 2
# Seconds in which a submission that is being graded may come to its end when the run is given up.
LAST_SECONDS = 2.0


@dataclass(frozen=True)
class Result:
    """What came of one submission: a row for each exercise and the protection under which it ran.

    complete: False when the grader itself failed; the rows say so, and a later run tries again.
    """

    rows: tuple[Row, ...]
    protection: str
    complete: bool = True


def grade_with(remote: Remote, spec: Spec, path: Path, submission: str) -> Result:
    """The result of one submission, whatever happens to the grading process. Raises GradingError and Stopped."""
    problem = ""
    for _ in range(TRIES):
        try:
            rows = remote.grade(path, submission)
        except GraderLost as lost:
            problem = str(lost)
            continue
        if [row.exercise for row in rows] == list(spec.exercises):
            return Result(tuple(rows), remote.protection)
        problem = f"the grader gave rows for {[row.exercise for row in rows]}"
    return not_graded(spec, submission, f"{TRIES} attempts failed; at the last, {problem}", remote.protection)


def not_graded(spec: Spec, submission: str, problem: str, protection: str = "") -> Result:
    """Rows that say why the grader, not the answer, failed."""
    note = f"Not graded: {problem}. Grade again with --resume, or look at this submission yourself."
    rows = (Row(submission=submission, exercise=exercise, outcome="ERROR", note=note) for exercise in spec.exercises)
    return Result(tuple(rows), protection, complete=False)


def grade_locally(
    submissions: Sequence[Submission],
    spec: Spec,
    *,
    jobs: int,
    limit: float,
    keep: Callable[[Submission, Result], None],
) -> Iterator[tuple[Submission, Result]]:
    """Grade in `jobs` processes; results come as they are ready. Raises GradingError when none can be made.

    keep: called with each result at once, one at a time, also with those that nobody takes from the iterator.
    Closing the iterator, or an exception thrown into it, ends the processes.
    """
    todo: queue.SimpleQueue[Submission] = queue.SimpleQueue()
    for submission in submissions:
        todo.put(submission)
    results: queue.SimpleQueue[tuple[Submission, Result] | BaseException] = queue.SimpleQueue()
    keeping = threading.Lock()
    remotes = [Remote(spec, limit=limit) for _ in range(min(jobs, len(submissions)))]

    def work(remote: Remote) -> None:
        try:
            while True:
                submission = todo.get_nowait()
                result = grade_with(remote, spec, submission.path, submission.id)
                with keeping:
                    keep(submission, result)
                results.put((submission, result))
        except (queue.Empty, Stopped):
            return
        except BaseException as error:  # raised again by the thread that reads the results
            results.put(error)

    threads = [threading.Thread(target=work, args=(remote,), daemon=True) for remote in remotes]
    patience = LAST_SECONDS
    try:
        for thread in threads:
            thread.start()
        for _ in submissions:
            result = _next(results)
            if isinstance(result, BaseException):
                raise result
            yield result
        patience = 5.0
    finally:
        for remote in remotes:
            remote.let_go()
        for remote in remotes:
            remote.close(patience)
        for thread in threads:
            thread.join()


def _next(results: queue.SimpleQueue) -> tuple[Submission, Result] | BaseException:
    while True:
        # A timeout, because Windows delivers no interrupt to a thread that waits without one.
        try:
            return results.get(timeout=0.5)
        except queue.Empty:
            continue

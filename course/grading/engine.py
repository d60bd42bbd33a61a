"""Grade many submissions, on this machine or on a cluster, each exactly once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import course
from course.grading.journal import Journal, files_digest, submission_key
from course.grading.local import Result, grade_locally
from course.grading.row import Row
from course.grading.serving import GradingError, Spec
from course.grading.submission import Submission

__all__ = ["Graded", "GradingError", "Result", "edition", "grade_all"]

# A second net, far beyond the grader's own limits: after this time without an answer its process is killed.
LIMIT_SECONDS = 1800.0


@dataclass(frozen=True)
class Graded:
    """One submission and what came of it.

    resumed: an earlier run graded it.
    """

    submission: Submission
    result: Result
    resumed: bool = False


@functools.cache
def edition() -> str:
    """The digest of what verdicts depend on: the course as this process found it, the versions of Python and torch."""
    import platform
    from importlib.metadata import version

    folder = Path(course.__file__).parent
    return files_digest(folder.rglob("*.py"), platform.python_version(), version("torch"))


def grade_all(
    submissions: Sequence[Submission],
    spec: Spec,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    journal: Journal | None = None,
    say: Callable[[str], None] = print,
) -> Iterator[Graded]:
    """Grade submissions; each comes once, first those that the journal knows, then the others as they are ready.

    jobs: processes on this machine; a cluster has as many as its workers have threads.
    scheduler: address of a dask.distributed scheduler, or None for this machine.
    journal: open; entries of an earlier run count when neither the submission nor the course has changed since.
    Raises GradingError when no submission can be graded in this way, JournalError when the journal cannot be written.
    """
    mine = f"{edition()} {spec!r}"
    keys = {each.id: submission_key(each.id, each.path, mine) for each in submissions}
    pending = []
    for each in submissions:
        known = None if journal is None else _known(journal, keys[each.id])
        if known is None:
            pending.append(each)
        else:
            yield Graded(each, known, resumed=True)
    if not pending:
        return

    def keep(submission: Submission, result: Result) -> None:
        if journal is not None:
            journal.add(keys[submission.id], _entry(submission, result))

    if scheduler is None:
        results = grade_locally(pending, spec, jobs=jobs, limit=LIMIT_SECONDS, keep=keep)
    else:
        from course.grading.cluster import grade_on_cluster

        results = grade_on_cluster(pending, spec, scheduler=scheduler, limit=LIMIT_SECONDS, keep=keep, say=say)
    with contextlib.closing(results):
        for submission, result in results:
            yield Graded(submission, result)


def _entry(submission: Submission, result: Result) -> dict:
    return {
        "submission": submission.id,
        "complete": result.complete,
        "protection": result.protection,
        "rows": [row.to_dict() for row in result.rows],
    }


def _known(journal: Journal, key: str) -> Result | None:
    entry = journal.entries.get(key)
    if entry is None or not entry.get("complete"):
        return None
    try:
        return Result(tuple(Row.from_dict(row) for row in entry["rows"]), str(entry["protection"]))
    except (LookupError, TypeError, ValueError):
        return None
